// The evaluator on a call's own tensors, as applications call it: by name, checked as a call is, one sequence or many.
#include "../../examples/gated_delta_net/gated_delta_net.hpp"
#include "../kernels/language.hpp"

#include <attune/dsl/gradient.hpp>
#include <attune/reference.hpp>
#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace my {
using namespace attune::dsl;
inline constexpr auto codes = input<"codes", i8>(batch, key_head, key, depth);
inline constexpr auto scale = input<"scale", bf16>(batch, key_head, key);
inline constexpr auto document = input<"document", i64>(batch, position);
inline constexpr auto bias = input<"bias", f16>(query, key);
inline constexpr auto gain = scalar<"gain", f32>;
inline constexpr auto decoded = keys(codes(b, h, kv_idx, d_idx) * scale(b, h, kv_idx));
inline constexpr auto scores =
    mask(q * t(decoded) * gain + bias(q_idx, kv_idx), document(b, q_idx) == document(b, kv_idx));
inline constexpr auto mixed = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));

inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto pages = input<"pages", f32>(axis<"page">, key_head, axis<"slot">, depth);
inline constexpr auto table = input<"table", i32>(batch, axis<"block">);
inline constexpr auto step =
    outputs(store(pages(table(b, new_kv_idx / 4), h, new_kv_idx % 4, d_idx), k_new(b, h, q_idx, d_idx)),
            out = softmax(mask(q * t(keys(pages(table(b, kv_idx / 4), h, kv_idx % 4, d_idx), extent<1>(table) * 4)),
                               causal_bottom_right)) *
                  values(pages(table(b, kv_idx / 4), h, kv_idx % 4, d_idx), extent<1>(table) * 4));
inline constexpr auto plain = softmax(mask(q * t(k), causal_bottom_right)) * v;
inline constexpr auto masked = mask(q * t(k), causal);
inline constexpr auto trained = gradient(outputs(out = softmax(masked) * v, lse = log_sum_exp(masked)));
inline constexpr auto seen = input<"seen", boolean>(axis<"distance">);
inline constexpr auto looked_up = softmax(mask(q * t(k), seen(max(q_idx - kv_idx, 0)))) * v;
}  // namespace my

namespace {

std::vector<float> numbers(std::size_t count, float step) {
    std::vector<float> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = std::sin(static_cast<float>(i) * step + step);
    return all;
}

}  // namespace

TEST_CASE("a call's own tensors: every kind of element, strides, key lengths and numbers, by hand") {
    using namespace my;
    constexpr std::int64_t queries = 3, keys = 5, depth = 4;
    const auto q_data = numbers(2 * 2 * queries * depth, 0.7f), v_data = numbers(2 * 1 * keys * depth, 1.3f);
    std::vector<std::int8_t> code_data(2 * keys * depth);
    for (std::size_t i = 0; i < code_data.size(); ++i) code_data[i] = static_cast<std::int8_t>(37 * i % 255 - 127);
    std::vector<bfloat16> scale_data(2 * keys, bfloat16(0.0078125f));
    std::vector<float16> bias_data(queries * keys, float16(0.5f));
    bias_data[1] = float16(-INFINITY);
    const std::vector<std::int64_t> document_data{0, 0, 0, 1, 1};
    const std::vector<std::int32_t> length_data{5, 2};
    // q lies as (batch, length, head, depth).
    const tensor Q = tensor(q_data.data(), {2, queries, 2, depth}).swapped(1, 2);
    const auto expected = reference::evaluate<mixed>(
        q = Q, codes = tensor(code_data.data(), {2, 1, keys, depth}), scale = tensor(scale_data.data(), {2, 1, keys}),
        v = tensor(v_data.data(), {2, 1, keys, depth}), document = tensor(document_data.data(), {1, keys}),
        bias = tensor(bias_data.data(), {queries, keys}), gain = 0.5, kv_lengths = tensor(length_data.data(), {2}));
    REQUIRE(expected["out"].shape == std::vector<std::int64_t>{2, 2, queries, depth});
    double worst = 0;
    for (std::size_t b = 0; b < 2; ++b)
        for (std::size_t h = 0; h < 2; ++h)
            for (std::size_t i = 0; i < queries; ++i) {
                double weights = 0, sums[depth] = {};
                for (std::size_t j = 0; j < static_cast<std::size_t>(length_data[b]); ++j) {
                    if (document_data[i] != document_data[j] || (i == 0 && j == 1)) continue;
                    double s = 0;
                    for (std::size_t c = 0; c < depth; ++c)
                        s += q_data[((b * queries + i) * 2 + h) * depth + c] *
                             (code_data[(b * keys + j) * depth + c] * 0.0078125);
                    const double w = std::exp(s * 0.5 + 0.5);
                    weights += w;
                    for (std::size_t c = 0; c < depth; ++c) sums[c] += w * v_data[(b * keys + j) * depth + c];
                }
                const std::size_t row = (b * 2 + h) * queries + i;
                worst = std::max(worst, std::abs(expected["lse"].values[row] - std::log(weights)));
                for (std::size_t c = 0; c < depth; ++c)
                    worst = std::max(worst, std::abs(expected["out"].values[row * depth + c] - sums[c] / weights));
            }
    CHECK(worst < 1e-12);
    // Some rows alone, and the error of a tensor that a kernel wrote.
    const std::vector<float> ones(2 * 2 * queries * depth, 1.0f);
    CHECK(expected.largest_error("out", tensor(ones.data(), {2, 2, queries, depth})) > 0.01);
    const auto last = reference::evaluate<mixed>(
        reference::options{.rows = {2}}, q = Q, codes = tensor(code_data.data(), {2, 1, keys, depth}),
        scale = tensor(scale_data.data(), {2, 1, keys}), v = tensor(v_data.data(), {2, 1, keys, depth}),
        document = tensor(document_data.data(), {1, keys}), bias = tensor(bias_data.data(), {queries, keys}),
        gain = 0.5, kv_lengths = tensor(length_data.data(), {2}), attune::options{.threads = 1});
    CHECK(last["lse"].values[3] == expected["lse"].values[11]);
    CHECK(last.largest_error("out", tensor(ones.data(), {2, 2, queries, depth})) > 0.01);
}

TEST_CASE("applications and tests have one evaluator: the same bits, and every graph is taken that a call takes") {
    using dsl::ir_of;
    for (const graph_ir* graph :
         {&ir_of<my::plain>, &ir_of<my::trained>, &ir_of<gated_delta_net::layer>, &ir_of<under_test::with_sink>,
          &ir_of<under_test::energies_only>, &ir_of<under_test::differential>, &ir_of<under_test::merged>,
          &ir_of<under_test::drawn>, &ir_of<under_test::rotary>, &ir_of<under_test::normed>,
          &ir_of<under_test::two_caches>, &ir_of<under_test::only_scores>, &ir_of<under_test::window_pairs>})
        for (const bool gaps : {false, true}) {
            INFO(graph->text);
            std::map<std::string, double> numbers;
            for (const input_declaration& each : graph->inputs)
                if (each.is_scalar) numbers[std::string(each.name)] = each.element == element_type::i32 ? 3 : 0.25;
            const support::workload call(*graph, {2, 4, 2, 5, 7, 8, 8, gaps}, 1, numbers);
            const auto ours = call.expected();
            const auto theirs = reference::evaluate_call("the graph", *graph, call.arguments());
            for (std::size_t i = 0; i < ours.outputs.size(); ++i)
                CHECK(ours.outputs[i].values == theirs.outputs[i].values);
        }
}

TEST_CASE("a state whose log-sum-exp is NaN makes what it is merged with NaN, and one of no keys leaves it as it is") {
    using namespace under_test;
    const float nan = std::nanf(""), none = -INFINITY;
    const std::vector<float> outs_a{1, 1, nan, 1}, outs_b{3, 3, 3, nan}, of_a{nan, 0, none, 0}, of_b{0, nan, 2, none};
    const auto one = [](const std::vector<float>& of) { return tensor(of.data(), {1, 1, 4}); };
    const auto channel = [](const std::vector<float>& of) { return tensor(of.data(), {1, 1, 4, 1}); };
    const auto made = reference::evaluate<merged>(reference::options{.value_depth = 1}, out_a = channel(outs_a),
                                                  out_b = channel(outs_b), lse_a = one(of_a), lse_b = one(of_b));
    for (const std::size_t row : {0, 1})
        CHECK((std::isnan(made["out"].values[row]) && std::isnan(made["lse"].values[row])));
    CHECK((made["out"].values[2] == 3 && made["lse"].values[2] == 2));
    CHECK((made["out"].values[3] == 1 && made["lse"].values[3] == 0));
}

TEST_CASE("packed queries are one call for each sequence, chosen rows and stores too") {
    using namespace my;
    const std::vector<std::int32_t> starts{0, 2, 2, 5}, lengths{6, 3, 8};
    const auto Q = numbers(2 * 5 * 4, 0.7f), K = numbers(3 * 2 * 8 * 4, 1.3f), V = numbers(3 * 2 * 8 * 3, 2.1f);
    const auto packed = reference::evaluate<plain>(
        q = tensor(Q.data(), {1, 2, 5, 4}), k = tensor(K.data(), {3, 2, 8, 4}), v = tensor(V.data(), {3, 2, 8, 3}),
        kv_lengths = tensor(lengths.data(), {3}), cu_seqlens_q = tensor(starts.data(), {4}));
    REQUIRE(packed["out"].shape == std::vector<std::int64_t>{1, 2, 5, 3});
    CHECK(packed.rows == std::vector<std::int64_t>{0, 1, 2, 3, 4});
    const auto some =
        reference::evaluate<plain>(reference::options{.rows = {3}}, q = tensor(Q.data(), {1, 2, 5, 4}),
                                   k = tensor(K.data(), {3, 2, 8, 4}), v = tensor(V.data(), {3, 2, 8, 3}),
                                   kv_lengths = tensor(lengths.data(), {3}), cu_seqlens_q = tensor(starts.data(), {4}));
    CHECK(some["out"].shape == std::vector<std::int64_t>{1, 2, 1, 3});
    for (const std::size_t b : {0u, 2u}) {
        const std::int64_t from = starts[b], count = starts[b + 1] - from;
        const auto alone = reference::evaluate<plain>(
            q = tensor(Q.data() + from * 4, {1, 2, count, 4}, {0, 5 * 4, 4, 1}),
            k = tensor(K.data() + b * 64, {1, 2, 8, 4}), v = tensor(V.data() + b * 48, {1, 2, 8, 3}),
            kv_lengths = tensor(lengths.data() + b, {1}));
        for (std::int64_t head = 0; head < 2; ++head)
            for (std::int64_t i = 0; i < count; ++i)
                for (std::int64_t c = 0; c < 3; ++c) {
                    const double x = alone["out"].values[static_cast<std::size_t>((head * count + i) * 3 + c)];
                    CHECK(packed["out"].values[static_cast<std::size_t>((head * 5 + from + i) * 3 + c)] == x);
                    if (from + i == 3) CHECK(some["out"].values[static_cast<std::size_t>(head * 3 + c)] == x);
                }
    }

    // Two sequences store to pages of one pool; the arguments stay as they are.
    const std::vector<std::int32_t> two{0, 1, 3}, in_use{5, 3}, entries{0, 2, 1, 3};
    const auto pool = numbers(4 * 1 * 4 * 4, 0.3f), added = numbers(3 * 4, 0.9f), rows = numbers(3 * 4, 0.5f);
    auto memory = pool;
    const auto stored =
        reference::evaluate<step>(q = tensor(rows.data(), {1, 1, 3, 4}), k_new = tensor(added.data(), {1, 1, 3, 4}),
                                  pages = tensor(memory.data(), {4, 1, 4, 4}), table = tensor(entries.data(), {2, 2}),
                                  kv_lengths = tensor(in_use.data(), {2}), cu_seqlens_q = tensor(two.data(), {3}));
    CHECK(memory == pool);
    auto after = pool;
    for (int c = 0; c < 4; ++c) {
        after[static_cast<std::size_t>(2 * 16 + 0 * 4 + c)] =
            added[static_cast<std::size_t>(c)];  // key 4 of sequence 0
        after[static_cast<std::size_t>(1 * 16 + 1 * 4 + c)] =
            added[static_cast<std::size_t>(4 + c)];  // key 1 of sequence 1
        after[static_cast<std::size_t>(1 * 16 + 2 * 4 + c)] = added[static_cast<std::size_t>(8 + c)];
    }
    CHECK(stored["pages"].values == std::vector<double>(after.begin(), after.end()));
    CHECK(stored["out"].shape == std::vector<std::int64_t>{1, 1, 3, 4});

    // Both read page 1, to which the second stores: all stores come before all reads.
    const std::vector<std::int32_t> shared{1, 2, 1, 3};
    const auto of_both =
        reference::evaluate<step>(q = tensor(rows.data(), {1, 1, 3, 4}), k_new = tensor(added.data(), {1, 1, 3, 4}),
                                  pages = tensor(memory.data(), {4, 1, 4, 4}), table = tensor(shared.data(), {2, 2}),
                                  kv_lengths = tensor(in_use.data(), {2}), cu_seqlens_q = tensor(two.data(), {3}));
    const auto of_first =
        reference::evaluate<step>(q = tensor(rows.data(), {1, 1, 1, 4}), k_new = tensor(added.data(), {1, 1, 1, 4}),
                                  pages = tensor(after.data(), {4, 1, 4, 4}), table = tensor(shared.data(), {1, 2}),
                                  kv_lengths = tensor(in_use.data(), {1}));
    for (std::size_t c = 0; c < 4; ++c) CHECK(of_both["out"].values[c] == of_first["out"].values[c]);
}

TEST_CASE("what a call refuses is refused with the same sentence") {
    using namespace my;
    const std::vector<float> data(2 * 8 * 8, 1.0f);
    const auto of = [&](std::initializer_list<std::int64_t> shape) { return tensor(data.data(), shape); };
    const auto refuses = [](auto call, const std::string& words) {
        CHECK_THROWS_MATCHES(call(), error,
                             MessageMatches(ContainsSubstring("attune: expected ") && ContainsSubstring(words)));
    };
    refuses([&] { reference::evaluate<plain>(q = of({1, 2, 4, 8}), k = of({1, 2, 4, 4}), v = of({1, 2, 4, 4})); },
            "depth");
    refuses([&] { reference::evaluate<plain>(q = of({1, 3, 4, 8}), k = of({1, 2, 4, 8}), v = of({1, 2, 4, 4})); },
            "heads");
    refuses([&] { reference::evaluate<plain>(q = of({2, 4, 8}), k = of({1, 2, 4, 8}), v = of({1, 2, 4, 4})); }, "q");
    refuses(
        [&] {
            reference::evaluate<plain>(q = of({1, 2, 4, 8}).in(memory::cuda), k = of({1, 2, 4, 8}),
                                       v = of({1, 2, 4, 4}));
        },
        "tensors in host memory");
    refuses(
        [&] {
            reference::evaluate<plain>(reference::options{.rows = {4}}, q = of({1, 2, 4, 8}), k = of({1, 2, 4, 8}),
                                       v = of({1, 2, 4, 4}));
        },
        "query 4 of 4");
    const std::vector<std::uint8_t> three(3, 1);
    // As with options::checked: an index of each pair.
    refuses(
        [&] {
            reference::evaluate<looked_up>(
                q = of({1, 2, 4, 8}), k = of({1, 2, 4, 8}), v = of({1, 2, 4, 8}),
                seen = tensor(element_type::boolean, three.data(), std::vector<std::int64_t>{3}));
        },
        "seen");
}

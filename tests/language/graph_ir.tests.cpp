// What a graph becomes: kinds, one entry a distinct node, conversions, inputs in order of first use, fingerprints.
#include "variants.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace {
using namespace attune;
using namespace variants;

constexpr long count(const graph_ir& list, operation op) {
    return std::count_if(list.nodes.begin(), list.nodes.end(), [op](const instruction& i) { return i.op == op; });
}

constexpr auto same_alibi =
    softmax(mask(q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx), q_idx >= kv_idx && window(4095, 0))) * v;
// clang-format off
constexpr auto other_window = softmax(mask(scores + slopes(h) * (kv_idx - q_idx), causal && window(4094, 0))) * v;
// clang-format on
constexpr auto other_scale = softmax(q * t(k) * 0.125) * v;
constexpr auto another_scale = softmax(q * t(k) * 0.1250001) * v;
constexpr auto integer_slopes = input<"slopes", i32>(head);
// clang-format off
constexpr auto integer_alibi =
    softmax(mask(scores + integer_slopes(h) * (kv_idx - q_idx), causal && window(4095, 0))) * v;
// clang-format on
constexpr auto flex_alibi = flex(
    score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) { return score + slopes(h) * (kv_idx - q_idx); }),
    mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx >= kv_idx && window(4095, 0); }));
constexpr auto bias_by_head =
    score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) { return score + slopes(h) * (kv_idx - q_idx); });
constexpr auto top_left = mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx >= kv_idx; });
constexpr auto flex_shared = flex_scores(bias_by_head, top_left);
constexpr auto flex_two_outputs = outputs(out = softmax(flex_shared) * v, lse = log_sum_exp(flex_shared));
constexpr auto flex_scaled = flex(top_left, 0.25);

// Numbers of PyTorch's, masks joined and called, other tensors, more outputs: each beside its formula.
constexpr auto position_of = input<"position_of", i32>(query);
constexpr auto of_distance = input<"of_distance", f32>(head, axis<"distance">);
constexpr auto pair_bias = input<"pair_bias", f32>(batch, head, query, key);
constexpr auto in_blocks = mask_mod([](auto, auto, auto i, auto j) { return floor_div(i, 16) == floor_div(j, 16); });
constexpr auto in_both =
    mask_mod([](auto b, auto h, auto i, auto j) { return top_left(b, h, i, j) & in_blocks(b, h, i, j); });
constexpr auto by_quotient = score_mod([](auto s, auto b, auto h, auto i, auto j) {
    return s + (j - i) / 4 * 0.5 + pair_bias[b][h][i][j] + of_distance[h][i - j] + of_distance[h][abs(i - j) + 1];
});
constexpr auto flex_numbers = flex(in_both, by_quotient, return_lse, return_max_scores);
constexpr auto numbers_scores =
    mask(q * t(k) * rsqrt(depth) + as_real(kv_idx - q_idx) / 4 * 0.5 + pair_bias(b, h, q_idx, kv_idx) +
             of_distance(h, where(q_idx - kv_idx < 0, q_idx - kv_idx + extent<1>(of_distance), q_idx - kv_idx)) +
             of_distance(h, abs(q_idx - kv_idx) + 1),
         q_idx >= kv_idx && q_idx / 16 == kv_idx / 16);
constexpr auto numbers_by_formula = outputs(out = softmax(numbers_scores) * v, lse = log_sum_exp(numbers_scores),
                                            output<"max_scores"> = row_maximum(numbers_scores));
constexpr auto flex_joined = flex(or_masks(top_left, !in_blocks, [](auto, auto, auto i, auto) { return i < 3; }));
constexpr auto joined_by_formula =
    softmax(mask(q * t(k) * rsqrt(depth), q_idx >= kv_idx || !(q_idx / 16 == kv_idx / 16) || q_idx < 3)) * v;
constexpr auto other_keys = keys(k(b, h, kv_idx, d_idx) * 2.0);
constexpr auto flex_formed = flex(q, other_keys, v, and_masks(top_left, in_blocks) || in_blocks, 1);
constexpr auto formed_by_formula =
    softmax(mask(q * t(other_keys) * 1, (q_idx >= kv_idx && q_idx / 16 == kv_idx / 16) || q_idx / 16 == kv_idx / 16)) *
    v;
constexpr auto by_captured = score_mod([](auto s, auto, auto, auto i, auto) { return s + w / 2 + position_of[i] / 3; });
constexpr auto flex_captured = flex(q, k, values(v(b, h, kv_idx, d_idx) * 2.0), by_captured);
constexpr auto captured_by_formula =
    softmax(q * t(k) * rsqrt(depth) + as_real(w) / 2 + as_real(position_of(q_idx)) / 3) *
    values(v(b, h, kv_idx, d_idx) * 2.0);
constexpr auto flex_plain = flex();
constexpr auto plain_by_formula = softmax(q * t(k) * rsqrt(depth)) * v;
constexpr auto top_left_lse = flex(top_left, return_lse);
constexpr auto top_left_lse_by_formula = outputs(out = softmax(mask(q * t(k) * rsqrt(depth), causal)) * v,
                                                 lse = log_sum_exp(mask(q * t(k) * rsqrt(depth), causal)));
constexpr auto by_formula_scaled = softmax(mask(q * t(k) * 0.25, causal)) * v;
}  // namespace

TEST_CASE("the words of operations, and the language's others, are no names of inputs in its text") {
    for (const operation_row& each : operation_table::rows_of_all)
        if (!each.text.empty() && std::ranges::all_of(each.text, [](char c) { return c == '_' || std::isalnum(c); }))
            CHECK(dsl::detail::is_a_word(each.text));
    for (const char* word : {"softplus", "q", "shard", "while"}) CHECK(dsl::detail::is_a_word(word));
    for (const char* name : {"slopes", "softplu", "exp3"}) CHECK_FALSE(dsl::detail::is_a_word(name));
    static constexpr auto of_a_word = softmax(q * t(k) * input<"expm1", f32>(head)(h)) * v;
    CHECK(dsl::ir_of<of_a_word>.text.find("expm1_") != std::string_view::npos);
}

TEST_CASE("operators give the kinds of the language", "[language]") {
    STATIC_REQUIRE(decltype(q_idx - kv_idx)::is == kind::integer);
    STATIC_REQUIRE(decltype(q_idx / 4)::is == kind::integer);
    STATIC_REQUIRE(decltype(q_idx * 0.5)::is == kind::real);
    STATIC_REQUIRE(decltype(rsqrt(depth))::is == kind::real);
    STATIC_REQUIRE(decltype(q * t(k))::is == kind::scores);
    STATIC_REQUIRE(decltype(scores + 1)::is == kind::scores);
    STATIC_REQUIRE(decltype(causal)::is == kind::condition);
    STATIC_REQUIRE(decltype(scores > 0)::is == kind::condition);
    STATIC_REQUIRE(decltype(is_global(kv_idx))::is == kind::condition);
    STATIC_REQUIRE(decltype(document(kv_idx))::is == kind::integer);
    STATIC_REQUIRE(decltype(slopes(h))::is == kind::real);
    STATIC_REQUIRE(decltype(where(causal, causal, !causal))::is == kind::condition);
    STATIC_REQUIRE(decltype(softmax(scores))::is == kind::weights);
    STATIC_REQUIRE(decltype(softmax(scores) * v)::is == kind::output);
    STATIC_REQUIRE(decltype(log_sum_exp(scores))::is == kind::row);
}

TEST_CASE("what is known only after the scores has kinds of its own", "[language]") {
    STATIC_REQUIRE(decltype(sum(n, 4, slopes(n)))::is == kind::real);
    STATIC_REQUIRE(decltype(sum(n, 4, ends(b, n)))::is == kind::integer);
    STATIC_REQUIRE(decltype(sum(n, 4, ends(b, n) == kv_idx))::is == kind::integer);
    STATIC_REQUIRE(decltype(any(n, 4, ends(b, n) == kv_idx))::is == kind::condition);
    STATIC_REQUIRE(decltype(q(b, h, q_idx, d_idx))::is == kind::real);
    STATIC_REQUIRE(decltype(queries(q(b, h, q_idx, d_idx)))::is == kind::tensor);
    STATIC_REQUIRE(decltype(softmax(scores) * 2)::is == kind::weights);
    STATIC_REQUIRE(decltype(2 * softmax(scores))::is == kind::weights);
    STATIC_REQUIRE(decltype(row_sum(softmax(scores)) + 1)::is == kind::row);
    STATIC_REQUIRE(decltype(row_maximum(scores) * gain(d_idx))::is == kind::output);
    STATIC_REQUIRE(decltype(where(row_maximum(scores) > 0, 1, 0))::is == kind::row);
    STATIC_REQUIRE(decltype(softmax(scores) * v / log_sum_exp(scores))::is == kind::output);
    STATIC_REQUIRE(decltype(as_row(slopes(h)))::is == kind::row);
    STATIC_REQUIRE(decltype(both_states.out)::is == kind::output);
    STATIC_REQUIRE(decltype(both_states.lse)::is == kind::row);
}

TEST_CASE("bound indices are listed by name, extents by axis", "[language]") {
    constexpr auto list = ir_of<paths>;
    STATIC_REQUIRE(list.indices.size() == 1);
    STATIC_REQUIRE(list.indices[0] == "n");
    const auto* sum = std::find_if(list.nodes.data(), list.nodes.data() + list.nodes.size(),
                                   [](const instruction& i) { return i.op == operation::sum; });
    CHECK(list.nodes[sum->arguments[0]].op == operation::bound);
    const instruction& extent = list.nodes[sum->arguments[1]];
    CHECK(extent.op == operation::extent);
    CHECK(extent.integer == 3);
    CHECK(list.inputs[static_cast<std::size_t>(list.nodes[extent.arguments[0]].input)].name == "types");
}

TEST_CASE("the name of a bound index is no part of the computation, integers and reals of one value are",
          "[language]") {
    static constexpr auto m = bound_index<"m">;
    static constexpr auto renamed = softmax(mask(scores, causal && sum(m, extent<1>(ends), ends(b, m) <= q_idx) ==
                                                                       sum(m, extent<1>(ends), ends(b, m) <= kv_idx))) *
                                    v;
    static constexpr auto by_integer = softmax(scores * 2) * v;
    static constexpr auto by_real = softmax(scores * 2.0) * v;
    static constexpr auto halves = softmax(scores + floor_div(kv_idx, 2)) * v;
    static constexpr auto exact_halves = softmax(scores + kv_idx / 2.0) * v;
    STATIC_REQUIRE(fingerprint<renamed> == fingerprint<packed_documents>);
    STATIC_REQUIRE(fingerprint<by_integer> == fingerprint<by_real>);
    STATIC_REQUIRE(fingerprint<halves> != fingerprint<exact_halves>);
}

TEST_CASE("a node used twice is listed once", "[language]") {
    STATIC_REQUIRE(count(ir_of<two_outputs>, operation::contract) == 1);
    STATIC_REQUIRE(count(ir_of<two_outputs>, operation::mask) == 1);
    STATIC_REQUIRE(count(ir_of<two_outputs>, operation::q_idx) == 1);
    STATIC_REQUIRE(ir_of<two_outputs>.outputs.size() == 2);
    STATIC_REQUIRE(ir_of<two_outputs>.outputs[1].name == "lse");
}

TEST_CASE("arguments stand before their users", "[language]") {
    for (const graph_ir& list : {ir_of<alibi>, ir_of<integers>, ir_of<two_outputs>, ir_of<functions>})
        for (std::size_t at = 0; at < list.nodes.size(); ++at)
            for (int a = 0; a < list.nodes[at].argument_count; ++a)
                CHECK(list.nodes[at].arguments[static_cast<std::size_t>(a)] < static_cast<int>(at));
}

TEST_CASE("an integer beside a real is converted, integers among themselves are not", "[language]") {
    STATIC_REQUIRE(count(ir_of<integers>, operation::to_real) == 0 + 1);  // depth under rsqrt
    STATIC_REQUIRE(count(ir_of<alibi>, operation::to_real) == 2);         // depth, and kv_idx - q_idx
}

TEST_CASE("inputs are listed in order of first use, with their axes", "[language]") {
    constexpr auto list = ir_of<longformer>;
    STATIC_REQUIRE(list.inputs.size() == 5);
    STATIC_REQUIRE(list.inputs[0].name == "q");
    STATIC_REQUIRE(list.inputs[1].name == "k");
    STATIC_REQUIRE(list.inputs[2].name == "w");
    STATIC_REQUIRE(list.inputs[2].is_scalar);
    STATIC_REQUIRE(list.inputs[3].name == "is_global");
    STATIC_REQUIRE(list.inputs[3].axes[0].kind == axis_kind::position);
    STATIC_REQUIRE(list.inputs[4].name == "v");
    STATIC_REQUIRE(list.inputs[4].axes[3].kind == axis_kind::value_depth);
}

TEST_CASE("the fingerprint changes with the computation and with nothing else", "[language]") {
    STATIC_REQUIRE(fingerprint<alibi> == fingerprint<same_alibi>);
    STATIC_REQUIRE(fingerprint<alibi> != fingerprint<other_window>);
    STATIC_REQUIRE(fingerprint<other_scale> != fingerprint<another_scale>);
    STATIC_REQUIRE(fingerprint<alibi> != fingerprint<integer_alibi>);
    STATIC_REQUIRE(std::is_same_v<decltype(other_scale), decltype(another_scale)>);  // floats are values, not types:
                                                                                     // identity is the fingerprint
}

TEST_CASE("bottom_right shifts every q_idx, in loads too", "[language]") {
    static constexpr auto shifted =
        softmax(mask(scores, bottom_right(document(q_idx) == document(kv_idx) && causal))) * v;
    CHECK(description<shifted>.find("document(q_idx + (kv_lengths(b) - query_length)) == document(kv_idx)") !=
          std::string_view::npos);
    CHECK(description<shifted>.find("q_idx + (kv_lengths(b) - query_length) >= kv_idx") != std::string_view::npos);
}

TEST_CASE("FlexAttention's lambdas leave the formula and nothing else", "[language]") {
    STATIC_REQUIRE(std::is_same_v<decltype(flex_alibi), decltype(alibi)>);
    STATIC_REQUIRE(fingerprint<flex_alibi> == fingerprint<alibi>);
    STATIC_REQUIRE(description<flex_alibi> == description<alibi>);
    STATIC_REQUIRE(std::is_same_v<decltype(flex_two_outputs), decltype(two_outputs)>);
    STATIC_REQUIRE(fingerprint<flex_two_outputs> == fingerprint<two_outputs>);
    STATIC_REQUIRE(description<flex_two_outputs> == description<two_outputs>);
    STATIC_REQUIRE(std::is_same_v<decltype(flex_scaled), decltype(by_formula_scaled)>);
    STATIC_REQUIRE(fingerprint<flex_scaled> == fingerprint<by_formula_scaled>);
}

TEST_CASE("flex's numbers, masks, tensors and outputs are those of the formula that PyTorch computes", "[language]") {
    STATIC_REQUIRE(fingerprint<flex_numbers> == fingerprint<numbers_by_formula>);
    STATIC_REQUIRE(fingerprint<flex_joined> == fingerprint<joined_by_formula>);
    STATIC_REQUIRE(fingerprint<flex_formed> == fingerprint<formed_by_formula>);
    STATIC_REQUIRE(fingerprint<flex_captured> == fingerprint<captured_by_formula>);
    STATIC_REQUIRE(fingerprint<flex_plain> == fingerprint<plain_by_formula>);
    STATIC_REQUIRE(fingerprint<top_left_lse> == fingerprint<top_left_lse_by_formula>);
}

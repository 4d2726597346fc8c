// Kernels whose products tensor cores make, against the reference in double precision on the rounded inputs; and calls
// that they do not take.
#include "tensor_calls.hpp"

#include <algorithm>
#include <array>
#include <limits>

using namespace tensor_calls;
using Catch::Matchers::ContainsSubstring;
using support::outputs_untouched;

namespace {

std::string missing() { return kernels<tensor::full>().entries.front().missing; }

std::string kernel_of(const kernel_table& table, const workload& call) {
    return detail::explain(table, call.arguments(), on_device).kernel;
}

template <const auto& Graph>
void check(const shape& of, element_type element, const std::vector<std::int32_t>& lengths = {},
           const std::optional<spoilt_element>& spoilt = {}) {
    INFO(of.text());
    compare(call_of(dsl::ir_of<Graph>, of, element, lengths, spoilt), detail::table_of<Graph>(), element,
            "_cuda_tensor_");
}

/// At the edges of tiles, warps and blocks of threads; fewer keys than a tile has; none at all.
template <const auto& Graph> void check_edges(element_type element, int depth, int value_depth) {
    for (const std::int64_t queries : {1, 17, 128, 200})
        check<Graph>({.heads = 2, .queries = queries, .keys = 129, .depth = depth, .value_depth = value_depth},
                     element);
    for (const std::int64_t keys : {1, 7, 300})
        check<Graph>({.batches = 2,
                      .heads = 4,
                      .key_heads = 2,
                      .queries = 77,
                      .keys = keys,
                      .depth = depth,
                      .value_depth = value_depth},
                     element);
    check<Graph>({.batches = 4,
                  .heads = 2,
                  .key_heads = 1,
                  .queries = 130,
                  .keys = 257,
                  .depth = depth,
                  .value_depth = value_depth},
                 element, {0, 1, 128, 250});
}

}  // namespace

TEST_CASE("tensor cores make what the reference does, whatever a formula says of a pair") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    check_edges<tensor::full>(element_type::bf16, 64, 64);
    check_edges<tensor::last>(element_type::bf16, 64, 64);
    check_edges<tensor::ends>(element_type::bf16, 64, 64);
    check_edges<tensor::dropped>(element_type::bf16, 64, 64);
}

TEST_CASE("depths of tensor cores are multiples of 16, those of values others than those of keys") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    check_edges<tensor_halves::all_pairs>(element_type::f16, 48, 80);
    check_edges<tensor_halves::all_pairs>(element_type::f16, 256, 256);
}

namespace {

/// Of two sequences with 200 queries, 4 heads, 2 key heads and 257 keys.
constexpr std::int64_t queries = 200, keys = 257, depth = 64;
constexpr shape two_sequences{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = queries, .keys = keys, .depth = depth, .value_depth = depth};

/// Where an element of k or v lies, of the second sequence and the first key head.
constexpr std::size_t of_key(std::int64_t key) { return static_cast<std::size_t>((2 * keys + key) * depth + 5); }

}  // namespace

TEST_CASE("what is not finite comes out of the rows that see it and of no other, whatever masks it elsewhere") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const auto check_all = [&]<const auto & Graph>() {
        for (const float value : {nan, infinity, -infinity}) {
            INFO(value);
            for (const std::int64_t key : {2, 130, 250})
                check<Graph>(two_sequences, element_type::bf16, {}, {{"v", of_key(key), value}});
            check<Graph>(two_sequences, element_type::bf16, {0, 251}, {{"v", of_key(250), value}});
        }
        for (const std::int64_t key : {2, 250})
            check<Graph>(two_sequences, element_type::bf16, {}, {{"k", of_key(key), nan}});
        check<Graph>(two_sequences, element_type::bf16, {},
                     {{"q", static_cast<std::size_t>((4 * queries + 70) * depth), nan}});
    };
    check_all.operator()<tensor::last>();
    check_all.operator()<tensor::ends>();
    check_all.operator()<tensor::dropped>();
    check_all.operator()<tensor::chosen>();
    // Behind the last key its value is repeated, with weight 0.
    check<tensor::full>(two_sequences, element_type::bf16, {}, {{"v", of_key(256), infinity}});
    check<tensor::full>(two_sequences, element_type::bf16, {0, 251}, {{"v", of_key(250), infinity}});
}

TEST_CASE("a pair whose bias is -infinity weighs nothing, and a row of such pairs is 0") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    const graph_ir graph = dsl::ir_of<tensor::dropped>;
    workload call = call_of(graph, two_sequences, element_type::bf16);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const auto bias_of = [&](std::int64_t head, std::int64_t query, std::int64_t key) -> float& {
        return call["bias"].reals.at(static_cast<std::size_t>((head * queries + query) * keys + key));
    };
    for (const std::int64_t key : {0, 3, 66, 128, 199}) bias_of(1, 199, key) = -infinity;
    for (std::int64_t key = 0; key < keys; ++key) bias_of(2, 130, key) = -infinity;
    for (std::int64_t key = 0; key < 64; ++key) bias_of(3, 70, key) = -infinity;  // a whole block of keys, the first
    const auto expected = call.expected();
    CHECK_THAT(kernel_of(detail::table_of<tensor::dropped>(), call), ContainsSubstring("_cuda_tensor_"));
    detail::call(detail::table_of<tensor::dropped>(), call.arguments(), on_device);
    CHECK(call.largest_error(expected, "out") < tolerance(element_type::bf16));
    CHECK(outputs_untouched(call, true));
}

TEST_CASE("scores are capped by what a call says, and by nothing if that is 0") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    for (const double cap : {0.0, 2.0, 30.0, 1e4}) {
        INFO(cap);
        workload call(dsl::ir_of<tensor::capped>, two_sequences, 7, {{"cap", cap}});
        convert(call, element_type::bf16);
        detail::call(detail::table_of<tensor::capped>(), call.arguments(), on_device);
        CHECK(call.largest_error(call.expected(), "out") < tolerance(element_type::bf16));
    }
}

/// Weights that grow with the key by more than 2^8 a block, and by less: sums are scaled, or are not.
template <const auto& Graph> void check_rising() {
    const graph_ir graph = dsl::ir_of<Graph>;
    for (const float slope : {0.0025f, 0.05f, 0.6f}) {
        INFO(slope);
        workload call(graph, two_sequences, 7);
        scale_by(call, "slopes", slope);
        convert(call, element_type::bf16);
        const auto expected = call.expected();
        detail::call(detail::table_of<Graph>(), call.arguments(), on_device);
        CHECK(call.largest_error(expected, "out") < tolerance(element_type::bf16));
        // Of some hundreds, whose last place is 3e-5.
        if (graph.outputs.size() > 1) CHECK(call.largest_error(expected, "lse") < 4e-4);
    }
}

TEST_CASE("weights far above those before them come out as in the reference") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    check_rising<tensor::last>();    // relative to the maximum
    check_rising<tensor::rising>();  // to what it was when it last grew by more than 2^8
}

TEST_CASE("a task is made again where its sums are not finite, and nowhere else") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    const graph_ir graph = dsl::ir_of<tensor::last>;
    const auto made = [&](const std::optional<spoilt_element>& spoilt) {
        const workload call = call_of(graph, two_sequences, element_type::bf16, {}, spoilt);
        detail::call(detail::table_of<tensor::last>(), call.arguments(), on_device);
        return call["out"].halves;
    };
    // The block of queries from 128 on looks at keys from 192 on, and no other does. No row before 193 sees key 250.
    const auto before = made({}), after = made({{"v", of_key(250), std::numeric_limits<float>::quiet_NaN()}});
    std::size_t remade = 0, wrong = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        const std::size_t row = i / depth, query = row % queries, head = row / queries;
        if ((head != 4 && head != 5) || query < 128)
            wrong += after[i] != before[i];
        else if (query < 193)
            remade += after[i] != before[i];
    }
    CHECK(wrong == 0);
    CHECK(remade > 0);  // weights are not rounded there
}

TEST_CASE("keys and values in pages are read where they lie, by tensor cores if pages begin at multiples of 16 bytes") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    constexpr auto& formula = tensor::paged;
    const shape of{
        .batches = 2, .heads = 4, .key_heads = 2, .queries = 150, .keys = 1, .depth = depth, .value_depth = depth};
    workload call(dsl::ir_of<formula>, of, 7, {}, {{"block", 13}, {"page", 40}, {"token", 16}});
    for (const char* name : {"q", "out"}) call.convert(name, element_type::bf16);
    const auto check_call = [&](bool by_tensor_cores) {
        const bool has_name = kernel_of(detail::table_of<formula>(), call).find("_cuda_tensor_") != std::string::npos;
        CHECK(has_name == by_tensor_cores);
        call.reset_outputs();
        detail::call(detail::table_of<formula>(), call.arguments(), on_device);
        CHECK(call.largest_error(call.expected(), "out") < tolerance(element_type::bf16));
    };
    check_call(true);
    // A value behind a masked pair, and one that each row of its heads sees.
    for (const std::size_t page : {call["block_table"].integers[12], call["block_table"].integers[0]}) {
        call["v_pages"].halves[(page * 2 * 16 + 9) * depth] = 0x7fc0;
        check_call(true);
    }
    // Pages that overlap: those of keys begin at multiples of 8 bytes.
    attune::tensor& pages = call["k_pages"].view;
    constexpr std::array<std::int64_t, 4> extents{40, 2, 16, depth}, strides{2 * 16 * depth - 4, 16 * depth, depth, 1};
    pages = attune::tensor(pages.type(), pages.data(), extents, strides);
    check_call(false);
}

TEST_CASE("what formulas make of queries, keys and values is multiplied by tensor cores, rounded to their elements") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    check_edges<tensor::rotated>(element_type::bf16, 64, 64);
    check_edges<tensor::of_codes>(element_type::bf16, 64, 64);
    check_edges<tensor::rounded>(element_type::bf16, 64, 64);
}

TEST_CASE("a NaN comes out of the rows that see it and of no other, where no pair is masked") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    constexpr auto& formula = tensor_halves::all_pairs;
    constexpr std::int64_t queries = 77, keys = 100, depth = 48, value_depth = 80;
    const auto spoilt = [&](const char* input, std::size_t at) {
        workload call(dsl::ir_of<formula>,
                      {.batches = 1,
                       .heads = 2,
                       .key_heads = 2,
                       .queries = queries,
                       .keys = keys,
                       .depth = depth,
                       .value_depth = value_depth},
                      7);
        call[input].reals[at] = std::nanf("");
        for (const char* name : {"q", "k", "v", "out"}) call.convert(name, element_type::f16);
        const auto expected = call.expected();
        CHECK_THAT(kernel_of(detail::table_of<formula>(), call), ContainsSubstring("_cuda_tensor_"));
        detail::call(detail::table_of<formula>(), call.arguments(), on_device);
        std::size_t found = 0, wrong = 0;
        for (std::size_t i = 0; i < expected["out"].values.size(); ++i) {
            const bool is_nan = (call["out"].halves[i] & 0x7fffu) > 0x7c00u;
            found += is_nan, wrong += is_nan != std::isnan(expected["out"].values[i]);
        }
        CHECK(wrong == 0);
        return found;
    };
    CHECK(spoilt("q", 3 * depth + 5) == value_depth);
    CHECK(spoilt("k", (keys - 1) * depth + 5) == queries * value_depth);
    CHECK(spoilt("v", (keys - 1) * value_depth + 5) == queries);
}

TEST_CASE("a call whose rows do not begin at multiples of 16 bytes takes the other kernel, and explain says so") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    const graph_ir graph = dsl::ir_of<tensor::full>;
    const kernel_table& table = detail::table_of<tensor::full>();
    const shape of{.heads = 2, .key_heads = 2, .queries = 40, .keys = 70, .depth = 64, .value_depth = 64, .gaps = true};
    const workload call = call_of(graph, of, element_type::bf16);
    CHECK(call.view("k").stride(2) % 8 != 0);
    const explanation said = detail::explain(table, call.arguments(), on_device);
    CHECK(said.kernel.find("_cuda_tensor_") == said.kernel.npos);
    CHECK_THAT(said.shapes, ContainsSubstring("by tensor cores, which take rows that begin at multiples of 16 bytes"));
    const auto expected = call.expected();
    detail::call(table, call.arguments(), on_device);
    CHECK(call.largest_error(expected, "out") < tolerance(element_type::bf16));
}

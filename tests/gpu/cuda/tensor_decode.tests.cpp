// Few queries by tensor cores: against the reference in double precision on the rounded inputs; and calls that the
// other kernel for few queries takes.
#include "tensor_decode.hpp"
#include "../../support/workload_values.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using support::outputs_untouched;
using support::scale_by;
using support::shape;
using support::workload;

namespace {

const options on_device{.target = "cuda"};

std::string missing() { return kernels<tensor_decode::full>().entries.front().missing; }

/// Half of the last place of an output between 2 and 4, and what the rounding of weights adds to it.
double tolerance(element_type element) { return element == element_type::bf16 ? 0.01 : 0.00125; }

void convert(workload& call, element_type element) {
    for (const char* name : {"q", "k", "v", "out"}) call.convert(name, element);
}

workload call_of(const graph_ir& graph, const shape& of, element_type element,
                 const std::vector<std::int32_t>& lengths = {}) {
    workload call(graph, of, 7);
    for (const input_declaration& input : graph.inputs)
        if (input.name == "slopes") scale_by(call, "slopes", 0.05f);  // scores of some tens
    if (!lengths.empty()) call.set_lengths(lengths);
    convert(call, element);
    return call;
}

void compare(const workload& call, const kernel_table& table, element_type element, const options& how = on_device) {
    const auto expected = call.expected();
    CHECK_THAT(detail::explain(table, call.arguments(), how).kernel, ContainsSubstring("_cuda_tensor_decode_"));
    detail::call(table, call.arguments(), how);
    for (const output_declaration& output : call.graph().outputs) {
        INFO(output.name);
        CHECK(call.largest_error(expected, output.name) < (output.name == "out" ? tolerance(element) : 3e-5));
    }
    CHECK(outputs_untouched(call, true));
}

template <const auto& Graph>
void check(const shape& of, element_type element, const std::vector<std::int32_t>& lengths = {},
           const options& how = on_device) {
    INFO(of.text());
    compare(call_of(dsl::ir_of<Graph>, of, element, lengths), detail::table_of<Graph>(), element, how);
}

/// At the edges of tiles of rows, of blocks of 64 keys and of splits; fewer keys than a tile has; none in use.
template <const auto& Graph> void check_edges(element_type element, int depth, int value_depth) {
    const auto sizes = [&](std::int64_t heads, std::int64_t key_heads, std::int64_t queries, std::int64_t keys) {
        return shape{.batches = 2,
                     .heads = heads,
                     .key_heads = key_heads,
                     .queries = queries,
                     .keys = keys,
                     .depth = depth,
                     .value_depth = value_depth};
    };
    for (const std::int64_t queries : {1, 2, 3, 16}) check<Graph>(sizes(16, 2, queries, 333), element);
    for (const std::int64_t keys : {1, 63, 64, 65, 700}) check<Graph>(sizes(8, 2, 1, keys), element);
    check<Graph>(sizes(5, 1, 7, 2100), element);
    shape lengths = sizes(8, 2, 2, 700);
    lengths.batches = 4;
    for (const bool most_splits : {false, true})
        check<Graph>(lengths, element, {0, 1, 128, 333}, {.target = "cuda", .deterministic = most_splits});
}

}  // namespace

TEST_CASE("few queries by tensor cores come out as in the reference, whatever a formula says of a pair") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    check_edges<tensor_decode::full>(element_type::bf16, 64, 64);
    check_edges<tensor_decode::last>(element_type::bf16, 64, 64);
    check_edges<tensor_decode::ends>(element_type::bf16, 64, 64);
    check_edges<tensor_decode::promised>(element_type::f16, 48, 80);
}

namespace {

constexpr std::int64_t depth = 64;

}  // namespace

TEST_CASE("few queries read keys and values in pages of 16 where they lie, by tensor cores") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    constexpr auto& formula = tensor_decode::paged;
    for (const std::int64_t queries : {1, 3}) {
        const shape of{.batches = 2,
                       .heads = 8,
                       .key_heads = 2,
                       .queries = queries,
                       .keys = 1,
                       .depth = depth,
                       .value_depth = depth};
        workload call(dsl::ir_of<formula>, of, 7, {}, {{"block", 13}, {"page", 40}, {"token", 16}});
        for (const char* name : {"q", "out"}) call.convert(name, element_type::bf16);
        compare(call, detail::table_of<formula>(), element_type::bf16);
        // Pages that overlap: those of keys begin at multiples of 8 bytes.
        attune::tensor& pages = call["k_pages"].view;
        constexpr std::array<std::int64_t, 4> extents{40, 2, 16, depth},
            strides{2 * 16 * depth - 4, 16 * depth, depth, 1};
        pages = attune::tensor(pages.type(), pages.data(), extents, strides);
        const explanation said = detail::explain(detail::table_of<formula>(), call.arguments(), on_device);
        CHECK(said.kernel.find("_cuda_tensor_decode_") == said.kernel.npos);
        CHECK_THAT(said.shapes,
                   ContainsSubstring("decode, for 1 to 16 queries, by tensor cores, which take rows that begin at "
                                     "multiples of 16 bytes"));
        call.reset_outputs();
        detail::call(detail::table_of<formula>(), call.arguments(), on_device);
        CHECK(call.largest_error(call.expected(), "out") < tolerance(element_type::bf16));
    }
}

TEST_CASE("of few queries, too, what is not finite comes out of the rows that see it and of no other") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    constexpr auto& formula = tensor_decode::last;
    constexpr std::int64_t queries = 3, keys = 700;
    const kernel_table& table = detail::table_of<formula>();
    const auto spoilt = [&](const char* input, std::int64_t key, float value) {
        CAPTURE(input, key, value);
        workload call(
            dsl::ir_of<formula>,
            {.heads = 8, .key_heads = 2, .queries = queries, .keys = keys, .depth = depth, .value_depth = depth}, 7);
        scale_by(call, "slopes", 0.05f);
        call[input].reals[static_cast<std::size_t>((keys + key) * depth + 9)] = value;  // of the second key head
        convert(call, element_type::bf16);
        const auto expected = call.expected();
        detail::call(table, call.arguments(), on_device);
        CHECK(call.largest_error(expected, "out") < tolerance(element_type::bf16));
        CHECK(call.largest_error(expected, "lse") < 3e-5);
        std::size_t found = 0;
        for (const double each : expected["out"].values) found += !std::isfinite(each);
        return found;
    };
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    for (const float value : {nan, infinity}) {
        CHECK(spoilt("v", 699, value) == 4 * 1);  // one of three queries sees it
        CHECK(spoilt("v", 698, value) == 4 * 2);
        CHECK(spoilt("v", 64, value) == 4 * 3);
    }
    CHECK(spoilt("k", 699, nan) == 4 * 1 * depth);
}

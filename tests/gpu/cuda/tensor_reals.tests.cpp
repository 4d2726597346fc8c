// f32 by tensor cores, against the reference in double precision.
#include "tensor_reals.hpp"
#include "../../support/workload_values.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using support::scale_by;
using support::shape;
using support::workload;

namespace {

const options on_device{.target = "cuda"};
// Of outputs up to 4, whose last place is 2.4e-7: by three products of TF32, or by one.
constexpr double tolerance = TENSOR_REALS_ROUNDED ? 4e-3 : 2e-6;
constexpr std::pair<int, int> depths[] = {
#if TENSOR_REALS_DEEP
    {48, 80},
    {128, 128},
#else
    {64, 64},
#endif
};

std::string missing() { return kernels<tensor_reals::all>().entries.front().missing; }

template <const auto& Graph> workload call_of(const shape& of) {
    workload call(dsl::ir_of<Graph>, of, 7, {}, {{"pair", of.depth / 2}});
    for (const input_declaration& input : call.graph().inputs) {
        if (input.name == "slopes") scale_by(call, "slopes", 0.05f);
        if (input.name == "cosines" || input.name == "sines") scale_by(call, input.name, 0.7f);
    }
    return call;
}

template <const auto& Graph> void compare(const workload& call) {
    const kernel_table& table = detail::table_of<Graph>();
    const auto expected = call.expected();
    CHECK_THAT(detail::explain(table, call.arguments(), on_device).kernel, ContainsSubstring("_cuda_tensor_"));
    detail::call(table, call.arguments(), on_device);
    for (const output_declaration& output : call.graph().outputs) {
        INFO(output.name);
        CHECK(call.largest_error(expected, output.name) < (output.name == "out" ? tolerance : 2 * tolerance));
    }
    CHECK(support::outputs_untouched(call, true));
}

/// At the edges of tiles, warps and blocks of threads; fewer keys than a tile has; none at all.
template <const auto& Graph> void check_edges() {
    for (const auto& [depth, value_depth] : depths) {
        const auto sizes = [&](std::int64_t queries, std::int64_t keys) {
            return shape{.batches = 2,
                         .heads = 4,
                         .key_heads = 2,
                         .queries = queries,
                         .keys = keys,
                         .depth = depth,
                         .value_depth = value_depth};
        };
        for (const auto& [queries, keys] :
             {std::pair{1, 129}, std::pair{17, 7}, std::pair{77, 1}, std::pair{200, 300}}) {
            INFO(queries << " queries, " << keys << " keys, depth " << depth);
            compare<Graph>(call_of<Graph>(sizes(queries, keys)));
        }
        workload call = call_of<Graph>(sizes(130, 257));
        call.set_lengths({0, 129});
        compare<Graph>(call);
    }
}

}  // namespace

TEST_CASE("tensor cores make of f32 what the reference does, within the error of their products") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    check_edges<tensor_reals::all>();
    check_edges<tensor_reals::turned>();
}

#if !TENSOR_REALS_DEEP
TEST_CASE("what is not finite comes out of the rows that see it and of no other, of f32, too") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    constexpr std::int64_t queries = 200, keys = 257, depth = 64;
    constexpr shape of{.batches = 2,
                       .heads = 4,
                       .key_heads = 2,
                       .queries = queries,
                       .keys = keys,
                       .depth = depth,
                       .value_depth = depth};
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const auto check = [&]<const auto & Graph>(const char* input, std::int64_t row, float value) {
        INFO(input << " " << row << " " << value);
        workload call = call_of<Graph>(of);
        call[input].reals.at(static_cast<std::size_t>(row * depth + 5)) = value;
        compare<Graph>(call);
    };
    for (const float value : {nan, infinity, -infinity})
        for (const std::int64_t key : {2, 130, 250}) {
            check.operator()<tensor_reals::all>("v", 2 * keys + key, value);
            check.operator()<tensor_reals::turned>("v", 2 * keys + key, value);
        }
    for (const std::int64_t key : {2, 250}) check.operator()<tensor_reals::all>("k", 2 * keys + key, nan);
    check.operator()<tensor_reals::all>("q", 4 * queries + 70, nan);
}

TEST_CASE("a call whose rows of f32 do not begin at multiples of 16 bytes takes the kernel without tensor cores") {
    if (!missing().empty()) SKIP("no CUDA device here: lacks " << missing());
    const shape of{.heads = 2, .key_heads = 2, .queries = 40, .keys = 70, .depth = 64, .value_depth = 64, .gaps = true};
    const workload call = call_of<tensor_reals::all>(of);
    CHECK(call.view("k").stride(2) % 4 != 0);
    const kernel_table& table = detail::table_of<tensor_reals::all>();
    const explanation said = detail::explain(table, call.arguments(), on_device);
    CHECK(said.kernel.find("_cuda_tensor_") == said.kernel.npos);
    CHECK_THAT(said.shapes, ContainsSubstring("by tensor cores, which take rows that begin at multiples of 16 bytes"));
    detail::call(table, call.arguments(), on_device);
    CHECK(call.largest_error(call.expected(), "out") < 2e-6);
}
#endif

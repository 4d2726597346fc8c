// Kernels whose products warpgroups make, against the reference in double precision on the rounded inputs; and what
// takes other kernels: other depths, other rows, other cards.
#include "warpgroups.hpp"
#include "../../support/workload_values.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using support::scale_by;
using support::shape;
using support::workload;

namespace {

constexpr element_type rounded_to = element_type::WARPGROUPS_ELEMENT;  ///< of q, k, v and the output
/// Of queries and keys, beside values of 128 channels: of bf16 one, which every build compiles.
const std::vector<int> depths = rounded_to == element_type::bf16 ? std::vector{64} : std::vector{64, 128};
const options on_device{.target = "cuda"};
/// The features that the kernels for Hopper lack here.
std::string missing() { return kernels<warpgroups::all>().entries.front().missing; }
const kernel_table& table() { return detail::table_of<warpgroups::all>(); }

workload call_of(const shape& of) {
    workload call(dsl::ir_of<warpgroups::all>, of, 7);
    scale_by(call, "slopes", 0.05f);
    for (const char* name : {"q", "k", "v", "out"}) call.convert(name, rounded_to);
    return call;
}

/// Half of the last place of an output between 4 and 8, and what the rounding of weights adds to it.
constexpr double tolerance = rounded_to == element_type::bf16 ? 0.018 : 0.00225;

void check(const workload& call, const std::string& kernel) {
    const auto expected = call.expected();
    CHECK_THAT(detail::explain(table(), call.arguments(), on_device).kernel, ContainsSubstring(kernel));
    detail::call(table(), call.arguments(), on_device);
    CHECK(call.largest_error(expected, "out") < tolerance);
    CHECK(call.largest_error(expected, "lse") < 3e-5);
}

}  // namespace

TEST_CASE("warpgroups make what the reference does, at the edges of tiles and blocks", "[hopper]") {
    if (!missing().empty()) SKIP("no Hopper here: lacks " << missing());
    for (const int depth : depths) {
        const auto of = [&](std::int64_t queries, std::int64_t keys) {
            return shape{.batches = 2,
                         .heads = 4,
                         .key_heads = 2,
                         .queries = queries,
                         .keys = keys,
                         .depth = depth,
                         .value_depth = 128};
        };
        for (const auto& [queries, keys] : {std::pair{1, 129}, std::pair{65, 7}, std::pair{200, 390}})
            check(call_of(of(queries, keys)), "_cuda_sm90a_tensor_");
        workload call = call_of(of(130, 257));
        call.set_lengths({0, 129});
        check(call, "_cuda_sm90a_tensor_");
    }
}

#if WARPGROUPS_OF_CODES
TEST_CASE("keys that a formula makes of codes are multiplied by warpgroups", "[hopper]") {
    if (!missing().empty()) SKIP("no Hopper here: lacks " << missing());
    for (const int depth : depths) {
        workload call(dsl::ir_of<warpgroups::of_codes>,
                      {.heads = 4, .key_heads = 2, .queries = 200, .keys = 390, .depth = depth, .value_depth = 128}, 7);
        call.draw("k_codes", -100, 127), scale_by(call, "k_scale", 0.01f);
        for (const char* name : {"q", "v", "out"}) call.convert(name, rounded_to);
        const kernel_table& of_codes = detail::table_of<warpgroups::of_codes>();
        CHECK_THAT(detail::explain(of_codes, call.arguments(), on_device).kernel,
                   ContainsSubstring("_cuda_sm90a_tensor_"));
        detail::call(of_codes, call.arguments(), on_device);
        CHECK(call.largest_error(call.expected(), "out") < 2 * tolerance);
    }
}
#endif

TEST_CASE("what is not finite comes out of the rows that see it and of no other, by warpgroups", "[hopper]") {
    if (!missing().empty()) SKIP("no Hopper here: lacks " << missing());
    constexpr std::int64_t keys = 257, value_depth = 128;
    constexpr shape of{.batches = 2,
                       .heads = 2,
                       .key_heads = 1,
                       .queries = 200,
                       .keys = keys,
                       .depth = 64,
                       .value_depth = value_depth};
    for (const std::int64_t key : {3, 250})
        for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            workload call(dsl::ir_of<warpgroups::all>, of, 7);
            scale_by(call, "slopes", 0.05f);
            call["v"].reals.at(static_cast<std::size_t>((keys + key) * value_depth + 5)) = value;
            for (const char* name : {"q", "k", "v", "out"}) call.convert(name, rounded_to);
            check(call, "_cuda_sm90a_tensor_");
        }
}

TEST_CASE("rows that do not begin at multiples of 16 bytes take the kernel for all cards", "[hopper]") {
    if (!missing().empty()) SKIP("no Hopper here: lacks " << missing());
    const shape of{
        .heads = 2, .key_heads = 2, .queries = 40, .keys = 70, .depth = 64, .value_depth = 128, .gaps = true};
    const workload call = call_of(of);
    const explanation said = detail::explain(table(), call.arguments(), on_device);
    CHECK(said.kernel.find("tensor") == said.kernel.npos);
    CHECK_THAT(said.shapes, ContainsSubstring("and cards of compute capability 9.0"));
    check(call, "_cuda_");
}

TEST_CASE("cards of other capabilities take products of warps, and are told so", "[others]") {
    if (const std::string lacks = kernels<warpgroups::all>().entries.back().missing; !lacks.empty())
        SKIP("no CUDA device here: lacks " << lacks);
    if (missing().empty()) SKIP("the devices here are of compute capability 9.0");
    const workload call =
        call_of({.heads = 2, .key_heads = 2, .queries = 40, .keys = 70, .depth = 64, .value_depth = 128});
    check(call, "_cuda_tensor_");
    const std::string why = detail::explain(table(), call.arguments(), on_device).why;
    CHECK_THAT(why, ContainsSubstring("cuda: lacks CUDA devices all of compute capability 9.0"));
}

// Kernels whose products warpgroups make: what they are for, and which blocks they have.
#include <attune/dsl.hpp>
#include "kernel/kernel_list.hpp"
#include "kernel/tensor_schedule.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>
#include <string>
#include <vector>

using namespace attune::generators;
using Catch::Matchers::ContainsSubstring;

namespace {

using namespace attune::dsl;
constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;

kernel_request request_of(depth_pair depths) {
    kernel_request request{
        facts_of(ir_of<plain>), element_types_from("bf16"), depths, &level_named("cuda-sm90a"), {}, true};
    request.schedule = default_gpu_tensor_prefill(request);
    return request;
}

}  // namespace

TEST_CASE("warpgroups are for depths that fill their rows, and for blocks of one or two of them") {
    for (const int depth : {64, 128})
        for (const int value_depth : {64, 128}) CHECK_NOTHROW(check(request_of({depth, value_depth})));
    for (const depth_pair depths : {depth_pair{96, 64}, depth_pair{64, 256}, depth_pair{32, 32}})
        CHECK_THROWS_WITH(check(request_of(depths)), ContainsSubstring("are not 64 or 128, of which warpgroups make"));
    const auto refused = [](const gpu_tensor_prefill& cut, const std::string& why) {
        kernel_request request = request_of({64, 64});
        request.schedule = cut;
        CHECK_THROWS_WITH(check(request), ContainsSubstring("expected " + why));
    };
    CHECK(not_for_warpgroups({.warps = 4, .tiles = 1, .key_block = 64}).empty());
    refused({.warps = 8, .tiles = 2, .key_block = 64}, "tiles 1, of a warpgroup's 64 rows those of a warp, got 2");
    refused({.warps = 6, .tiles = 1, .key_block = 64}, "warps 4 or 8, got 6; try other blocks");
    refused({.warps = 8, .tiles = 1, .key_block = 32}, "key_block 64 or 128, the columns of a warpgroup's product");
}

TEST_CASE("a target of warpgroups has kernels for prefill by them and no others, beside those of its device") {
    const std::vector<variant> graphs{{"my::plain", ir_of<plain>}};
    build_request build{.targets = {"cuda", "cuda-sm90a"}, .dtypes = {"bf16", "f32"}, .depths = {"64", "96"}};
    std::vector<std::string> symbols;
    for (const listed_kernel& each : kernels_of(graphs, build))
        if (each.request.target->warpgroups) symbols.push_back(each.symbol);
    REQUIRE(symbols.size() == 1);
    CHECK(symbols[0].starts_with("attune_my_plain_bf16_d64x64_cuda_sm90a_tensor_"));
    CHECK(level_named("cuda-sm90a").called() == "cuda");
    CHECK(level_named("x86-64-v4-bf16").called() == "x86-64-v4-bf16");
}

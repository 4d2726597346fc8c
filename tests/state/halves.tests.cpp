// Rows of 16 bits: states are of f32, and what is computed is, too.
#include "drawn_call.hpp"
#include "kernels.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

using namespace attune;
using attune::testing::drawn_call;

namespace {

namespace of = state_kernels;

double largest(attune::testing::drawn_tensor& of_16_bits) {
    double most = 0;
    for (const bfloat16 x : of_16_bits.bf16) most = std::max(most, std::abs(double{static_cast<float>(x)}));
    for (const float16 x : of_16_bits.f16) most = std::max(most, std::abs(double{static_cast<float>(x)}));
    return most;
}

/// Outputs err by half a unit in the last place of the largest one, and by what f32 errs beside; `unit`: of 1.
void check(drawn_call& call, double unit) {
    call.run();
    INFO(call.tokens << " tokens");
    CHECK(largest(call.at("out")) > 0.01);
    CHECK(call.error_of("out") <= unit / 2 * largest(call.at("out")) + 2e-5);
    CHECK(call.error_of("state_out") < 2e-5);
}

}  // namespace

TEST_CASE("rows of bf16 are converted, and the outputs rounded once", "[state]") {
    for (const std::int64_t tokens : {1, 3, 16, 37}) {
        drawn_call call(detail::table_of<of::gated_bf16>(), tokens, 16, 32, element_type::bf16);
        check(call, 0x1p-7);
    }
}

TEST_CASE("rows of f16 are, too, and decays of channels stay f32", "[state]") {
    for (const std::int64_t tokens : {1, 3, 16, 37}) {
        drawn_call call(detail::table_of<of::kda_f16>(), tokens, 16, 32, element_type::f16);
        check(call, 0x1p-10);
    }
}

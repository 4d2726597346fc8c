#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

/// How near a function's values are, and what of.
namespace attune::testing {

/// How many units in the last place of the f32 nearest to it, denormal numbers included; infinite where one is NaN or
/// infinite and the other is not. The largest float stands for what is too large.
inline double error_in_ulps(float found, double wanted) {
    if (std::isnan(wanted)) return std::isnan(found) ? 0 : HUGE_VAL;
    constexpr float most = std::numeric_limits<float>::max();
    const float nearest = static_cast<float>(wanted);
    if (std::isinf(nearest)) return found == nearest || found == std::copysign(most, nearest) ? 0 : HUGE_VAL;
    if (!std::isfinite(found)) return HUGE_VAL;
    int exponent = 0;
    std::frexp(nearest, &exponent);
    return std::abs(found - wanted) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// Floats at equal distances among all there are, with those that stand out; a multiple of `grain` many.
inline std::vector<float> sample_of_floats(std::uint32_t stride, std::size_t grain = 16) {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> all{0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -0.5f, 2.5f, -3.5f, infinity, -infinity, nan};
    for (std::uint64_t bits = 0; bits <= UINT32_MAX; bits += stride)
        all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    while (all.size() % grain != 0) all.push_back(0);
    return all;
}

}  // namespace attune::testing

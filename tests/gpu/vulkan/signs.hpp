#pragma once
#include "../../kernels/variants.hpp"

/// Quotients and remainders of what is negative, by constants and by what a call gives.
namespace under_test {
inline constexpr auto distance = q_idx - kv_idx;
inline constexpr auto signs =
    attention(where(distance / 4 % 3 != 1 && distance / w >= -3 && distance % 5 != 2 && distance / 7 < 9,
                    scores + 0.01 * floor_div(distance, 3), -inf));
}  // namespace under_test

#pragma once
#include <attune/dsl.hpp>

/// Compiled with FINITE: kernels for many queries and for few that need not look for NaN and infinities in use.
namespace finite_device {

using namespace attune::dsl;

inline constexpr auto seen = mask(q * t(k) * rsqrt(depth), causal_bottom_right);
inline constexpr auto last = outputs(out = softmax(seen) * v, lse = log_sum_exp(seen));

}  // namespace finite_device

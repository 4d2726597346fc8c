#pragma once
#include <attune/dsl.hpp>

/// One variant for depths that fill no vector and differ between keys and values.
namespace under_test {

using namespace attune::dsl;

inline constexpr auto scaled = q * t(k) * rsqrt(depth);
inline constexpr auto any_depth =
    outputs(out = softmax(mask(scaled, causal_bottom_right)) * v, lse = log_sum_exp(mask(scaled, causal_bottom_right)));

}  // namespace under_test

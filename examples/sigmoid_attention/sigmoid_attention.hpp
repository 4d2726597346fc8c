#pragma once
#include <attune/dsl.hpp>

/// Each key is weighed by itself, 1 / (1 + exp(-score)): no row is normalised, so there is no running maximum to keep.
/// A bias of -log(key_length) makes a row begin near 1 in sum. (Ramapuram et al. 2024)
namespace sigmoid_attention {
using namespace attune::dsl;

inline constexpr auto scores = q * t(k) * rsqrt(depth) - log(as_real(key_length));  // (b, h, lq, lk)
inline constexpr auto attention = unnormalized(mask(sigmoid(scores), causal)) * v;  // (b, h, lq, dv)

}  // namespace sigmoid_attention

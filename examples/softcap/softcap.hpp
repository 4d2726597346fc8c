#pragma once
#include <attune/dsl.hpp>

/// Scores are bent into (-cap, cap) by a hyperbolic tangent before the softmax. (Gemma 2, 2024)
namespace softcap_example {
using namespace attune::dsl;

inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto attention = softmax(softcap(cap, q* t(k) * rsqrt(depth))) * v;  // (b, h, lq, dv)

}  // namespace softcap_example

#pragma once
#include <attune/dsl.hpp>

/// Each query sees itself and the w keys before it; w is passed at the call. Key blocks outside the window are never
/// touched. (Mistral 7B; Jiang et al. 2023)
namespace sliding_window {
using namespace attune::dsl;

inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto attention = softmax(mask(q * t(k) * rsqrt(depth), window(w, 0))) * v;  // (b, h, lq, dv)

}  // namespace sliding_window

#pragma once
#include <attune/dsl.hpp>

/// A causal window, and some keys that everyone sees. (after Longformer, Beltagy et al. 2020)
namespace longformer {
using namespace attune::dsl;

inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto is_global = input<"is_global", boolean>(key);
inline constexpr auto visible = causal && (window(w, 0) || is_global(kv_idx));
inline constexpr auto attention = softmax(mask(q * t(k) * rsqrt(depth), visible)) * v;  // (b, h, lq, dv)

}  // namespace longformer

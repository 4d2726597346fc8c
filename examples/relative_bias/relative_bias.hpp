#pragma once
#include <attune/dsl.hpp>

/// A learned bias for each head and distance; distances beyond the table share its ends. (after T5, Raffel et al. 2020)
namespace relative_bias {
using namespace attune::dsl;

inline constexpr int reach = 128;  // the table holds distances -reach..reach
inline constexpr auto bias = input<"bias", f32>(head, axis<"distance">);
inline constexpr auto distance = max(min(q_idx - kv_idx, reach), -reach) + reach;
inline constexpr auto attention = softmax(q * t(k) * rsqrt(depth) + bias(h, distance)) * v;  // (b, h, lq, dv)

}  // namespace relative_bias

#pragma once
#include <attune/dsl.hpp>

/// A step of decode that writes its new keys and values into the caches that it reads.
namespace test {
using namespace attune::dsl;

inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto v_new = input<"v_new", f32>(batch, key_head, query, value_depth);
inline constexpr auto step = outputs(store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx)),
                                     store(v(b, h, new_kv_idx, d_idx), v_new(b, h, q_idx, d_idx)),
                                     out = softmax(mask(q * t(k) * rsqrt(depth), causal_bottom_right)) * v);

}  // namespace test

#pragma once
#include <attune/dsl.hpp>

/// A cache of bytes: each key and value has its own scale, 128 stands for zero. They become numbers as the kernel reads
/// them, a quarter of the memory of f32 is streamed. The call says how much of the cache is in use, kv_lengths: the
/// last query meets the last key in use.
namespace quantized_cache {
using namespace attune::dsl;

inline constexpr auto k8 = input<"k8", u8>(batch, key_head, key, depth);
inline constexpr auto v8 = input<"v8", u8>(batch, key_head, key, value_depth);
inline constexpr auto k_scale = input<"k_scale", f32>(batch, key_head, key);
inline constexpr auto v_scale = input<"v_scale", f32>(batch, key_head, key);

inline constexpr auto cached_keys = keys((k8(b, h, kv_idx, d_idx) - 128) * k_scale(b, h, kv_idx));  // (b, h, lk, d)
inline constexpr auto cached_values =
    values((v8(b, h, kv_idx, d_idx) - 128) * v_scale(b, h, kv_idx));  // (b, h, lk, dv)
inline constexpr auto attention =
    softmax(mask(q * t(cached_keys) * rsqrt(depth), causal_bottom_right)) * cached_values;  // (b, h, lq, dv)

}  // namespace quantized_cache

#pragma once
#include <attune/dsl.hpp>

/// Causal attention in a window, with a bias of distance: a variant of usual size, with kernels for prefill and decode,
/// to be weighed.
namespace sized {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
// clang-format off
inline constexpr auto attention =
    softmax(mask(q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx), causal && window(1023, 0))) * v;
// clang-format on
}  // namespace sized

#pragma once
#include "../../kernels/variants.hpp"

/// A variant of its own, so that the others need no kernels for tensors of 16 bits.
namespace under_test {
inline constexpr auto halves = attention(mask(q * t(k) * scale, q_idx >= kv_idx));
}

#pragma once
#include <attune/dsl.hpp>

/// Two outputs, and numbers of every kind.
namespace test {
using namespace attune::dsl;

inline constexpr auto cap = scalar<"cap", f32>;
inline constexpr auto first = scalar<"first", i32>;
inline constexpr auto scores = mask(cap * tanh(q * t(k) * rsqrt(depth) / cap), kv_idx >= first);
inline constexpr auto capped = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));

}  // namespace test

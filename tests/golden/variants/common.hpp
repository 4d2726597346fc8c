#pragma once
#include <attune/dsl.hpp>

/// What the golden variants share. Every number of a file's `params` is a run-time scalar of the same name; an array `a` is a_0, a_1, ...
namespace golden {

using namespace attune::dsl;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto slopes = input<"slopes", f32>(head);

inline constexpr auto scores = q * t(k) * scale;

/// The two outputs that nearly every file has.
template <class Scores>
constexpr auto attention(Scores s) { return outputs(out = softmax(s) * v, lse = log_sum_exp(s)); }

template <class X, class Low, class High>
constexpr auto clamp(X x, Low low, High high) { return min(max(x, low), high); }

}  // namespace golden

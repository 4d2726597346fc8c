#pragma once
#include <attune/dsl.hpp>

/// Every function of the language, of two numbers that are read; a number of the call says which.
namespace device_functions {
using namespace attune::dsl;

inline constexpr auto which = scalar<"which", i32>;
inline constexpr auto x = v(b, h, kv_idx, d_idx);
inline constexpr auto y = input<"y", f32>(batch, key_head, key, value_depth)(b, h, kv_idx, d_idx);

template <class Last> constexpr auto one_of(int, const Last& last) { return as_real(last); }
template <class First, class... Rest> constexpr auto one_of(int number, const First& first, const Rest&... rest) {
    return where(which == number, as_real(first), one_of(number + 1, rest...));
}
/// Of one key, whose weight is 1: the output is the value. In the order of the test's list.
inline constexpr auto all =
    softmax(q * t(k)) *
    values(one_of(0, sin(x), cos(x), tan(x), asin(x), acos(x), atan(x), sinh(x), cosh(x), exp2(x), expm1(x), log2(x),
                  log1p(x), floor(x), ceil(x), round(x), trunc(x), atan2(x, y), pow(x, y), fmod(x, y), exp(x), log(x),
                  sigmoid(x), tanh(x), erf(x), sqrt(x), rsqrt(x), silu(x), gelu(x), gelu_tanh(x), relu(x), softplus(x),
                  logaddexp(x, y), clamp(x, -1.5, 2.25), sign(x), abs(x), min(x, y), max(x, y), floor_div(x, 0.5),
                  where(isnan(x), 1.0, 0.0), where(isinf(x), 1.0, 0.0), where(isfinite(x), 1.0, 0.0), as_integer(x)));
}  // namespace device_functions

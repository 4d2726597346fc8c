#pragma once
#include "variants.hpp"

/// Graphs of functions that no golden file has, and their gradients, <name>_gradient.
namespace golden_gradients {

inline constexpr auto circular =
    attention(sin(x) + cos(x) + atan(x) + tan(0.3 * tanh(x)) + asin(0.9 * tanh(x)) + acos(0.8 * tanh(x)));
inline constexpr auto hyperbolic =
    attention(sinh(0.5 * x) + cosh(0.4 * x) + exp2(0.5 * x) + expm1(0.3 * x) + log1p(x * x) + log2(1 + x * x));
inline constexpr auto powers = attention(pow(x * x + 1, 1.5) + pow(x, 2) + pow(x, 3) * 0.1 + pow(x, 1) + pow(x, 0) +
                                         pow(exp(0.1 * x), slopes(h)) + pow(abs(slopes(h)), 1 + x * x));
inline constexpr auto of_two = attention(atan2(x, 3 + slopes(h)) + fmod(3 + 0.02 * x, 0.8 + 0.001 * slopes(h)));
/// Their slope is 0: the table's gradient is what they are, and they are nowhere near a jump.
inline constexpr auto steps = attention(
    x + slopes(h) * kv_idx * (floor(0.01 * x + 1.25) + round(0.01 * x + 1.25) + trunc(0.01 * x + 1.25) + sign(x + 50)));
/// A function that has a number where its argument is masked, in pairs that another branch sees.
inline constexpr auto masked_inside =
    attention(where((q_idx + kv_idx) % 2 == 0, atan(mask(mask(x, causal), kv_idx != 1)), x));
inline constexpr auto functions =
    attention(mask(sin(x) + atan(x) + exp2(0.5 * x) + log1p(x * x) + pow(x, 2) * 0.1 + sigmoid(x), causal));

inline constexpr auto circular_gradient = gradient(circular);
inline constexpr auto hyperbolic_gradient = gradient(hyperbolic);
inline constexpr auto powers_gradient = gradient(powers);
inline constexpr auto of_two_gradient = gradient(of_two);
inline constexpr auto steps_gradient = gradient(steps);
inline constexpr auto masked_inside_gradient = gradient(masked_inside);
inline constexpr auto functions_gradient = gradient(functions);

}  // namespace golden_gradients

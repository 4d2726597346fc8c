#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// Formulas that need many registers, in each of the shapes that pairs are written in, and differentiated. Kernels that
/// write pairs are linked as an application's are: compiled in process, the same stages take more of the stack.
namespace stack {

using namespace attune::dsl;

inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto drawn_weights = dropout(softmax(q * t(k) * rsqrt(depth)), 0.25, 987654321987);
inline constexpr auto drawn = outputs(out = drawn_weights * v, output<"weights"> = drawn_weights);

inline constexpr auto steep = q * t(k) * rsqrt(depth);
inline constexpr auto long_formula = mask(
    softcap(8, steep) + sin(steep) * atan(steep) + erf(steep) * log1p(steep * steep) + slopes(h) * (kv_idx - q_idx),
    causal);
inline constexpr auto long_weights = dropout(softmax(long_formula), 0.25, 987654321987);
inline constexpr auto long_pairs =
    outputs(out = long_weights * v, lse = log_sum_exp(long_formula), output<"scores"> = long_formula,
            output<"weights"> = long_weights, output<"received"> = sum_over_queries(softmax(long_formula)),
            output<"mean"> = mean_over_heads(softmax(long_formula)));
inline constexpr auto trained = outputs(out = long_weights * v, lse = log_sum_exp(long_formula));
inline constexpr auto long_gradient = gradient(trained);

/// As many softmaxes as a graph may have, with masks and values of two kinds.
inline constexpr auto v2 = input<"v2", f32>(batch, key_head, key, value_depth);
inline constexpr auto sloped = mask(steep + slopes(h) * (kv_idx - q_idx), causal_bottom_right);
template <int width> inline constexpr auto near = softmax(mask(sloped, kv_idx > q_idx - width));
inline constexpr auto eight = near<8> * v + near<16> * v2 + near<32> * v + near<64> * v2 + near<128> * v -
                              near<256> * v2 + near<512> * v + softmax(sloped) * v2;

}  // namespace stack

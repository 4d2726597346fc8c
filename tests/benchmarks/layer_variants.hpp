#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// torch.nn.MultiheadAttention in evaluation, self-attention: one projection to q, k and v, heads, an output
/// projection; alone, with the weights averaged over the heads, and with the weights of every head.
namespace bench {
using namespace attune::dsl;

inline constexpr auto x = input<"x", f32>(batch, position, axis<"model">);                 // (b, l, e)
inline constexpr auto in_weight = input<"in_weight", f32>(axis<"projected">, axis<"in">);  // (3 e, e)
inline constexpr auto in_bias = input<"in_bias", f32>(axis<"projected">);
inline constexpr auto out_weight = input<"out_weight", f32>(axis<"out">, axis<"in">);  // (e, e)
inline constexpr auto out_bias = input<"out_bias", f32>(axis<"out">);
inline constexpr auto number_of_heads = scalar<"heads", i32>;

inline constexpr auto projected = linear(x, in_weight, in_bias);
template <int Part>
inline constexpr auto heads_of_part = split_heads(part<Part, 3>(projected), number_of_heads);  // (b, h, l, d)
inline constexpr auto weights = softmax(heads_of_part<0> * t(heads_of_part<1>) * rsqrt(depth));
inline constexpr auto attended = linear(merge_heads(weights * heads_of_part<2>), out_weight, out_bias);

inline constexpr auto layer = outputs(out = attended);
inline constexpr auto layer_with_mean =
    outputs(out = attended, output<"weights"> = mean_over_heads(weights));                        // (b, l, l)
inline constexpr auto layer_with_weights = outputs(out = attended, output<"weights"> = weights);  // (b, h, l, l)

}  // namespace bench

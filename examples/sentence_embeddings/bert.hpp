#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// Embeds the lines of a text with a BERT model and prints the most alike. (Devlin et al. 2019; MiniLM: Wang et al.
/// 2020; Reimers, Gurevych 2019) The sentences of a batch lie one behind another in a single sequence, without padding;
/// each token sees those of its own sentence.
namespace bert {
using namespace attune::dsl;

template <name Label>
inline constexpr auto weight = input<Label, f32>(axis<"out">, axis<"in">);  // (out, in), as PyTorch stores it
template <name Label> inline constexpr auto bias = input<Label, f32>(axis<"out">);
constexpr auto normalised(auto x) { return layer_norm(x, bias<"gain">, bias<"shift">, 1e-12); }

// What enters the first layer.
inline constexpr auto ids = input<"ids", i32>(batch, position);        // (1, t): pieces of the vocabulary
inline constexpr auto places = input<"places", i32>(batch, position);  // (1, t): each one's place in its sentence
inline constexpr auto words = input<"words", f32>(axis<"vocabulary">, axis<"model">);    // (n, e)
inline constexpr auto of_place = input<"of_place", f32>(axis<"places">, axis<"model">);  // (p, e)
inline constexpr auto of_segment = input<"of_segment", f32>(axis<"model">);              // (e)
inline constexpr auto summed =
    tokens(words(ids(b, q_idx), d_idx) + of_place(places(b, q_idx), d_idx) + of_segment(d_idx), extent<1>(words));
inline constexpr auto embedded = normalised(sequence_of(summed, extent<1>(ids)));  // (1, t, e)

// The first half of a layer.
inline constexpr auto x = input<"x", f32>(batch, position, axis<"model">);  // (1, t, e)
inline constexpr auto sentence = input<"sentence", i32>(batch, position);   // (1, t): which one it belongs to
inline constexpr auto number_of_heads = scalar<"heads", i32>;
template <name Weight, name Bias> constexpr auto projected() {
    return split_heads(linear(x, weight<Weight>, bias<Bias>), number_of_heads);
}
inline constexpr auto q = projected<"w_q", "b_q">();  // (1, h, t, d)
inline constexpr auto k = projected<"w_k", "b_k">();
inline constexpr auto v = projected<"w_v", "b_v">();
inline constexpr auto scores = mask(q * t(k) * rsqrt(depth), sentence(b, q_idx) == sentence(b, kv_idx));
inline constexpr auto merged = merge_heads(softmax(scores) * v);  // (1, t, e)
inline constexpr auto attended = normalised(residual(x, linear(merged, weight<"w_o">, bias<"b_o">)));

// The second half.
inline constexpr auto inner = gelu(linear(x, weight<"w_inner">, bias<"b_inner">));  // (1, t, 4 e)
inline constexpr auto fed_forward = normalised(residual(x, linear(inner, weight<"w_outer">, bias<"b_outer">)));

}  // namespace bert

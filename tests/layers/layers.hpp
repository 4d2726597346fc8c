#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// The parts of layers: projections, residuals, layer normalisation, GELU, masks of every shape and type, sequences of
/// different length and width.
namespace layers {
using namespace attune::dsl;

template <name Label, name Out, name In> inline constexpr auto weight = input<Label, f32>(axis<Out>, axis<In>);
template <name Label, name Of> inline constexpr auto along = input<Label, f32>(axis<Of>);

inline constexpr auto x = input<"x", f32>(batch, position, axis<"model">);
inline constexpr auto w_q = weight<"w_q", "model", "model">;
inline constexpr auto w_k = weight<"w_k", "model", "model">;
inline constexpr auto w_v = weight<"w_v", "model", "model">;
inline constexpr auto w_o = weight<"w_o", "model", "model">;
inline constexpr auto b_o = along<"b_o", "model">;

constexpr auto heads_of(auto from) { return split_heads(from, 2); }
inline constexpr auto q = heads_of(linear(x, w_q, along<"b_q", "model">));
inline constexpr auto k = heads_of(linear(x, w_k, along<"b_k", "model">));
inline constexpr auto v = heads_of(linear(x, w_v, along<"b_v", "model">));
inline constexpr auto scores = q * t(k) * rsqrt(depth);

// The two halves of an encoder's layer (Vaswani et al. 2017, with GELU).
inline constexpr auto padding = input<"padding", i32>(batch, key);
inline constexpr auto attended = linear(merge_heads(softmax(mask(scores, padding(b, kv_idx) != 0)) * v), w_o, b_o);
inline constexpr auto attention =
    outputs(out = layer_norm(residual(x, attended), along<"gain_1", "model">, along<"shift_1", "model">, 1e-5));
inline constexpr auto hidden = gelu(linear(x, weight<"w_1", "hidden", "model">, along<"b_1", "hidden">));
inline constexpr auto feed_forward =
    outputs(out = layer_norm(residual(x, linear(hidden, weight<"w_2", "model", "hidden">, along<"b_2", "model">)),
                             along<"gain_2", "model">, along<"shift_2", "model">, 1e-12));

// Each alone.
inline constexpr auto normal = outputs(out = layer_norm(x, along<"gain_1", "model">, along<"shift_1", "model">, 1e-5));
inline constexpr auto smooth = outputs(out = gelu(x));
inline constexpr auto error_function = outputs(out = apply(x, [](auto e) { return erf(e); }));
inline constexpr auto added = outputs(out = residual(x, input<"y", f32>(batch, position, axis<"model">)));

// Three sequences of different length and width.
inline constexpr auto queries_from = input<"queries_from", f32>(batch, query, axis<"query_width">);
inline constexpr auto keys_from = input<"keys_from", f32>(batch, key, axis<"key_width">);
inline constexpr auto values_from = input<"values_from", f32>(batch, key, axis<"value_width">);
inline constexpr auto across = heads_of(linear(queries_from, weight<"w_q", "model", "query_width">)) *
                               t(heads_of(linear(keys_from, weight<"w_k", "model", "key_width">))) * rsqrt(depth);
inline constexpr auto across_values = heads_of(linear(values_from, weight<"w_v", "model", "value_width">));
constexpr auto cross_of(auto weights) {
    return outputs(out = linear(merge_heads(weights * across_values), w_o, b_o), output<"weights"> = weights,
                   output<"mean"> = mean_over_heads(weights));
}

constexpr auto output_of(auto weights) { return outputs(out = linear(merge_heads(weights * across_values), w_o, b_o)); }

template <attune::element_type Element, class... Axes> constexpr auto seen(Axes... axes) {
    return input<"mask", Element>(axes...);
}
constexpr auto is_set(auto element) {
    if constexpr (decltype(element)::is == attune::kind::condition)
        return element;
    else
        return element != 0;
}
template <attune::element_type Element>
inline constexpr auto by_key = cross_of(softmax(mask(across, is_set(seen<Element>(batch, key)(b, kv_idx)))));
template <attune::element_type Element>
inline constexpr auto by_pair =
    output_of(softmax(mask(across, is_set(seen<Element>(batch, query, key)(b, q_idx, kv_idx)))));
template <attune::element_type Element>
inline constexpr auto by_pair_of_heads =
    output_of(softmax(mask(across, is_set(seen<Element>(batch, head, query, key)(b, h, q_idx, kv_idx)))));

// One projection to queries, keys and values.
inline constexpr auto fused = linear(x, weight<"w_qkv", "fused", "model">);
template <int Part> inline constexpr auto third = heads_of(part<Part, 3>(fused));
inline constexpr auto in_three_parts =
    outputs(out = merge_heads(softmax(third<0> * t(third<1>) * rsqrt(depth)) * third<2>));

// Norms of projected queries and keys. (Henry et al. 2020)
constexpr auto normed(auto heads, auto gain) { return rms_norm(heads, gain, 1e-6); }
inline constexpr auto normed_heads = outputs(out = softmax(normed(q, input<"query_gain", f32>(depth)) *
                                                           t(normed(k, input<"key_gain", f32>(depth))) * rsqrt(depth)) *
                                                   v);

// Dropout: in evaluation its probability is 0.
inline constexpr auto p = scalar<"p", f32>;
inline constexpr auto plain = outputs(out = linear(merge_heads(softmax(scores) * v), w_o, b_o));
inline constexpr auto dropped =
    outputs(out = linear(merge_heads(dropout(softmax(scores), p, 987654321987) * v), w_o, b_o));

// Tokens that three things are made of.
inline constexpr auto shared = tokens(linear(x, w_q).at(q_idx, d_idx), extent<0>(w_q));
inline constexpr auto shared_heads = heads_of(sequence_of(shared, extent<1>(x)));
inline constexpr auto uses_thrice =
    outputs(out = linear(merge_heads(softmax(shared_heads * t(shared_heads) * rsqrt(depth)) * shared_heads), w_o, b_o),
            output<"tokens"> = shared, output<"weights"> = softmax(shared_heads * t(shared_heads) * rsqrt(depth)));

}  // namespace layers

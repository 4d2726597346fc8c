#pragma once
#include "names.hpp"

/// Multi-head self-attention with four projections (embed_dim, embed_dim), of a sequence as it is or looked up in an
/// embedding.
namespace layers::multi_head_self {

template <attune::element_type Element> struct of {
    template <name Weight, name Bias> static constexpr auto heads_of_projection(auto from) {
        return split_heads(linear(from, weight<Weight, Element>, bias<Bias>), number_of_heads);
    }
    static constexpr auto weights(auto from) {
        return softmax(heads_of_projection<"query_weight", "query_bias">(from) *
                       t(heads_of_projection<"key_weight", "key_bias">(from)) * rsqrt(depth));
    }
    static constexpr auto layer(auto from) {
        return linear(merge_heads(weights(from) * heads_of_projection<"value_weight", "value_bias">(from)),
                      weight<"out_weight", Element>, bias<"out_bias">);
    }
};

inline constexpr auto plain = of<f32>::layer(x);  // (b, l, e)

inline constexpr auto token_ids = input<"token_ids", i32>(batch, position);
inline constexpr auto embedding = input<"embedding_weight", f32>(axis<"vocabulary">, axis<"model">);
inline constexpr auto embedded = tokens(embedding(token_ids(b, q_idx), d_idx), extent<1>(embedding));  // (b, l, e)
inline constexpr auto looked_up = sequence_of(embedded, extent<1>(token_ids));
template <attune::element_type Element>
inline constexpr auto of_words = outputs(output<"x"> = embedded, out = of<Element>::layer(looked_up),
                                         output<"weights"> = mean_over_heads(of<Element>::weights(looked_up)));

// The same weights on another sequence, with the weights of every head.
inline constexpr auto x_001 = input<"x_001", f32>(batch, position, axis<"model">);
inline constexpr auto second_sequence = outputs(output<"out_001"> = of<attune::element_type::bf16>::layer(x_001),
                                                output<"weights_001"> = of<attune::element_type::bf16>::weights(x_001));

}  // namespace layers::multi_head_self

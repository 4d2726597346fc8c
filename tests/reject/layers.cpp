// Layers: sequences, projections, heads split and merged; their gradients and shards.
#include "layers.hpp"

// --- dropout_without_a_seed
// rejects: dropout takes weights, a probability and a seed
namespace my {
#ifdef REJECT
inline constexpr auto variant = dropout(softmax(split * t(split)), 0.1) * split;
#else
inline constexpr auto variant = dropout(softmax(split * t(split)), 0.1, 7) * split;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- gradient_of_a_projection_without_heads
// rejects: the gradient needs a sum of weights that no output has by itself

// What an output projection sums over is read by the gradient.
namespace my {
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto projection = linear(merge_heads(attended), w, shift);
#ifdef REJECT
inline constexpr auto forward = outputs(out = projection, lse = log_sum_exp(scores));
#else
inline constexpr auto forward = outputs(out = projection, output<"attended"> = attended, lse = log_sum_exp(scores));
#endif
inline constexpr auto variant = gradient(forward);
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_other_tokens
// rejects: attune makes gradients of outputs, rows, and outputs with their heads merged, projected by linear or not; of
// scores,

// A sum over fewer channels than all heads have.
namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto projection =
    tokens(sum(n, 32, attended(b, n / value_depth, q_idx, n % value_depth) * w(d_idx, n)), extent<0>(w));
#else
inline constexpr auto projection = tokens(
    sum(n, heads* value_depth, attended(b, n / value_depth, q_idx, n % value_depth) * w(d_idx, n)), extent<0>(w));
#endif
inline constexpr auto forward = outputs(out = projection, output<"attended"> = attended, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward);
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_two_projections
// rejects: attune makes no gradient of this operation yet

// A projection of what was projected, such as the layer behind attention.
namespace my {
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto projection = linear(merge_heads(attended), w);
#ifdef REJECT
inline constexpr auto last = linear(gelu(projection), input<"second", f32>(axis<"out">, axis<"in">));
#else
inline constexpr auto last = gelu(projection);
#endif
inline constexpr auto forward = outputs(out = last, output<"attended"> = attended, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward);
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- heads_times_heads
// rejects: queries and keys are multiplied as q * t(k); two tensors of heads are multiplied here
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(split * split) * split;
#else
inline constexpr auto variant = softmax(split * t(split)) * split;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- layer_norm_without_epsilon
// rejects: layer_norm takes a sequence, its gain and shift over the channels, and what is added to the variance
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = layer_norm(x, shift, shift));
#else
inline constexpr auto variant = outputs(out = layer_norm(x, shift, shift, 1e-5));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- linear_of_a_bias
// rejects: the weights of linear are an input of two axes, (out, in) as PyTorch stores them
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = linear(x, shift));
#else
inline constexpr auto variant = outputs(out = linear(x, w));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- linear_of_a_table
// rejects: a sequence is an input (batch, position, axis<"model">), position also query or key; this has another number
// of axes
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = linear(w, w));
#else
inline constexpr auto variant = outputs(out = linear(x, w));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- linear_of_scores
// rejects: linear, layer_norm and split_heads take an input (batch, position, axis<"model">), tokens, merge_heads(...)
// or one another's results
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = linear(scores, w));
#else
inline constexpr auto variant = outputs(out = linear(x, w));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- linear_without_weights
// rejects: linear takes a sequence and its weights, or a bias as well
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = linear(x));
#else
inline constexpr auto variant = outputs(out = linear(x, w));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- merge_heads_of_a_sequence
// rejects: merge_heads takes an output, such as softmax(scores) * v
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = merge_heads(projected));
#else
inline constexpr auto variant = outputs(out = merge_heads(softmax(split * t(split)) * split));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- part_beyond_the_last
// rejects: part<i, n> is one of 0 .. n - 1
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = part<3, 3>(projected));
#else
inline constexpr auto variant = outputs(out = part<2, 3>(projected));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- rotary_of_projected_values
// rejects: turn projected queries and keys; values stay as they are

// Values may have another depth than what is turned.
namespace my {
inline constexpr auto cosines = input<"cosines", f32>(position, axis<"pair">);
inline constexpr auto sines = input<"sines", f32>(position, axis<"pair">);
inline constexpr auto turned = rotary_half(split, cosines, sines);
#ifdef REJECT
inline constexpr auto variant = softmax(turned * t(turned)) * turned;
#else
inline constexpr auto variant = softmax(turned * t(turned)) * split;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- same_of_an_index
// rejects: same(a, b) takes two integers of the whole call
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(k) * as_real(same(q_idx, key_length))) * v;
#else
inline constexpr auto variant = softmax(q * t(k) * as_real(same(query_length, key_length))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- shard_of_tokens
// rejects: attune makes no shard of a graph with tokens
namespace my {
inline constexpr auto split_scores = split * t(split);
inline constexpr auto attended = softmax(split_scores) * split;
#ifdef REJECT
inline constexpr auto layer = merge_heads(attended);
inline constexpr auto variant = shard(outputs(out = layer, lse = log_sum_exp(split_scores)));
#else
inline constexpr auto variant = shard(outputs(out = attended, lse = log_sum_exp(split_scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- split_by_an_index
// rejects: the number of heads is one integer for the whole call
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(split_heads(projected, q_idx) * t(split)) * split;
#else
inline constexpr auto variant = softmax(split_heads(projected, key_heads) * t(split)) * split;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- split_without_a_number
// rejects: split_heads takes a sequence and the number of heads
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(split_heads(projected) * t(split)) * split;
#else
inline constexpr auto variant = softmax(split_heads(projected, 4) * t(split)) * split;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_of_sequences
// rejects: sequences are added by residual(x, y)
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = projected + projected);
#else
inline constexpr auto variant = outputs(out = residual(projected, x));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- tokens_of_two_outputs
// rejects: tokens are made of two different outputs; name them in different graphs
namespace my {
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto twice = output<"twice">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = merge_heads(attended), twice = merge_heads(attended * 2));
#else
inline constexpr auto variant = outputs(out = merge_heads(attended), twice = attended * 2);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- weights_times_a_sequence
// rejects: the values are a sequence whose heads are not split
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(split * t(split)) * projected;
#else
inline constexpr auto variant = softmax(split * t(split)) * split;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

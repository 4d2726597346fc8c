// Queries, keys and values, and their products.
#include "language.hpp"

// --- channel_in_scores
// rejects: scores have no channel; d_idx stands in queries(...), keys(...), values(...)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + gain(d_idx)) * v;
#else
inline constexpr auto variant = softmax(queries(q(b, h, q_idx, d_idx) * gain(d_idx)) * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- contraction_over_other_axes
// rejects: two tensors are contracted over different axes; scores are q * t(k)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(v)) * v;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- keys_of_a_query
// rejects: queries depend on (b, h, q_idx, d_idx), keys and values on (b, h, kv_idx, d_idx)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * q_idx))) * v;
#else
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * kv_idx))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- keys_of_a_row
// rejects: a row or an output meets what differs from key to key
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * log_sum_exp(scores)))) * v;
#else
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx) * slopes(h)))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- keys_of_scores
// rejects: queries, keys and values form a tensor of a number
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(scores))) * v;
#else
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx)))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- keys_that_nothing_counts
// rejects: no input has an axis that says how many keys there are; state it: keys(formula, length)
namespace my {
inline constexpr auto pool = input<"pool", f32>(axis<"row">, depth);
inline constexpr auto row = pool(kv_idx, d_idx);
#ifdef REJECT
inline constexpr auto paged = keys(row);
#else
inline constexpr auto paged = keys(row, extent<0>(pool));
#endif
inline constexpr auto variant = softmax(q * t(paged)) * values(row);
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- keys_weighted
// rejects: weights weigh the values of a tensor (batch, head, key, value_depth), such as v
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores) * k;
#else
inline constexpr auto variant = softmax(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- length_that_differs
// rejects: the length of a computed tensor, its heads and its depth are integers of the whole call
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx), b))) * v;
#else
inline constexpr auto variant = softmax(q * t(keys(k(b, h, kv_idx, d_idx), extent<2>(k)))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- missing_transpose
// rejects: two tensors are multiplied; the contraction of q and k is written q * t(k)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * k) * v;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- quantized_number
// rejects: channels(x) takes q, k or another input
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(quantized<i8>(slopes(h))) * t(k)) * v;
#else
inline constexpr auto variant = softmax(queries(quantized<i8>(q)) * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- quantized_to_floats
// rejects: quantized<i8>(x) makes codes of q, k or another input
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(quantized<f16>(q)) * t(k)) * v;
#else
inline constexpr auto variant = softmax(queries(quantized<i8>(q)) * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- quantized_by_block_to_floats
// rejects: quantized<i8, 64>(k) makes codes of eight bits; there are no others
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(quantized<u8, 64>(k)))) * v;
#else
inline constexpr auto variant = softmax(q * t(keys(quantized<i8, 64>(k)))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- quantized_by_empty_blocks
// rejects: quantized<i8, 64>(k): the second number counts the keys that share a step, 1 or more
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(quantized<i8, 0>(k)))) * v;
#else
inline constexpr auto variant = softmax(q * t(keys(quantized<i8, 1>(k)))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- queries_quantized_by_block
// rejects: quantized<i8, 64>(x) makes codes of k, v or another input of reals
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(quantized<i8, 64>(q)) * t(k)) * v;
#else
inline constexpr auto variant = softmax(queries(quantized<i8>(q)) * t(k)) * values(quantized<i8, 64>(v));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- smoothed_queries
// rejects: smoothed(x) takes k or another input of reals (batch, key_head, key, depth)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(keys(quantized<i8, 64>(smoothed(q))))) * v;
#else
inline constexpr auto variant = softmax(q * t(keys(quantized<i8, 64>(smoothed(k))))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mean_score_exchanged
// rejects: mean_score(q, k) takes q and k, or inputs of reals over the same axes
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(k) + mean_score(k, q)) * v;
#else
inline constexpr auto variant = softmax(q * t(k) + mean_score(q, k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- smoothed_values
// rejects: smoothed(x) takes k or another input of reals (batch, key_head, key, depth)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(k)) * values(quantized<i8, 64>(smoothed(v)));
#else
inline constexpr auto variant = softmax(q * t(k)) * values(quantized<i8, 64>(v));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- queries_and_keys_exchanged
// rejects: scores are q * t(k); the left factor is not a tensor (batch, head, query, depth)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(k * t(q)) * v;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- queries_as_values
// rejects: weights weigh the values of a tensor (batch, head, key, value_depth), such as v
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores) * queries(q(b, h, q_idx, d_idx));
#else
inline constexpr auto variant = softmax(scores) * values(v(b, h, kv_idx, d_idx));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- queries_of_a_key
// rejects: queries depend on (b, h, q_idx, d_idx), keys and values on (b, h, kv_idx, d_idx)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(k(b, h, kv_idx, d_idx)) * t(k)) * v;
#else
inline constexpr auto variant = softmax(queries(q(b, h, q_idx, d_idx)) * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- queries_of_a_tensor
// rejects: queries, keys and values form a tensor of a number; tensors are read at indices
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(q) * t(k)) * v;
#else
inline constexpr auto variant = softmax(queries(q(b, h, q_idx, d_idx)) * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- queries_of_an_integer
// rejects: queries, keys and values form a tensor of reals; this is an integer, as_real(...) of it is a real
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(d_idx) * t(k)) * v;
#else
inline constexpr auto variant = softmax(queries(as_real(d_idx)) * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- queries_that_nothing_counts
// rejects: no input has an axis that says how many queries there are; state it: queries(formula, length)
namespace my {
inline constexpr auto table = input<"table", f32>(axis<"row">, depth);
inline constexpr auto row = table(q_idx, d_idx);
#ifdef REJECT
inline constexpr auto asked = queries(row);
#else
inline constexpr auto asked = queries(row, extent<0>(table));
#endif
inline constexpr auto variant = softmax(mask(asked * t(k), causal_bottom_right)) * v;
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- rms_norm_of_a_number
// rejects: channels(x) takes q, k or another input
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(queries(rms_norm(slopes(h), gain, 1e-6)) * t(k)) * v;
#else
inline constexpr auto variant = softmax(queries(rms_norm(q, gain, 1e-6)) * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- tensor_times_weights
// rejects: a tensor is multiplied by weights; the weighted sum is written weights * v
namespace my {
#ifdef REJECT
inline constexpr auto variant = v * softmax(scores);
#else
inline constexpr auto variant = softmax(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- transpose_of_a_number
// rejects: t(...) transposes a tensor, and this is an integer
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(kv_idx)) * v;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- transpose_of_scores
// rejects: t(...) transposes a tensor, such as k
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(q * t(scores)) * v;
#else
inline constexpr auto variant = softmax(q * t(k)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- two_products_of_queries_and_keys
// rejects: a score has one product q * t(k); a further one is a sum over its channels
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + q * t(more_keys)) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, depth, q(b, h, q_idx, n) * more_keys(b, h, kv_idx, n))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

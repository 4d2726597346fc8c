// Gradients of graphs.
#include "language.hpp"

// --- gradient_of_a_gradient
// rejects: attune makes no gradient of a gradient yet
namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto first = gradient(forward);
inline constexpr auto variant = gradient(first);
#else
inline constexpr auto variant = gradient(forward);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_a_row_maximum
// rejects: attune makes no gradient of this operation yet
namespace my {
inline constexpr auto forward =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores), output<"top"> = row_maximum(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(out, output<"top">));
#else
inline constexpr auto variant = gradient(forward, of(out, lse));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_a_shard
// rejects: attune makes no gradient of a shard; make the shard of the gradient: shard(gradient(graph))
namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(shard(forward));
#else
inline constexpr auto variant = shard(gradient(forward));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_a_step
// rejects: no gradient flows to a tensor that wrt\(...\) names
namespace my {
inline constexpr auto stepped = scores + floor(slopes(h) * scores);
inline constexpr auto forward = outputs(out = softmax(stepped) * v, lse = log_sum_exp(stepped));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, wrt(q, slopes));
#else
inline constexpr auto variant = gradient(forward, wrt(q, k));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_a_sum_without_a_name
// rejects: the gradient needs a sum of weights that no output has by itself
namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto forward = outputs(out = attended * slopes(h), lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward);
#else
inline constexpr auto forward =
    outputs(out = attended * slopes(h), output<"attended"> = attended, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward, of(out));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_integers
// rejects: wrt\(...\) names something that is no tensor of reals of this graph
namespace my {
inline constexpr auto forward = outputs(out = softmax(scores + doc(q_idx)) * v, lse = log_sum_exp(scores + doc(q_idx)));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, wrt(doc));
#else
inline constexpr auto variant = gradient(forward, wrt(q));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_no_output
// rejects: of\(...\) names something that is no output of this graph
namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(output<"total">));
#else
inline constexpr auto variant = gradient(forward, of(lse));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_precomputed
// rejects: columns, head means, what is precomputed and other tokens not yet
namespace my {
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
inline constexpr auto masked = mask(scores, top_k(block, 2)(b, h, kv_idx / 64));
inline constexpr auto forward =
    outputs(out = softmax(masked) * v, lse = log_sum_exp(masked), output<"block_scores"> = block);
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(output<"block_scores">));
#else
inline constexpr auto variant = gradient(forward, of(out));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_quantized_queries
// rejects: attune makes no gradient of this operation yet
namespace my {
#ifdef REJECT
inline constexpr auto multiplied = queries(quantized<i8>(q)) * t(k);
#else
inline constexpr auto multiplied = queries(channels(q)) * t(k);
#endif
inline constexpr auto forward = outputs(out = softmax(multiplied) * v, lse = log_sum_exp(multiplied));
inline constexpr auto variant = gradient(forward, of(out), wrt(q));
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_quantized_weights
// rejects: attune makes no gradient of this operation yet
namespace my {
#ifdef REJECT
inline constexpr auto weights = quantized<u8>(softmax(scores));
#else
inline constexpr auto weights = softmax(scores);
#endif
inline constexpr auto forward = outputs(out = weights * v, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward, of(out), wrt(q));
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_rows_alone
// rejects: the graph has no output proper
namespace my {
inline constexpr auto forward = outputs(lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward);
#else
inline constexpr auto variant = gradient(forward, of(lse));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_stores
// rejects: a graph that stores has no gradient
namespace my {
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);
inline constexpr auto out_of_cache = softmax(mask(scores, causal_bottom_right)) * v;
inline constexpr auto store_one = store(k(b, h, new_kv_idx, d_idx), k_new(b, h, q_idx, d_idx));
inline constexpr auto masked = mask(scores, causal_bottom_right);
#ifdef REJECT
inline constexpr auto variant = gradient(outputs(store_one, out = out_of_cache, lse = log_sum_exp(masked)));
#else
inline constexpr auto variant = gradient(outputs(out = out_of_cache, lse = log_sum_exp(masked)));
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- gradient_of_sums_within_sums
// rejects: the gradient of this graph is too long
namespace my {
inline constexpr auto m = bound_index<"m">;
inline constexpr auto i = bound_index<"i">;
inline constexpr auto j = bound_index<"j">;
inline constexpr auto table = input<"table", f32>(axis<"n">, axis<"m">, axis<"i">, axis<"j">);
#ifdef REJECT
inline constexpr auto seen = scores + sum(n, 2, sum(m, 2, sum(i, 2, sum(j, 2, table(n, m, i, j)))));
#else
inline constexpr auto seen = scores + sum(m, 2, sum(i, 2, sum(j, 2, table(0, m, i, j))));
#endif
inline constexpr auto variant = gradient(outputs(out = softmax(seen) * v, lse = log_sum_exp(seen)));
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_two_softmaxes
// rejects: attune makes no gradient of several softmaxes in one graph yet
namespace my {
inline constexpr auto one = softmax(scores) * v;
inline constexpr auto two = softmax(mask(scores, causal)) * v;
#ifdef REJECT
inline constexpr auto variant = gradient(outputs(out = one + two, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = gradient(outputs(out = one, lse = log_sum_exp(scores)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_a_softmax_beside_another_log_sum_exp
// rejects: the gradient of a softmax needs its log_sum_exp, of the same scores and sink
namespace my {
inline constexpr auto masked = mask(scores, causal);
#ifdef REJECT
inline constexpr auto variant = gradient(outputs(out = softmax(masked) * v, lse = log_sum_exp(scores)));
#else
inline constexpr auto variant = gradient(outputs(out = softmax(masked) * v, lse = log_sum_exp(masked)));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_weights
// rejects: attune makes gradients of outputs, rows, and outputs with their heads merged, projected by linear or not; of
// scores,
namespace my {
inline constexpr auto forward =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores), output<"weights"> = softmax(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(output<"weights">));
#else
inline constexpr auto variant = gradient(forward, of(out));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_of_what_only_masks
// rejects: no gradient flows to a tensor that wrt\(...\) names
namespace my {
inline constexpr auto masked = mask(scores, slopes(h) > 0);
inline constexpr auto forward = outputs(out = softmax(masked) * v, lse = log_sum_exp(masked));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, wrt(q, slopes));
#else
inline constexpr auto variant = gradient(forward, wrt(q, k));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_through_precomputed
// rejects: attune makes no gradient of this operation yet
namespace my {
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto masked = scores + block(b, h, kv_idx / 64);
#else
inline constexpr auto masked = mask(scores, top_k(block, 2)(b, h, kv_idx / 64));
#endif
inline constexpr auto variant = gradient(outputs(out = softmax(masked) * v, lse = log_sum_exp(masked)));
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_with_another_sink
// rejects: the gradient of a softmax needs its log_sum_exp
namespace my {
#ifdef REJECT
inline constexpr auto forward = outputs(out = softmax(scores, slopes(h)) * v, lse = log_sum_exp(scores));
inline constexpr auto variant = gradient(forward);
#else
inline constexpr auto forward = outputs(out = softmax(scores, slopes(h)) * v, lse = log_sum_exp(scores, slopes(h)));
inline constexpr auto variant = gradient(forward);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_without_log_sum_exp
// rejects: the gradient of a softmax needs its log_sum_exp
namespace my {
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto bare = softmax(scores) * v;
inline constexpr auto variant = gradient(bare);
#else
inline constexpr auto variant = gradient(forward);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- gradient_without_scores
// rejects: attune makes no gradients yet that no score has a part in
namespace my {
inline constexpr auto bias = input<"bias", f32>(value_depth);
inline constexpr auto attended = softmax(scores) * v;
inline constexpr auto forward =
    outputs(out = attended + bias(d_idx), output<"attended"> = attended, lse = log_sum_exp(scores));
#ifdef REJECT
inline constexpr auto variant = gradient(forward, of(out), wrt(bias));
#else
inline constexpr auto variant = gradient(forward, of(out), wrt(bias, q));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// Outputs, rows and tokens, and where a graph ends.
#include "language.hpp"

// --- as_output_of_scores
// rejects: as_row and as_output take a number that has no keys
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = as_output(scores));
#else
inline constexpr auto variant = outputs(out = as_output(slopes(h)));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- as_row_of_a_key
// rejects: as_row takes a real of (b, h, q_idx), as_output one of (b, h, q_idx, d_idx)
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(lse = as_row(slopes(kv_idx / 4)));
#else
inline constexpr auto variant = outputs(lse = as_row(slopes(q_idx / 4)));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- column_in_arithmetic
// rejects: arithmetic on something that is not a number
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = sum_over_queries(softmax(scores)) / query_length);
#else
inline constexpr auto variant = outputs(out = sum_over_queries(softmax(scores)));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- column_sum_of_an_output
// rejects: row_sum, sum_over_queries and mean_over_heads take weights, such as softmax(scores)
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = sum_over_queries(softmax(scores) * v));
#else
inline constexpr auto variant = outputs(out = sum_over_queries(softmax(scores)));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- graph_ends_in_scores
// rejects: a variant must end in an output, such as softmax(scores) * v; this graph stops before
namespace my {
#ifdef REJECT
inline constexpr auto variant = mask(scores, causal);
#else
inline constexpr auto variant = softmax(mask(scores, causal)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- graph_ends_in_weights
// rejects: a variant must end in an output, such as softmax(scores) * v; this graph stops before
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores);
#else
inline constexpr auto variant = softmax(scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- graph_that_is_a_tensor
// rejects: a variant must end in an output, such as softmax(scores) * v; this graph stops before
namespace my {
#ifdef REJECT
inline constexpr auto variant = slopes;
#else
inline constexpr auto variant = outputs(lse = as_row(slopes(h)));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- key_in_a_row
// rejects: a row or an output meets what differs from key to key
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(lse = log_sum_exp(scores) + kv_idx);
#else
inline constexpr auto variant = outputs(lse = log_sum_exp(scores + kv_idx));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- merge_of_outputs
// rejects: merge takes two states, such as state(softmax(s) * v, log_sum_exp(s))
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = merge(softmax(scores) * v, softmax(scores) * v).out);
#else
inline constexpr auto variant = outputs(
    out = merge(state(softmax(scores) * v, log_sum_exp(scores)), state(softmax(scores) * v, log_sum_exp(scores))).out);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- no_outputs
// rejects: outputs have names and are parts of the graph
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs();
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- output_as_scores
// rejects: scores meet a row or an output; those are known only after all scores of a row
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + softmax(scores) * v) * v;
#else
inline constexpr auto variant = softmax(scores + scores) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- output_is_not_an_output
// rejects: a named output is an output, a row, scores, weights, sum_over_queries(...), mean_over_heads(...)
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = slopes(h));
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- output_of_a_choice
// rejects: a choice is no output; write it as reals
namespace my {
inline constexpr auto block = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
inline constexpr auto chosen = top_k(block, 2);
inline constexpr auto seen = softmax(mask(scores, chosen(b, h, kv_idx / 64))) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = seen, output<"chosen"> = chosen);
#else
inline constexpr auto variant =
    outputs(out = seen, output<"chosen"> = precomputed(where(chosen(b, h, n), 1, 0), n, (key_length + 63) / 64));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- output_of_another_query
// rejects: an output is read at the query that it is of
namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx - 1, d_idx), value_depth));
#else
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx), value_depth));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- output_read_at_three_indices
// rejects: tokens are read at (b, position, channel), an output at (b, head, q_idx, channel), all integers
namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = tokens(attended(b, q_idx, d_idx), value_depth));
#else
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx), value_depth));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- output_that_is_a_literal
// rejects: outputs have names and are parts of the graph
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = 0.0);
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = as_row(0.0));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- outputs_with_scores_apart
// rejects: the graph writes scores that its other outputs are not made of; name them in different graphs
namespace my {
inline constexpr auto before = output<"before">;
#ifdef REJECT
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, before = scores * 2);
#else
inline constexpr auto variant = outputs(out = softmax(mask(scores, causal)) * v, before = scores);
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- outputs_without_names
// rejects: outputs have names and are parts of the graph
namespace my {
#ifdef REJECT
inline constexpr auto variant = outputs(softmax(scores) * v, log_sum_exp(scores));
#else
inline constexpr auto variant = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- scores_in_an_output
// rejects: scores meet a row or an output; those are known only after all scores of a row
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores) * v + scores;
#else
inline constexpr auto variant = softmax(scores) * v + row_maximum(scores);
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- tokens_of_a_key
// rejects: tokens depend on (b, q_idx, d_idx); an output is read at its elements, as merge_heads does
namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx) + as_real(kv_idx), value_depth));
#else
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx) + as_real(q_idx), value_depth));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- tokens_of_a_width_per_head
// rejects: the width of tokens is one integer for the whole call, such as extent<0>(w)
namespace my {
inline constexpr auto attended = softmax(scores) * v;
#ifdef REJECT
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx), h));
#else
inline constexpr auto variant = outputs(out = tokens(attended(b, 0, q_idx, d_idx), heads));
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my

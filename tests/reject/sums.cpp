// Sums over bound indices, what is precomputed, and choices of it.
#include "language.hpp"

// --- bound_index_named_like_an_input
// rejects: one name stands for two things in this graph
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(bound_index<"slopes">, 4, slopes(bound_index<"slopes">))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- bound_index_outside_its_sum
// rejects: a bound index stands outside the sum, any, all or precomputed that runs over it
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + slopes(n)) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- largest_of_scores
// rejects: the third argument is a real or an integer known before the scores
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + largest(n, 4, scores)) * v;
#else
inline constexpr auto variant = softmax(scores + largest(n, 4, gain(n))) * v;
#endif
inline constexpr auto text = ir_of<variant>.text;
}  // namespace my

// --- precomputed_of_a_position
// rejects: what is precomputed depends on b, h and bound indices alone
namespace my {
#ifdef REJECT
inline constexpr auto numbers = precomputed(as_real(q_idx), n, 4);
#else
inline constexpr auto numbers = precomputed(as_real(n), n, 4);
#endif
inline constexpr auto variant = softmax(scores + numbers(b, h, min(q_idx, 3))) * v;
inline constexpr auto text = description<variant>;
}  // namespace my

// --- precomputed_of_a_tensor
// rejects: precomputed(x, n, extent) takes a number; a tensor is read at indices
namespace my {
#ifdef REJECT
inline constexpr auto numbers = precomputed(slopes, n, heads);
#else
inline constexpr auto numbers = precomputed(slopes(n), n, heads);
#endif
inline constexpr auto variant = softmax(scores + numbers(b, h, h)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my

// --- precomputed_over_a_position
// rejects: the axes of what is precomputed are bound indices, each followed by its extent
namespace my {
#ifdef REJECT
inline constexpr auto numbers = precomputed(slopes(h), n, q_idx);
#else
inline constexpr auto numbers = precomputed(slopes(h), n, query_length);
#endif
inline constexpr auto variant = softmax(scores + numbers(b, h, q_idx)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my

// --- precomputed_read_at_fewer_indices
// rejects: what is precomputed is read at (b, h, ...), an integer for each of its indices
namespace my {
inline constexpr auto numbers = precomputed(slopes(h), n, query_length);
#ifdef REJECT
inline constexpr auto variant = softmax(scores + numbers(h, q_idx)) * v;
#else
inline constexpr auto variant = softmax(scores + numbers(b, h, q_idx)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- precomputed_without_an_extent
// rejects: precomputed takes a number and one to four bound indices, each with its extent
namespace my {
inline constexpr auto m = bound_index<"m">;
#ifdef REJECT
inline constexpr auto numbers = precomputed(as_real(n * m), n, 4, m);
#else
inline constexpr auto numbers = precomputed(as_real(n * m), n, 4, m, 4);
#endif
inline constexpr auto variant = softmax(scores + numbers(b, h, 1, 2)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_of_a_row
// rejects: a sum, any or all runs over what is known before the scores; a row or an output is not
namespace my {
#ifdef REJECT
inline constexpr auto variant =
    outputs(lse = log_sum_exp(scores) + as_row(sum(n, 4, where(any(n, 4, log_sum_exp(scores) > n), 1, 0))));
#else
inline constexpr auto variant = outputs(lse = log_sum_exp(scores) + as_row(sum(n, 4, slopes(n))));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_of_a_tensor
// rejects: a sum adds plain numbers or counts conditions
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes)) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_of_scores
// rejects: a sum adds plain numbers or counts conditions; scores are made by q * t(k)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(sum(n, 4, scores)) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_over_a_query
// rejects: sum, largest, any and all run over a bound index: n = bound_index<"n">
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(q_idx, 4, slopes(h))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(h))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_to_a_length_of_the_batch
// rejects: the extent of a sum, any or all is one number for the whole call; what differs is said in its body
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, kv_lengths(b), slopes(n))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, key_length, where(n < kv_lengths(b), slopes(n), 0))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_to_a_real
// rejects: the extent of a sum, any or all is an integer
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, 4.0, slopes(n))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_to_an_index
// rejects: the extent of a sum, any or all is one number for the whole call; what differs is said in its body
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, q_idx, slopes(n))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, heads, where(n < q_idx, slopes(n), 0))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_within_a_sum_over_the_same
// rejects: a sum, an any or precomputed within another runs over the same bound index; give it an index of its own
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(n, 2, sum(n, 3, slopes(n)))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(bound_index<"m">, 2, sum(n, 3, slopes(n)))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- sum_without_an_index
// rejects: sum, largest, any and all take a bound index, its extent and a body
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum(4, slopes(n))) * v;
#else
inline constexpr auto variant = softmax(scores + sum(n, 4, slopes(n))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- top_k_of_a_count_by_query
// rejects: top_k(x, count): the count is one integer for the whole call
namespace my {
inline constexpr auto numbers = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto chosen = top_k(numbers, q_idx / 64)(b, h, kv_idx / 64);
#else
inline constexpr auto chosen = top_k(numbers, query_length / 64)(b, h, kv_idx / 64);
#endif
inline constexpr auto variant = softmax(mask(scores, chosen)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my

// --- top_k_of_a_number
// rejects: top_k and top_p choose among precomputed reals
namespace my {
#ifdef REJECT
inline constexpr auto chosen = top_k(slopes(h), 2)(b, h, kv_idx / 64);
#else
inline constexpr auto chosen = top_k(precomputed(slopes(h) * n, n, (key_length + 63) / 64), 2)(b, h, kv_idx / 64);
#endif
inline constexpr auto variant = softmax(mask(scores, chosen)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my

// --- top_p_of_a_share_by_query
// rejects: top_p(x, share): the share is one number for the whole call
namespace my {
inline constexpr auto numbers = precomputed(slopes(h) * n, n, (key_length + 63) / 64);
#ifdef REJECT
inline constexpr auto chosen = top_p(numbers, slopes(h))(b, h, kv_idx / 64);
#else
inline constexpr auto chosen = top_p(numbers, 0.9)(b, h, kv_idx / 64);
#endif
inline constexpr auto variant = softmax(mask(scores, chosen)) * v;
inline constexpr auto text = description<variant>;
}  // namespace my

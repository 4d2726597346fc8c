// Conditions: masks, where, &&, ||, bits, bools of C++.
#include "language.hpp"

// --- any_of_a_number
// rejects: any(n, extent, condition): the third argument is not a condition; did you forget a comparison?
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, any(n, 4, doc(n)))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, any(n, 4, doc(n) == q_idx))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- bit_and_of_a_condition_and_an_integer
// rejects: ~, << and >> are for integers; of two conditions &, | and ^ are the logical ones
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal& kv_idx)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, causal&(kv_idx > 0))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- bit_of_a_condition
// rejects: %, ^, &, |, << and >> are for integers
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, bit(causal, kv_idx % 8))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, bit(doc(q_idx), kv_idx % 8))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- bool_as_mask
// rejects: a bool of C++ is the same for every query and key; a condition compares indices
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, true)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx >= 0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- bool_in_where
// rejects: a bool of C++ is the same for every query and key; a condition compares indices
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(where(1 > 0, scores, -inf)) * v;
#else
inline constexpr auto variant = softmax(where(kv_idx > 0, scores, -inf)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- bool_joined_with_a_condition
// rejects: a bool of C++ is the same for every query and key; a condition compares indices
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal && true)) * v;
#else
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx >= 0)) * v;
// clang-format on
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- bottom_right_of_a_number
// rejects: bottom_right(condition) shifts the queries of a condition, such as causal
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, bottom_right(q_idx) >= kv_idx)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, bottom_right(q_idx >= kv_idx))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- chained_comparison
// rejects: a condition is compared with a number; a <= x <= b is written a <= x && x <= b
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, 0 <= q_idx - kv_idx <= 5)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, 0 <= q_idx - kv_idx && q_idx - kv_idx <= 5)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- channel_in_a_mask
// rejects: scores have no channel; d_idx stands in queries(...), keys(...), values(...)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, d_idx < 4)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < 4)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- condition_as_index
// rejects: a tensor is indexed by something that is not an integer; indices are integers
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, doc(causal) == 1)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, doc(q_idx) == 1)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- condition_equal_to_a_bool
// rejects: a bool of C.. is the same for every query and key
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal != true)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, causal != (kv_idx > 3))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- condition_equal_to_a_number
// rejects: a condition is compared with a number
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal == 1)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, causal == (kv_idx > 3))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- condition_in_arithmetic
// rejects: a condition is used as a number; write where(condition, a, b)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + causal * 1.0) * v;
#else
inline constexpr auto variant = softmax(scores + where(causal, 1.0, 0.0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- if_on_a_condition
// rejects: a condition has no value until the kernel runs; write where(condition, a, b) instead of if, ?: and while
namespace my {
#ifdef REJECT
constexpr auto modify() {
    if (q_idx >= kv_idx) return scores;
    return scores;
}
inline constexpr auto variant = softmax(modify()) * v;
#else
constexpr auto modify() { return where(q_idx >= kv_idx, scores, -inf); }
inline constexpr auto variant = softmax(modify()) * v;
#endif
}  // namespace my

// --- isnan_of_a_condition
// rejects: a function of numbers and scores is applied to something else
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, isnan(causal))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, !isnan(scores))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mask_after_softmax
// rejects: the mask comes before softmax: softmax(mask(scores, condition)) * v
namespace my {
#ifdef REJECT
inline constexpr auto variant = mask(softmax(scores), causal) * v;
#else
inline constexpr auto variant = softmax(mask(scores, causal)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mask_by_a_number
// rejects: mask(scores, condition): the second argument is not a condition; did you forget a comparison?
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, q_idx - kv_idx)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, q_idx - kv_idx >= 0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mask_by_two_conditions
// rejects: mask takes scores and one condition; conditions are joined with &&
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, causal, window(3, 0))) * v;
#else
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal && window(3, 0))) * v;
// clang-format on
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mask_of_a_number
// rejects: mask(scores, condition): the first argument is not scores, such as q * t(k)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(q_idx, causal)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, causal)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mask_without_a_condition
// rejects: mask takes scores and one condition; conditions are joined with &&
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, causal)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- not_of_a_number
// rejects: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, !doc(kv_idx))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, !(doc(kv_idx) == 0))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- number_joined_as_condition
// rejects: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?
namespace my {
#ifdef REJECT
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx)) * v;
// clang-format on
#else
// clang-format off
inline constexpr auto variant = softmax(mask(scores, causal && kv_idx > 0)) * v;
// clang-format on
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- row_in_a_mask
// rejects: scores meet a row or an output; those are known only after all scores of a row
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, row_maximum(scores) > q_idx)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, scores > q_idx)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- tensors_compared
// rejects: a comparison takes numbers; a tensor is read at indices first
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, doc == doc)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, doc(q_idx) == doc(kv_idx))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- ternary_on_a_condition
// rejects: a condition has no value until the kernel runs; write where(condition, a, b) instead of if, ?: and while
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(causal ? scores : scores) * v;
#else
inline constexpr auto variant = softmax(where(causal, scores, -inf)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- tilde_of_a_real
// rejects: ~, << and >> are for integers; of two conditions &, | and ^ are the logical ones
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, ~slopes(h) > 0)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, ~causal && ~kv_idx < 0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- where_of_a_tensor
// rejects: where(condition, a, b): a and b are two numbers or two conditions
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(where(causal, scores, slopes)) * v;
#else
inline constexpr auto variant = softmax(where(causal, scores, slopes(h))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- where_without_a_condition
// rejects: where(condition, a, b): the first argument is not a condition; did you forget a comparison?
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(where(kv_idx, scores, -inf)) * v;
#else
inline constexpr auto variant = softmax(where(kv_idx > 0, scores, -inf)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- where_without_an_alternative
// rejects: where takes a condition and two values: where(condition, a, b)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(where(causal, scores)) * v;
#else
inline constexpr auto variant = softmax(where(causal, scores, -inf)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- window_of_one_side
// rejects: a window has two sides, both inclusive: window(left, right)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, window(256))) * v;
#else
inline constexpr auto variant = softmax(mask(scores, window(255, 0))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

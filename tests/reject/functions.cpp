// Functions and arithmetic of numbers.
#include "language.hpp"

// --- as_integer_of_a_row
// rejects: as_integer takes a real, a score or a condition; a row or an output is none
namespace my {
#ifdef REJECT
inline constexpr auto variant =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores) + as_integer(log_sum_exp(scores)));
#else
inline constexpr auto variant =
    outputs(out = softmax(scores + as_integer(scores)) * v, lse = log_sum_exp(scores + as_integer(scores)));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- clamp_without_an_upper_bound
// rejects: clamp takes a number and two bounds: clamp(x, low, high); with one bound it is max or min
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(clamp(scores, -5)) * v;
#else
inline constexpr auto variant = softmax(clamp(scores, -5, 5)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- function_of_a_condition
// rejects: a function of numbers and scores is applied to something else
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + exp(causal)) * v;
#else
inline constexpr auto variant = softmax(scores + exp(slopes(h))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- function_of_another_name
// rejects at length: attune has no maximum; write max\(x, y\)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(maximum(scores, 0.0)) * v;
#else
inline constexpr auto variant = softmax(max(scores, 0.0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- function_of_weights
// rejects: a function of numbers and scores is applied to something else
namespace my {
#ifdef REJECT
inline constexpr auto variant = exp(softmax(scores)) * v;
#else
inline constexpr auto variant = softmax(exp(scores)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- function_that_is_not_there
// rejects: 'silu2'.*; did you mean 'silu'\?
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(attune::dsl::silu2(scores)) * v;
#else
inline constexpr auto variant = softmax(attune::dsl::silu(scores)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- integer_beyond_32_bits
// rejects: an integer constant does not fit in 32 bits
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, kv_idx < 4294967296)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, kv_idx < 2147483647)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- keep_of_a_number_of_a_head
// rejects: keep(p, seed) takes a probability and an integer of the whole call, literals or scalars
namespace my {
#ifdef REJECT
inline constexpr auto variant = where(keep(slopes(h), 4711, 0), softmax(scores), 0) * v;
#else
inline constexpr auto variant = where(keep(scalar<"p", f32>, 4711, 0), softmax(scores), 0) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- keep_of_a_real
// rejects: what is drawn for is four integers of (b, h, q_idx, kv_idx)
namespace my {
#ifdef REJECT
inline constexpr auto position = kv_idx * 0.5;
#else
inline constexpr auto position = kv_idx / 2;
#endif
inline constexpr auto variant = where(keep(0.25, 7, 0, b, h, q_idx, position), softmax(scores), 0) * v;
inline constexpr auto text = ir_of<variant>;
}  // namespace my

// --- power_of_weights
// rejects: a function of numbers and scores is applied to something else
namespace my {
#ifdef REJECT
inline constexpr auto variant = pow(softmax(scores), 2) * v;
#else
inline constexpr auto variant = softmax(pow(scores, 2)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- power_without_an_exponent
// rejects: pow, atan2, fmod, logaddexp and floor_div take two numbers
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(pow(scores)) * v;
#else
inline constexpr auto variant = softmax(pow(scores, 2)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- quotient_among_scores
// rejects: x / y of integers rounds down, and here it becomes a real
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores + q_idx / 2) * v;
#else
inline constexpr auto variant = softmax(scores + as_real(q_idx) / 2 + floor_div(q_idx, 2) + as_real(kv_idx / 2)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- quotient_compared_with_a_real
// rejects: x / y of integers rounds down, and here it becomes a real
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, q_idx / 2 > 0.5)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, as_real(q_idx) / 2 > 0.5 && q_idx / 2 > 1)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- quotient_in_a_function
// rejects: x / y of integers rounds down, and here it becomes a real
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(scores * exp2(-(kv_idx / 16 + 1))) * v;
#else
inline constexpr auto variant = softmax(scores * exp2(-(floor_div(kv_idx, 16) + 1))) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- remainder_of_a_real
// rejects: %, ^, &, |, << and >> are for integers
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, slopes(h) % 2 == 0)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, doc(kv_idx) % 2 == 0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- shift_of_a_real
// rejects: %, ^, &, |, << and >> are for integers
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(mask(scores, (slopes(h) >> 1) > 0)) * v;
#else
inline constexpr auto variant = softmax(mask(scores, (doc(kv_idx) >> 1) > 0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- softcap_the_wrong_way_round
// rejects: softcap(c, scores): the cap comes first, then what it bounds
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(softcap(scores, 50.0)) * v;
#else
inline constexpr auto variant = softmax(softcap(50.0, scores)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- std_max
// rejects: and min and max without std::
#include <algorithm>

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(std::max(scores, scores)) * v;
#else
inline constexpr auto variant = softmax(max(scores, scores)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- std_tanh
// rejects at length: its functions are written without std::, as in tanh
#include <cmath>

namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(std::tanh(scores)) * v;
#else
inline constexpr auto variant = softmax(tanh(scores)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- three_numbers_in_max
// rejects: min and max take two numbers; of three, max(max(a, b), c)
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(max(scores, q_idx, 0)) * v;
#else
inline constexpr auto variant = softmax(max(max(scores, q_idx), 0)) * v;
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- clamp_of_a_mask
// rejects: masked pairs would be seen again, as tanh (of softcap), exp, sigmoid, erf, atan, sign, and max with a number
// are finite at -infinity
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(clamp(mask(scores, causal), -50, 50)) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(max(mask(scores, causal), mask(scores, kv_idx < 4))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my

// --- sigmoid_of_a_mask
// rejects: masked pairs would be seen again, as tanh (of softcap), exp, sigmoid, erf, atan, sign, and max with a number
// are finite at -infinity
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(sigmoid(mask(scores, causal)) + 1.0) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(silu(mask(scores, causal)) + 1.0) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my

// --- softcap_of_a_mask
// rejects: masked pairs would be seen again, as tanh (of softcap), exp, sigmoid, erf, atan, sign, and max with a number
// are finite at -infinity
namespace my {
#ifdef REJECT
inline constexpr auto variant = softmax(softcap(30.0, mask(scores, causal))) * v;
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(mask(softcap(30.0, scores), causal)) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my

// --- softplus_of_a_mask
// rejects: masked pairs would be seen again, as tanh (of softcap), exp, sigmoid, erf, atan, sign, and max with a number
// are finite at -infinity
namespace my {
#ifdef REJECT
inline constexpr auto variant = log_sum_exp(mask(softplus(mask(scores, causal)), kv_idx > 3));
inline constexpr auto text = description<variant>;
#else
inline constexpr auto variant = softmax(logaddexp(mask(scores, causal), mask(scores, kv_idx < 4))) * v;
inline constexpr auto text = description<variant>;
#endif
}  // namespace my

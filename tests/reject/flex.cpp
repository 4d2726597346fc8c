// Functions as FlexAttention takes them: score_mod and mask_mod.
#include "language.hpp"

// --- flex_of_a_bare_lambda
// rejects: flex takes score_mod(...), mask_mod(...), a scale if it is not rsqrt(depth), and three tensors
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex([](auto, auto, auto i, auto j) { return i >= j; });
#else
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return i >= j; }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- flex_of_a_body_that_fails
// rejects: not_there
// not: attune: a score_mod
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto, auto) { return not_there(score); }));
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto, auto) { return silu(score); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- flex_of_two_masks
// rejects: flex takes score_mod(...), mask_mod(...), a scale if it is not rsqrt(depth), and three tensors
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return i >= j; }),
                                     mask_mod([](auto, auto, auto i, auto) { return i > 3; }));
#else
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return i >= j; }) &&
                                     mask_mod([](auto, auto, auto i, auto) { return i > 3; }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- flex_of_two_tensors
// rejects: flex takes score_mod(...), mask_mod(...), a scale if it is not rsqrt(depth), and three tensors
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(k, v, score_mod([](auto s, auto, auto, auto, auto) { return s * 2; }));
#else
inline constexpr auto variant = flex(q, k, v, score_mod([](auto s, auto, auto, auto, auto) { return s * 2; }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- flex_quotient_as_an_index
// rejects: in flex x / y of integers is a real, as in PyTorch
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return doc(i / 2) == doc(j); }));
#else
inline constexpr auto variant =
    flex(mask_mod([](auto, auto, auto i, auto j) { return doc(floor_div(i, 2)) == doc(j); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- flex_quotients_compared
// rejects: in flex x / y of integers is a real, as in PyTorch
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return i / 16 == j / 16; }));
#else
inline constexpr auto variant =
    flex(mask_mod([](auto, auto, auto i, auto j) { return floor_div(i, 16) == floor_div(j, 16); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- flex_quotients_of_elements_compared
// rejects: in flex x / y of integers is a real, as in PyTorch
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto i, auto j) { return doc[i] / 2 == doc[j] / 2; }));
#else
inline constexpr auto variant =
    flex(mask_mod([](auto, auto, auto i, auto j) { return floor_div(doc[i], 2) == floor_div(doc[j], 2); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- flex_remainder_of_a_quotient
// rejects: in flex x / y of integers is a real, as in PyTorch
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto s, auto, auto, auto i, auto) { return s + i / 4 % 2; }));
#else
inline constexpr auto variant =
    flex(score_mod([](auto s, auto, auto, auto i, auto) { return s + floor_div(i, 4) % 2; }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mask_mod_of_other_arguments
// rejects: a mask_mod takes (b, h, q_idx, kv_idx)
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto q_idx, auto kv_idx) { return q_idx >= kv_idx; }));
#else
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx >= kv_idx; }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mask_mod_that_returns_a_bool
// rejects: a bool of C++ is the same for every query and key; a condition compares indices
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto, auto) { return true; }));
#else
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto, auto kv_idx) { return kv_idx >= 0; }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- mask_mod_that_returns_a_number
// rejects: a mask_mod returns a condition; did you forget a comparison?
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx - kv_idx; }));
#else
inline constexpr auto variant = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return q_idx - kv_idx >= 0; }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- score_mod_of_ints
// rejects: a score_mod takes (score, b, h, q_idx, kv_idx), each as auto
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, int, int h, int, int) { return score + slopes(h); }));
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + slopes(h); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- score_mod_of_other_arguments
// rejects: a score_mod takes (score, b, h, q_idx, kv_idx)
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto h) { return score + slopes(h); }));
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + slopes(h); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- score_mod_that_forgets_the_score
// rejects: a score_mod returns a score
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto, auto, auto h, auto, auto) { return slopes(h); }));
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + slopes(h); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- score_mod_that_returns_a_literal
// rejects: a score_mod returns a score
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto, auto, auto, auto, auto) { return 0.5; }));
#else
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto, auto) { return score * 0.5; }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

// --- score_mod_with_an_if
// rejects: a condition has no value until the kernel runs; write where(condition, a, b) instead of if, ?: and while
namespace my {
#ifdef REJECT
inline constexpr auto variant = flex(score_mod([](auto score, auto, auto, auto i, auto j) {
    if (i >= j) return score;
    return score;
}));
#else
inline constexpr auto variant =
    flex(score_mod([](auto score, auto, auto, auto i, auto j) { return where(i >= j, score, score * 0.5); }));
#endif
inline constexpr auto text = description<variant>;
}  // namespace my

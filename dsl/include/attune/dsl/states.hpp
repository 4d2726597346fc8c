#pragma once
#include <attune/dsl/attention.hpp>

/// Attention states: an output and its log-sum-exp, the result of attention over a part of the keys. Merging is
/// associative, so keys may be split over calls, caches or machines in any order.
namespace attune::dsl {

template <class Out, class Lse> struct state_of {
    Out out;
    Lse lse;
};

template <class T> inline constexpr bool is_state = false;
template <class Out, class Lse> inline constexpr bool is_state<state_of<Out, Lse>> = true;

/// state(softmax(s) * v, log_sum_exp(s)), or reals that the caller passes: state(out_a(b, h, q_idx, d_idx), lse_a(b, h,
/// q_idx)).
template <expression Out, expression Lse> constexpr auto state(Out made, Lse sum) {
    return state_of<decltype(as_output(made)), decltype(as_row(sum))>{as_output(made), as_row(sum)};
}

namespace detail {
/// The number to which both exponentials of log-sum-exps are relative; 0 if there were no keys at all.
template <class A, class B> constexpr auto base_of(A x, B y) {
    const auto top = max(x, y);
    return where(top != -inf, top, 0.0);
}
/// The log-sum-exp over the keys of both.
template <class A, class B> constexpr auto merged_log_sum(A x, B y) {
    const auto base = base_of(x, y);
    return where(max(x, y) != -inf, base + log(exp(x - base) + exp(y - base)), -inf);
}
/// The weighted sum over the keys of both, from two sums whose weights are normalised over their own keys, by the
/// log-sum-exps beside them.
template <class X, class A, class Y, class B> constexpr auto merged_sum(X sum, A x, Y other_sum, B y) {
    const auto base = base_of(x, y);
    const auto some = max(x, y) != -inf;
    const auto one = exp(x - base);
    const auto other = exp(y - base);
    return where(
        some,
        (where(x != -inf, sum * one, 0.0) + where(y != -inf, other_sum * other, 0.0)) / where(some, one + other, 1.0),
        0.0);
}
}  // namespace detail

/// The state of the keys of both. An LSE of -infinity says that there were none, whatever the output beside it.
template <class A, class B> constexpr auto merge(A x, B y) {
    if constexpr (!is_state<A> || !is_state<B>) {
        static_assert(is_state<A> && is_state<B>,
                      "attune: merge takes two states, such as state(softmax(s) * v, log_sum_exp(s))");
        return state_of<rejected, rejected>{};
    } else
        return state(detail::merged_sum(x.out, x.lse, y.out, y.lse), detail::merged_log_sum(x.lse, y.lse));
}

}  // namespace attune::dsl

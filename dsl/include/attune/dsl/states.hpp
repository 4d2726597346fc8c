#pragma once
#include <attune/dsl/attention.hpp>

/// Attention states: what attention over a part of the keys leaves, an output and its log-sum-exp. Merging is
/// associative, so that keys may be split over calls, caches or machines in any order.
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

/// The state of the keys of both. An LSE of -infinity says that there were none, whatever the output beside it.
template <class A, class B> constexpr auto merge(A x, B y) {
    if constexpr (!is_state<A> || !is_state<B>) {
        static_assert(is_state<A> && is_state<B>,
                      "attune: merge takes two states, such as state(softmax(s) * v, log_sum_exp(s))");
        return state_of<rejected, rejected>{};
    } else {
        const auto top = max(x.lse, y.lse);
        const auto some = top > -inf;
        const auto base = where(some, top, 0.0);
        const auto one = exp(x.lse - base);
        const auto other = exp(y.lse - base);
        const auto both = one + other;
        return state(where(some,
                           (where(x.lse > -inf, x.out * one, 0.0) + where(y.lse > -inf, y.out * other, 0.0)) /
                               where(some, both, 1.0),
                           0.0),
                     where(some, base + log(both), -inf));
    }
}

}  // namespace attune::dsl

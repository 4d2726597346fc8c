#pragma once
#include <attune/dsl/attention.hpp>

/// FlexAttention's spelling: functions of a score and its indices. They are called once, with the language's own
/// values, and only what they return is kept: the graph, its text and its kernel are those of the formula.
namespace attune::dsl {

template <class F> struct score_modification {
    F modify;
};
template <class F> struct mask_modification {
    F visible;
};

/// score_mod([](auto score, auto b, auto h, auto q_idx, auto kv_idx) { return score + slopes(h) * (kv_idx - q_idx); })
template <class F> constexpr auto score_mod(F modify) { return score_modification<F>{modify}; }

/// mask_mod([](auto b, auto h, auto q_idx, auto kv_idx) { return q_idx >= kv_idx; })
template <class F> constexpr auto mask_mod(F visible) { return mask_modification<F>{visible}; }

namespace detail {
template <class F, class S>
inline constexpr bool takes_score_and_indices =
    requires(F modify, S score) { modify(score, dsl::b, dsl::h, q_idx, kv_idx); };
template <class F>
inline constexpr bool takes_indices = requires(F visible) { visible(dsl::b, dsl::h, q_idx, kv_idx); };

template <class F, expression S> constexpr auto modified(F modify, S scores) {
    if constexpr (!takes_score_and_indices<F, S>) {
        static_assert(takes_score_and_indices<F, S>,
                      "attune: a score_mod takes (score, b, h, q_idx, kv_idx), each as auto");
        return rejected{};
    } else {
        using result = decltype(modify(scores, dsl::b, dsl::h, q_idx, kv_idx));
        if constexpr (is_rejected<result>)
            return rejected{};
        else if constexpr (!scores_kind<kind_of<result>>) {
            static_assert(
                scores_kind<kind_of<result>>,
                "attune: a score_mod returns a score; what it returns does not depend on the score that it is given");
            return rejected{};
        } else
            return modify(scores, dsl::b, dsl::h, q_idx, kv_idx);
    }
}

template <class F> constexpr auto visible_pairs(F visible) {
    if constexpr (!takes_indices<F>) {
        static_assert(takes_indices<F>, "attune: a mask_mod takes (b, h, q_idx, kv_idx), each as auto");
        return rejected{};
    } else {
        using result = decltype(visible(dsl::b, dsl::h, q_idx, kv_idx));
        if constexpr (is_rejected<result>)
            return rejected{};
        else if constexpr (!condition<kind_of<result>>) {
            static_assert(condition<kind_of<result>>,
                          "attune: a mask_mod returns a condition; did you forget a comparison?");
            return rejected{};
        } else
            return visible(dsl::b, dsl::h, q_idx, kv_idx);
    }
}
}  // namespace detail

/// The scores of FlexAttention, modified and masked: mask(score_mod(q * t(k) * scale), mask_mod). As there the scale is
/// rsqrt(depth) unless it is given. With them, what return_lse asks for: outputs(out = softmax(s) * v, lse =
/// log_sum_exp(s)). Fewer key heads than query heads (enable_gqa) need no word.
template <class F, class G, operand Scale = decltype(rsqrt(depth))>
constexpr auto flex_scores(score_modification<F> modify, mask_modification<G> masked, Scale scale = {}) {
    return mask(detail::modified(modify.modify, q * t(k) * scale), detail::visible_pairs(masked.visible));
}
template <class F, operand Scale = decltype(rsqrt(depth))>
constexpr auto flex_scores(score_modification<F> modify, Scale scale = {}) {
    return detail::modified(modify.modify, q * t(k) * scale);
}
template <class G, operand Scale = decltype(rsqrt(depth))>
constexpr auto flex_scores(mask_modification<G> masked, Scale scale = {}) {
    return mask(q * t(k) * scale, detail::visible_pairs(masked.visible));
}

template <class... T> inline constexpr bool flex_arguments = false;

/// Anything else, such as lambdas as they are or the two in the other order.
template <class... T> constexpr auto flex_scores(T...) {
    static_assert(flex_arguments<T...>,
                  "attune: flex takes score_mod(...), mask_mod(...) or both in this order, then a scale if it is not "
                  "rsqrt(depth)");
    return rejected{};
}

/// FlexAttention: softmax(flex_scores(...)) * v.
template <class... T> constexpr auto flex(T... t) { return softmax(flex_scores(t...)) * v; }

}  // namespace attune::dsl

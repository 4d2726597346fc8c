#pragma once
#include <attune/dsl/torch_numbers.hpp>

/// FlexAttention's spelling: functions of a score and its indices. They are called once, with values of the language.
/// The graph, its text and its kernel are those of the formula that they return. Numbers are PyTorch's: `/` of integers
/// is a real, floor_div is `//`, and a negative index of both positions counts from the end.
namespace attune::dsl {

/// It can be called inside another modification, as in PyTorch: causal_mod(b, h, q_idx, kv_idx).
template <class F> struct score_modification {
    F modify;
    template <class... A> constexpr auto operator()(const A&... a) const { return modify(a...); }
};
template <class F> struct mask_modification {
    F visible;
    template <class... A> constexpr auto operator()(const A&... a) const { return visible(a...); }
};
template <class T> inline constexpr bool is_score_mod = false;
template <class F> inline constexpr bool is_score_mod<score_modification<F>> = true;
template <class T> inline constexpr bool is_mask_mod = false;
template <class F> inline constexpr bool is_mask_mod<mask_modification<F>> = true;

/// score_mod([](auto score, auto b, auto h, auto q_idx, auto kv_idx) { return score + slopes(h) * (kv_idx - q_idx); })
template <class F> constexpr auto score_mod(F modify) { return score_modification<F>{modify}; }

/// mask_mod([](auto b, auto h, auto q_idx, auto kv_idx) { return q_idx >= kv_idx; })
template <class F> constexpr auto mask_mod(F visible) { return mask_modification<F>{visible}; }

// --- masks joined
template <class F, class G> constexpr auto operator&&(mask_modification<F> x, mask_modification<G> y) {
    return mask_mod([x, y](auto... at) { return x(at...) && y(at...); });
}
template <class F, class G> constexpr auto operator||(mask_modification<F> x, mask_modification<G> y) {
    return mask_mod([x, y](auto... at) { return x(at...) || y(at...); });
}
template <class F> constexpr auto operator!(mask_modification<F> x) {
    return mask_mod([x](auto... at) { return !x(at...); });
}
/// Visible where all of them are, or where one of them is. Plain lambdas are taken too.
template <class... M> constexpr auto and_masks(M... masks) {
    return mask_mod([masks...](auto... at) { return (... && masks(at...)); });
}
template <class... M> constexpr auto or_masks(M... masks) {
    return mask_mod([masks...](auto... at) { return (... || masks(at...)); });
}

/// Asks flex for another output: lse, log_sum_exp of the scores, or max_scores, the largest of each row.
struct with_lse {};
struct with_max_scores {};
inline constexpr with_lse return_lse{};
inline constexpr with_max_scores return_max_scores{};

namespace detail {
struct of_four {
    template <class A, class B, class C, class D> rejected operator()(A, B, C, D) const;
};
struct of_five {
    template <class A, class B, class C, class D, class E> rejected operator()(A, B, C, D, E) const;
};
struct of_many {
    template <class... A> rejected operator()(A...) const;
};
template <class F, class Other> struct either_of : F, Other {
    using F::operator();
    using Other::operator();
};
/// Whether a call is ambiguous with a function of as many `auto` parameters. That tells the number of F's parameters
/// without its body, whose mistakes the compiler reports by itself.
template <class F, class Other, class... A>
concept is_called_like = !requires(either_of<F, Other> both, A... a) { both(a...); };
template <class F, class Other, class... A>
concept takes = is_called_like<F, Other, A...> || is_called_like<F, of_many, A...>;

template <class F, class S>
inline constexpr bool takes_score_and_indices =
    takes<F, of_five, S, decltype(dsl::b), decltype(dsl::h), decltype(q_idx), decltype(kv_idx)>;
template <class F>
inline constexpr bool takes_indices =
    takes<F, of_four, decltype(dsl::b), decltype(dsl::h), decltype(q_idx), decltype(kv_idx)>;

/// What a function of such arguments returns. If its body does not compile, the compiler says so, and attune adds
/// nothing.
template <class F, class... A> struct body_of {
    using returns = decltype(std::declval<const F&>()(std::declval<const A&>()...));
};
template <class F, class... A>
concept has_a_body = requires { typename body_of<F, A...>::returns; };

template <class F, expression S> constexpr auto modified(F modify, S scores) {
    if constexpr (!takes_score_and_indices<F, S>) {
        static_assert(takes_score_and_indices<F, S>,
                      "attune: a score_mod takes (score, b, h, q_idx, kv_idx), each as auto");
        return rejected{};
    } else if constexpr (!has_a_body<F, S, decltype(dsl::b), decltype(dsl::h), decltype(q_idx), decltype(kv_idx)>) {
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
            return meant_in_torch(modify(scores, dsl::b, dsl::h, q_idx, kv_idx));
    }
}

template <class F> constexpr auto visible_pairs(F visible) {
    if constexpr (!takes_indices<F>) {
        static_assert(takes_indices<F>, "attune: a mask_mod takes (b, h, q_idx, kv_idx), each as auto");
        return rejected{};
    } else if constexpr (!has_a_body<F, decltype(dsl::b), decltype(dsl::h), decltype(q_idx), decltype(kv_idx)>) {
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
            return meant_in_torch(visible(dsl::b, dsl::h, q_idx, kv_idx));
    }
}

template <class T> inline constexpr bool is_flex_tensor = false;
template <expression T> inline constexpr bool is_flex_tensor<T> = T::is == kind::tensor && !is_rejected<T>;
template <class T> inline constexpr bool is_flex_scale = literal<T>;
template <expression T>
inline constexpr bool is_flex_scale<T> = is_plain(T::is) && free_of<T::uses, use::query | use::key | use::channel>;
template <class T>
inline constexpr bool is_flex_request = std::is_same_v<T, with_lse> || std::is_same_v<T, with_max_scores>;
template <class... T> inline constexpr std::size_t tensors_among = (0u + ... + (is_flex_tensor<T> ? 1u : 0u));

// Echoed with what was given.
template <class... T>
inline constexpr bool flex_arguments =
    ((is_flex_tensor<T> || is_flex_scale<T> || is_score_mod<T> || is_mask_mod<T> || is_flex_request<T>) && ...) &&
    (tensors_among<T...> == 0 || tensors_among<T...> == 3) && (0 + ... + is_flex_scale<T>) <= 1 &&
    (0 + ... + is_score_mod<T>) <= 1 && (0 + ... + is_mask_mod<T>) <= 1;

struct nothing {};
/// The argument number Skip of those for which `fits`, else `otherwise`.
template <template <class> class Fits, std::size_t Skip, class D> constexpr auto picked(D otherwise) {
    return otherwise;
}
template <template <class> class Fits, std::size_t Skip, class D, class A, class... Rest>
constexpr auto picked(D otherwise, A a, Rest... rest) {
    if constexpr (!Fits<A>::value)
        return picked<Fits, Skip>(otherwise, rest...);
    else if constexpr (Skip > 0)
        return picked<Fits, Skip - 1>(otherwise, rest...);
    else
        return a;
}
template <class T> using if_tensor = std::bool_constant<is_flex_tensor<T>>;
template <class T> using if_scale = std::bool_constant<is_flex_scale<T>>;
template <class T> using if_score_mod = std::bool_constant<is_score_mod<T>>;
template <class T> using if_mask_mod = std::bool_constant<is_mask_mod<T>>;

template <class S, class Mod> constexpr auto modified_by(S scores, Mod mod) {
    if constexpr (is_score_mod<Mod>)
        return modified(mod.modify, scores);
    else
        return scores;
}
template <class S, class Mod> constexpr auto masked_by(S scores, Mod mod) {
    if constexpr (is_mask_mod<Mod>)
        return mask(scores, visible_pairs(mod.visible));
    else
        return scores;
}
}  // namespace detail

/// The scores of FlexAttention, modified and masked: mask(score_mod(q * t(k) * scale), mask_mod). score_mod(...),
/// mask_mod(...), a scale, and three tensors in the place of q, k and v may each be left out. The scale is rsqrt(depth)
/// unless it is given, as in PyTorch. Fewer key heads than query heads need no option (enable_gqa).
template <class... T> constexpr auto flex_scores(T... given) {
    if constexpr (!detail::flex_arguments<T...>) {
        static_assert(detail::flex_arguments<T...>,
                      "attune: flex takes score_mod(...), mask_mod(...), a scale if it is not rsqrt(depth), and three "
                      "tensors if they are not q, k and v, each once at most; return_lse and return_max_scores ask for "
                      "more outputs");
        return rejected{};
    } else {
        using namespace detail;
        const auto raw = picked<if_tensor, 0>(q, given...) * t(picked<if_tensor, 1>(k, given...)) *
                         picked<if_scale, 0>(rsqrt(depth), given...);
        return masked_by(modified_by(raw, picked<if_score_mod, 0>(nothing{}, given...)),
                         picked<if_mask_mod, 0>(nothing{}, given...));
    }
}

/// FlexAttention: softmax(flex_scores(...)) * v; with return_lse or return_max_scores several outputs.
template <class... T> constexpr auto flex(T... given) {
    const auto scores = flex_scores(given...);
    constexpr bool lse_too = (std::is_same_v<T, with_lse> || ...),
                   top_too = (std::is_same_v<T, with_max_scores> || ...);
    if constexpr (is_rejected<std::remove_const_t<decltype(scores)>>)
        return rejected{};
    else {
        const auto made = softmax(scores) * detail::picked<detail::if_tensor, 2>(v, given...);
        if constexpr (lse_too && top_too)
            return outputs(out = made, lse = log_sum_exp(scores), output<"max_scores"> = row_maximum(scores));
        else if constexpr (lse_too)
            return outputs(out = made, lse = log_sum_exp(scores));
        else if constexpr (top_too)
            return outputs(out = made, output<"max_scores"> = row_maximum(scores));
        else
            return made;
    }
}

}  // namespace attune::dsl

#pragma once
#include <attune/dsl/operators.hpp>

/// The stages of attention, in the order that the language allows: contraction, score modifications, mask, softmax, weighted sum.
namespace attune::dsl {

/// The transpose of a tensor's last two axes: q * t(k).
template <expression T>
constexpr auto t(T x) {
    if constexpr (is_rejected<T>) return rejected{};
    else if constexpr (T::is == kind::tensor) return make<kind::transposed, operation::transpose>(x);
    else {
        static_assert(tensor_kind<T::is>, "attune: t(...) transposes a tensor, such as k");
        return rejected{};
    }
}

/// Scores where the condition holds; probability exactly 0 elsewhere.
template <class S, class C> requires involves_graph<S, C>
constexpr auto mask(S s, C c) {
    constexpr kind x = lifted<S>::is, y = lifted<C>::is;
    if constexpr (is_rejected<S> || is_rejected<C>) return rejected{};
    else if constexpr (x == kind::scores && y == kind::condition) return make<kind::scores, operation::mask>(s, c);
    else if constexpr (x == kind::weights || x == kind::output) {
        static_assert(scores_kind<x>, "attune: the mask comes before softmax: softmax(mask(scores, condition)) * v");
        return rejected{};
    } else if constexpr (x != kind::scores) {
        static_assert(scores_kind<x>, "attune: mask(scores, condition): the first argument is not scores, such as q * t(k)");
        return rejected{};
    } else {
        static_assert(condition<y>, "attune: mask(scores, condition): the second argument is not a condition; did you forget a comparison?");
        return rejected{};
    }
}

/// Scores normalised over the visible keys of a row; a row without any is 0 throughout.
template <expression S>
constexpr auto softmax(S s) {
    if constexpr (is_rejected<S>) return rejected{};
    else if constexpr (S::is == kind::scores) return make<kind::weights, operation::softmax>(s);
    else if constexpr (S::is == kind::weights) {
        static_assert(scores_kind<S::is>, "attune: softmax of weights: the scores are normalised already; softmax is applied once");
        return rejected{};
    } else {
        static_assert(scores_kind<S::is>, "attune: softmax(scores): the argument is not scores, such as q * t(k) * rsqrt(depth)");
        return rejected{};
    }
}

/// The natural logarithm of the sum of the exponentials of a row's visible scores; -infinity for a row without any. (LSE)
template <expression S>
constexpr auto log_sum_exp(S s) {
    if constexpr (is_rejected<S>) return rejected{};
    else if constexpr (S::is == kind::scores) return make<kind::row, operation::log_sum_exp>(s);
    else {
        static_assert(scores_kind<S::is>, "attune: log_sum_exp(scores): the argument is not scores, such as q * t(k) * rsqrt(depth)");
        return rejected{};
    }
}

/// Several named outputs of one graph; what they share is computed once, what is not named is not made.
template <class... Named>
struct outputs_of {
    detail::hana::tuple<Named...> named;
};

template <kind Found>
inline constexpr bool an_output = Found == kind::output || Found == kind::row;

/// outputs(out = softmax(s) * v, lse = log_sum_exp(s))
template <name... Label, expression... Value>
constexpr auto outputs(named_output<Label, Value>... named) {
    static_assert(((an_output<Value::is> || is_rejected<Value>) && ...), "attune: a named output is neither an output, such as softmax(scores) * v, nor a row, such as log_sum_exp(scores)");
    if constexpr ((an_output<Value::is> && ...)) return outputs_of<named_output<Label, Value>...>{{named...}};
    else return rejected{};
}

}  // namespace attune::dsl

#pragma once
#include <attune/dsl/terminals.hpp>

/// Operators and functions of the language. Each has one overload that takes whatever involves one of our values, and says in a sentence
/// what it expects when the operands are of other kinds.
namespace attune::dsl {

template <class... T>
concept involves_graph = (operand<T> && ...) && (expression<T> || ...);

namespace detail {

template <operation Op, class A, class B>
constexpr auto arithmetic(A a, B b) {
    constexpr kind x = lifted<A>::is, y = lifted<B>::is;
    if constexpr (is_rejected<A> || is_rejected<B>) return rejected{};
    else if constexpr (is_number(x) && is_number(y)) return make<joined(x, y), Op>(lift(a), lift(b));
    else if constexpr (x == kind::condition || y == kind::condition) {
        static_assert(number<x> && number<y>, "attune: a condition is used as a number; write where(condition, a, b)");
        return rejected{};
    } else {
        static_assert(number<x> && number<y>, "attune: arithmetic on something that is not a number; a tensor is read at indices, such as slopes(h), and q meets k as q * t(k)");
        return rejected{};
    }
}

template <operation Op, class A, class B>
constexpr auto integer_arithmetic(A a, B b) {
    constexpr kind x = lifted<A>::is, y = lifted<B>::is;
    if constexpr (is_rejected<A> || is_rejected<B>) return rejected{};
    else if constexpr (x == kind::integer && y == kind::integer) return make<kind::integer, Op>(lift(a), lift(b));
    else {
        static_assert(integer_kind<x> && integer_kind<y>, "attune: %, ^, & and | are for integers; conditions are joined with &&, || and !");
        return rejected{};
    }
}

template <operation Op, class A, class B>
constexpr auto comparison(A a, B b) {
    constexpr kind x = lifted<A>::is, y = lifted<B>::is;
    if constexpr (is_rejected<A> || is_rejected<B>) return rejected{};
    else if constexpr (is_number(x) && is_number(y)) return make<kind::condition, Op>(lift(a), lift(b));
    else if constexpr (x == kind::condition || y == kind::condition) {
        static_assert(number<x> && number<y>, "attune: a condition is compared with a number; a <= x <= b is written a <= x && x <= b");
        return rejected{};
    } else {
        static_assert(number<x> && number<y>, "attune: a comparison takes numbers; a tensor is read at indices first, such as doc(q_idx) == doc(kv_idx)");
        return rejected{};
    }
}

template <operation Op, class A, class B>
constexpr auto logical(A a, B b) {
    constexpr kind x = lifted<A>::is, y = lifted<B>::is;
    if constexpr (is_rejected<A> || is_rejected<B>) return rejected{};
    else if constexpr (x == kind::condition && y == kind::condition) return make<kind::condition, Op>(a, b);
    else {
        static_assert(condition<x> && condition<y>, "attune: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?");
        return rejected{};
    }
}

template <operation Op, class A>
constexpr auto real_function(A a) {
    constexpr kind x = lifted<A>::is;
    if constexpr (is_rejected<A>) return rejected{};
    else if constexpr (is_number(x)) return make<joined(x, kind::real), Op>(lift(a));
    else {
        static_assert(number<x>, "attune: a function of numbers and scores is applied to something else");
        return rejected{};
    }
}

template <operation Op, class A>
constexpr auto keeping_function(A a) {  // integers stay integers
    constexpr kind x = lifted<A>::is;
    if constexpr (is_rejected<A>) return rejected{};
    else if constexpr (is_number(x)) return make<x, Op>(lift(a));
    else {
        static_assert(number<x>, "attune: a function of numbers and scores is applied to something else");
        return rejected{};
    }
}

// Echoed when two tensors meet that do not share their last axis.
template <axis_kind Left, axis_kind Right>
inline constexpr bool contracted_over_the_same_axis = Left == Right;

template <class T>
inline constexpr axis_kind last_axis = T::declaration.axes[T::declaration.rank - 1].is;

template <class A, class B>
constexpr auto product(A a, B b) {
    constexpr kind x = lifted<A>::is, y = lifted<B>::is;
    if constexpr (is_rejected<A> || is_rejected<B>) return rejected{};
    else if constexpr (x == kind::tensor && y == kind::transposed) {
        using K = std::remove_cvref_t<decltype(b.children[hana::size_c<0>])>;
        static_assert(contracted_over_the_same_axis<last_axis<A>, last_axis<K>>, "attune: two tensors are contracted over different axes; scores are q * t(k)");
        return make<kind::scores, operation::contract>(a, b);
    } else if constexpr (x == kind::weights && y == kind::tensor) return make<kind::output, operation::weighted_sum>(a, b);
    else if constexpr (x == kind::scores && y == kind::tensor) {
        static_assert(weights_kind<x>, "attune: scores are multiplied by a tensor without normalisation; wrap them in softmax(...)");
        return rejected{};
    } else if constexpr (x == kind::tensor && y == kind::tensor) {
        static_assert(y == kind::transposed, "attune: two tensors are multiplied; the contraction of q and k is written q * t(k)");
        return rejected{};
    } else if constexpr (x == kind::weights && is_number(y)) {
        static_assert(tensor_kind<y>, "attune: weights are multiplied by a number; scale the scores before softmax, or v after it");
        return rejected{};
    } else return arithmetic<operation::multiply>(a, b);
}

}  // namespace detail

// --- arithmetic: on integers `/` and `%` round down, as in Python; an integer and a real give a real
template <class A, class B> requires involves_graph<A, B> constexpr auto operator+(A x, B y) { return detail::arithmetic<operation::add>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator-(A x, B y) { return detail::arithmetic<operation::subtract>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator/(A x, B y) { return detail::arithmetic<operation::divide>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator%(A x, B y) { return detail::integer_arithmetic<operation::remainder>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator&(A x, B y) { return detail::integer_arithmetic<operation::bit_and>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator|(A x, B y) { return detail::integer_arithmetic<operation::bit_or>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator^(A x, B y) { return detail::integer_arithmetic<operation::bit_xor>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto min(A x, B y) { return detail::arithmetic<operation::minimum>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto max(A x, B y) { return detail::arithmetic<operation::maximum>(x, y); }

/// number * number scales; q * t(k) contracts over depth; weights * v sums over the keys.
template <class A, class B> requires involves_graph<A, B> constexpr auto operator*(A x, B y) { return detail::product(x, y); }

template <expression A> constexpr auto operator-(A x) {
    if constexpr (requires { constant<A::is>{-x.value}; }) return A{-x.value};  // -inf is a constant
    else return detail::keeping_function<operation::negate>(x);
}
template <expression A> constexpr auto abs(A x) { return detail::keeping_function<operation::absolute>(x); }
template <expression A> constexpr auto exp(A x) { return detail::real_function<operation::exp>(x); }
template <expression A> constexpr auto log(A x) { return detail::real_function<operation::log>(x); }
template <expression A> constexpr auto tanh(A x) { return detail::real_function<operation::tanh>(x); }
template <expression A> constexpr auto erf(A x) { return detail::real_function<operation::erf>(x); }
template <expression A> constexpr auto sqrt(A x) { return detail::real_function<operation::sqrt>(x); }
template <expression A> constexpr auto rsqrt(A x) { return detail::real_function<operation::rsqrt>(x); }
/// An integer as a real: as_real(q_idx) / key_length is a fraction, q_idx / key_length rounds down.
template <expression A> constexpr auto as_real(A x) { return detail::real_function<operation::to_real>(x); }

// --- comparisons give conditions; true = visible
template <class A, class B> requires involves_graph<A, B> constexpr auto operator==(A x, B y) { return detail::comparison<operation::equal>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator!=(A x, B y) { return detail::comparison<operation::not_equal>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator<(A x, B y) { return detail::comparison<operation::less>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator<=(A x, B y) { return detail::comparison<operation::less_equal>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator>(A x, B y) { return detail::comparison<operation::greater>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator>=(A x, B y) { return detail::comparison<operation::greater_equal>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator&&(A x, B y) { return detail::logical<operation::logical_and>(x, y); }
template <class A, class B> requires involves_graph<A, B> constexpr auto operator||(A x, B y) { return detail::logical<operation::logical_or>(x, y); }
template <expression A> constexpr auto operator!(A x) {
    if constexpr (is_rejected<A>) return rejected{};
    else if constexpr (A::is == kind::condition) return make<kind::condition, operation::logical_not>(x);
    else {
        static_assert(condition<A::is>, "attune: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?");
        return rejected{};
    }
}

/// a where the condition holds, b elsewhere; -inf masks.
template <class C, class A, class B> requires involves_graph<C, A, B>
constexpr auto where(C c, A x, B y) {
    constexpr kind given = lifted<C>::is, s = lifted<A>::is, t = lifted<B>::is;
    if constexpr (is_rejected<C> || is_rejected<A> || is_rejected<B>) return rejected{};
    else if constexpr (given != kind::condition) {
        static_assert(condition<given>, "attune: where(condition, a, b): the first argument is not a condition; did you forget a comparison?");
        return rejected{};
    } else if constexpr (s == kind::condition && t == kind::condition) return make<kind::condition, operation::where>(c, x, y);
    else if constexpr (is_number(s) && is_number(t)) return make<joined(s, t), operation::where>(c, lift(x), lift(y));
    else {
        static_assert(number<s> && number<t>, "attune: where(condition, a, b): a and b are two numbers or two conditions");
        return rejected{};
    }
}

}  // namespace attune::dsl

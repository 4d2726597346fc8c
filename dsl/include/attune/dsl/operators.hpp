#pragma once
#include <attune/dsl/operands.hpp>

/// Operators and functions of the language. Each has one overload that takes anything with a value of the language in
/// it. If the kinds of the operands are wrong, a sentence names the right ones.
namespace attune::dsl {

// --- arithmetic: on integers `/` and `%` round down, as in Python; an integer and a real give a real
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator+(const A& x, const B& y) {
    return detail::arithmetic<operation::add>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator-(const A& x, const B& y) {
    return detail::arithmetic<operation::subtract>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator/(const A& x, const B& y) {
    return detail::quotient(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator%(const A& x, const B& y) {
    return detail::integer_arithmetic<operation::remainder>(x, y);
}
/// Bit by bit on integers; on conditions, the logical operators, as in NumPy.
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator&(const A& x, const B& y) {
    if constexpr (kind_of<A> == kind::condition && kind_of<B> == kind::condition)
        return detail::logical<operation::logical_and>(x, y);
    else
        return detail::integer_arithmetic<operation::bit_and>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator|(const A& x, const B& y) {
    if constexpr (kind_of<A> == kind::condition && kind_of<B> == kind::condition)
        return detail::logical<operation::logical_or>(x, y);
    else
        return detail::integer_arithmetic<operation::bit_or>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator^(const A& x, const B& y) {
    if constexpr (kind_of<A> == kind::condition && kind_of<B> == kind::condition)
        return detail::differing<true>(x, y);
    else
        return detail::integer_arithmetic<operation::bit_xor>(x, y);
}
/// Shifts by 0 .. 31 bits; to the right the sign is kept.
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator<<(const A& x, const B& y) {
    return detail::integer_arithmetic<operation::shift_left>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator>>(const A& x, const B& y) {
    return detail::integer_arithmetic<operation::shift_right>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto min(const A& x, const B& y) {
    return detail::arithmetic<operation::minimum>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto max(const A& x, const B& y) {
    return detail::arithmetic<operation::maximum>(x, y);
}

template <class... A>
    requires(sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto min(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: min and max take two numbers; of three, max(max(a, b), c)");
    return rejected{};
}
template <class... A>
    requires(sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto max(const A&... a) {
    return min(a...);
}

/// number * number scales, weights * number too; q * t(k) contracts over depth; weights * v sums over the keys.
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator*(const A& x, const B& y) {
    return detail::product(x, y);
}

template <expression A> constexpr auto operator-(const A& x) {
    if constexpr (requires { constant<A::is>{-x.value}; })
        return A{-x.value};  // -inf is a constant
    else
        return detail::keeping_function<operation::negate>(x);
}

// --- comparisons give conditions; true = visible
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator==(const A& x, const B& y) {
    if constexpr (kind_of<A> == kind::condition && kind_of<B> == kind::condition)
        return detail::differing<false>(x, y);
    else
        return detail::comparison<operation::equal>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator!=(const A& x, const B& y) {
    if constexpr (kind_of<A> == kind::condition && kind_of<B> == kind::condition)
        return detail::differing<true>(x, y);
    else
        return detail::comparison<operation::not_equal>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator<(const A& x, const B& y) {
    return detail::comparison<operation::less>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator<=(const A& x, const B& y) {
    return detail::comparison<operation::less_equal>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator>(const A& x, const B& y) {
    return detail::comparison<operation::greater>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator>=(const A& x, const B& y) {
    return detail::comparison<operation::greater_equal>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator&&(const A& x, const B& y) {
    return detail::logical<operation::logical_and>(x, y);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto operator||(const A& x, const B& y) {
    return detail::logical<operation::logical_or>(x, y);
}
template <expression A> constexpr auto operator!(const A& x) {
    if constexpr (is_rejected<A>)
        return rejected{};
    else if constexpr (A::is == kind::condition)
        return make<kind::condition, operation::logical_not>(x);
    else {
        static_assert(condition<A::is>,
                      "attune: &&, || and ! join conditions; did you forget a comparison, such as q_idx >= kv_idx?");
        return rejected{};
    }
}

/// All bits of an integer inverted; the negation of a condition, as in NumPy.
template <expression A> constexpr auto operator~(const A& x) {
    if constexpr (is_rejected<A>)
        return rejected{};
    else if constexpr (A::is == kind::condition)
        return !x;
    else
        return detail::integer_arithmetic<operation::bit_xor>(x, -1);
}
/// x += y and the like are refused: they would change x.
template <expression A, class B> constexpr A& operator+=(A& x, const B& y) { return x = y; }
template <expression A, class B> constexpr A& operator-=(A& x, const B& y) { return x = y; }
template <expression A, class B> constexpr A& operator*=(A& x, const B& y) { return x = y; }
template <expression A, class B> constexpr A& operator/=(A& x, const B& y) { return x = y; }

/// a where the condition holds, b elsewhere; -inf masks. where(condition, weights, 0) keeps weights where the condition
/// holds.
template <class C, class A, class B>
    requires involves_graph<C, A, B>
constexpr auto where(const C& c, const A& x, const B& y) {
    constexpr kind given = kind_of<C>, s = kind_of<A>, t = kind_of<B>;
    constexpr unsigned uses = detail::uses_in_all<C, A, B>;
    if constexpr (is_rejected<C> || is_rejected<A> || is_rejected<B>)
        return rejected{};
    else if constexpr (!(a_condition_of_the_graph<C> && a_condition_of_the_graph<A> && a_condition_of_the_graph<B>)) {
        static_assert(a_condition_of_the_graph<C> && a_condition_of_the_graph<A> && a_condition_of_the_graph<B>,
                      "attune: a bool of C++ is the same for every query and key; a condition compares indices, as in "
                      "q_idx >= kv_idx");
        return rejected{};
    } else if constexpr (given != kind::condition) {
        static_assert(
            condition<given>,
            "attune: where(condition, a, b): the first argument is not a condition; did you forget a comparison?");
        return rejected{};
    } else if constexpr (s == kind::condition && t == kind::condition)
        return make<kind::condition, operation::where>(c, x, y);
    else if constexpr (is_number(s) && is_number(t))
        return detail::number_node<joined(s, t, uses), operation::where, uses>(c, x, y);
    else if constexpr (detail::is_of_a_step<A, B>)
        return detail::not_linear<A, B>();
    else if constexpr (s == kind::weights && operation_of<B> == operation::constant) {
        if constexpr (uses & (use::late | use::channel)) {
            static_assert(free_of<uses, use::late | use::channel>,
                          "attune: weights are kept by a condition of (b, h, q_idx, kv_idx); rows, outputs and d_idx "
                          "have no place in it");
            return rejected{};
        } else
            return make<kind::weights, operation::where>(c, x, y);
    } else if constexpr (s == kind::weights || t == kind::weights) {
        static_assert(number<s> && number<t>,
                      "attune: weights are chosen as where(condition, weights, 0), nothing else");
        return rejected{};
    } else {
        static_assert(number<s> && number<t>,
                      "attune: where(condition, a, b): a and b are two numbers or two conditions");
        return rejected{};
    }
}

template <class... A>
    requires(sizeof...(A) != 3 && involves_expression<A...>)
constexpr auto where(const A&...) {
    static_assert(
        as_many_as_it_takes<sizeof...(A)>,
        "attune: where takes a condition and two values: where(condition, a, b); where(condition, scores, -inf) masks");
    return rejected{};
}

namespace detail {
template <class I> inline constexpr bool a_bound_index = operation_of<I> == operation::bound;
template <class E> inline constexpr bool a_number_of_the_call = kind_of<E> == kind::integer && uses_in<E> == 0;

/// The index and the extent of a sum or any.
template <operation Op, kind Is, class I, class E, class B>
constexpr auto reduction(const I& n, const E& extent, const B& body) {
    constexpr unsigned uses = uses_in<B>;
    if constexpr (is_rejected<I> || is_rejected<E> || is_rejected<B>)
        return rejected{};
    else if constexpr (!a_bound_index<I>) {
        static_assert(a_bound_index<I>,
                      "attune: sum, largest, any and all run over a bound index: n = bound_index<\"n\">, then sum(n, "
                      "extent, body)");
        return rejected{};
    } else if constexpr (!integer_kind<kind_of<E>>) {
        static_assert(integer_kind<kind_of<E>>, "attune: the extent of a sum, any or all is an integer");
        return rejected{};
    } else if constexpr (!a_number_of_the_call<E>) {
        static_assert(free_of<uses_in<E>, ~0u>,
                      "attune: the extent of a sum, any or all is one number for the whole call; what differs is said "
                      "in its body, as in n < len(b)");
        return rejected{};
    } else if constexpr (uses & (use::row | use::output)) {
        static_assert(free_of<uses, use::row | use::output>,
                      "attune: a sum, any or all runs over what is known before the scores; a row or an output is not");
        return rejected{};
    } else
        return make<Is, Op>(n, extent, body);
}
}  // namespace detail

/// The sum of the body over n = 0 .. extent - 1; a condition counts as 0 or 1: `sum(n, 8, where(n < len(b), table(h,
/// n), 0))`.
template <class I, class E, class B>
    requires involves_expression<I, E, B>
constexpr auto sum(const I& n, const E& extent, const B& body) {
    constexpr kind found = kind_of<B>;
    if constexpr (is_rejected<B>)
        return rejected{};
    else if constexpr (!a_condition_of_the_graph<B>) {
        static_assert(a_condition_of_the_graph<B>,
                      "attune: a bool of C++ is the same for every query and key; a condition compares indices, as in "
                      "q_idx >= kv_idx");
        return rejected{};
    } else if constexpr (found == kind::condition)
        return detail::reduction<operation::sum, kind::integer>(n, extent, as_integer(body));
    else if constexpr (!is_plain(found)) {
        static_assert(plain_number<found>,
                      "attune: a sum adds plain numbers or counts conditions; scores are made by q * t(k)");
        return rejected{};
    } else
        return detail::reduction<operation::sum, found>(n, extent, body);
}

/// Whether the condition holds for some n of 0 .. extent - 1: `any(n, extent<1>(ends), kv_idx == ends(b, n))`.
template <class I, class E, class B>
    requires involves_expression<I, E, B>
constexpr auto any(const I& n, const E& extent, const B& body) {
    if constexpr (is_rejected<B>)
        return rejected{};
    else if constexpr (!a_condition_of_the_graph<B>) {
        static_assert(a_condition_of_the_graph<B>,
                      "attune: a bool of C++ is the same for every query and key; a condition compares indices, as in "
                      "q_idx >= kv_idx");
        return rejected{};
    } else if constexpr (!condition<kind_of<B>>) {
        static_assert(
            condition<kind_of<B>>,
            "attune: any(n, extent, condition): the third argument is not a condition; did you forget a comparison?");
        return rejected{};
    } else
        return detail::reduction<operation::any, kind::condition>(n, extent, body);
}

/// The largest of the body over n = 0 .. extent - 1, a real: `largest(n, depth, abs(x(b, q_idx, n)))`. Of nothing it is
/// -infinity, which masks.
template <class I, class E, class B>
    requires involves_expression<I, E, B>
constexpr auto largest(const I& n, const E& extent, const B& body) {
    if constexpr (is_rejected<B>)
        return rejected{};
    else if constexpr (!is_plain(kind_of<B>)) {
        static_assert(plain_number<kind_of<B>>,
                      "attune: largest(n, extent, number): the third argument is a real or an integer known before the "
                      "scores");
        return rejected{};
    } else if constexpr (kind_of<B> == kind::integer)
        return detail::reduction<operation::largest, kind::real>(n, extent, make<kind::real, operation::to_real>(body));
    else
        return detail::reduction<operation::largest, kind::real>(n, extent, body);
}

template <class... A>
    requires(sizeof...(A) != 3 && involves_expression<A...>)
constexpr auto sum(const A&...) {
    static_assert(
        as_many_as_it_takes<sizeof...(A)>,
        "attune: sum, largest, any and all take a bound index, its extent and a body: n = bound_index<\"n\">, then "
        "sum(n, extent, body)");
    return rejected{};
}
template <class... A>
    requires(sizeof...(A) != 3 && involves_expression<A...>)
constexpr auto any(const A&... a) {
    return sum(a...);
}
template <class... A>
    requires(sizeof...(A) != 3 && involves_expression<A...>)
constexpr auto largest(const A&... a) {
    return sum(a...);
}

}  // namespace attune::dsl

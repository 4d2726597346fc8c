#pragma once
#include <attune/dsl/operators.hpp>

/// Functions of numbers, scores, rows and outputs. They convert integers to reals unless they say otherwise. A masked
/// pair, -infinity, stays masked, unless the function is finite there: exp, exp2, sigmoid, relu and softplus are 0,
/// expm1, tanh, erf and sign -1, atan -pi/2, clamp its lower bound.
namespace attune::dsl {

template <expression A> constexpr auto abs(const A& x) { return detail::keeping_function<operation::absolute>(x); }

template <expression A> constexpr auto exp(const A& x) { return detail::real_function<operation::exp>(x); }
template <expression A> constexpr auto exp2(const A& x) { return detail::real_function<operation::exp2>(x); }
template <expression A> constexpr auto expm1(const A& x) { return detail::real_function<operation::expm1>(x); }
template <expression A> constexpr auto log(const A& x) { return detail::real_function<operation::log>(x); }
template <expression A> constexpr auto log2(const A& x) { return detail::real_function<operation::log2>(x); }
template <expression A> constexpr auto log1p(const A& x) { return detail::real_function<operation::log1p>(x); }
template <expression A> constexpr auto sqrt(const A& x) { return detail::real_function<operation::sqrt>(x); }
template <expression A> constexpr auto rsqrt(const A& x) { return detail::real_function<operation::rsqrt>(x); }
template <expression A> constexpr auto erf(const A& x) { return detail::real_function<operation::erf>(x); }

template <expression A> constexpr auto sin(const A& x) { return detail::real_function<operation::sin>(x); }
template <expression A> constexpr auto cos(const A& x) { return detail::real_function<operation::cos>(x); }
template <expression A> constexpr auto tan(const A& x) { return detail::real_function<operation::tan>(x); }
template <expression A> constexpr auto asin(const A& x) { return detail::real_function<operation::asin>(x); }
template <expression A> constexpr auto acos(const A& x) { return detail::real_function<operation::acos>(x); }
template <expression A> constexpr auto atan(const A& x) { return detail::real_function<operation::atan>(x); }
template <expression A> constexpr auto sinh(const A& x) { return detail::real_function<operation::sinh>(x); }
template <expression A> constexpr auto cosh(const A& x) { return detail::real_function<operation::cosh>(x); }
template <expression A> constexpr auto tanh(const A& x) { return detail::real_function<operation::tanh>(x); }

/// Rounded down, up, to the nearest integer (halves to the even one), toward zero. The result is a real; as_integer
/// makes it an integer.
template <expression A> constexpr auto floor(const A& x) { return detail::real_function<operation::floor>(x); }
template <expression A> constexpr auto ceil(const A& x) { return -floor(-x); }
template <expression A> constexpr auto round(const A& x) { return detail::real_function<operation::round>(x); }
template <expression A> constexpr auto trunc(const A& x) { return detail::real_function<operation::trunc>(x); }

/// An integer as a real: as_real(q_idx) / key_length is a fraction, q_idx / key_length rounds down.
template <expression A> constexpr auto as_real(const A& x) {
    if constexpr (is_number(A::is) && A::is != kind::integer)
        return x;
    else
        return detail::real_function<operation::to_real>(x);
}
/// A real or a score rounded toward zero and kept within 32 bits, or a condition as 0 or 1.
template <expression A> constexpr auto as_integer(const A& x) {
    if constexpr (is_rejected<A> || A::is == kind::integer)
        return x;
    else if constexpr ((A::is == kind::real || A::is == kind::condition || A::is == kind::scores) &&
                       free_of<A::uses, use::late>)
        return make<kind::integer, operation::to_integer>(x);
    else {
        static_assert(plain_number<A::is>,
                      "attune: as_integer takes a real, a score or a condition; a row or an output is none");
        return rejected{};
    }
}

/// The number that the last bits of an integer are as an element of a type: `from_bits<f16>(low | high << 8)` of two
/// bytes.
template <element_type Element, class A>
struct bits_of_element : node<kind_of_element(Element), operation::from_bits, A> {
    static constexpr element_type element = Element;
};
template <element_type Element>
inline constexpr bool is_element_of_bits =
    kind_of_element(Element) == kind::real ? Element != element_type::any && Element != element_type::f64
                                           : Element == element_type::i8 || Element == element_type::i16;
template <element_type Element, expression A> constexpr auto from_bits(const A& bits) {
    if constexpr (is_rejected<A>)
        return rejected{};
    else if constexpr (!is_element_of_bits<Element>) {
        static_assert(is_element_of_bits<Element>,
                      "attune: from_bits reads f32, bf16, f16, f8_e4m3, f8_e5m2, i16 or i8; other bits are integers as "
                      "they stand");
        return rejected{};
    } else if constexpr (A::is != kind::integer) {
        static_assert(integer_kind<A::is>, "attune: from_bits takes an integer, whose last bits are the element's");
        return rejected{};
    } else
        return bits_of_element<Element, A>{{detail::children_of<A>{bits}}};
}
template <class N> inline constexpr bool is_of_bits = false;
template <element_type Element, class A> inline constexpr bool is_of_bits<bits_of_element<Element, A>> = true;

// --- of two numbers
/// The angle of the point (x, y), in all four quadrants.
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto atan2(const A& y, const B& x) {
    return detail::real_function<operation::atan2>(y, x);
}
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto pow(const A& x, const B& y) {
    return detail::real_function<operation::pow>(x, y);
}
/// The remainder of x / y, with the sign of x. % of integers has the sign of the divisor.
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto fmod(const A& x, const B& y) {
    return detail::real_function<operation::fmod>(x, y);
}

template <class... A>
    requires(sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto pow(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: pow, atan2, fmod, logaddexp and floor_div take two numbers: pow(x, 2)");
    return rejected{};
}
template <class... A>
    requires(sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto atan2(const A&... a) {
    return pow(a...);
}
template <class... A>
    requires(sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto fmod(const A&... a) {
    return pow(a...);
}

/// An integer quotient by floor_div, as opposed to `/`, which may have meant a real.
template <class A, class B> struct floor_quotient : node<kind::integer, operation::divide, A, B> {};
template <class N> inline constexpr bool is_floor_quotient = false;
template <class A, class B> inline constexpr bool is_floor_quotient<floor_quotient<A, B>> = true;

/// The same operation on other children.
template <class N, class... C> constexpr auto made_again(const C&... c) { return make<N::is, N::op>(c...); }
template <class N, class... C>
    requires is_floor_quotient<N>
constexpr auto made_again(const C&... c) {
    return floor_quotient<C...>{{{c...}}};
}

/// Whether an integer is made of a quotient that `/` rounds down, which may have meant a fraction.
template <class N> inline constexpr bool may_mean_a_fraction = false;
template <operation Op, class... C>
inline constexpr bool may_mean_a_fraction<node<kind::integer, Op, C...>> =
    Op == operation::divide ||
    (((family_of(Op) == family::arithmetic && Op != operation::remainder) || Op == operation::where) &&
     (may_mean_a_fraction<C> || ...));

template <class N, class C>
    requires is_of_bits<N>
constexpr auto made_again(const C& c) {
    return bits_of_element<N::element, C>{{detail::children_of<C>{c}}};
}

/// Python's //: the quotient of integers rounded down, as by `/`; of reals floor(x / y).
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto floor_div(const A& x, const B& y) {
    if constexpr (kind_of<A> == kind::integer && kind_of<B> == kind::integer)
        return floor_quotient<lifted<A>, lifted<B>>{{{lift(x), lift(y)}}};
    else
        return floor(detail::arithmetic<operation::divide>(x, y));
}
template <class... A>
    requires(sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto floor_div(const A&... a) {
    return pow(a...);
}

// --- conditions
namespace detail {
template <operation Op, class A> constexpr auto classification(const A& x) {
    if constexpr (is_rejected<A>)
        return rejected{};
    else if constexpr (!is_number(A::is)) {
        static_assert(number<A::is>, "attune: a function of numbers and scores is applied to something else");
        return rejected{};
    } else
        return make<kind::condition, Op>(as_real(x));
}
}  // namespace detail
template <expression A> constexpr auto isnan(const A& x) { return detail::classification<operation::is_nan>(x); }
/// True of +infinity and of -infinity; a masked score is -infinity.
template <expression A> constexpr auto isinf(const A& x) { return detail::classification<operation::is_infinite>(x); }
template <expression A> constexpr auto isfinite(const A& x) { return !isnan(x) && !isinf(x); }

// --- made of others
template <expression A> constexpr auto sigmoid(const A& x) { return detail::real_function<operation::sigmoid>(x); }
/// x sigmoid(x). (Elfwing et al. 2017; also swish)
template <expression A> constexpr auto silu(const A& x) { return x * sigmoid(x); }
/// max(x, 0), of integers too.
template <expression A> constexpr auto relu(const A& x) { return max(x, 0); }

namespace detail {
/// A sequence has a gelu of its own (layers.hpp).
template <class A>
concept argument_of_gelu = expression<A> && (is_rejected<A> || (A::is != kind::tensor && A::is != kind::tokens));
}  // namespace detail
/// x (1 + erf(x / sqrt(2))) / 2 (Hendrycks, Gimpel 2016)
template <detail::argument_of_gelu A> constexpr auto gelu(const A& x) {
    return x * (1.0 + erf(x * 0.7071067811865476)) / 2.0;
}
/// The same, with tanh(sqrt(2 / pi) (x + 0.044715 x^3)) for erf: PyTorch's gelu(approximate="tanh").
template <detail::argument_of_gelu A> constexpr auto gelu_tanh(const A& x) {
    return x * (1.0 + tanh(x * (0.7978845608028654 + 0.035677408136300125 * (x * x)))) / 2.0;
}
/// log(1 + exp(x)), without overflow.
template <expression A> constexpr auto softplus(const A& x) { return max(x, 0.0) + log1p(exp(-abs(x))); }
/// log(exp(x) + exp(y)), without overflow.
template <class A, class B>
    requires involves_graph<A, B>
constexpr auto logaddexp(const A& x, const B& y) {
    return max(x, y) + log1p(exp(-abs(x - y)));
}
template <class... A>
    requires(sizeof...(A) != 2 && involves_expression<A...>)
constexpr auto logaddexp(const A&... a) {
    return pow(a...);
}
/// min(max(x, low), high), of integers too.
template <class A, class L, class H>
    requires involves_expression<A, L, H>
constexpr auto clamp(const A& x, const L& low, const H& high) {
    return min(max(x, low), high);
}
template <class... A>
    requires(sizeof...(A) != 3 && involves_expression<A...>)
constexpr auto clamp(const A&...) {
    static_assert(as_many_as_it_takes<sizeof...(A)>,
                  "attune: clamp takes a number and two bounds: clamp(x, low, high); with one bound it is max or min");
    return rejected{};
}
/// 1, 0 or -1, of integers too.
template <expression A> constexpr auto sign(const A& x) {
    if constexpr (A::is == kind::integer)
        return where(x > 0, 1, where(x < 0, -1, 0));
    else
        return detail::real_function<operation::sign>(x);
}

}  // namespace attune::dsl

#pragma once
#include <attune/dsl/detail/hana.hpp>
#include <attune/dsl/listing.hpp>

#include <concepts>
#include <type_traits>

namespace attune::dsl {

/// What operators return after they rejected their operands: everything accepts it silently, so that one mistake is one error.
struct rejected {
    static constexpr kind is = kind::tensor;
};

/// A value of the language: a terminal, or an operation on other values. Nodes own their children and are compared by listing.
template <class T>
concept expression = requires { { T::is } -> std::convertible_to<kind>; };

template <class T>
inline constexpr bool is_rejected = std::is_same_v<T, rejected>;

namespace detail {
template <class T>
inline constexpr bool no_bool_conversion = false;
}

/// An operation on children. What the operation means is in listing.hpp; which operands it takes is in operators.hpp.
template <kind Is, operation Op, class... Children>
struct node {
    static constexpr kind is = Is;
    static constexpr operation op = Op;
    detail::hana::tuple<Children...> children{};

    /// `if (causal)` and `causal ? a : b` would decide at compile time what only the kernel knows.
    template <std::same_as<bool> B>
    explicit constexpr operator B() const {
        static_assert(detail::no_bool_conversion<node>,
                      "attune: a condition has no value until the kernel runs; write where(condition, a, b) instead of if, ?: or while");
        return false;
    }
};

/// A number known now. Integers stay integers: `kv_idx / 4` rounds down.
template <kind Is>
struct constant {
    static constexpr kind is = Is;
    static constexpr operation op = operation::constant;
    std::conditional_t<Is == kind::integer, std::int64_t, double> value;
};

template <class T>
concept literal = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

template <class T>
concept operand = expression<T> || literal<T>;

/// Literals become constants, expressions stay themselves.
template <operand T>
constexpr auto lift(T x) {
    if constexpr (std::integral<T>) return constant<kind::integer>{static_cast<std::int64_t>(x)};
    else if constexpr (std::floating_point<T>) return constant<kind::real>{static_cast<double>(x)};
    else return x;
}

template <operand T>
using lifted = decltype(lift(std::declval<T>()));

constexpr bool is_number(kind k) { return k == kind::integer || k == kind::real || k == kind::scores; }

/// Scores win over reals, reals over integers.
constexpr kind joined(kind a, kind b) {
    if (a == kind::scores || b == kind::scores) return kind::scores;
    return (a == kind::real || b == kind::real) ? kind::real : kind::integer;
}

template <kind Is, operation Op, class... C>
constexpr auto make(C... c) {
    return node<Is, Op, C...>{detail::hana::tuple<C...>{c...}};
}

// Named so that compilers echo what was found: "'number<condition>' evaluates to false".
template <kind Found> inline constexpr bool number = is_number(Found);
template <kind Found> inline constexpr bool condition = Found == kind::condition;
template <kind Found> inline constexpr bool scores_kind = Found == kind::scores;
template <kind Found> inline constexpr bool weights_kind = Found == kind::weights;
template <kind Found> inline constexpr bool tensor_kind = Found == kind::tensor;
template <kind Found> inline constexpr bool integer_kind = Found == kind::integer;

}  // namespace attune::dsl

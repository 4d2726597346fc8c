#pragma once
#include <attune/dsl/detail/hana.hpp>
#include <attune/ir/operations.hpp>

#include <concepts>
#include <type_traits>

namespace attune::dsl {

/// What operators return after they reject their operands. Everything accepts it silently, so that one mistake is one
/// error.
struct rejected {
    static constexpr kind is = kind::tensor;
    static constexpr unsigned uses = 0;
    template <class... I> constexpr rejected operator()(const I&...) const { return {}; }
};

/// A value of the language: a terminal, or an operation on other values. Nodes own their children and are compared by
/// their graph_ir.
template <class T>
concept expression = requires {
    { T::is } -> std::convertible_to<kind>;
};

template <class T> inline constexpr bool is_rejected = std::is_same_v<T, rejected>;

/// What a value depends on, as bits: it decides where the value may stand.
namespace use {
inline constexpr unsigned place = 1;    ///< b or h
inline constexpr unsigned query = 2;    ///< q_idx
inline constexpr unsigned key = 4;      ///< kv_idx
inline constexpr unsigned channel = 8;  ///< d_idx
inline constexpr unsigned bound = 16;   ///< a bound index, or a sum
inline constexpr unsigned data = 32;    ///< elements of tensors
inline constexpr unsigned row = 64;     ///< values that are known only after all scores of a row
inline constexpr unsigned output = 128;
inline constexpr unsigned finished = 256;  ///< elements of an output, read as those of a tensor
inline constexpr unsigned value = 512;     ///< value_idx
inline constexpr unsigned late = row | output | finished;
}  // namespace use

constexpr unsigned uses_of(operation op, unsigned below) {
    const operation_row& it = about(op);
    if (it.gives == only(kind::row)) return use::row;
    if (it.gives == only(kind::output)) return use::output;
    if (op == operation::tokens) return below & use::finished;
    const auto adds = [&](unsigned variables, unsigned uses) { return it.adds & variables ? uses : 0u; };
    const unsigned own = adds(variable::score, use::place | use::query | use::key) |
                         adds(variable::batch | variable::head, use::place) | adds(variable::query, use::query) |
                         adds(variable::key, use::key) | adds(variable::channel, use::channel) |
                         adds(variable::value, use::value) | adds(variable::data, use::data) |
                         (op == operation::bound ? use::bound : 0u);
    if (it.passes_on == passes_on::nothing) return own;
    if (it.passes_on == passes_on::elements && below & use::output) below = (below & ~use::output) | use::finished;
    return below | own;
}

namespace detail {
template <class T> inline constexpr bool known_now = false;
template <class Node, class... I> constexpr auto element_of(const Node& of, const I&... i);

/// A node's children: an aggregate, because compilers copy it at once, and a tuple member by member.
template <class... C> struct children_of;
template <> struct children_of<> {
    template <class F> constexpr auto unpack(F&& f) const { return f(); }
};
template <class A> struct children_of<A> {
    A first;
    template <class F> constexpr auto unpack(F&& f) const { return f(first); }
};
template <class A, class B> struct children_of<A, B> {
    A first;
    B second;
    template <class F> constexpr auto unpack(F&& f) const { return f(first, second); }
};
template <class A, class B, class C> struct children_of<A, B, C> {
    A first;
    B second;
    C third;
    template <class F> constexpr auto unpack(F&& f) const { return f(first, second, third); }
};
/// A tensor and its indices.
template <class A, class B, class C, class D, class... Rest> struct children_of<A, B, C, D, Rest...> {
    A first;
    B second;
    C third;
    D fourth;
    children_of<Rest...> rest;
    constexpr children_of() = default;
    constexpr children_of(const A& a, const B& b, const C& c, const D& d, const Rest&... others)
        : first(a), second(b), third(c), fourth(d), rest{others...} {}
    template <class F> constexpr auto unpack(F&& f) const {
        return rest.unpack([&](const auto&... others) { return f(first, second, third, fourth, others...); });
    }
};
}  // namespace detail

/// An operation on children. What the operation means is in graph_ir.hpp; which operands it takes is in operands.hpp.
template <kind Is, operation Op, class... Children> struct node {
    static constexpr kind is = Is;
    static constexpr operation op = Op;
    static constexpr unsigned uses = uses_of(Op, (0u | ... | Children::uses));
    detail::children_of<Children...> children{};

    /// `if (causal)` and `causal ? a : b` would decide at compile time what only the kernel knows.
    template <std::same_as<bool> B> explicit constexpr operator B() const {
        static_assert(detail::known_now<node>,
                      "attune: a condition has no value until the kernel runs; write where(condition, a, b) instead of "
                      "if, ?: and while, and min and max without std::");
        return false;
    }
    /// For std::tanh(scores) and the like.
    template <std::same_as<double> D> constexpr operator D() const {
        static_assert(detail::known_now<node>,
                      "attune: a value of the graph is no C++ number; its functions are written without std::, as in "
                      "tanh(scores), max(a, b) and pow(x, y)");
        return 0;
    }
    /// For `score = score + bias`: each formula has a type of its own.
    template <class T>
        requires(!std::same_as<T, node>)
    constexpr node& operator=(const T&) {
        static_assert(detail::known_now<T>,
                      "attune: a value of the graph does not change; give the new one a name of its own: auto biased = "
                      "score + bias");
        return *this;
    }

    /// An element of an output (b, h, q_idx, channel), of tokens (b, position, channel) or of a precomputed tensor (b,
    /// h, its indices), as of an input.
    template <class... I>
        requires(Is == kind::output || Is == kind::tokens || Is == kind::precomputed)
    constexpr auto operator()(const I&... i) const {
        return detail::element_of(*this, i...);
    }
    /// For `q(b, h, q_idx, 0)` where a parameter is called q.
    template <class... I>
        requires(Is == kind::integer)
    constexpr auto operator()(const I&...) const {
        static_assert(detail::known_now<node>,
                      "attune: an integer is read at indices, as a tensor is; a parameter or an index called q, k or v "
                      "hides that tensor, which is attune::dsl::q, k or v");
        return rejected{};
    }
    template <class I>
        requires(Is == kind::integer || Op == operation::load)
    constexpr auto operator[](const I& i) const {
        if constexpr (Op != operation::load)
            return (*this)(i);
        else {
            static_assert(detail::known_now<node>,
                          "attune: a tensor is indexed by another number of indices than it has axes");
            return rejected{};
        }
    }
};

/// A number known now. Integers stay integers: `kv_idx / 4` rounds down.
template <kind Is> struct constant {
    static constexpr kind is = Is;
    static constexpr operation op = operation::constant;
    static constexpr unsigned uses = 0;
    std::conditional_t<Is == kind::integer, std::int64_t, double> value;
};

/// Echoed with the number of arguments where a function takes another number.
template <std::size_t Given> inline constexpr bool as_many_as_it_takes = false;
/// A graph value somewhere among the arguments of such a call.
template <class... T>
concept involves_expression = (expression<T> || ...);

/// A bool is taken so that it can be refused by a sentence.
template <class T>
concept literal = std::is_arithmetic_v<T>;

template <class T>
concept operand = expression<T> || literal<T>;

namespace detail {
template <class T> struct lifted_as {
    using type = constant<std::is_integral_v<T> ? kind::integer : kind::real>;
};
template <expression T> struct lifted_as<T> {
    using type = T;
};
}  // namespace detail
template <class T> using lifted = typename detail::lifted_as<T>::type;

/// Literals become constants, expressions stay themselves.
template <class T> constexpr lifted<T> lift(const T& x) {
    if constexpr (expression<T>)
        return x;
    else
        return {static_cast<decltype(lifted<T>::value)>(x)};
}

template <class T> inline constexpr kind kind_of = std::is_integral_v<T> ? kind::integer : kind::real;
template <> inline constexpr kind kind_of<bool> = kind::condition;
template <expression T> inline constexpr kind kind_of<T> = T::is;
template <class T> inline constexpr unsigned uses_in = 0;
template <expression T> inline constexpr unsigned uses_in<T> = T::uses;
template <class T> inline constexpr operation operation_of = operation::constant;
template <expression T> inline constexpr operation operation_of<T> = T::op;

/// Known before any score is.
constexpr bool is_plain(kind k) { return k == kind::integer || k == kind::real; }

/// The kind of two combined numbers: outputs win over rows, rows and scores over reals, reals over integers. Rows and
/// scores do not combine.
constexpr kind joined(kind a, kind b, unsigned uses) {
    if (a == kind::scores || b == kind::scores) return kind::scores;
    if (uses & use::output) return kind::output;
    if (uses & use::row) return uses & use::channel ? kind::output : kind::row;
    return (a == kind::real || b == kind::real) ? kind::real : kind::integer;
}

template <kind Is, operation Op, class... C> constexpr node<Is, Op, lifted<C>...> make(const C&... c) {
    return {detail::children_of<lifted<C>...>{lift(c)...}};
}

template <class T> inline constexpr bool a_condition_of_the_graph = !std::is_same_v<T, bool>;

// Named so that compilers echo what was found: "'number<condition>' evaluates to false".
template <kind Found> inline constexpr bool number = is_number(Found);
template <kind Found> inline constexpr bool plain_number = is_plain(Found);
template <kind Found> inline constexpr bool condition = Found == kind::condition;
template <kind Found> inline constexpr bool scores_kind = Found == kind::scores;
template <kind Found> inline constexpr bool weights_kind = Found == kind::weights;
template <kind Found> inline constexpr bool tensor_kind = Found == kind::tensor;
template <kind Found> inline constexpr bool integer_kind = Found == kind::integer;
template <kind Found> inline constexpr bool row_kind = Found == kind::row;
template <kind Found> inline constexpr bool output_kind = Found == kind::output;

/// Echoed with what a value depends on but must not.
template <unsigned Uses, unsigned Forbidden> inline constexpr bool free_of = (Uses & Forbidden) == 0;

}  // namespace attune::dsl

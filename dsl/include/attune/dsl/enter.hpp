#pragma once
#include <attune/dsl/functions.hpp>
#include <attune/dsl/operands.hpp>
#include <attune/dsl/terminals.hpp>
#include <attune/ir/builder.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// Enters formulas into a list: the steps of the fold over a graph's type.
namespace attune::dsl::detail {

/// Whether an operation computes in reals as soon as one of its numbers is real.
constexpr bool mixes(operation op) {
    const family of = family_of(op);
    return of == family::arithmetic || of == family::function || of == family::function_of_two ||
           of == family::comparison || op == operation::where;
}

template <class N> constexpr node_id enter(ir_builder& list, const N& n);

/// A node that a list has already, as an operand: passes over lists write formulas with it.
template <kind Is, unsigned Uses> struct entered {
    static constexpr kind is = Is;
    static constexpr operation op = operation::load;
    static constexpr unsigned uses = Uses;
    node_id at;
};
template <class N> inline constexpr bool is_entered = false;
template <kind Is, unsigned Uses> inline constexpr bool is_entered<entered<Is, Uses>> = true;

/// An integer among reals: a constant becomes a real constant, any other is converted, unsaid or by as_real. The rest
/// is entered as it is.
template <bool AmongReals, bool Said = false, class N> constexpr node_id enter_child(ir_builder& list, const N& n) {
    if constexpr (AmongReals && !Said && may_mean_a_fraction<N>) list.fraction_cut_short = true;
    if constexpr (!AmongReals)
        return enter(list, n);
    else if constexpr (std::is_same_v<N, constant<kind::integer>>)
        return list.add({.op = operation::constant, .kind = kind::real, .number = static_cast<double>(n.value)});
    else if constexpr (N::is == kind::integer)
        return list.add(
            {.op = operation::to_real, .kind = kind::real, .argument_count = 1, .arguments = {enter(list, n)}});
    else
        return enter(list, n);
}

template <class N> constexpr node_id enter(ir_builder& list, const N& n) {
    if constexpr (is_entered<N>) {
        return n.at;
    } else if constexpr (requires { n.enter_into(list); }) {  // a recurrence
        return n.enter_into(list);
    } else if constexpr (requires { N::declaration; }) {  // input tensor or scalar
        std::string_view derivative;
        if constexpr (requires { N::derivative; }) derivative = N::derivative;
        const auto input = list.add_input(N::declaration, derivative);
        return list.add({.op = N::op, .kind = N::is, .input = input});
    } else if constexpr (std::is_same_v<N, constant<kind::integer>>) {
        if (n.value != static_cast<std::int32_t>(n.value)) list.too_large = n.value;
        return list.add({.op = N::op, .kind = N::is, .integer = n.value});
    } else if constexpr (std::is_same_v<N, constant<kind::real>>) {
        return list.add({.op = N::op, .kind = N::is, .number = n.value});
    } else if constexpr (N::op == operation::bound) {
        return list.add({.op = N::op, .kind = N::is, .integer = list.add_index(N::label)});
    } else if constexpr (N::op == operation::extent) {
        return list.add({.op = N::op,
                         .kind = N::is,
                         .argument_count = 1,
                         .arguments = {enter(list, n.tensor)},
                         .integer = N::axis});
    } else if constexpr (N::op == operation::to_real) {
        return n.children.unpack([&](const auto& child) { return enter_child<true, true>(list, child); });
    } else {
        instruction i{.op = N::op, .kind = N::is};
        if constexpr (is_of_bits<N>) i.integer = static_cast<std::int64_t>(N::element);
        n.children.unpack([&]<class... C>(const C&... child) {
            [[maybe_unused]] constexpr bool reals =
                mixes(N::op) && (is_real(N::is) || N::is == kind::weights || (is_real(C::is) || ...));
            ((i.arguments[i.argument_count++] = enter_child<reals>(list, child)), ...);
        });
        return list.add(i);
    }
}

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop

#pragma once
#include <attune/ir/operations.hpp>

#include <cstdint>
#include <limits>

namespace attune {

/// Where a number is not -infinity, by where its arguments are not. Masks are read by this table alone: blocks that
/// kernels skip, keys that a query sees, terms of a gradient, chunks that ranks exchange.
enum class visibility : std::uint8_t {
    always,    ///< whatever its arguments are
    never,     ///< it is -infinity
    by_value,  ///< an element or a sum: the number itself says
    as_first,  ///< where its first argument is not
    as_both,
    as_either,
    as_chosen,   ///< where the argument is not that a condition, the first one, chooses
    where_kept,  ///< where its first argument is not, and a condition, the second one, holds
};

inline constexpr by_operation<family::arithmetic, visibility> visibility_of_arithmetic{
    {operation::negate, visibility::as_first},  {operation::absolute, visibility::as_first},
    {operation::add, visibility::as_both},      {operation::subtract, visibility::as_both},
    {operation::multiply, visibility::as_both}, {operation::divide, visibility::as_both},
    {operation::minimum, visibility::as_both},  {operation::maximum, visibility::as_either},
    {operation::remainder, visibility::always}};  // of integers

constexpr visibility visibility_of(const instruction& node) {
    using enum visibility;
    if (node.kind == kind::integer || node.kind == kind::condition) return always;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    switch (family_of(node.op)) {
        case family::terminal: return node.op == operation::constant && node.number == -infinity ? never : always;
        case family::tensors: return node.op == operation::load ? by_value : always;
        case family::sums:
        case family::patterns: return by_value;
        case family::arithmetic: return visibility_of_arithmetic[node.op];
        case family::function: return limit_of(node.op) ? always : as_first;
        case family::function_of_two: return as_both;
        case family::selection: return node.op == operation::where ? as_chosen : always;
        case family::attention: return node.op == operation::mask ? where_kept : always;
        case family::conversion:  // of integers and conditions
        case family::bits:
        case family::classification:
        case family::comparison:
        case family::logic:
        case family::recurrent:
        case family::random: break;
    }
    return always;
}

}  // namespace attune

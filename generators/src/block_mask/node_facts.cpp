#include "block_mask/node_facts.hpp"

#include "analysis/listed_keys.hpp"

#include <algorithm>
#include <cmath>

namespace attune::generators::inline block_mask {
using namespace Halide;

namespace {

direction turned(direction d) {
    return d == direction::up ? direction::down : d == direction::down ? direction::up : d;
}

/// The direction of a sum, a minimum, a conjunction.
direction together(direction a, direction b) {
    if (a == direction::constant) return b;
    if (b == direction::constant) return a;
    return a == b && a != direction::either ? a : direction::none;
}

/// Times a number whose sign is known or not.
direction times(direction d, const instruction& factor) {
    if (d == direction::constant || d == direction::none) return d;
    if (factor.op != operation::constant || factor.kind == kind::real) return direction::either;
    return factor.integer > 0 ? d : factor.integer < 0 ? turned(d) : direction::constant;
}

/// The arguments of an operation; absent ones count as constant.
struct operands {
    direction a, b;
    const instruction *x, *y;
    bool has_constant_b() const { return b == direction::constant; }
};
using rule = direction (*)(const operands&);
constexpr rule irregular = [](const operands&) { return direction::none; };
constexpr rule with_both = [](const operands& of) { return together(of.a, of.b); };
constexpr rule against_second = [](const operands& of) { return together(of.a, turned(of.b)); };
constexpr rule against_first = [](const operands& of) { return together(of.b, turned(of.a)); };
constexpr rule against = [](const operands& of) { return turned(of.a); };
constexpr rule shifted = [](const operands& of) { return of.has_constant_b() ? of.a : direction::none; };

constexpr by_operation<family::arithmetic, rule> of_arithmetic{
    {operation::negate, against},
    {operation::absolute, irregular},
    {operation::add, with_both},
    {operation::subtract, against_second},
    {operation::multiply,
     [](const operands& of) {
         return of.has_constant_b()           ? times(of.a, *of.y)
                : of.a == direction::constant ? times(of.b, *of.x)
                                              : direction::none;
     }},
    {operation::divide, [](const operands& of) { return of.has_constant_b() ? times(of.a, *of.y) : direction::none; }},
    {operation::remainder, irregular},
    {operation::minimum, with_both},
    {operation::maximum, with_both}};
constexpr by_operation<family::bits, rule> of_bits{{operation::bit_and, irregular},
                                                   {operation::bit_or, irregular},
                                                   {operation::bit_xor, irregular},
                                                   {operation::shift_left, shifted},
                                                   {operation::shift_right, shifted}};
constexpr by_operation<family::comparison, rule> of_comparisons{
    {operation::equal, irregular},        {operation::not_equal, irregular},
    {operation::less, against_first},     {operation::less_equal, against_first},
    {operation::greater, against_second}, {operation::greater_equal, against_second}};
constexpr by_operation<family::logic, rule> of_logic{
    {operation::logical_and, with_both}, {operation::logical_or, with_both}, {operation::logical_not, against}};

}  // namespace

std::vector<direction> directions(const graph_ir& graph, const std::vector<dependence>& depends,
                                  const wrapping& wraps) {
    std::vector<direction> all(graph.nodes.size());
    fold(graph.nodes, all, [&](node_id n, const instruction& node, const auto& arguments) {
        const auto of = [&](int i) { return i < node.argument_count ? arguments[i] : direction::constant; };
        const auto argument = [&](int i) {
            return i < node.argument_count ? &graph.nodes[node.arguments[i]] : nullptr;
        };
        const dependence& on = depends[n];
        if (on.score || on.channel || (on.query && on.key)) return direction::none;
        if (!on.query && !on.key) return direction::constant;
        if (wraps.here[n]) return direction::none;
        const operands its{of(0), of(1), argument(0), argument(1)};
        switch (family_of(node.op)) {
            case family::terminal: return direction::up;  // q_idx and kv_idx: the others depend on neither
            case family::arithmetic: return of_arithmetic[node.op](its);
            case family::bits: return of_bits[node.op](its);
            case family::conversion: return its.a;
            case family::comparison: return of_comparisons[node.op](its);
            case family::logic: return of_logic[node.op](its);
            case family::sums: return of(2) == direction::either ? direction::none : of(2);
            case family::tensors:
            case family::function:
            case family::function_of_two:
            case family::classification:
            case family::selection:
            case family::random:
            case family::attention:
            case family::recurrent:
            case family::patterns: break;
        }
        return direction::none;
    });
    return all;
}

direction direction_of(const linear& sum, const std::vector<direction>& of_nodes) {
    direction result = direction::constant;
    for (const auto& [node, factor] : sum.terms)
        result = together(result, factor < 0 ? turned(of_nodes[node]) : of_nodes[node]);
    return result;
}

std::vector<bool> reduces(const graph_ir& graph) {
    std::vector<bool> all(graph.nodes.size());
    fold(graph.nodes, all, [](node_id, const instruction& node, const auto& of) {
        bool here = family_of(node.op) == family::sums;
        for (std::size_t i = 0; i < of.size(); ++i) here = here || of[i];
        return here;
    });
    return all;
}

std::vector<bool> keys_of_lists(const graph_ir& graph, const std::vector<dependence>& depends) {
    std::vector<bool> all(graph.nodes.size());
    fold(graph.nodes, all, [&](node_id n, const instruction& node, const auto& of) {
        bool here = node.op == operation::load && lists_keys(graph, node.arguments[0]) && depends[n].key;
        for (std::size_t i = 0; i < of.size(); ++i) here = here || of[i];
        return here;
    });
    return all;
}

bool is_about(const formula& f, const std::vector<bool>& nodes) {
    const auto has = [&](const linear& sum) {
        return std::ranges::any_of(sum.terms, [&](const auto& term) { return bool(nodes[term.first]); });
    };
    return (f.node >= 0 && nodes[f.node]) || has(f.sum) || std::ranges::any_of(f.exact, has) ||
           std::ranges::any_of(f.parts, [&](const formula& part) { return is_about(part, nodes); });
}

Expr value_of(const linear& sum, pointwise& here, const facts& known) {
    if (sum.constant == 0 && sum.terms.size() == 1 && sum.terms.begin()->second == 1)
        return here(sum.terms.begin()->first).value;
    const Type type = magnitude_of(sum, known.magnitudes) < largest_int ? Int(32) : Int(64);
    Expr result;
    for (const auto& [node, factor] : sum.terms) {
        const Expr value = cast(type, here(node).value),
                   term = std::abs(factor) == 1 ? value : value * Internal::make_const(type, std::abs(factor));
        result = result.defined() ? factor > 0 ? result + term : result - term : factor > 0 ? term : -term;
    }
    const Expr constant = Internal::make_const(type, sum.constant);
    return !result.defined() ? constant : sum.constant == 0 ? result : result + constant;
}

Expr holds(const formula& f, pointwise& here, const facts& known) {
    if (!f.exact.empty()) return f.negated ? !here.condition(f.node) : here.condition(f.node);
    switch (f.what) {
        case formula::is::positive: return value_of(f.sum, here, known) >= 1;
        case formula::is::zero: return value_of(f.sum, here, known) == 0;
        case formula::is::nonzero: return value_of(f.sum, here, known) != 0;
        case formula::is::flag: return f.negated ? !here.condition(f.node) : here.condition(f.node);
        case formula::is::masked: {
            const Expr masked = here(f.node).masked;
            const Expr result = masked.defined() ? masked : Internal::const_false();
            return f.negated ? !result : result;
        }
        case formula::is::all:
        case formula::is::any: {
            const bool all = f.what == formula::is::all;
            Expr result;
            for (const formula& part : f.parts) {
                const Expr next = holds(part, here, known);
                result = !result.defined() ? next : all ? result && next : result || next;
            }
            return result.defined() ? result : all ? Internal::const_true() : Internal::const_false();
        }
    }
    return {};
}

}  // namespace attune::generators::inline block_mask

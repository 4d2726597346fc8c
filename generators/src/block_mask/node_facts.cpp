#include "block_mask/node_facts.hpp"

#include <algorithm>
#include <cmath>

namespace attune::generators {
using namespace Halide;

namespace {

direction turned(direction d) {
    return d == direction::up ? direction::down : d == direction::down ? direction::up : d;
}

/// Of a sum, a minimum, a conjunction.
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

}  // namespace

std::vector<direction> directions(const graph_ir& graph, const std::vector<dependence>& depends) {
    std::vector<direction> all;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const instruction& node = graph.nodes[n];
        const auto of = [&](int i) { return all[node.arguments[i]]; };
        const auto argument = [&](int i) -> const instruction& { return graph.nodes[node.arguments[i]]; };
        const auto decide = [&] {
            const dependence& on = depends[n];
            if (on.score || on.channel || (on.query && on.key)) return direction::none;
            if (!on.query && !on.key) return direction::constant;
            switch (node.op) {
                case operation::q_idx:
                case operation::kv_idx: return direction::up;
                case operation::add:
                case operation::minimum:
                case operation::maximum:
                case operation::logical_and:
                case operation::logical_or: return together(of(0), of(1));
                case operation::subtract: return together(of(0), turned(of(1)));
                case operation::negate:
                case operation::logical_not: return turned(of(0));
                case operation::multiply:
                    return of(1) == direction::constant   ? times(of(0), argument(1))
                           : of(0) == direction::constant ? times(of(1), argument(0))
                                                          : direction::none;
                case operation::divide:
                    return of(1) == direction::constant ? times(of(0), argument(1)) : direction::none;
                case operation::shift_left:
                case operation::shift_right: return of(1) == direction::constant ? of(0) : direction::none;
                case operation::to_real:
                case operation::to_integer: return of(0);
                case operation::less:
                case operation::less_equal: return together(of(1), turned(of(0)));
                case operation::greater:
                case operation::greater_equal: return together(of(0), turned(of(1)));
                case operation::sum:
                case operation::any: return of(2) == direction::either ? direction::none : of(2);
                default: return direction::none;
            }
        };
        all.push_back(decide());
    }
    return all;
}

direction direction_of(const linear& sum, const std::vector<direction>& of_nodes) {
    direction result = direction::constant;
    for (const auto& [node, factor] : sum.terms)
        result = together(result, factor < 0 ? turned(of_nodes[node]) : of_nodes[node]);
    return result;
}

std::vector<double> magnitudes(const graph_ir& graph) {
    std::vector<double> all;
    for (const instruction& node : graph.nodes) {
        const auto of = [&](int i) { return all[node.arguments[i]]; };
        const auto decide = [&] {
            switch (node.op) {
                case operation::constant: return std::abs(static_cast<double>(node.integer));
                case operation::b:
                case operation::h:
                case operation::q_idx:
                case operation::kv_idx:
                case operation::d_idx:
                case operation::bound:
                case operation::depth:
                case operation::value_depth:
                case operation::query_length:
                case operation::key_length:
                case operation::heads:
                case operation::key_heads:
                case operation::batches:
                case operation::kv_lengths:
                case operation::extent: return longest;
                case operation::load: {
                    const element_type element = graph.inputs[graph.nodes[node.arguments[0]].input].element;
                    return bytes_of(element) == 1 ? 255.0 : largest_int;
                }
                case operation::to_integer:
                    return graph.nodes[node.arguments[0]].kind == kind::condition ? 1.0 : largest_int;
                case operation::sum:
                    return graph.nodes[node.arguments[2]].kind == kind::condition || of(2) == 1 ? longest : largest_int;
                case operation::negate:
                case operation::absolute:
                case operation::divide:
                case operation::shift_right: return of(0);
                case operation::add:
                case operation::subtract: return of(0) + of(1);
                case operation::multiply: return of(0) * of(1);
                case operation::remainder: return of(1);
                case operation::minimum:
                case operation::maximum: return std::max(of(0), of(1));
                case operation::bit_and:
                case operation::bit_or:
                case operation::bit_xor: return 2 * std::max(of(0), of(1)) + 1;
                case operation::where: return std::max(of(1), of(2));
                default: return largest_int;
            }
        };
        all.push_back(std::min(decide(), largest_int));
    }
    return all;
}

double magnitude_of(const linear& sum, const std::vector<double>& of_nodes) {
    double result = std::abs(static_cast<double>(sum.constant));
    for (const auto& [node, factor] : sum.terms) result += std::abs(static_cast<double>(factor)) * of_nodes[node];
    return result;
}

std::vector<bool> reduces(const graph_ir& graph) {
    std::vector<bool> all;
    for (const instruction& node : graph.nodes) {
        bool here = node.op == operation::sum || node.op == operation::any;
        for (int i = 0; i < node.argument_count; ++i) here = here || all[node.arguments[i]];
        all.push_back(here);
    }
    return all;
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
        default: {
            const bool all = f.what == formula::is::all;
            Expr result;
            for (const formula& part : f.parts) {
                const Expr next = holds(part, here, known);
                result = !result.defined() ? next : all ? result && next : result || next;
            }
            return result.defined() ? result : all ? Internal::const_true() : Internal::const_false();
        }
    }
}

}  // namespace attune::generators

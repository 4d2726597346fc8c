#include "analysis/magnitudes.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace attune::generators::inline analysis {

namespace {

using bound = double (*)(double, double);
constexpr bound first = [](double a, double) { return a; };
constexpr bound anything = [](double, double) { return largest_int; };
constexpr bound larger = [](double a, double b) { return std::max(a, b); };
constexpr bound any_bits = [](double a, double b) { return 2 * std::max(a, b) + 1; };

constexpr by_operation<family::arithmetic, bound> size_of_arithmetic{
    {operation::negate, first},
    {operation::absolute, first},
    {operation::add, [](double a, double b) { return a + b; }},
    {operation::subtract, [](double a, double b) { return a + b; }},
    {operation::multiply, [](double a, double b) { return a * b; }},
    {operation::divide, first},
    {operation::remainder, [](double, double b) { return b; }},
    {operation::minimum, larger},
    {operation::maximum, larger}};
constexpr by_operation<family::bits, bound> size_of_bits{{operation::bit_and, any_bits},
                                                         {operation::bit_or, any_bits},
                                                         {operation::bit_xor, any_bits},
                                                         {operation::shift_left, anything},  // but by a constant
                                                         {operation::shift_right, first}};

double size_of_terminal(const instruction& node) {
    if (node.op == operation::constant) return std::abs(static_cast<double>(node.integer));
    const bool passed = node.op == operation::scalar || node.op == operation::input;
    return passed ? largest_int : longest;  // an index, a length
}

/// The magnitude of a node from those of its arguments, as if nothing wrapped around.
double size_of(const graph_ir& graph, const instruction& node, const std::vector<double>& all) {
    const auto of = [&](int i) { return i < node.argument_count ? all[node.arguments[i]] : 0.0; };
    const auto argument = [&](int i) -> const instruction& { return graph.nodes[node.arguments[i]]; };
    switch (family_of(node.op)) {
        case family::terminal: return size_of_terminal(node);
        case family::tensors: {
            if (node.op == operation::extent) return longest;
            if (node.op != operation::load || argument(0).op != operation::input) break;
            const element_type element = graph.inputs[argument(0).input].element;
            return bytes_of(element) == 1 ? 255.0 : element == element_type::i16 ? 32768.0 : largest_int;
        }
        case family::conversion:
            if (node.op == operation::to_integer && argument(0).kind == kind::condition) return 1.0;
            break;
        case family::sums:
            if (node.op == operation::sum && (argument(2).kind == kind::condition || of(2) == 1)) return longest;
            break;
        case family::arithmetic:
            if (node.op == operation::divide && argument(1).op == operation::constant)
                return std::ceil(of(0) / std::max(of(1), 1.0));
            return size_of_arithmetic[node.op](of(0), of(1));
        case family::bits:
            if (node.op == operation::shift_left && argument(1).op == operation::constant)
                return of(0) * std::exp2(static_cast<double>(argument(1).integer & 31));
            if (node.op == operation::shift_right && argument(1).op == operation::constant)
                return std::ceil(of(0) / std::exp2(static_cast<double>(argument(1).integer & 31)));
            return size_of_bits[node.op](of(0), of(1));
        case family::selection:
            if (node.op == operation::where) return std::max(of(1), of(2));
            break;
        case family::patterns:
            if (node.kind == kind::integer) return element_in_bits(node) == element_type::i8 ? 128.0 : 32768.0;
            break;
        case family::function:  // what has no small numbers
        case family::function_of_two:
        case family::classification:
        case family::comparison:
        case family::logic:
        case family::random:
        case family::recurrent:
        case family::attention: break;
    }
    return largest_int;
}

bool is_exact_until_it_wraps(operation op) {
    constexpr operation all[] = {operation::negate,   operation::absolute, operation::add,
                                 operation::subtract, operation::multiply, operation::shift_left};
    return std::ranges::find(all, op) != std::end(all);
}

}  // namespace

std::vector<double> magnitudes(const graph_ir& graph) {
    std::vector<double> all(graph.nodes.size());
    fold(graph.nodes, all, [&](node_id, const instruction& node, const auto&) {
        return std::min(size_of(graph, node, all), largest_int);
    });
    return all;
}

namespace {

/// Integers that are used as values, not only as the place of a read or the length of a tensor: kernels compute places
/// as if they could not leave i32, so that neighbours are read as one.
std::vector<bool> used_as_values(const graph_ir& graph) {
    std::vector<bool> used(graph.nodes.size());
    for (std::size_t n = graph.nodes.size(); n-- > 0;) {
        const instruction& node = graph.nodes[n];
        const family of = family_of(node.op);
        if (of == family::tensors || (node.kind == kind::integer && !used[n])) continue;
        for (int i = of == family::sums ? 2 : 0; i < node.argument_count; ++i) used[node.arguments[i]] = true;
    }
    return used;
}

}  // namespace

wrapping wrapping_of(const graph_ir& graph, const std::vector<double>& sizes) {
    const std::vector<bool> is_value = used_as_values(graph);
    wrapping found;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const instruction& node = graph.nodes[n];
        const bool wraps = node.kind == kind::integer && is_value[n] && is_exact_until_it_wraps(node.op) &&
                           size_of(graph, node, sizes) >= largest_int;
        bool below = wraps;
        for (int i = 0; i < node.argument_count && family_of(node.op) != family::tensors; ++i)
            below = below || found.below[node.arguments[i]];
        found.here.push_back(wraps);
        found.below.push_back(below && node.kind == kind::integer);
    }
    return found;
}

}  // namespace attune::generators::inline analysis

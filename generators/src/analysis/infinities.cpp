#include "analysis/infinities.hpp"

#include <attune/ir/operations.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace attune::generators::inline analysis {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A lower bound of a function's values, if there is one.
struct bounded_function {
    operation of;
    double least;
};
constexpr bounded_function bounded_functions[] = {
    {operation::exp, 0.0},   {operation::exp2, 0.0}, {operation::sigmoid, 0.0}, {operation::sqrt, 0.0},
    {operation::acos, 0.0},  {operation::cosh, 1.0}, {operation::tanh, -1.0},   {operation::erf, -1.0},
    {operation::sin, -1.0},  {operation::cos, -1.0}, {operation::expm1, -1.0},  {operation::sign, -1.0},
    {operation::atan, -2.0}, {operation::asin, -2.0}};
double least_of_function(operation op) {
    const auto* const found = std::ranges::find(bounded_functions, op, &bounded_function::of);
    return found == std::end(bounded_functions) ? -infinity : found->least;
}

using of_two = double (*)(double, double);
constexpr of_two anything = [](double, double) { return -infinity; };
constexpr by_operation<family::arithmetic, of_two> least_of_arithmetic{
    {operation::negate, anything},
    {operation::absolute, [](double, double) { return 0.0; }},
    {operation::add, [](double a, double b) { return a + b; }},
    {operation::subtract, anything},
    {operation::multiply, [](double a, double b) { return a >= 0 && b >= 0 ? a * b : -infinity; }},
    {operation::divide, anything},
    {operation::remainder, anything},
    {operation::minimum, [](double a, double b) { return std::min(a, b); }},
    {operation::maximum, [](double a, double b) { return std::max(a, b); }}};

/// A lower bound of a number, as far as its formula shows.
double least_of(const instruction& node, const std::vector<double>& all) {
    const auto of = [&](int i) { return i < node.argument_count ? all[node.arguments[i]] : -infinity; };
    const bool is_square = node.op == operation::multiply && node.arguments[0] == node.arguments[1];
    if (node.op == operation::constant) return node.kind == kind::integer ? double(node.integer) : node.number;
    if (node.op == operation::scalar || node.op == operation::input) return -infinity;
    if (is_square || (node.op == operation::where && of(1) >= 0 && of(2) >= 0)) return 0;
    if (node.op == operation::to_real) return of(0);
    const family its = family_of(node.op);
    if (its == family::terminal) return node.op == operation::depth || node.op == operation::value_depth ? 1 : 0;
    if (its == family::function) return least_of_function(node.op);
    return its == family::arithmetic ? least_of_arithmetic[node.op](of(0), of(1)) : -infinity;
}

bool may_be_zero(const graph_ir& graph, const std::vector<double>& least, int number) {
    const instruction& node = graph.nodes[number];
    if (node.op == operation::constant && node.kind == kind::real) return node.number == 0;
    if (node.op == operation::to_real) return may_be_zero(graph, least, node.arguments[0]);
    if (node.op == operation::constant) return node.integer == 0;
    if (node.op == operation::multiply)
        return may_be_zero(graph, least, node.arguments[0]) || may_be_zero(graph, least, node.arguments[1]);
    return least[number] <= 0;
}

/// Functions that are infinite where their argument is. Values of the others have limits, or become the largest float.
bool keeps_infinity(operation op) {
    constexpr operation all[] = {operation::log,   operation::log2,  operation::log1p, operation::sqrt,
                                 operation::floor, operation::round, operation::trunc};
    return std::ranges::find(all, op) != std::end(all);
}

/// Reals that may be +infinity: those that are passed, and what arithmetic makes of them. Distances times a number are
/// left out, as ALiBi would have to look at every pair for a slope of +infinity; and so are products of rows.
bool may_be_infinite(const graph_ir& graph, const std::vector<double>& least, const std::vector<bool>& all,
                     const instruction& node) {
    const auto argument = [&](int i) -> const instruction& { return graph.nodes[node.arguments[i]]; };
    const auto of = [&](int i) { return i < node.argument_count && all[node.arguments[i]]; };
    switch (family_of(node.op)) {
        case family::terminal:
            return node.kind == kind::real &&
                   (node.op == operation::scalar || (node.op == operation::constant && std::isinf(node.number)));
        case family::tensors: return node.kind == kind::real && node.op == operation::load;
        case family::arithmetic: {
            if (node.op == operation::multiply &&
                (argument(0).op == operation::to_real || argument(1).op == operation::to_real))
                return false;
            const bool divides = node.op == operation::divide && node.kind == kind::real;
            return of(0) || (divides ? may_be_zero(graph, least, node.arguments[1]) : of(1));
        }
        case family::function:
            return keeps_infinity(node.op)
                       ? of(0)
                       : node.op == operation::rsqrt && may_be_zero(graph, least, node.arguments[0]);
        case family::function_of_two:
            return node.op == operation::pow && (of(0) || may_be_zero(graph, least, node.arguments[0]));
        case family::selection: return of(1) || of(2);
        case family::sums: return node.kind == kind::real && of(2);
        case family::patterns: return node.kind == kind::real;
        case family::conversion:
        case family::bits:
        case family::classification:
        case family::comparison:
        case family::logic:
        case family::attention:
        case family::recurrent:
        case family::random: break;
    }
    return false;
}

/// A real as it is passed: an element of an input, or a number.
bool is_passed_real(const instruction& node) {
    return node.kind == kind::real && (node.op == operation::load || node.op == operation::scalar);
}

/// What is known of the reals of a graph: lower bounds, which may be +infinity, and which are terms of scores.
struct known_of_reals {
    std::vector<double> least;
    std::vector<bool> infinite, terms;
};

bool may_make_infinity(const graph_ir& graph, const known_of_reals& known, node_id number) {
    const instruction& node = graph.nodes[number];
    if (node.kind != kind::real && node.kind != kind::scores) return false;
    const auto least = [&](int i) { return known.least[node.arguments[i]]; };
    const auto infinite = [&](int i) {
        return known.terms[number] ? known.infinite[node.arguments[i]] : is_passed_real(graph.nodes[node.arguments[i]]);
    };
    if (node.op == operation::scalar) return true;
    if (node.op == operation::log || node.op == operation::log2) return least(0) <= 0;
    if (node.op == operation::log1p) return least(0) <= -1;
    if (node.op == operation::divide)
        return node.kind == kind::real && may_be_zero(graph, known.least, node.arguments[1]);
    if (node.op == operation::negate) return infinite(0);
    if (node.op == operation::multiply)  // products of scores would have to be looked at
        return node.kind == kind::real && known.terms[number] && known.least[number] < 0 && known.infinite[number];
    return node.op == operation::subtract && infinite(1);
}

bool forms_rows(const instruction& node) {
    return node.op == operation::queries || node.op == operation::keys || node.op == operation::values;
}

/// The nodes under scores and weights, but for those that `leaves_out` and those under them. A number of a query's,
/// key's or value's row, or of an output, hides no pair: an infinity there is a number for arithmetic.
std::vector<bool> under_scores(const graph_ir& graph, bool (*leaves_out)(const instruction&)) {
    std::vector<bool> reached(graph.nodes.size());
    for (std::size_t n = graph.nodes.size(); n-- > 0;) {
        const instruction& node = graph.nodes[n];
        if (node.kind == kind::scores || node.kind == kind::weights) reached[n] = true;
        if (!reached[n] || leaves_out(node)) continue;
        for (std::size_t i = 0; i < node.argument_count; ++i) reached[node.arguments[i]] = true;
    }
    return reached;
}

/// Conditions compare infinities as they are, and sums are of rows.
bool ends_terms(const instruction& node) {
    return forms_rows(node) || node.kind == kind::condition || node.kind == kind::precomputed ||
           family_of(node.op) == family::sums;
}

bool is_gradient(const graph_ir& graph) {
    return std::ranges::any_of(graph.outputs,
                               [&](const auto& output) { return graph.nodes[output.node].kind == kind::gradient; });
}

}  // namespace

std::vector<bool> makers_of_infinity(const graph_ir& graph) {
    const std::vector<bool> counts = under_scores(graph, forms_rows);
    known_of_reals known{.least = std::vector<double>(graph.nodes.size()),
                         .infinite = std::vector<bool>(graph.nodes.size()),
                         .terms = under_scores(graph, ends_terms)};
    if (is_gradient(graph)) known.terms.assign(graph.nodes.size(), false);
    fold(graph.nodes, known.least,
         [&](node_id, const instruction& node, const auto&) { return least_of(node, known.least); });
    for (const node_id n : graph.nodes.ids())
        known.infinite[n] = may_be_infinite(graph, known.least, known.infinite, graph.nodes[n]);
    std::vector<bool> all(graph.nodes.size());
    for (const node_id n : graph.nodes.ids()) all[n] = counts[n] && may_make_infinity(graph, known, n);
    return all;
}

}  // namespace attune::generators::inline analysis

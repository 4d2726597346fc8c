#include "analysis/narrow_rows.hpp"

namespace attune::generators::inline analysis {
namespace {

bool is_of_8_bits_as_real(const graph_ir& graph, const instruction& node) {
    if (node.op != operation::load || graph.nodes[node.arguments[0]].op != operation::input) return false;
    const element_type element = graph.inputs[graph.nodes[node.arguments[0]].input].element;
    return element == element_type::f8_e4m3 || element == element_type::f8_e5m2;
}

/// Not so where two halves of a row share its bytes.
bool is_read_in_order(const graph_ir& graph, const std::vector<dependence>& depends, int codes) {
    const std::vector<bool> read = under(graph, {codes}, [](int) { return false; });
    for (int n = 0; n <= codes; ++n) {
        const instruction& node = graph.nodes[n];
        if (read[n] && node.op == operation::load && depends[n].channel &&
            graph.nodes[node.arguments[node.argument_count - 1]].op != operation::d_idx)
            return false;
    }
    return true;
}

}  // namespace

std::optional<narrow_rows> narrow_rows_of(const graph_ir& graph, const std::vector<dependence>& depends, int tensor) {
    const operation made_by = graph.nodes[tensor].op;
    if (made_by != operation::queries && made_by != operation::keys && made_by != operation::values) return {};
    const auto varies = [&](int n) { return depends[n].channel; };
    narrow_rows found{.codes = graph.nodes[tensor].arguments[0], .factors = {}};
    for (const instruction* it = &graph.nodes[found.codes]; it->op == operation::multiply;
         it = &graph.nodes[found.codes]) {
        const int left = it->arguments[0], right = it->arguments[1];
        if (varies(left) == varies(right)) return {};
        found.codes = varies(left) ? left : right;
        found.factors.push_back(varies(left) ? right : left);
    }
    const instruction& codes = graph.nodes[found.codes];
    if (!varies(found.codes)) return {};
    found.in_order = is_read_in_order(graph, depends, found.codes);
    if (is_of_8_bits_as_real(graph, codes)) return found;
    if (codes.op != operation::to_real || graph.nodes[codes.arguments[0]].kind != kind::integer) return {};
    found.whole = true;
    found.range = integers_of(graph.nodes, graph.inputs, codes.arguments[0]);
    return found;
}

}  // namespace attune::generators::inline analysis

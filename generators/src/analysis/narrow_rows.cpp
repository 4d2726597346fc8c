#include "analysis/narrow_rows.hpp"

#include <numeric>

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

/// The channels of the blocks within which a number is the same: it reads its channel as d_idx / block alone. 0: there
/// are none.
int block_of(const graph_ir& graph, const std::vector<dependence>& depends, int number) {
    const instruction& node = graph.nodes[number];
    if (node.op == operation::divide && graph.nodes[node.arguments[0]].op == operation::d_idx) {
        const instruction& by = graph.nodes[node.arguments[1]];
        return by.op == operation::constant && by.integer > 0 ? static_cast<int>(by.integer) : 0;
    }
    int block = 0;
    for (int i = 0; i < node.argument_count; ++i) {
        if (!depends[node.arguments[i]].channel) continue;
        const int its = block_of(graph, depends, node.arguments[i]);
        if (its == 0 || (block != 0 && its != block)) return 0;
        block = its;
    }
    return block;
}

/// The fewest neighbouring channels that a formula reads alike: it takes quotients and remainders of d_idx by so many.
int neighbours_of(const graph_ir& graph, int number, int most) {
    const std::vector<bool> read = under(graph, {number});
    int fewest = most;
    for (int n = 0; n <= number; ++n) {
        const instruction& node = graph.nodes[n];
        if (!read[n] || (node.op != operation::divide && node.op != operation::remainder)) continue;
        const instruction &of = graph.nodes[node.arguments[0]], &by = graph.nodes[node.arguments[1]];
        if (of.op == operation::d_idx && by.op == operation::constant && by.integer > 0)
            fewest = std::gcd(fewest, static_cast<int>(by.integer));
    }
    return fewest;
}

}  // namespace

std::optional<narrow_rows> narrow_rows_of(const graph_ir& graph, const std::vector<dependence>& depends, int tensor) {
    const auto found = blocked_rows_of(graph, depends, tensor);
    return found && found->block == 0 ? found : std::nullopt;
}

std::optional<narrow_rows> blocked_rows_of(const graph_ir& graph, const std::vector<dependence>& depends, int tensor) {
    const operation made_by = graph.nodes[tensor].op;
    if (made_by != operation::queries && made_by != operation::keys && made_by != operation::values) return {};
    const auto varies = [&](int n) { return depends[n].channel; };
    narrow_rows found{.codes = graph.nodes[tensor].arguments[0], .factors = {}};
    for (const instruction* it = &graph.nodes[found.codes]; it->op == operation::multiply;
         it = &graph.nodes[found.codes]) {
        const int left = it->arguments[0], right = it->arguments[1];
        if (varies(left) && varies(right)) {
            const int of_left = block_of(graph, depends, left), of_right = block_of(graph, depends, right);
            if (found.scale >= 0 || (of_left == 0) == (of_right == 0)) return {};
            found.block = of_left + of_right;
            found.scale = of_left ? left : right, found.codes = of_left ? right : left;
            continue;
        }
        if (!varies(left) && !varies(right)) return {};
        found.codes = varies(left) ? left : right;
        found.factors.push_back(varies(left) ? right : left);
    }
    const instruction& codes = graph.nodes[found.codes];
    if (!varies(found.codes)) return {};
    if (found.block > 0) found.neighbours = neighbours_of(graph, found.codes, found.block);
    found.in_order = is_read_in_order(graph, depends, found.codes);
    if (is_of_8_bits_as_real(graph, codes)) return found;
    if (codes.op == operation::load) {
        const auto made = codes_made_before(graph, codes.arguments[0]);
        if (!made) return {};
        found.whole = true, found.range = *made, found.integer = found.codes;
        return found;
    }
    if (codes.op != operation::to_real || graph.nodes[codes.arguments[0]].kind != kind::integer) return {};
    found.whole = true, found.integer = codes.arguments[0];
    found.range = integers_of(graph.nodes, graph.inputs, codes.arguments[0]);
    return found;
}

std::optional<integer_interval> codes_made_before(const graph_ir& graph, int tensor) {
    const instruction& made = graph.nodes[tensor];
    if (made.op != operation::precomputed) return {};
    const instruction& element = graph.nodes[made.arguments[0]];
    if (element.op != operation::to_real || graph.nodes[element.arguments[0]].kind != kind::integer) return {};
    const bool is_output = std::ranges::any_of(graph.outputs, [&](const auto& each) { return each.node == tensor; }),
               is_chosen_from = std::ranges::any_of(graph.nodes, [&](const instruction& node) {
                   return chooses(node.op) && node.arguments[0] == tensor;
               });
    const integer_interval range = integers_of(graph.nodes, graph.inputs, element.arguments[0]);
    if (is_output || is_chosen_from || !range.is_within(interval_of(element_type::i8))) return {};
    return range;
}

}  // namespace attune::generators::inline analysis

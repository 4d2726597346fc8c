#include "analysis/narrow_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace attune::generators {
namespace {

/// Where an integer lies, at any index and for any tensor.
struct whole_range {
    std::int64_t least{std::numeric_limits<std::int32_t>::min()}, most{std::numeric_limits<std::int32_t>::max()};
    bool within(std::int64_t low, std::int64_t high) const { return low <= least && most <= high; }
};

whole_range range_of_element(element_type element) {
    if (element == element_type::u8) return {0, 255};
    if (element == element_type::i8) return {-128, 127};
    if (element == element_type::i16) return {-32768, 32767};
    return {};
}

whole_range range_at(const graph_ir& graph, const instruction& node, const std::vector<whole_range>& of_nodes) {
    const auto of = [&](int i) { return of_nodes[static_cast<std::size_t>(node.arguments[i])]; };
    const auto made = [](std::int64_t least, std::int64_t most) {
        return whole_range{}.least <= least && most <= whole_range{}.most ? whole_range{least, most} : whole_range{};
    };
    if (node.kind != kind::integer) return {};
    switch (node.op) {
        case operation::constant: return {node.integer, node.integer};
        case operation::load: {
            const instruction& tensor = graph.nodes[node.arguments[0]];
            return tensor.op == operation::input ? range_of_element(graph.inputs[tensor.input].element) : whole_range{};
        }
        case operation::add: return made(of(0).least + of(1).least, of(0).most + of(1).most);
        case operation::subtract: return made(of(0).least - of(1).most, of(0).most - of(1).least);
        case operation::minimum: return {std::min(of(0).least, of(1).least), std::min(of(0).most, of(1).most)};
        case operation::maximum: return {std::max(of(0).least, of(1).least), std::max(of(0).most, of(1).most)};
        case operation::where: return {std::min(of(1).least, of(2).least), std::max(of(1).most, of(2).most)};
        case operation::bit_and:
            for (const int i : {1, 0})
                if (of(i).least >= 0) return {0, of(i).most};
            return {};
        case operation::shift_right:
            return {std::min<std::int64_t>(of(0).least, 0), std::max(of(0).most, std::int64_t{0})};
        default: return {};
    }
}

whole_range range_of(const graph_ir& graph, int node) {
    std::vector<whole_range> all;
    for (int n = 0; n <= node; ++n) all.push_back(range_at(graph, graph.nodes[n], all));
    return all.back();
}

bool is_of_8_bits_as_real(const graph_ir& graph, const instruction& node) {
    if (node.op != operation::load || graph.nodes[node.arguments[0]].op != operation::input) return false;
    const element_type element = graph.inputs[graph.nodes[node.arguments[0]].input].element;
    return element == element_type::f8_e4m3 || element == element_type::f8_e5m2;
}

}  // namespace

std::optional<narrow_rows> narrow_rows_of(const graph_ir& graph, const std::vector<dependence>& depends, int tensor) {
    const operation made_by = graph.nodes[tensor].op;
    if (made_by != operation::queries && made_by != operation::keys && made_by != operation::values) return {};
    const auto varies = [&](int n) { return depends[n].channel; };
    narrow_rows found{graph.nodes[tensor].arguments[0], {}};
    for (const instruction* it = &graph.nodes[found.codes]; it->op == operation::multiply;
         it = &graph.nodes[found.codes]) {
        const int left = it->arguments[0], right = it->arguments[1];
        if (varies(left) == varies(right)) return {};
        found.codes = varies(left) ? left : right;
        found.factors.push_back(varies(left) ? right : left);
    }
    const instruction& codes = graph.nodes[found.codes];
    if (!varies(found.codes)) return {};
    if (is_of_8_bits_as_real(graph, codes)) return found;
    if (codes.op != operation::to_real || graph.nodes[codes.arguments[0]].kind != kind::integer) return {};
    found.whole = true;
    found.of_8_bits = range_of(graph, codes.arguments[0]).within(-128, 127);
    return found;
}

bool multiplies_bytes(const graph_ir& graph, const std::vector<dependence>& depends, const plan& core) {
    if (core.contraction < 0) return false;
    const auto queries = narrow_rows_of(graph, depends, core.query), keys = narrow_rows_of(graph, depends, core.key);
    return queries && keys && queries->of_8_bits && keys->of_8_bits;
}

}  // namespace attune::generators

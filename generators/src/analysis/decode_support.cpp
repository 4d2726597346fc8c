#include "analysis/listed_keys.hpp"
#include "analysis/plan.hpp"

#include <optional>
#include <vector>

namespace attune::generators::inline analysis {
namespace {

/// Whether a node is h / (heads / key_heads).
bool is_key_head(const graph_ir& graph, const instruction& node) {
    const auto op = [&](const instruction& of, int argument) { return graph.nodes[of.arguments[argument]].op; };
    if (node.op != operation::divide || op(node, 0) != operation::h || op(node, 1) != operation::divide) return false;
    const instruction& group = graph.nodes[node.arguments[1]];
    return op(group, 0) == operation::heads && op(group, 1) == operation::key_heads;
}

}  // namespace

std::vector<bool> of_query_heads(const graph_ir& graph) {
    std::vector<bool> needs;
    for (const instruction& node : graph.nodes) {
        bool here = node.op == operation::h || node.op == operation::keep || node.kind == kind::row;
        const bool load = node.op == operation::load;
        const instruction* const tensor = load ? &graph.nodes[node.arguments[0]] : nullptr;
        for (int i = load ? 1 : 0; i < node.argument_count; ++i) {
            const int argument = node.arguments[i];
            const bool key_head = load && ((tensor->op == operation::input &&
                                            graph.inputs[tensor->input].axes[i - 1].kind == axis_kind::key_head) ||
                                           (tensor->kind == kind::precomputed && i == 2 && !needs[node.arguments[0]]));
            if (!(key_head && graph.nodes[argument].op == operation::h)) here = here || needs[argument];
        }
        const int n = static_cast<int>(needs.size());
        needs.push_back(here && !is_key_head(graph, node) && !lists_keys(graph, n));  // a list is of all query heads
    }
    return needs;
}

std::vector<dependence> stacked(const graph_ir& graph, std::vector<dependence> depends) {
    const std::vector<bool> needs = of_query_heads(graph);
    for (std::size_t n = 0; n < depends.size(); ++n) depends[n].query = depends[n].query || needs[n];
    return depends;
}

int load_of_rows(const graph_ir& graph, int tensor) {
    const instruction& node = graph.nodes[tensor];
    if (node.op != operation::keys && node.op != operation::values) return -1;
    const int load = node.arguments[0];
    const instruction& element = graph.nodes[load];
    if (element.op != operation::load || graph.nodes[element.arguments[0]].op != operation::input) return -1;
    const input_declaration& input = graph.inputs[graph.nodes[element.arguments[0]].input];
    const bool along_channels = graph.nodes[element.arguments[input.rank]].op == operation::d_idx;
    if (!has_dense_rows(input) || !along_channels) return -1;
    // A row lies in one piece if no other index differs with the channel.
    const std::vector<bool> made =
        under(graph, {element.arguments.begin() + 1, element.arguments.begin() + input.rank});
    for (std::size_t n = 0; n < made.size(); ++n)
        if (made[n] && graph.nodes[n].op == operation::d_idx) return -1;
    return load;
}

int input_of_rows(const graph_ir& graph, int tensor) {
    if (graph.nodes[tensor].op == operation::input) return graph.nodes[tensor].input;
    const int load = load_of_rows(graph, tensor);
    return load < 0 ? -1 : graph.nodes[graph.nodes[load].arguments[0]].input;
}

namespace {

/// A tensor that is just `input(..., kv_idx, ..., d_idx)`: the input and its other indices.
struct rows_of_input {
    int input{};
    std::vector<int> indices;  ///< nodes, without the channel; -1: the axis's own
    bool operator==(const rows_of_input&) const = default;
};

std::optional<rows_of_input> rows_in_place(const graph_ir& graph, const std::vector<dependence>& depends, int tensor) {
    const instruction& node = graph.nodes[tensor];
    if (node.op == operation::input) return rows_of_input{node.input, std::vector<int>(3, -1)};
    const instruction& element = graph.nodes[node.arguments[0]];
    if (element.op != operation::load) return {};
    const instruction& from = graph.nodes[element.arguments[0]];
    if (from.op != operation::input) return {};
    const input_declaration& input = graph.inputs[from.input];
    if (!has_dense_rows(input) || bytes_of(input.element) == 1) return {};
    if (graph.nodes[element.arguments[input.rank]].op != operation::d_idx) return {};
    rows_of_input rows{from.input, {}};
    for (int axis = 0; axis + 1 < input.rank; ++axis) {
        const int index = element.arguments[axis + 1];
        const operation at = graph.nodes[index].op;
        const axis_kind along = input.axes[axis].kind;
        const bool own = (along == axis_kind::batch && at == operation::b) ||
                         (along == axis_kind::key_head && at == operation::h) ||
                         (along == axis_kind::key && at == operation::kv_idx);
        if (!own && (depends[index].key || depends[index].channel)) return {};
        rows.indices.push_back(own ? -1 : index);
    }
    return rows;
}

}  // namespace

bool lies_in_rows(const graph_ir& graph, const std::vector<dependence>& depends, int tensor) {
    return rows_in_place(graph, depends, tensor).has_value();
}

bool values_lie_in_keys(const graph_ir& graph, const std::vector<dependence>& depends, const plan& core) {
    if (core.key < 0 || core.value < 0) return false;
    const auto keys = rows_in_place(graph, depends, core.key);
    return keys && keys == rows_in_place(graph, depends, core.value);
}

namespace {

/// The same for one attention core.
std::string decode_unsupported_reason_of(const graph_ir& graph, const plan& core) {
    if (!core.needs_state() || core.contraction < 0) return "no row is summed over the keys";
    if (!core.further.empty()) return "scores have a further sum over products of a query's and a key's numbers";
    const std::vector<bool> needs = of_query_heads(graph);
    const std::vector<dependence> depends = dependences(graph);
    for (const int tensor : {core.key, core.value}) {
        if (tensor < 0) continue;
        const instruction& node = graph.nodes[tensor];
        const bool input = node.op == operation::input;
        if (input && graph.inputs[node.input].axes[1].kind == axis_kind::head)
            return "keys or values are those of a query head, not of a group";
        if (!input && needs[node.arguments[0]]) return "keys or values are computed for a query head, not for a group";
    }
    for (const int tensor : {core.query, core.key, core.value}) {
        if (tensor < 0 || graph.nodes[tensor].op == operation::input) continue;
        std::vector<bool> made(graph.nodes.size());
        made[graph.nodes[tensor].arguments[0]] = true;
        for (int n = tensor; n >= 0; --n) {
            if (!made[n]) continue;
            // One number for a row of queries, as a normalisation has, is computed once a task.
            const bool of_row = tensor == core.query && !depends[n].channel && depends[n].bound == 0;
            if (graph.nodes[n].op == operation::tokens || (family_of(graph.nodes[n].op) == family::sums && !of_row))
                return "queries, keys or values are computed by sums, such as projections";
            if (graph.nodes[n].kind == kind::precomputed) continue;  // its sums are made before
            for (int i = 0; i < graph.nodes[n].argument_count; ++i) made[graph.nodes[n].arguments[i]] = true;
        }
    }
    return {};
}

}  // namespace

std::string decode_unsupported_reason(const graph_ir& graph, const plan& core) {
    if (core.makes(kind::gradient)) return "gradients are summed over the queries";
    if (core.needs_state())
        for (const kind output : core.outputs)
            if (output != kind::output && output != kind::row && output != kind::precomputed)
                return output == kind::tokens ? "tokens are computed around it" : "an output has an axis of keys";
    for (const plan* each : core.cores())
        if (std::string reason = decode_unsupported_reason_of(graph, *each); !reason.empty()) return reason;
    return {};
}

}  // namespace attune::generators::inline analysis

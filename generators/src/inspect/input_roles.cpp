#include "inspect/input_roles.hpp"

#include <attune/ir/operations.hpp>

namespace attune::generators::inline inspect {
namespace {

/// A comparison as a sum on its left: the signed terms of `left - right`.
void terms_of(const graph_ir& graph, int at, int sign, std::vector<std::pair<int, int>>& terms) {
    const instruction& node = graph.nodes[at];
    if (node.op == operation::negate) return terms_of(graph, node.arguments[0], -sign, terms);
    if (node.op != operation::add && node.op != operation::subtract) return void(terms.emplace_back(at, sign));
    terms_of(graph, node.arguments[0], sign, terms);
    terms_of(graph, node.arguments[1], node.op == operation::add ? sign : -sign, terms);
}

/// Whether a position is one still, neither divided nor reduced.
constexpr by_operation<family::arithmetic, bool> keeps_position{
    {operation::negate, true},     {operation::absolute, true},  {operation::add, true},
    {operation::subtract, true},   {operation::multiply, false}, {operation::divide, false},
    {operation::remainder, false}, {operation::minimum, true},   {operation::maximum, true}};

int input_of_load(const graph_ir& graph, int at) {
    return graph.nodes[at].op == operation::load ? graph.nodes[graph.nodes[at].arguments[0]].input : -1;
}

void note_comparison(const graph_ir& graph, const instruction& node, std::vector<input_role>& roles) {
    std::vector<std::pair<int, int>> terms;
    terms_of(graph, node.arguments[0], 1, terms);
    terms_of(graph, node.arguments[1], -1, terms);
    int positions = 0, sign_of_position = 0;
    for (const auto& [at, sign] : terms)
        if (graph.nodes[at].op == operation::q_idx || graph.nodes[at].op == operation::kv_idx)
            ++positions, sign_of_position = sign;
    if (positions == 0 || node.op == operation::equal || node.op == operation::not_equal) return;
    const bool left_is_smaller = node.op == operation::less || node.op == operation::less_equal;
    for (const auto& [at, sign] : terms) {
        const int input = input_of_load(graph, at);
        if (input < 0 || roles[input].is != input_role::other) continue;
        if (positions > 1)
            roles[input].is = input_role::offset;
        else if (sign != sign_of_position)
            roles[input].is = (sign > 0) == left_is_smaller ? input_role::lower_bound : input_role::upper_bound;
    }
}

}  // namespace

std::vector<input_role> roles_of_inputs(const graph_ir& graph) {
    std::vector<input_role> roles(graph.inputs.size());
    std::vector<bool> position(graph.nodes.size());  // a position, neither divided nor reduced
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const instruction& node = graph.nodes[n];
        if (node.op == operation::q_idx || node.op == operation::kv_idx) {
            position[n] = true;
        } else if (keeps_position[node.op]) {
            for (int i = 0; i < node.argument_count; ++i) position[n] = position[n] || position[node.arguments[i]];
        } else if (node.op == operation::load && graph.nodes[node.arguments[0]].op == operation::input) {
            input_role& role = roles[graph.nodes[node.arguments[0]].input];
            role.read = true;
            for (int axis = 0; axis + 1 < node.argument_count; ++axis)
                role.by_position[axis] |= position[node.arguments[axis + 1]];
        } else if (family_of(node.op) == family::comparison) {
            note_comparison(graph, node, roles);
        } else if (node.op == operation::shift_right) {
            if (const int input = input_of_load(graph, node.arguments[0]); input >= 0)
                roles[input].is = input_role::bits;
        }
    }
    return roles;
}

}  // namespace attune::generators::inline inspect

#include "gradients.hpp"
#include "statistics.hpp"

#include <attune/ir/gradient_outputs.hpp>

#include <algorithm>
#include <stdexcept>

namespace attune::reference {

gradient_writer::gradient_writer(const graph_ir& graph, const output_declaration& declared, const evaluation& e)
    : graph_(graph), node_(declared.node), to_{std::string(declared.name), {}, {}} {
    const auto input = static_cast<std::int16_t>(input_of_gradient(graph, declared));
    if (input < 0) throw std::invalid_argument("reference: a gradient that is no deposit");
    to_.query_axis = -1;
    std::int64_t size = 1;
    for (std::size_t a = 0; a < graph.inputs[static_cast<std::size_t>(input)].rank; ++a)
        to_.shape.push_back(e.extent_of(input, a)), size *= to_.shape.back();
    to_.values.assign(static_cast<std::size_t>(size), 0.0);
}

void gradient_writer::add(evaluation& e, node_id node, bool to_first_states) {
    const instruction& it = at(node);
    if (it.op != operation::deposit) {
        for (const int part : {0, 1}) add(e, it.arguments[part], to_first_states);
    } else if (!to_first_states || it.integer == 2) {
        add_value(e, it, it.arguments[0]);
    }
}

void gradient_writer::add_value(evaluation& e, const instruction& deposit, node_id value) {
    const instruction& it = at(value);
    if (it.op == operation::each)
        return e.for_each(it.arguments[0], it.arguments[1], [&] { add_value(e, deposit, it.arguments[2]); });
    const auto& axes = graph_.inputs[static_cast<std::size_t>(deposit.input)].axes;
    if (deposit.integer == 2 && e.token() != 0) return;
    const auto x = e.value(value);
    std::array<evaluation::shared_column, max_rank> indices;
    std::array<std::int64_t, max_rank> key_heads{};
    for (std::size_t a = 0; a < to_.shape.size(); ++a) {
        const node_id index = deposit.arguments[a + 1];
        const bool of_key_head = axes[a].kind == axis_kind::key_head && at(index).op == operation::h;
        if (of_key_head)
            key_heads[a] = e.key_head();
        else
            indices[a] = e.value(index);
    }
    const auto from = [](const auto& column, std::size_t key) { return column[column.size() == 1 ? 0 : key]; };
    const std::size_t keys = deposit.integer == 1 ? static_cast<std::size_t>(e.keys_at_hand()) : 1;
    for (std::size_t key = 0; key < keys; ++key) {
        const double term = from(x->real, key);
        if (term == masked) continue;
        std::int64_t place = 0;
        for (std::size_t a = 0; a < to_.shape.size(); ++a) {
            const std::int64_t index = indices[a] ? from(indices[a]->integer, key) : key_heads[a];
            place = place * to_.shape[a] + std::clamp<std::int64_t>(index, 0, to_.shape[a] - 1);
        }
        if (!to_.values.empty()) to_.values[static_cast<std::size_t>(place)] += term;
    }
}

}  // namespace attune::reference

#include "call/shape/projections.hpp"

#include <attune/ir/projections.hpp>

#include <algorithm>

namespace attune::detail {
computed_cost cost_of_computed(const call_shape& shape, const graph_ir& graph, const matched_arguments& given,
                               const kernel& k) {
    const auto panel = static_cast<std::size_t>(std::max(k.product_channels, 1)),
               positions_a_block = static_cast<std::size_t>(k.product_positions);
    const auto number = [](std::int64_t x) { return static_cast<std::size_t>(std::max<std::int64_t>(x, 0)); };
    const std::size_t batches = number(shape[axis_kind::batch]), heads = number(shape[axis_kind::head]);
    computed_cost cost;
    for (const node_id n : computed_in_full(graph)) {
        const instruction& tensor = node_of(graph, n);
        const bool tokens = tensor.op == operation::tokens,
                   of_keys = tensor.op == operation::keys || tensor.op == operation::values;
        const std::size_t width =
            number(tokens ? number_of_call(shape, graph, given, tensor.arguments[1])
                          : shape[tensor.op == operation::values ? axis_kind::value_depth : axis_kind::depth]);
        const std::size_t rows =
            batches * (tokens ? 1 : heads) * number(shape[of_keys ? axis_kind::key : axis_kind::query]);
        const bool is_output = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                           [n](const output_declaration& o) { return o.node == n; });
        const auto add = [&](std::size_t& to, std::size_t bytes) {
            to += bytes, cost.largest_bytes = std::max(cost.largest_bytes, bytes);
        };
        if (!is_output) add(cost.tensor_bytes, sizeof(float) * rows * width);
        std::size_t block = 0;
        for (const matrix_product& product : products_of(graph, n)) {
            const std::size_t length = number(number_of_call(shape, graph, given, product.extent));
            cost.flops += 2.0 * static_cast<double>(rows) * static_cast<double>(width) * static_cast<double>(length);
            add(cost.packed_bytes,
                sizeof(float) * length * ((width + panel - 1) / panel * panel) * (product.channel_of_head ? heads : 1));
            block += sizeof(float) * positions_a_block * length;
        }
        cost.block_bytes = std::max(cost.block_bytes, block);
    }
    for (const node_id n : graph.nodes.ids()) {
        if (graph.nodes[n].kind != kind::precomputed) continue;
        const instruction& reals = precomputed_reals(graph, n);
        std::size_t bytes = batches * heads * (chooses(graph.nodes[n].op) ? 1 : sizeof(float));
        for (std::size_t argument = 2; argument < reals.argument_count; argument += 2)
            bytes *= number(number_of_call(shape, graph, given, reals.arguments[argument]));
        cost.tensor_bytes += bytes, cost.largest_bytes = std::max(cost.largest_bytes, bytes);
    }
    return cost;
}

}  // namespace attune::detail

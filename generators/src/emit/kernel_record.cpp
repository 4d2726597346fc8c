#include "emit/kernel_record.hpp"

#include "analysis/plan.hpp"

#include <attune/ir/projections.hpp>

namespace attune::generators {

kernel kernel_record(const listed_kernel& made) {
    const auto& [graph, types, depths, cut] = made.request;
    const plan core = plan_of(graph);
    const row_memory rows = row_memory_of(made.request);
    const product_tile tile = product_tile_of(made.request);
    const bool has_products = !computed_in_full(graph).empty();
    return {.symbol = nullptr,
            .target = nullptr,
            .query = types.query,
            .key = types.key,
            .value = types.value,
            .output = types.output,
            .depth = depths.depth,
            .value_depth = depths.value_depth,
            .query_block = cut.query_block,
            .key_block = cut.key_block,
            .scratch_bytes = scratch_bytes(made.request),
            .schedule = nullptr,
            .call = nullptr,
            .blocks = nullptr,
            .saved_rows = core.saved_rows,
            .saved_outputs = core.saved_output >= 0 ? 1 : 0,
            .shapes = cut.shapes,
            .from_queries = made.from_queries,
            .to_queries = made.to_queries,
            .key_splits = cut.shapes == shape_class::decode ? cut.key_splits : 0,
            .row_bytes = rows.scratch_bytes,
            .part_bytes = rows.part_bytes,
            .product_positions = has_products ? tile.positions * product_tile::most : 0,
            .product_channels = has_products ? tile.channels : 0};
}

}  // namespace attune::generators

#include "emit/kernel_record.hpp"

#include <attune/ir/projections.hpp>

namespace attune::generators {

kernel kernel_record(const listed_kernel& made) {
    const auto& [facts, types, depths, target, cut] = made.request;
    const auto [query_block, key_block] = blocks_of(cut);
    const plan& core = facts->core;
    const row_memory rows = row_memory_of(made.request);
    const sum_memory sums = sum_memory_of(made.request);
    const product_tile tile = product_tile_of(made.request);
    const bool has_products = !computed_in_full(facts->graph).empty();
    return {.symbol = nullptr,
            .target = nullptr,
            .query = types.query,
            .key = types.key,
            .value = types.value,
            .output = types.output,
            .depth = depths.depth,
            .value_depth = depths.value_depth,
            .query_block = query_block,
            .key_block = key_block,
            .scratch_bytes = scratch_bytes(made.request),
            .schedule = nullptr,
            .call = nullptr,
            .blocks = nullptr,
            .saved_rows = core.saved_rows,
            .saved_outputs = core.saved_output >= 0 ? 1 : 0,
            .shapes = shapes_of(cut),
            .from_queries = made.from_queries,
            .to_queries = made.to_queries,
            .key_splits = decodes(cut) ? splits_of(cut) : 0,
            .row_bytes = rows.scratch_bytes,
            .part_bytes = rows.part_bytes,
            .product_positions = has_products ? tile.positions * product_tile::most : 0,
            .product_channels = has_products ? tile.channels : 0,
            .sums = {sums.of_query, sums.of_key, sums.of_key_head, sums.parts, fewest_blocks_of_part, sums.depths}};
}

}  // namespace attune::generators

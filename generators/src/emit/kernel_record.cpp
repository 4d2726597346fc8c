#include "emit/kernel_record.hpp"

#include "emit/visible_keys.hpp"

#include <attune/ir/projections.hpp>
#include <attune/runtime/detail/key_splits.hpp>

#include <algorithm>

namespace attune::generators::inline emit {
namespace {

/// Of a graph that is no gradient.
int depths_of_pair(const graph_ir& graph, const depth_pair& depths) {
    const auto has = [&](operation op) {
        return std::ranges::find(graph.nodes, op, &instruction::op) != graph.nodes.end();
    };
    return (has(operation::contract) ? depths.depth : 0) + (has(operation::weighted_sum) ? depths.value_depth : 0);
}

/// At most. Splits of what a window hides would be empty, so there are as many as its own blocks are work for, as in
/// calls of so many keys in all (key_splits.cpp of the runtime). A GPU has work for more.
int key_splits(const kernel_request& request) {
    if (!decodes(request.schedule)) return 0;
    const graph_facts& facts = *request.facts;
    const auto [query_block, key_block] = blocks_of(request.schedule);
    const int most = splits_of(request.schedule);
    const auto keys = visible_keys(facts.graph, facts.depends, facts.core);
    if (!keys || request.on_gpu()) return most;
    const std::int64_t blocks = (*keys + query_block - 1 + key_block - 1) / key_block;
    return static_cast<int>(std::clamp<std::int64_t>(blocks / detail::fewest_blocks_of_split, 1, most));
}

}  // namespace

attune::kernel kernel_record(const listed_kernel& made) {
    const auto& [facts, types, depths, target, cut, finite] = made.request;
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
            .stores = nullptr,
            .saved_rows = core.saved_rows,
            .saved_outputs = core.saved_output >= 0 ? 1 : 0,
            .shapes = shapes_of(cut),
            .from_queries = made.from_queries,
            .to_queries = made.to_queries,
            .key_splits = key_splits(made.request),
            .row_bytes = rows.scratch_bytes,
            .split_bytes = rows.part_bytes,
            .product_positions = has_products ? tile.positions * product_tile::most : 0,
            .product_channels = has_products ? tile.channels : 0,
            .depths_of_pair = sums.depths != 0 ? sums.depths : depths_of_pair(facts->graph, depths),
            .sums = {.of_query = sums.of_query,
                     .of_key = sums.of_key,
                     .of_key_head = sums.of_key_head,
                     .parts = sums.parts,
                     .blocks_of_part = sums.parts != 0 ? fewest_blocks_of_part : 0},
            .cpus = nullptr};
}

}  // namespace attune::generators::inline emit

#include "emit/kernel_record.hpp"

#include "base/about.hpp"
#include "emit/visible_keys.hpp"
#include "kernel/tensor_schedule.hpp"
#include "plans/kernel_plan.hpp"

#include <attune/runtime/detail/key_splits.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <variant>

namespace attune::generators::inline emit {
namespace {

constexpr std::int64_t most_visible = std::numeric_limits<int>::max();

/// The depths that a pair of a graph multiplies, if the graph is no gradient.
int depths_of_pair(const graph_ir& graph, const depth_pair& depths) {
    const auto has = [&](operation op) {
        return std::ranges::find(graph.nodes, op, &instruction::op) != graph.nodes.end();
    };
    return (has(operation::contract) ? depths.depth : 0) + (has(operation::weighted_sum) ? depths.value_depth : 0);
}

/// The most splits of the keys. Splits of hidden keys would be empty, so a window has as many as its own blocks give
/// work to, like a call with only these keys (key_splits.cpp of the runtime). A GPU has work for more. Splits cover the
/// stretch from the first to the last visible key: sinks and a window have one, or the schedule's number with most of
/// the window in the last one.
int key_splits(const kernel_plan& planned, const std::optional<seen_keys>& keys) {
    const auto* decode = std::get_if<decode_plan>(&planned.body);
    if (!decode) return 0;
    const block_grid& grid = decode->grid;
    if (!keys || !keys->constant() || planned.on_gpu) return decode->splits;
    const std::int64_t blocks = (keys->most.constant + grid.queries - 1 + grid.keys - 1) / grid.keys,
                       splits = std::clamp<std::int64_t>(blocks / detail::fewest_blocks_of_split, 1, decode->splits);
    return keys->in_one_stretch || splits == 1 ? static_cast<int>(splits) : decode->splits;
}

attune::kernel::key_bound recorded(const seen_keys& keys) {
    attune::kernel::key_bound bound;
    bound.constant = static_cast<int>(std::clamp<std::int64_t>(keys.most.constant, -most_visible, most_visible));
    std::size_t at = 0;
    for (const auto& [node, factor] : keys.most.terms)
        bound.numbers[at++] = {.node = node, .factor = static_cast<int>(factor)};
    return bound;
}

}  // namespace

attune::kernel kernel_record(const listed_kernel& made) {
    const auto& [facts, types, depths, target, cut, finite, tf32_products] = made.request;
    const kernel_plan planned = about(made.of->name, [&] { return plan_kernel(made.request); });
    const plan& core = facts->core;
    const kernel_bytes& bytes = planned.bytes;
    const product_tile tile = product_tile_of(made.request);
    std::optional<seen_keys> seen;
    if (std::holds_alternative<decode_plan>(planned.body)) seen = visible_keys(*facts);
    const auto* by_tensor_cores = std::get_if<gpu_tensor_decode>(&cut);
    const bool has_products = !planned.before.empty() || !planned.after.empty();
    return {.symbol = nullptr,
            .target = nullptr,
            .query = types.query,
            .key = types.key,
            .value = types.value,
            .output = types.output,
            .depth = depths.depth,
            .value_depth = depths.value_depth,
            .query_block = planned.grid().queries,
            .key_block = planned.grid().keys,
            .scratch_bytes = bytes.of_thread,
            .schedule = nullptr,
            .call = nullptr,
            .blocks = nullptr,
            .stores = nullptr,
            .saved_rows = core.saved_rows,
            .saved_outputs = core.saved_output >= 0 ? 1 : 0,
            .shapes = shapes_of(cut),
            .from_queries = made.from_queries,
            .to_queries = made.to_queries,
            .key_splits = key_splits(planned, seen),
            .visible_keys = seen ? recorded(*seen) : attune::kernel::key_bound{},
            .row_bytes = bytes.of_row,
            .splits = {.of_row = bytes.of_split_row,
                       .rows = by_tensor_cores ? by_tensor_cores->of_split().query_block() : 1},
            .product_positions = has_products ? tile.positions * product_tile::most : 0,
            .product_channels = has_products ? tile.channels : 0,
            .depths_of_pair = bytes.sums.depths != 0 ? bytes.sums.depths : depths_of_pair(facts->graph, depths),
            .sums = {.of_query = bytes.sums.of_query,
                     .of_key = bytes.sums.of_key,
                     .of_key_head = bytes.sums.of_key_head,
                     .parts = bytes.sums.parts,
                     .blocks_of_part = bytes.sums.parts != 0 ? fewest_blocks_of_part : 0},
            .cpus = nullptr,
            .row_alignment = uses_tensor_cores(cut) ? tensor_row_alignment : 0,
            .capability = target->capability};
}

}  // namespace attune::generators::inline emit

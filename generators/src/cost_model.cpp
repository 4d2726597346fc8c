#include "cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace attune::generators {
namespace {

constexpr double sizeof_f32 = 4;

/// One step of a sum over registers of `vectors` x `size` accumulators.
double step_cycles(const machine_model& machine, const level& isa, int vectors, int size) {
    const double sums = static_cast<double>(vectors) * size;
    const double arithmetic = sums / machine.fmas_a_cycle, loads = (vectors + size) / machine.loads_a_cycle;
    const double missing = std::max(0.0, sums + vectors + 1 - isa.registers);  // are spilt and filled
    const double addresses = std::max(0, size - 8);                            // rows that have no register for their address
    return std::max({arithmetic, loads, machine.fma_latency}) + 1.2 * missing * missing + 0.6 * addresses;
}

struct visits {
    double blocks, masked;  ///< of all query blocks together
};

/// Key blocks that a causal mask or a window leaves, and those of them that it crosses. A window whose width only the call knows is taken for 256.
visits visited(const schedule& s, masking hides, const call_shape& call) {
    const double tasks = std::ceil(static_cast<double>(call.queries) / s.query_block), blocks = std::ceil(static_cast<double>(call.keys) / s.key_block);
    if (hides == masking::none) return {tasks * blocks, 0};
    visits sum{};
    const double width = hides == masking::window ? 256 : static_cast<double>(call.keys);
    for (double task = 0; task < tasks; ++task) {
        const double first_query = task * s.query_block, last_query = std::min<double>(first_query + s.query_block, static_cast<double>(call.queries)) - 1;
        const double last = std::min(blocks - 1, std::floor(last_query / s.key_block)), first = std::max(0.0, std::floor((first_query - width) / s.key_block));
        sum.blocks += last - first + 1;
        sum.masked += std::min(last - first + 1, 1 + std::floor(last_query / s.key_block) - std::floor(first_query / s.key_block) + (hides == masking::window ? 1 : 0));
    }
    return sum;
}

/// Few queries, their channels in lanes: rows take turns with a few keys, which stay in the first-level cache; keys and values stream.
double decode_cycles(const kernel_request& request, const machine_model& machine, const call_shape& call) {
    const schedule& s = request.schedule;
    const double rows = static_cast<double>(call.queries * call.heads) / static_cast<double>(call.key_heads), keys = static_cast<double>(call.keys);
    const double channels = std::ceil(static_cast<double>(request.depths.depth) / s.lanes), value_channels = std::ceil(static_cast<double>(request.depths.value_depth) / s.lanes);
    const double products = channels * ((s.key_tile + 1) / machine.loads_a_cycle + 1.0 / s.depth_unroll) + machine.fma_latency + 3.0 * s.key_tile;
    const double sums = value_channels * ((s.key_tile + 2) / machine.loads_a_cycle + 1) + machine.fma_latency;
    const double weights = 12.0 * s.key_tile / s.lanes;
    const double arithmetic = keys / s.key_tile * rows * (products + sums + weights);
    const double blocks = std::ceil(keys / s.key_block) * (100 + rows * (20 + 2 * value_channels));
    const double merges = s.key_splits * rows * (30 + 4 * value_channels);
    const double memory = sizeof_f32 * keys * (request.depths.depth + request.depths.value_depth) / machine.memory_rate;
    return (std::max(arithmetic, memory) + blocks + merges) * static_cast<double>(call.batches * call.key_heads);
}

}  // namespace

machine_model machine_of(const level& isa) {
    const bool wide = isa.lanes >= 16;
    return {2, 2, 4, 32 << 10, wide ? 1u << 20 : 512u << 10, wide ? 48.0 : 32.0, 10};
}

double estimated_cycles(const kernel_request& request, const level& isa, masking hides, const call_shape& call) {
    const machine_model machine = machine_of(isa);
    const schedule& s = request.schedule;
    if (s.shapes == shape_class::decode) return decode_cycles(request, machine, call);
    const double depth = request.depths.depth, value_depth = request.depths.value_depth;
    const int vectors = s.query_tile / s.lanes;
    const double tile_vectors = static_cast<double>(vectors) * s.key_block;
    const double tile_bytes = sizeof_f32 * s.query_tile * s.key_block;

    // A tile of queries in a block of keys.
    const double loop = 1.0;  // cycles of a loop's own, a step
    double products = s.key_block / static_cast<double>(s.key_tile) * (depth * (step_cycles(machine, isa, vectors, s.key_tile) + loop / s.depth_unroll) + 2.0 * vectors * s.key_tile + 8);
    products += sizeof_f32 * s.key_block * depth / machine.second_level_rate / 2;  // keys arrive while earlier ones are used
    const double passes = tile_vectors * (1.0 + 8.5 + 1.0);  // maximum, exponential, sum
    const double chunks = std::ceil(value_depth / s.chunk), value_tiles = chunks * s.chunk / s.value_tile;
    double pass = s.key_block * (step_cycles(machine, isa, vectors, s.value_tile) + loop) + 2.0 * vectors * s.value_tile + 8;
    if (s.value_tile > 1 && s.value_tile % 2 != 0) pass *= 2.2;  // values that are no pairs are read one by one
    // Every pass reads the weights and a line of each value again.
    const double touched = tile_bytes + 64.0 * s.key_block;
    if (touched > static_cast<double>(machine.first_level_bytes)) pass += 0.3 * (touched - static_cast<double>(machine.first_level_bytes) / 2) / machine.second_level_rate;
    const double spilled_tile = 2 * tile_bytes > static_cast<double>(machine.first_level_bytes) ? 3 * tile_bytes / machine.second_level_rate : 0;
    const double merges = chunks * (vectors * (2.5 * (s.chunk + 2) + 2 * 8.5) + 12);
    const double tile = products + passes + value_tiles * pass + spilled_tile + merges;

    const visits seen = visited(s, hides, call);
    const double tiles_a_task = static_cast<double>(s.query_block) / s.query_tile, tasks = std::ceil(static_cast<double>(call.queries) / s.query_block);
    const double block_bytes = sizeof_f32 * s.key_block * (depth + value_depth), all_keys = sizeof_f32 * static_cast<double>(call.keys) * (depth + value_depth);
    const bool resident = all_keys + 2 * tile_bytes < 0.8 * static_cast<double>(machine.second_level_bytes);
    double cycles = seen.blocks * (tiles_a_task * tile + 60 + (resident ? 0 : block_bytes / machine.memory_rate / 2));
    cycles += seen.masked * tiles_a_task * tile_vectors * 3;
    cycles += tasks * (600 + s.query_block * (depth + 2 * value_depth) / s.lanes * 3);
    return cycles * static_cast<double>(call.batches * call.heads);
}

}  // namespace attune::generators

#include "schedules/cost_model.hpp"

#include "kernel/cpu_schedule.hpp"
#include "kernel/gpu_schedule.hpp"
#include "schedules/recurrences.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <type_traits>

namespace attune::generators::inline schedules {
namespace {

constexpr double sizeof_f32 = 4;

/// One step of a sum over registers of `vectors` x `size` accumulators.
double step_cycles(const machine_model& machine, const level& isa, int vectors, int size) {
    const double sums = static_cast<double>(vectors) * size;
    const double arithmetic = sums / machine.fmas_a_cycle, loads = (vectors + size) / machine.loads_a_cycle;
    const double missing = std::max(0.0, sums + vectors + 1 - isa.registers);  // are spilt and filled
    const double addresses = std::max(0, size - 8);  // rows that have no register for their address
    return std::max({arithmetic, loads, machine.fma_latency}) + 2 * missing * missing + addresses;
}

struct visits {
    double blocks, masked;  ///< of all query blocks together
};

/// Key blocks that a causal mask or a window leaves, and those of them that it crosses.
visits visited(const block_sizes& s, masking hides, const call_shape& call) {
    const double tasks = std::ceil(static_cast<double>(call.queries) / s.query_block),
                 blocks = std::ceil(static_cast<double>(call.keys) / s.key_block);
    if (hides == masking::none) return {tasks * blocks, 0};
    visits sum{};
    const double width = static_cast<double>(hides == masking::window ? usual_width(call) : call.keys);
    for (double task = 0; task < tasks; ++task) {
        const double first_query = task * s.query_block,
                     last_query = std::min<double>(first_query + s.query_block, static_cast<double>(call.queries)) - 1;
        const double last = std::min(blocks - 1, std::floor(last_query / s.key_block)),
                     first = std::max(0.0, std::floor((first_query - width) / s.key_block));
        sum.blocks += last - first + 1;
        sum.masked +=
            std::min(last - first + 1, 1 + std::floor(last_query / s.key_block) -
                                           std::floor(first_query / s.key_block) + (hides == masking::window ? 1 : 0));
    }
    return sum;
}

/// Few queries, their channels in lanes: tiles of rows and keys, sums kept in registers, then of rows and values, sums
/// in the first-level cache; keys and values stream meanwhile. Constants are fitted, as below.
double cycles_of(const cpu_decode& s, const kernel_request& request, masking, const call_shape& call) {
    const level& isa = *request.target;
    const machine_model machine = machine_of(isa);
    const double stacked = static_cast<double>(call.queries * call.heads) / static_cast<double>(call.key_heads),
                 keys = static_cast<double>(call.keys);
    const double rows = std::ceil(stacked / s.query_tile) * s.query_tile;
    const double depth = request.depths.depth, value_depth = request.depths.value_depth;
    const double channels = std::ceil(depth / s.lanes), value_channels = std::ceil(value_depth / s.lanes);

    // Cycles for a row and a key.
    const double tile = s.query_tile * s.key_tile, value_tile = s.query_tile * s.value_tile;
    const double step =
        std::max({tile / machine.fmas_a_cycle, (s.query_tile + s.key_tile) / machine.loads_a_cycle, 2.0});
    const bool is_tight = tile + s.query_tile + s.key_tile > isa.registers - 3;
    const double product = channels * (step + 0.7 / s.depth_unroll) / tile + 3 + (is_tight ? 11 : 0);
    const double sum = value_channels *
                       std::max({value_tile / machine.fmas_a_cycle,
                                 (s.value_tile + 2 * s.query_tile) / machine.loads_a_cycle, double(s.query_tile)}) /
                       value_tile;
    const double arithmetic = keys * rows * (product + sum);

    // Fetches ahead arrive beside the arithmetic: keys if their tiles make a loop, values as long as no more is fetched
    // at a time than a core can wait for.
    const double rate = 4.4, lines_at_a_time = 16, line = 64;  // bytes a cycle, of one core
    const double slower_keys = s.key_tile == s.keys_of_step() ? 1.9 : 1;
    const double slower_values =
        1 + 0.016 * std::max(0.0, sizeof_f32 * s.value_tile * value_depth / line - lines_at_a_time);
    const double memory = sizeof_f32 * keys * (depth * slower_keys + value_depth * slower_values) / rate;

    const double blocks = std::ceil(keys / s.key_block) * rows * 280;
    return (std::max(arithmetic, memory) + 0.28 * std::min(arithmetic, memory) + blocks) *
           static_cast<double>(call.batches * call.key_heads);
}

double cycles_of(const cpu_prefill& s, const kernel_request& request, masking hides, const call_shape& call) {
    const level& isa = *request.target;
    const machine_model machine = machine_of(isa);
    const double depth = request.depths.depth, value_depth = request.depths.value_depth;
    const int vectors = s.query_tile / s.lanes;
    const double tile_vectors = static_cast<double>(vectors) * s.key_block;
    const double tile_bytes = sizeof_f32 * s.query_tile * s.key_block;

    const double chunks = std::ceil(value_depth / s.chunk), value_tiles = chunks * s.chunk / s.value_tile;
    const double first_level = static_cast<double>(machine.first_level_bytes),
                 second_level = static_cast<double>(machine.second_level_bytes);

    // A tile of queries in a block of keys.
    const double loop = 0.4;                                    // cycles of a loop's own, a step
    const auto around = [](double sums) { return sums + 12; };  // zeros before a loop, stores after it
    double products = s.key_block / static_cast<double>(s.key_tile) *
                      (depth * (step_cycles(machine, isa, vectors, s.key_tile) + loop / s.depth_unroll) +
                       around(vectors * s.key_tile));
    products += 2 * sizeof_f32 * s.key_block * depth / machine.second_level_rate;  // keys arrive
    const double passes = 21 * tile_vectors;                                       // maximum, exponential, sum
    double pass =
        s.key_block * (step_cycles(machine, isa, vectors, s.value_tile) + loop) + around(vectors * s.value_tile);
    if (s.value_tile > 1 && s.value_tile % 2 != 0) pass *= 1.25;  // values that are no pairs are read one by one
    // Every pass reads the weights and a line of each value again.
    const double lines = 64.0 * s.key_block;
    pass += 0.2 * std::max(0.0, tile_bytes + lines - 0.9 * first_level) / machine.second_level_rate;
    const double spilled_tile =
        0.75 * std::max(0.0, 2 * tile_bytes + lines - 1.15 * first_level) / machine.second_level_rate;
    const double merges = chunks * (vectors * (0.6 * (s.chunk + 2) + 28) + 40);
    const double tile = products + passes + value_tiles * pass + spilled_tile + merges;

    const visits seen = visited(blocks_of(s), hides, call);
    const double tiles_a_task = static_cast<double>(s.query_block) / s.query_tile,
                 tasks = std::ceil(static_cast<double>(call.queries) / s.query_block);
    const double block_bytes = sizeof_f32 * s.key_block * (depth + value_depth),
                 all_keys = sizeof_f32 * static_cast<double>(call.keys) * (depth + value_depth);
    const double task_bytes = sizeof_f32 * s.query_block * (depth + chunks * (s.chunk + 2)) +
                              2 * tile_bytes;  // queries, state, scores and weights
    double block =
        tiles_a_task * tile + 50 + 0.08 * std::max(0.0, task_bytes - 2 * first_level) / machine.second_level_rate;
    if (all_keys + task_bytes > 0.8 * second_level) block += block_bytes / machine.memory_rate / 8;
    double cycles = seen.blocks * block + seen.masked * tiles_a_task * tile_vectors * 5.5;
    cycles += tasks * (700 + 12 * s.query_block * (depth + 2 * value_depth) / s.lanes);
    return cycles * static_cast<double>(call.batches * call.heads);
}

/// The factor of waiting on an SM, which other warps hide, as in roofline.py; and of SMs that wait for the last blocks.
/// `sums`: of a thread; `all_blocks`: blocks of threads in all.
double waits_of(const kernel_request& request, double warps, double sums, double all_blocks) {
    constexpr double shared_of_sm = 228 << 10, registers_of_sm = 65536, enough_warps = 12, sms = 132;
    const double room = std::floor(std::min({shared_of_sm / (estimated_shared_memory(request) + 1024),
                                             registers_of_sm / (32 * warps * (sums + 50)), 64 / warps}));
    const double of_sm = std::max(1.0, all_blocks / sms);
    const double blocks = std::clamp(room, 1.0, of_sm), idle = std::ceil(of_sm / blocks) * blocks / of_sm;
    return (1 + std::max(0.0, enough_warps / blocks / warps - 1)) * idle;
}

double cycles_of(const gpu_prefill& s, const kernel_request& request, masking hides, const call_shape& call) {
    const double depth = request.depths.depth, value_depth = request.depths.value_depth,
                 threads = gpu_threads_of(s, request.depths), warps = std::ceil(threads / 32);
    // Instructions of a thread in a visit: multiplications, their reads of shared memory by fours, exponentials, keys
    // and values that arrive, barriers.
    const double rows = s.query_block, keys = s.key_block, pairs = rows * keys;
    double slots = pairs * (depth + value_depth) / threads;
    slots += pairs * depth / threads * (1.0 / s.query_tile + 1.0 / s.key_tile) / 2;
    slots += pairs * value_depth / threads * (1.0 / s.query_tile + 1.0 / s.chunk) / 2 +
             keys * (depth + value_depth) / threads * 3;
    slots += pairs / threads * 30 + (s.chunk + 2) * s.query_tile * 2 + 150;
    const double sums = s.query_tile * (std::max(s.key_tile, s.chunk) + s.chunk + 2),
                 heads = static_cast<double>(call.batches * call.heads);
    const double waits = waits_of(request, warps, sums, heads * std::ceil(static_cast<double>(call.queries) / rows));
    return visited(blocks_of(s), hides, call).blocks * slots * warps * waits * heads;
}

/// Cycles by the instructions that a warp issues a visit: products, exponentials and their reads of shared memory.
double cycles_of(const gpu_tensor_prefill& s, const kernel_request& request, masking hides, const call_shape& call) {
    constexpr double products = 8, others = 2.6;  // cycles of a quarter SM; instructions a product
    const double elements = request.types.query == element_type::f32 ? 8 : 16;  // that a product adds up
    const double steps = (request.depths.depth + request.depths.value_depth) / elements;
    const double of_warp = s.tiles * s.key_block / 8.0 * steps * std::max(request.tf32_products, 1),
                 shared = s.key_block / 8.0 * steps * 2;
    const double waits = waits_of(request, s.warps, s.tiles * (request.depths.value_depth + s.key_block) / 2.0 + 50,
                                  static_cast<double>(call.batches * call.heads) *
                                      std::ceil(static_cast<double>(call.queries) / s.query_block()));
    return visited(blocks_of(s), hides, call).blocks * s.warps *
           (std::max(of_warp * products, of_warp * others + shared) + 200) * waits *
           static_cast<double>(call.batches * call.heads);
}

/// Cycles by the bytes from memory and the instructions that a warp issues a visit.
double cycles_of(const gpu_tensor_decode& s, const kernel_request& request, masking, const call_shape& call) {
    constexpr double bytes = 2, of_memory = 5, others = 3;  // bytes a cycle that an SM has of it; as in prefill
    const double depths = request.depths.depth + request.depths.value_depth, products = s.key_block / 8.0 * depths / 16,
                 heads = static_cast<double>(call.batches * call.key_heads);
    const double splits = std::clamp(1024.0 / heads, 1.0, static_cast<double>(s.key_splits));
    const double stacked = std::ceil(static_cast<double>(call.queries * call.heads) /
                                     static_cast<double>(call.key_heads) / s.of_split().query_block());
    const double waits =
        waits_of(request, s.warps, (request.depths.value_depth + s.key_block) / 2.0 + 50, heads * splits * stacked);
    const double visit = std::max(s.warps * products * others / 4, bytes * s.key_block * depths / of_memory) + 200;
    return (static_cast<double>(call.keys) / s.key_block * visit * waits + splits * 2000) * stacked * heads;
}

double cycles_of(const gpu_decode& s, const kernel_request& request, masking, const call_shape& call) {
    const double depth = request.depths.depth, value_depth = request.depths.value_depth,
                 threads = gpu_threads_of(s, request.depths), warps = std::ceil(threads / 32);
    const double rows = s.query_tile, keys = s.key_block, pairs = rows * keys;
    double slots = pairs * (depth + value_depth) / threads;
    slots += keys * depth / threads * (rows / 4 / s.key_tile + 1) + pairs * gpu_threads_a_key / threads * 2;
    slots += keys * value_depth / threads * (rows / 4 / s.chunk + 1);
    slots += pairs / threads * 30 + (s.chunk + 2) * rows * 2 + 150;
    const double sums = std::max(rows * s.key_tile, rows * s.chunk) + rows * (s.chunk + 2),
                 key_heads = static_cast<double>(call.batches * call.key_heads);
    const double splits = std::clamp(1024.0 / key_heads, 1.0, static_cast<double>(s.key_splits));
    const double stacked =
        std::ceil(static_cast<double>(call.queries * call.heads) / static_cast<double>(call.key_heads) / rows);
    const double waits = waits_of(request, warps, sums, key_heads * splits * stacked);
    const double memory = sizeof_f32 * keys * (depth + value_depth) / 5;  // bytes a cycle that an SM has of it
    return (static_cast<double>(call.keys) / keys * std::max(slots * warps / 4, memory) * waits + splits * 2000) *
           stacked * key_heads;
}

/// Products of a chunk's rows in register tiles, rows of states that are read and written beside them, and rows of
/// tokens that are laid out. Memory's part is that of every schedule. Only the tiles' cycles are counted: nothing is
/// fitted to times.
double cycles_of(const cpu_recurrence& s, const kernel_request& request, masking, const call_shape& call) {
    const level& isa = *request.target;
    const machine_model machine = machine_of(isa);
    const recurrence_traits of = traits_of(request);
    const auto [depth, value_depth] = request.depths;
    const int tokens = s.block, rows = tokens * of.pairs;
    const auto product = [&](int width, int height, double terms) {
        const int lanes = std::gcd(width, s.lanes), vectors = part_of(width / lanes, s.vectors),
                  tile = part_of(height, s.rows);
        return width / lanes / vectors * (height / tile) * terms * step_cycles(machine, isa, vectors, tile);
    };
    const double of_row = static_cast<double>(value_depth) / std::gcd(value_depth, s.lanes),
                 of_key = static_cast<double>(depth) / std::gcd(depth, s.lanes);
    const double fading = of.by_channels ? static_cast<double>(rows) * tokens * depth / s.lanes : 0;
    double chunk = product(value_depth, depth, rows);
    chunk += of.reads * (product(value_depth, tokens, depth) + product(value_depth, tokens, rows / 2.0) +
                         product(rows, tokens, depth) + fading);
    if (of.solves)
        chunk += product(value_depth, rows, depth) + product(rows, rows, depth) + fading +
                 of_row * rows * rows / 2 / machine.fmas_a_cycle;
    chunk += 2 * depth * of_row + rows * (4 * of_row + 6 * of_key);
    const double states = static_cast<double>(call.batches * call.heads);
    return states * std::ceil(static_cast<double>(call.queries) / tokens) * chunk;
}

}  // namespace

machine_model machine_of(const level& isa) {
    const bool wide = isa.lanes >= 16;
    return {2, 2, 4.5, 32 << 10, wide ? 1u << 20 : 512u << 10, wide ? 48.0 : 32.0, 10};
}

double estimated_cycles(const kernel_request& request, masking hides, const call_shape& call) {
    return std::visit(
        [&]<class Cut>(const Cut& cut) -> double {
            if constexpr (std::is_same_v<Cut, cpu_gradient> || std::is_same_v<Cut, gpu_gradient>)
                throw std::logic_error("the cost model knows no gradients");
            else
                return cycles_of(cut, request, hides, call);
        },
        request.schedule);
}

}  // namespace attune::generators::inline schedules

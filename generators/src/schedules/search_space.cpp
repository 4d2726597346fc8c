#include "schedules/search_space.hpp"

#include "kernel/gpu_schedule.hpp"
#include "kernel/gradient_schedule.hpp"
#include "kernel/shared_memory.hpp"
#include "kernel/tensor_schedule.hpp"
#include "plans/kernel_plan.hpp"
#include "schedules/cost_model.hpp"
#include "schedules/recurrences.hpp"

#include <attune/ir/recurrence.hpp>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <type_traits>

namespace attune::generators::inline schedules {
namespace {

/// How many rows or columns the register tiles may have beside `vectors` vectors of queries: at least half of the
/// registers' worth, for less leaves the arithmetic units waiting, and no more than there are.
std::vector<int> tile_sizes(int vectors, const level& isa) {
    std::vector<int> sizes;
    for (const int size : {1, 2, 3, 4, 6, 8, 12, 14, 16, 24, 28})
        if (2 * vectors * size >= isa.registers - 2 && vectors * size <= isa.registers - 2) sizes.push_back(size);
    return sizes;
}

bool keeps_the_rules(const schedule& s, const depth_pair& depths) {
    try {
        check(s, depths);
    } catch (const std::runtime_error&) {
        return false;
    }
    return true;
}

std::size_t scratch_of(const cpu_gradient& s, const kernel_request& request) {
    kernel_request there = request;
    there.schedule = s;
    return plan_kernel(there).bytes.of_thread;
}
template <class Cut> std::size_t scratch_of(const Cut& s, const kernel_request& request) {
    return plain_scratch_bytes(s, request.depths);
}

template <class Cut>
    requires requires(Cut s) { s.lanes; }
bool is_valid(const Cut& s, const tuned_kernel& of) {
    const kernel_request& request = of.kernel.request;
    return fits_registers(s, *request.target) && keeps_the_rules(s, request.depths) &&
           scratch_of(s, request) <= machine_of(*request.target).second_level_bytes;
}

/// No chunk is longer than the default's, and none takes more memory.
bool is_valid(const cpu_recurrence& s, const tuned_kernel& of) {
    const kernel_request& request = of.kernel.request;
    return fits_registers(s, *request.target) && keeps_the_rules(s, request.depths);
}

/// For a GPU: enough threads and not too many, each with sums that leave registers for the rest, within the shared
/// memory.
template <class Cut> bool is_valid(const Cut& s, const tuned_kernel& of) {
    constexpr int fewest_threads = 32, most_threads = 256, most_sums = 64;
    const auto [depth, value_depth] = of.kernel.request.depths;
    const int threads = gpu_threads_of(s, {depth, value_depth}), across = (value_depth + s.chunk - 1) / s.chunk;
    if (threads < fewest_threads || threads > most_threads) return false;
    if (s.query_tile * s.key_tile > most_sums || s.query_tile * s.chunk > most_sums || s.chunk > value_depth)
        return false;
    // Threads along the keys and along the value depths are the same ones: few of either idle while the other works.
    const int along_keys = s.key_block / s.key_tile;
    if (s.shapes == shape_class::prefill && (2 * along_keys < across || 2 * across < along_keys)) return false;
    kernel_request request = of.kernel.request;
    request.schedule = s;
    if (!fits_device(request, of.shared_memory)) return false;
    return keeps_the_rules(s, request.depths);
}

bool is_valid(const gpu_tensor_prefill& s, const tuned_kernel& of) {
    kernel_request request = of.kernel.request;
    request.schedule = s;
    if (request.target->warpgroups && !not_for_warpgroups(s).empty()) return false;
    return fits_device(request, of.shared_memory) && keeps_the_rules(s, request.depths);
}

bool is_valid(const gpu_tensor_decode& s, const tuned_kernel& of) {
    kernel_request request = of.kernel.request;
    request.schedule = s;
    return fits_device(request, of.shared_memory) && keeps_the_rules(s, request.depths);
}

bool is_valid(const gpu_gradient& s, const tuned_kernel& of) {
    constexpr int fewest_threads = 32, most_threads = 256, most_sums = 64;
    const side_threads threads(s, of.kernel.request.depths, true);
    kernel_request request = of.kernel.request;
    request.schedule = s;
    const int all = threads.across * threads.down;
    return all >= fewest_threads && all <= most_threads && s.query_tile * threads.channels <= most_sums &&
           fits_device(request, of.shared_memory) && keeps_the_rules(s, request.depths);
}

/// By tiles, whose sums are not in registers of vectors.
template <class Add> void add_tiled(const cpu_prefill& usual, const Add& add) {
    for (const int key_block : {64, 128, 256, 512})
        for (const int query_tile : {32, 64, 96})
            for (const int tiles_a_block : {1, 2, 4})
                for (const int key_tile : {32, 64})
                    for (const int chunk : {16, 32, 64, 128}) {
                        cpu_prefill s = usual;
                        s.query_tile = query_tile, s.query_block = tiles_a_block * query_tile;
                        s.key_block = key_block, s.key_tile = key_tile, s.chunk = chunk;
                        add(s);
                    }
}

template <class Add> void add_all(const cpu_prefill& usual, const kernel_request& of, const Add& add) {
    if (is_tiled(usual)) return add_tiled(usual, add);
    const level& isa = *of.target;
    const int value_depth = of.depths.value_depth;
    for (const int vectors : {1, 2, 3, 4, 6})
        for (const int key_tile : tile_sizes(vectors, isa))
            for (const int tile : tile_sizes(vectors, isa))
                for (const int tiles_a_chunk : {1, 2, 4})
                    for (const int key_block : {64, 128, 256, 512})
                        for (const int tiles_a_block : {1, 2, 4}) {
                            cpu_prefill s = usual;
                            s.query_tile = vectors * s.lanes;
                            s.query_block = tiles_a_block * s.query_tile;
                            s.key_tile = key_tile;
                            s.key_block = (key_block + key_tile / 2) / key_tile * key_tile;
                            s.value_tile = std::min(tile, value_depth);
                            s.chunk = tiles_a_chunk * s.value_tile;
                            // A longer chunk is a state of more numbers than compile in reasonable time, a shorter one
                            // is merged too often.
                            if (s.chunk <= std::max(16, s.value_tile) && s.chunk >= std::min(8, value_depth)) add(s);
                        }
}

/// For few queries: rows and keys at a time, keys a visit, steps over the channels. The number of splits follows from a
/// call's shape.
template <class Add> void add_all(const cpu_decode& usual, const kernel_request&, const Add& add) {
    for (const int rows : {1, 2, 4})
        for (const int key_tile : {1, 2, 4, 8})
            for (const int value_tile : {1, 2, 4, 8})
                for (const int key_block : {32, 64, 128, 256, 512})
                    for (const int unroll : {1, 2, 4}) {
                        cpu_decode s = usual;
                        s.query_tile = rows, s.key_tile = key_tile, s.value_tile = value_tile;
                        s.key_block = key_block, s.depth_unroll = unroll;
                        // A sum that waits for itself is in no register tile that is worth its time.
                        if (rows * std::min(key_tile, value_tile) >= 2) add(s);
                    }
}

/// Blocks of pairs, register tiles of pairs' numbers and register tiles of sums. The latter take at least three eighths
/// of the registers, as those of most defaults do.
template <class Add> void add_all(const cpu_gradient& usual, const kernel_request& of, const Add& add) {
    const level& isa = *of.target;
    const int vectors_of_row = width_of_sums(usual.lanes, of.depths) / usual.lanes;
    const auto add_sums = [&](cpu_gradient s) {
        for (const int vectors : {1, 2, 3, 4, 5, 6, 7, 8})
            for (const int rows : {1, 2, 3, 4, 6, 8, 12, 16}) {
                if (vectors_of_row % vectors != 0 || 8 * vectors * rows < 3 * isa.registers) continue;
                s.sum_channels = vectors * s.lanes, s.sum_rows = rows;
                for (const int unroll : {2, 4, 8}) s.depth_unroll = unroll, add(s);
            }
    };
    for (const int block : {32, 48, 64, 96, 128})
        for (const int vectors : {1, 2, 3, 4, 6})
            for (const int key_tile : tile_sizes(vectors, isa)) {
                cpu_gradient s = usual;
                s.block = block, s.query_tile = vectors * s.lanes, s.key_tile = key_tile;
                add_sums(s);
            }
}

/// Tokens of a chunk, where calls have more than it, and register tiles. 16 tokens are a whole number of chunks under
/// each schedule: a prompt that is parted there gets the same bits from all of them. A tile is a part of a product:
/// what does not divide one gives the tile of another candidate. A quarter of the registers hold sums at least.
template <class Add> void add_all(const cpu_recurrence& usual, const kernel_request& of, const Add& add) {
    const int width = of.depths.value_depth, across = width / std::gcd(width, usual.lanes), pairs = traits_of(of).pairs;
    const bool any_chunk = bucket_of(usual) == shape_bucket::prefill;
    for (const int block : any_chunk ? std::vector{8, 16} : std::vector{usual.block})
        for (const int rows : {1, 2, 3, 4, 6, 8, 12, 16})
            for (const int vectors : {1, 2, 3, 4, 6, 8, 12, 16}) {
                cpu_recurrence s = usual;
                s.block = block, s.rows = rows, s.vectors = vectors;
                const bool divides =
                    across % vectors == 0 && (of.depths.depth % rows == 0 || block * pairs % rows == 0);
                if (divides && 4 * rows * vectors >= of.target->registers) add(s);
            }
}

/// The cost model knows neither gradients nor tiles of AMX. Their schedules are tried by the number of respects in
/// which they differ from the default: block, tiles of pairs, sums, steps.
double differences(const cpu_gradient& s, const cpu_gradient& usual) {
    return (s.block != usual.block) + (s.query_tile != usual.query_tile || s.key_tile != usual.key_tile) +
           (s.sum_rows != usual.sum_rows || s.sum_channels != usual.sum_channels) +
           (s.depth_unroll != usual.depth_unroll);
}

double differences(const cpu_prefill& s, const cpu_prefill& usual) {
    return (s.query_tile != usual.query_tile) + (s.query_block != usual.query_block) +
           (s.key_block != usual.key_block) + (s.key_tile != usual.key_tile) + (s.chunk != usual.chunk);
}

template <class Add> void add_all(const gpu_prefill& usual, const kernel_request&, const Add& add) {
    for (const int query_block : {16, 32, 64, 128})
        for (const int key_block : {8, 16, 32, 64})
            for (const int query_tile : {2, 4, 8})
                for (const int key_tile : {1, 2, 4, 8})
                    for (const int chunk : {1, 2, 4, 8, 16})
                        for (const int unroll : {2, 4, 8}) {
                            gpu_prefill s = usual;
                            s.query_block = query_block, s.key_block = key_block, s.query_tile = query_tile,
                            s.key_tile = key_tile, s.chunk = chunk, s.depth_unroll = unroll;
                            if (query_tile * key_tile >= 4) add(s);
                        }
}

template <class Add> void add_all(const gpu_gradient& usual, const kernel_request&, const Add& add) {
    for (const int query_block : {16, 32, 64})
        for (const int key_block : {16, 32, 64})
            for (const int query_tile : {2, 4, 8})
                for (const int key_tile : {2, 4, 8}) {
                    gpu_gradient s = usual;
                    s.query_block = query_block, s.key_block = key_block, s.query_tile = query_tile,
                    s.key_tile = key_tile;
                    add(s);
                }
}

double differences(const gpu_gradient& s, const gpu_gradient& usual) {
    return (s.query_block != usual.query_block) + (s.key_block != usual.key_block) +
           (s.query_tile != usual.query_tile || s.key_tile != usual.key_tile);
}

template <class Add> void add_all(const gpu_tensor_prefill& usual, const kernel_request&, const Add& add) {
    for (const int warps : {4, 8})
        for (const int tiles : {1, 2})
            for (const int key_block : {16, 32, 64, 128}) {
                gpu_tensor_prefill s = usual;
                s.warps = warps, s.tiles = tiles, s.key_block = key_block;
                add(s);
            }
}

template <class Add> void add_all(const gpu_tensor_decode& usual, const kernel_request&, const Add& add) {
    for (const int warps : {1, 2})
        for (const int key_block : {16, 32, 64, 128})
            for (const int splits : {32, 64, 128, 256}) {
                gpu_tensor_decode s = usual;
                s.warps = warps, s.key_block = key_block, s.key_splits = splits;
                add(s);
            }
}

/// As many keys and values asked for at a time, and as many splits at most.
template <class Add> void add_all(const gpu_decode& usual, const kernel_request& of, const Add& add) {
    const int steps = std::max(of.depths.depth / gpu_threads_a_key,
                               1);  // of a thread along a key's channels: more are not written out
    for (const int rows : {2, 4, 8, 16})
        for (const int key_block : {32, 64, 128})
            for (const int key_tile : {2, 4, 8})
                for (const int chunk : {1, 2, 4})
                    for (const int at_a_time : {8, 16, 32})
                        for (const int splits : {32, 64, 128, 256}) {
                            gpu_decode s = usual;
                            s.query_tile = rows, s.key_block = key_block, s.key_tile = key_tile, s.chunk = chunk,
                            s.key_splits = splits;
                            s.depth_unroll = std::clamp(at_a_time / key_tile, 1, steps),
                            s.value_tile = std::max(at_a_time / chunk, 1);
                            add(s);
                        }
}

}  // namespace

bool fits_registers(const cpu_prefill& s, const level& isa) {
    if (is_tiled(s)) return true;
    const int vectors = s.query_tile / s.lanes, most = isa.registers - 2;
    return vectors * s.key_tile <= most && vectors * s.value_tile <= most;
}

bool fits_registers(const cpu_decode& s, const level& isa) {
    const int most = isa.registers - 2;
    return s.query_tile * s.key_tile <= most && s.query_tile * s.value_tile <= most;
}

bool fits_registers(const cpu_gradient& s, const level& isa) {
    const int most = isa.registers - 2;
    return s.query_tile / s.lanes * s.key_tile <= most && s.sum_rows * (s.sum_channels / s.lanes) <= most;
}

bool fits_registers(const cpu_recurrence& s, const level& isa) { return s.rows * s.vectors <= isa.registers - 2; }

bool fits_device(const kernel_request& request, int shared_memory) {
    const int every_one = most_shared_memory(*request.target),
              most = shared_memory > 0 ? std::min(every_one, shared_memory) : every_one;
    if (const auto* s = std::get_if<gpu_prefill>(&request.schedule);
        s && s->query_block * s->key_block > 2 * most_pairs_of_block(*request.facts))
        return false;
    return estimated_shared_memory(request) <= most;
}

call_shape shape_of_timed_calls(const listed_kernel& kernel, shape_bucket bucket) {
    return is_for_recurrence(kernel.request.schedule) ? measured_shape(bucket, kernel.request.depths)
                                                      : measured_shape(bucket);
}

std::vector<double> costs_of(const tuned_kernel& of, const std::vector<schedule>& space) {
    kernel_request request = of.kernel.request;
    std::vector<double> costs;
    if (const auto* usual = std::get_if<cpu_gradient>(&request.schedule)) {
        for (const schedule& s : space) costs.push_back(differences(std::get<cpu_gradient>(s), *usual));
        return costs;
    }
    if (const auto* usual = std::get_if<gpu_gradient>(&request.schedule)) {
        for (const schedule& s : space) costs.push_back(differences(std::get<gpu_gradient>(s), *usual));
        return costs;
    }
    if (const auto* usual = std::get_if<cpu_prefill>(&request.schedule); usual && is_tiled(*usual)) {
        for (const schedule& s : space) costs.push_back(differences(std::get<cpu_prefill>(s), *usual));
        return costs;
    }
    for (const schedule& s : space) {
        request.schedule = s;
        costs.push_back(estimated_cycles(request, request.facts->hides, of.shape));
    }
    return costs;
}

std::pair<schedule, double> modelled_choice(const tuned_kernel& of) {
    constexpr double worthwhile = 0.97;
    const std::vector<schedule> space = candidates(of);
    const std::vector<double> costs = costs_of(of, space);
    const auto best = std::min_element(costs.begin(), costs.end());
    if (best == costs.begin() || *best > worthwhile * costs.front()) return {space.front(), 1};
    return {space[static_cast<std::size_t>(best - costs.begin())], *best / costs.front()};
}

std::vector<schedule> candidates(const tuned_kernel& of) {
    if (is_gradient_of_recurrence(of.kernel.request.graph().nodes))
        throw std::runtime_error(
            of.kernel.of->name +
            ": the gradient of a recurrence is not tuned yet; its kernel has the default schedule");
    std::vector<schedule> all{of.kernel.request.schedule};
    const auto add_spaced = [&]<class Cut>(const Cut usual) {
        add_all(usual, of.kernel.request, [&](const Cut& s) {
            if (is_valid(s, of) && std::ranges::find(all, schedule(s)) == all.end()) all.push_back(s);
        });
    };
    std::visit(add_spaced, of.kernel.request.schedule);
    return all;
}

}  // namespace attune::generators::inline schedules

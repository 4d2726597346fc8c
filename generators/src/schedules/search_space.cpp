#include "schedules/search_space.hpp"

#include "kernel/device.hpp"
#include "kernel/gpu_schedule.hpp"
#include "schedules/cost_model.hpp"

#include <algorithm>
#include <stdexcept>

namespace attune::generators {
namespace {

/// How many rows or columns the register tiles may have beside `vectors` vectors of queries: at least half of the
/// registers' worth, for less leaves the arithmetic units waiting, and no more than there are.
std::vector<int> tile_sizes(int vectors, const level& isa) {
    std::vector<int> sizes;
    for (const int size : {1, 2, 3, 4, 6, 8, 12, 14, 16, 24, 28})
        if (2 * vectors * size >= isa.registers - 2 && vectors * size <= isa.registers - 2) sizes.push_back(size);
    return sizes;
}

bool keeps_the_rules(const schedule& s, int depth) {
    try {
        check(s, depth);
    } catch (const std::runtime_error&) {
        return false;
    }
    return true;
}

bool is_valid(const schedule& s, const tuned_kernel& of) {
    const auto [depth, value_depth] = of.kernel.request.depths;
    if (!fits_registers(s, *of.kernel.isa)) return false;
    if (scratch_bytes(s, depth, value_depth) > machine_of(*of.kernel.isa).second_level_bytes) return false;
    return keeps_the_rules(s, depth);
}

/// Where queries are few: rows and keys at a time, keys a visit, steps over the channels (`usual` is no reference, for
/// what is added moves its original). Into how many parts the keys are split follows from a call's shape.
template <class Add> void add_decode(schedule usual, const Add& add) {
    for (const int rows : {1, 2, 4})
        for (const int key_tile : {1, 2, 4, 8})
            for (const int value_tile : {1, 2, 4, 8})
                for (const int key_block : {32, 64, 128, 256, 512})
                    for (const int unroll : {1, 2, 4}) {
                        schedule s = usual;
                        s.query_tile = rows, s.key_tile = key_tile, s.value_tile = value_tile;
                        s.key_block = key_block, s.depth_unroll = unroll;
                        // A sum that waits for itself is in no register tile that is worth its time.
                        if (rows * std::min(key_tile, value_tile) >= 2) add(s);
                    }
}

/// Of a GPU: enough threads and not too many, each with sums that leave registers for the rest, in the shared memory
/// that there is.
bool is_valid_there(const schedule& s, const tuned_kernel& of) {
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
    if (!fits_device(request, *of.kernel.isa, of.shared_memory)) return false;
    return keeps_the_rules(s, depth);
}

template <class Add> void add_for_device(const schedule& usual, const Add& add) {
    for (const int query_block : {16, 32, 64, 128})
        for (const int key_block : {8, 16, 32, 64})
            for (const int query_tile : {2, 4, 8})
                for (const int key_tile : {1, 2, 4, 8})
                    for (const int chunk : {1, 2, 4, 8, 16})
                        for (const int unroll : {2, 4, 8}) {
                            schedule s = usual;
                            s.query_block = query_block, s.key_block = key_block, s.query_tile = query_tile,
                            s.key_tile = key_tile;
                            s.chunk = s.value_tile = chunk, s.depth_unroll = unroll;
                            if (query_tile * key_tile >= 4) add(s);
                        }
}

/// Of decode: as many keys and values asked for at a time, into as many parts at most.
template <class Add> void add_decode_for_device(const schedule& usual, int depth, const Add& add) {
    const int steps =
        std::max(depth / gpu_threads_a_key, 1);  // of a thread along a key's channels: more are not written out
    for (const int rows : {2, 4, 8, 16})
        for (const int key_block : {32, 64, 128})
            for (const int key_tile : {2, 4, 8})
                for (const int chunk : {1, 2, 4})
                    for (const int at_a_time : {8, 16, 32})
                        for (const int splits : {32, 64, 128, 256}) {
                            schedule s = usual;
                            s.query_tile = rows, s.key_block = key_block, s.key_tile = key_tile, s.chunk = chunk,
                            s.key_splits = splits;
                            s.depth_unroll = std::clamp(at_a_time / key_tile, 1, steps),
                            s.value_tile = std::max(at_a_time / chunk, 1);
                            add(s);
                        }
}

}  // namespace

bool fits_registers(const schedule& s, const level& isa) {
    const int vectors = s.shapes == shape_class::decode ? s.query_tile : s.query_tile / s.lanes,
              most = isa.registers - 2;
    return vectors * s.key_tile <= most && vectors * s.value_tile <= most;
}

bool fits_device(const kernel_request& request, const level& device, int shared_memory) {
    const schedule& s = request.schedule;
    const int every_one = most_shared_memory(device),
              most = shared_memory > 0 ? std::min(every_one, shared_memory) : every_one;
    if (s.shapes == shape_class::prefill && s.query_block * s.key_block > 2 * most_pairs_of_block(request.graph))
        return false;
    return estimated_shared_memory(request) <= most;
}

std::vector<double> costs_of(const tuned_kernel& of, const std::vector<schedule>& space) {
    kernel_request request = of.kernel.request;
    const masking hides = masking_of(request.graph);
    std::vector<double> costs;
    for (const schedule& s : space) {
        request.schedule = s;
        costs.push_back(estimated_cycles(request, *of.kernel.isa, hides, of.shape));
    }
    return costs;
}

std::pair<schedule, double> modelled_choice(const tuned_kernel& of) {
    constexpr double worthwhile = 0.97;
    const std::vector<schedule> space = candidates(of);
    const std::vector<double> costs = costs_of(of, space);
    const auto best = std::min_element(costs.begin(), costs.end());
    if (*best > worthwhile * costs.front()) return {space.front(), 1};
    return {space[static_cast<std::size_t>(best - costs.begin())], *best / costs.front()};
}

std::vector<schedule> candidates(const tuned_kernel& of) {
    const level& isa = *of.kernel.isa;
    const auto [depth, value_depth] = of.kernel.request.depths;
    std::vector<schedule> all{of.kernel.request.schedule};
    const auto add = [&](const schedule& s) {
        if ((is_device(isa) ? is_valid_there(s, of) : is_valid(s, of)) &&
            std::find(all.begin(), all.end(), s) == all.end())
            all.push_back(s);
    };
    const schedule usual = all.front();  // what is added moves the original
    const bool decodes = usual.shapes == shape_class::decode;
    if (is_device(isa)) {
        decodes ? add_decode_for_device(usual, depth, add) : add_for_device(usual, add);
        return all;
    }
    if (decodes) {
        add_decode(usual, add);
        return all;
    }
    for (const int vectors : {1, 2, 3, 4, 6})
        for (const int key_tile : tile_sizes(vectors, isa))
            for (const int tile : tile_sizes(vectors, isa))
                for (const int tiles_a_chunk : {1, 2, 4})
                    for (const int key_block : {64, 128, 256, 512})
                        for (const int tiles_a_block : {1, 2, 4}) {
                            schedule s = all.front();
                            s.query_tile = vectors * s.lanes;
                            s.query_block = tiles_a_block * s.query_tile;
                            s.key_tile = key_tile;
                            s.key_block = (key_block + key_tile / 2) / key_tile * key_tile;
                            s.value_tile = std::min(tile, value_depth);
                            s.chunk = tiles_a_chunk * s.value_tile;
                            // A longer chunk is a state of more parts than compile in reasonable time, a shorter one is
                            // merged too often.
                            if (s.chunk <= std::max(16, s.value_tile) && s.chunk >= std::min(8, value_depth)) add(s);
                        }
    return all;
}

}  // namespace attune::generators

#include "tune_space.hpp"

#include "cost_model.hpp"

#include <algorithm>
#include <stdexcept>

namespace attune::generators {
namespace {

/// How many rows or columns the register tiles may have beside `vectors` vectors of queries: at least half of the registers' worth, for less
/// leaves the arithmetic units waiting, and no more than there are.
std::vector<int> tile_sizes(int vectors, const level& isa) {
    std::vector<int> sizes;
    for (const int size : {1, 2, 3, 4, 6, 8, 12, 14, 16, 24, 28})
        if (2 * vectors * size >= isa.registers - 2 && vectors * size <= isa.registers - 2) sizes.push_back(size);
    return sizes;
}

bool is_valid(const schedule& s, const tuned_kernel& of) {
    const auto [depth, value_depth] = of.kernel.request.depths;
    if (!fits_registers(s, *of.kernel.isa)) return false;
    if (scratch_bytes(s, depth, value_depth) > machine_of(*of.kernel.isa).second_level_bytes) return false;
    try {
        check(s, depth);
    } catch (const std::runtime_error&) {
        return false;
    }
    return true;
}

/// Where queries are few: rows and keys at a time, keys a visit, steps over the channels (`usual` is no reference, for what is added moves its original). Into how many parts the keys are split follows from a call's shape.
template <class Add>
void add_decode(schedule usual, const Add& add) {
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

}  // namespace

bool fits_registers(const schedule& s, const level& isa) {
    const int vectors = s.shapes == shape_class::decode ? s.query_tile : s.query_tile / s.lanes, most = isa.registers - 2;
    return vectors * s.key_tile <= most && vectors * s.value_tile <= most;
}

std::vector<double> costs_of(const tuned_kernel& of, const std::vector<schedule>& space) {
    kernel_request request = of.kernel.request;
    const masking hides = masking_of(request.graph);
    std::vector<double> costs;
    for (const schedule& s : space) {
        request.schedule = s;
        costs.push_back(estimated_cycles(request, *of.kernel.isa, hides, measured_shape(of.bucket)));
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
        if (is_valid(s, of) && std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
    };
    if (all.front().shapes == shape_class::decode) {
        add_decode(all.front(), add);
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
                            // A longer chunk is a state of more parts than compile in reasonable time, a shorter one is merged too often.
                            if (s.chunk <= std::max(16, s.value_tile) && s.chunk >= std::min(8, value_depth)) add(s);
                        }
    return all;
}

}  // namespace attune::generators

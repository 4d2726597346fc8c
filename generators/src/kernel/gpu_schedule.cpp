#include "kernel/gpu_schedule.hpp"

#include "analysis/plan.hpp"
#include "kernel/gradient_schedule.hpp"
#include "kernel/shared_memory.hpp"
#include "kernel/tensor_schedule.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace attune::generators::inline kernel {
namespace {

/// The shared memory of blocks: queries, keys and values, the tiles of scores and of each kind of weights, and the
/// hoisted numbers of a query or a key.
class shared_memory_plan {
public:
    explicit shared_memory_plan(const kernel_request& request) : depths_(request.depths) {
        const auto& [graph, depends, core, hides, no_decode, gradient, of_heads, sizes, wraps, infinities] =
            *request.facts;
        // Tiles of one softmax do not lie where those of another lay.
        const std::vector<const plan*> cores = core.cores();
        softmaxes_ = static_cast<int>(cores.size());
        for (const plan* each : cores) {
            int tiles = each->weights >= 0 && each->weights != each->statistic_node ? 1 : 0;
            for (const int node : each->summed_weights) tiles += node != each->statistic_node && node != each->weights;
            further_tiles_ = std::max(further_tiles_, tiles);
        }
        std::vector<int> roots, known{core.contraction};
        for (const further_contraction& further : core.further) known.push_back(further.node);
        for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
            if (const kind is = graph.nodes[n].kind;
                is == kind::scores || is == kind::weights || is == kind::output || is == kind::row)
                roots.push_back(n);
        hoisted_ = static_cast<int>(hoistable(graph, depends, roots, known).size() + core.outputs.size());
    }
    int bytes(int queries, int keys) const {
        const int scores = padded(queries) * keys, weights = queries * keys,
                  values = keys * padded_values(depths_.value_depth);
        int floats = padded(queries) * depths_.depth +
                     std::max(padded(keys) * depths_.depth, weights);  // weights lie where the keys were
        floats += further_tiles_ == 0 ? std::max(scores, values)
                                      : scores + values + further_tiles_ * weights;  // and values where the scores were
        const int rows = (2 * hoisted_ + 8) * (queries + keys);  // a value and a byte that masks it; maxima and sums
        return softmaxes_ * 4 * (floats + rows);
    }
    /// The same in decode, for its rows and the keys of a visit.
    int bytes(const gpu_decode& s) const {
        const int rows = s.query_tile, keys = s.key_block, threads_down = s.key_block / s.key_tile;
        const int sums = (keys + 1) * rows * gpu_threads_a_key, left = rows * gpu_threads_a_key * threads_down * 4;
        return 4 * (padded(rows) * depths_.depth + std::max(sums, left) + (2 + further_tiles_) * rows * keys +
                    (2 * hoisted_ + 40) * (rows + keys));
    }

private:
    depth_pair depths_;
    int softmaxes_{1}, further_tiles_{}, hoisted_{};
};

/// Whether pairs have sums of reals of their own, for example over edges of a path. Each becomes a loop in the code of
/// each pair that a thread makes.
bool sums_a_pair(const graph_facts& facts) {
    const auto& [graph, depends, core, hides, no_decode, gradient, of_heads, sizes, wraps, infinities] = facts;
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
        const bool real_sum = graph.nodes[n].op == operation::sum && graph.nodes[n].kind == kind::real;
        const auto is_further = [&](const further_contraction& each) { return each.node == n; };
        if (real_sum && depends[n].query && depends[n].key && !depends[n].bound &&
            std::ranges::none_of(core.further, is_further))
            return true;
    }
    return false;
}

}  // namespace

int most_pairs_of_block(const graph_facts& facts) { return sums_a_pair(facts) ? 16 * 16 : 64 * 32; }

gpu_prefill default_gpu_prefill(const kernel_request& request) {
    // 4 x 4 products a thread are enough for the operands to cost little beside them, and leave registers for twice as
    // many warps as 8 x 4 would.
    constexpr int queries_a_thread = 4, least_down = 8, most_accumulators = 64;
    const auto [depth, value_depth] = request.depths;
    gpu_prefill s{};
    const shared_memory_plan memory(request);
    constexpr std::pair<int, int> sizes[] = {{64, 32}, {32, 32}, {32, 16}, {16, 16},
                                             {16, 8},  {8, 8},   {8, 4},   {4, 4}};  // queries, keys
    const int most_pairs = most_pairs_of_block(*request.facts);
    for (const auto& [queries, keys] : sizes) {
        if (queries * keys > most_pairs) continue;
        s.query_block = queries, s.key_block = keys;
        if (memory.bytes(queries, keys) <= most_shared_memory(*request.target)) break;
    }
    s.query_tile = std::clamp(s.query_block / least_down, 1, queries_a_thread);
    const auto depths_a_thread = [&](int across) { return (value_depth + across - 1) / across; };
    int across = 8;
    const int softmaxes = static_cast<int>(request.core().cores().size());  // a thread keeps the sums of all
    while (across < 32 && softmaxes * s.query_tile * depths_a_thread(across) > most_accumulators) across *= 2;
    s.key_tile = std::max(s.key_block / across, 1);
    s.chunk = depths_a_thread(across);
    if (s.chunk > 4) s.chunk = (s.chunk + 3) / 4 * 4;  // what a load fetches at once
    s.depth_unroll = depth % 4 == 0 ? 4 : depth % 2 == 0 ? 2 : 1;
    return s;
}

gpu_decode default_gpu_decode(const kernel_request& request) {
    constexpr int depths_a_load = 32, most_depths_a_thread = 4;  // neighbouring threads of a warp read a line of memory
    gpu_decode s{};
    s.query_block = 16;
    s.query_tile = 8;  // heads of a group in most models: fewer rows read keys again, of more rows some are idle
    s.key_block = 64;
    s.key_tile = 4;
    s.value_tile = 8;
    s.depth_unroll = 4;
    s.chunk = std::clamp(request.depths.value_depth / depths_a_load, 1, most_depths_a_thread);
    s.key_splits = 128;
    const shared_memory_plan memory(request);
    while (s.query_tile > 1 && memory.bytes(s) > most_shared_memory(*request.target)) s.query_tile /= 2;
    return s;
}

int gpu_threads_of(const gpu_prefill& s, const depth_pair& depths) {
    const int across = (depths.value_depth + s.chunk - 1) / s.chunk;
    return std::max(s.key_block / s.key_tile, across) * (s.query_block / s.query_tile);
}

int gpu_threads_of(const gpu_decode& s, const depth_pair& depths) {
    const int across = (depths.value_depth + s.chunk - 1) / s.chunk;
    return gpu_threads_a_key * std::max(s.key_block / s.key_tile, (across + gpu_threads_a_key - 1) / gpu_threads_a_key);
}

int estimated_shared_memory(const kernel_request& request) {
    if (const auto* tensor = std::get_if<gpu_tensor_prefill>(&request.schedule))
        return estimated_shared_memory(*tensor, request);
    if (const auto* tensor = std::get_if<gpu_tensor_decode>(&request.schedule))
        return estimated_shared_memory(tensor->of_split(), request);
    if (const auto* gradient = std::get_if<gpu_gradient>(&request.schedule))
        return gradient_shared_memory(*gradient, request);
    const shared_memory_plan memory(request);
    if (const auto* decode = std::get_if<gpu_decode>(&request.schedule)) return memory.bytes(*decode);
    const auto& prefill = std::get<gpu_prefill>(request.schedule);
    return memory.bytes(prefill.query_block, prefill.key_block);
}

}  // namespace attune::generators::inline kernel

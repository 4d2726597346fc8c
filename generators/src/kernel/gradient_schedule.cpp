#include "kernel/gradient_schedule.hpp"

#include "kernel/gpu_schedule.hpp"
#include "kernel/shared_memory.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace attune::generators::inline kernel {

cpu_gradient default_cpu_gradient(const kernel_request& request) {
    const level& isa = *request.target;
    cpu_gradient s{};
    s.lanes = isa.lanes;
    const bool wide = isa.registers >= 32;
    // Measured: four vectors of queries times four keys for 32 registers, three times four for 16.
    s.query_tile = (wide ? 4 : 3) * isa.lanes;
    s.key_tile = 4;
    s.block = wide ? 64 : 48;
    s.depth_unroll = std::gcd(request.depths.depth, 4);
    // 16 vectors of sums for 32 registers, 12 for 16: rows of four vectors or two, or as their channels allow. Rows of
    // eight need more loads for as many products: at depth 128 a tenth of the time.
    const int vectors = wide ? 16 : 12, width = width_of_sums(isa.lanes, request.depths);
    for (const int row : {4, 3, 5, 7, 2, 1}) {
        s.sum_channels = row * isa.lanes;
        if ((wide || row <= 2) && width % s.sum_channels == 0) break;
    }
    s.sum_rows = std::max(vectors * isa.lanes / s.sum_channels, 1);
    while (s.block % s.sum_rows != 0) --s.sum_rows;
    s.pairing = usual_pairing(request);
    return s;
}

side_threads::side_threads(const gpu_gradient& s, const depth_pair& depths, bool of_queries) {
    const int queries = s.query_block / s.query_tile, keys = s.key_block / s.key_tile;
    across = of_queries ? keys : queries, down = of_queries ? queries : keys;
    positions = of_queries ? s.query_tile : s.key_tile;
    channels = (std::max(depths.depth, depths.value_depth) + across - 1) / across;
}

int gradient_shared_memory(const gpu_gradient& s, const kernel_request& request) {
    const gradient_plan& plan = *request.facts->gradient;
    const auto further = contractions_under(request.graph(), request.facts->depends, plan.tiles);
    const int width = std::max(request.depths.depth, request.depths.value_depth),
              rows = (padded(s.query_block) + padded(s.key_block)) * width;  // of a product
    int most = 0;
    for (const bool of_queries : {true, false}) {
        std::set<int> tiles;
        int copies = 0;  // of rows that a formula makes: others are read where they lie
        for (const gradient_sum& sum : plan.sums) {
            if (sum.of_queries != of_queries) continue;
            tiles.insert(sum.pairs);
            copies += sum.rows >= 0 && !is_plain_row(request.graph(), sum.rows, sum.channel) ? 1 : 0;
        }
        const int products = 1 + static_cast<int>(further.size());
        const int kept = static_cast<int>(tiles.size()) + (tiles.size() > 1 ? products : 1);
        most = std::max(most, products * rows + copies * padded(of_queries ? s.key_block : s.query_block) * width +
                                  kept * padded(s.query_block) * padded(s.key_block));
    }
    return 4 * most;
}

gpu_gradient default_gpu_gradient(const kernel_request& request) {
    constexpr int pairs_of_thread = 4;  // queries and keys, as in prefill
    constexpr std::pair<int, int> sizes[] = {{32, 64}, {32, 32}, {16, 32}, {16, 16}, {8, 16}, {8, 8}, {4, 4}};
    gpu_gradient s{};
    s.depth_unroll = std::gcd(request.depths.depth, 4);
    for (const auto& [queries, keys] : sizes) {
        s.query_block = queries, s.key_block = keys;
        s.query_tile = std::clamp(queries / 8, 1, pairs_of_thread),
        s.key_tile = std::clamp(keys / 8, 1, pairs_of_thread);
        if (gradient_shared_memory(s, request) <= most_shared_memory(*request.target)) break;
    }
    return s;
}

sum_layout::sum_layout(const kernel_request& request)
    : width(width_of_sums(lanes_of(request.schedule), request.depths)) {
    const auto& cut = std::get<cpu_gradient>(request.schedule);
    block = cut.block, tile = cut.sum_rows;
}

bool sum_layout::is_flat(const gradient_sum& sum) const {
    return sum.rows < 0 && sum.of_queries && (width % block == 0 || block % width == 0);
}

int sum_layout::rows_of_block(const gradient_sum& sum) const {
    return is_flat(sum) ? ((block + width - 1) / width + tile - 1) / tile * tile : block;
}

}  // namespace attune::generators::inline kernel

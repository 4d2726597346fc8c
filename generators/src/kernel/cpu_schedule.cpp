#include "kernel/cpu_schedule.hpp"

#include <algorithm>
#include <numeric>

namespace attune::generators::inline kernel {
namespace {

/// The chunk that leaves least of itself unused at the end of the depth. Among equals one of whole vectors comes first,
/// then the longer one.
int fitting_chunk(int value_depth, int tile, int lanes) {
    constexpr int longest = 16;
    int best = tile, best_cost = 2 * value_depth + 2 * tile;
    for (int chunk = tile; chunk <= longest; chunk += tile) {
        const int waste = (chunk - value_depth % chunk) % chunk, cost = 2 * waste + (chunk % lanes != 0);
        if (cost <= best_cost) best = chunk, best_cost = cost;
    }
    return best;
}

/// Schedules of tiles, as a search found them on an Intel Xeon, except for windows. Each tile of queries reads keys and
/// values anew, from the second-level cache if rows are long, and each block of queries turns the values anew.
cpu_prefill default_of_tiles(cpu_prefill s, const depth_pair& depths, masking hides) {
    const bool shallow = depths.depth + depths.value_depth <= 128;
    s.query_tile = 64, s.key_tile = 32;
    const int block = hides == masking::some && shallow ? 128 : 256;
    s.query_block = s.key_block = hides == masking::window ? 64 : block;
    s.chunk = std::gcd(depths.value_depth, 64);
    s.value_tile = 4;
    return s;
}

}  // namespace

cpu_decode default_cpu_decode(const level& isa, masking hides) {
    cpu_decode s{};
    s.lanes = isa.lanes;
    s.query_block = 16;
    s.key_block = hides == masking::window ? 64 : 128;
    s.query_tile = 4;
    s.depth_unroll = 2;
    s.key_tile = isa.registers >= 32 ? 4 : 2;  // sums of query_tile x key_tile, in registers
    s.value_tile = s.key_tile;
    s.key_splits = 16;
    return s;
}

cpu_prefill default_cpu_prefill(const level& isa, const depth_pair& depths, masking hides, int pairing) {
    const auto [depth, value_depth] = depths;
    cpu_prefill s{};
    s.lanes = isa.lanes, s.pairing = pairing;
    const bool wide = isa.registers >= 32;
    // Accumulators fill the registers that the operands leave: 3 x 8 of 32, 3 x 4 of 16. On aarch64 LLVM spills some of
    // 3 x 8 and none of 5 x 4: an eighth less time in the products of f32, by its models (inner_loops.py).
    const bool narrow = wide && isa.lanes == 4;
    s.query_tile = (narrow ? 5 : 3) * isa.lanes;
    s.key_tile = wide && !narrow ? 8 : 4;
    s.value_tile = value_depth < s.key_tile ? value_depth : s.key_tile;
    s.chunk = fitting_chunk(value_depth, s.value_tile, isa.lanes);
    s.depth_unroll = depth % 4 == 0 ? 4 : depth % 2 == 0 ? 2 : 1;
    // Two tiles of queries keep the grain of skipping fine; keys are read again for each at no cost that could be
    // measured.
    s.query_block = depth + value_depth >= 512 ? s.query_tile : narrow ? 3 * s.query_tile : std::max(48, s.query_tile);
    // With a mask, above all a window, a fine grain leaves fewer masked pairs in the visited blocks. Without one, twice
    // as many keys as these are within 2 % on long calls, and make calls of fewer keys than a block twice as slow.
    s.key_block = hides == masking::none ? 128 : 64;
    // On 8 lanes, measured: one tile at a time meets an edge, and only sub-blocks of a longer block of keys are visited
    // there. This saves 5 to 8 % on causal calls of 100 to 1000 queries, 1 to 10 % in windows.
    if (isa.lanes == 8 && hides != masking::none) s.query_block = s.query_tile, s.key_block = 128;
    // On 16 lanes, measured: 32 queries divide more lengths than 48, leave less beside a diagonal and read the
    // first-level cache no more than it gives. At an edge only sub-blocks of the 128 keys are visited. In a window a
    // tile of 16 queries wins by the pairs that it does not compute: with a window of 256 keys it computes 1.06 times
    // the visible pairs, 48 queries 1.19 times.
    if (isa.lanes == 16 && (pairing == 1 || pairing == bytes_of_word)) {
        const bool window = hides == masking::window;
        s.query_tile = s.query_block = window ? 16 : 32;
        s.key_block = window ? 64 : 128;
        if (window) s.key_tile = 16;
        if (window && value_depth % 16 == 0) s.value_tile = s.chunk = 16;
    }
    // Each block of queries lays the values of four keys beside each other anew.
    if (pairing == bytes_of_word && hides != masking::window) s.query_block = 4 * s.query_tile;
    // Each block of queries lays the values of two keys beside each other anew.
    if (pairing == 2 && hides != masking::window) {
        s.query_tile = hides == masking::none ? 64 : 32;
        s.query_block = 2 * s.query_tile, s.key_block = 128;
        if (hides == masking::none) s.key_tile = 4, s.value_tile = std::min(s.value_tile, 4);
    }
    if (is_tiled(s)) return default_of_tiles(s, depths, hides);
    // So shallow that the sums of a whole row fit beside its keys, which costs less in between. 16 queries divide more
    // lengths than 24: of 128 queries none is computed in vain.
    if (isa.lanes == 8 && hides == masking::none && depth <= 32 && value_depth == 32) {
        s.query_tile = 16, s.query_block = 64;
        s.chunk = value_depth;
    }
    return s;
}

/// Half of the registers hold sums. Of 16 registers, 4 rows by 2 vectors take 6 loads for 8 products, and 8 rows by one
/// vector 9; where there are 32, an instruction reads a number and repeats it. A chunk of one token has the sums of a
/// whole row of values, since one sum that waits for itself takes as long as four.
cpu_recurrence default_cpu_recurrence(const level& isa, int tokens) {
    const int sums = isa.registers / 2;
    const int rows = isa.registers >= 32 ? std::min(tokens, sums) : tokens >= 8 ? 4 : tokens >= 4 ? 2 : 1;
    return {.lanes = isa.lanes, .block = tokens, .rows = rows, .vectors = std::clamp(sums / rows, 1, 8)};
}

int part_of(int whole, int most) {
    int part = std::max(std::min(whole, most), 1);
    while (whole % part != 0) --part;
    return part;
}

}  // namespace attune::generators::inline kernel

#pragma once
#include "passes/prefetch_rows.hpp"
#include "passes/trim_tail_rows.hpp"
#include "stages/score_tile.hpp"

#include <optional>
#include <vector>

namespace attune::generators::inline cpu {

/// The loops of a CPU that make a tile of scores.
class score_tile_schedule {
public:
    score_tile_schedule(const kernel_frame& frame, score_tile& tile)
        : f_(frame), its_(tile), lanes_(lanes_of(frame.request.schedule)) {}

    /// Computes numbers that depend on a query alone at a block of queries, and numbers that depend on a key alone at a
    /// block of keys; `storage` is where they are kept.
    void schedule_queries(const Halide::LoopLevel& block, const Halide::LoopLevel& storage);
    void schedule_keys(const Halide::LoopLevel& block, const Halide::LoopLevel& storage);
    /// Computes numbers that depend on no position, at a level around both of the blocks above.
    void schedule_shared(const Halide::LoopLevel& level);
    /// Products of a few rows with a vector of keys. Each is summed in a vector, a few of these in registers; then the
    /// lanes of a vector are summed, a `row` at a time. Keys that a formula computes are computed once for all `keys`.
    void schedule_dots(const cpu_decode& cut, const Halide::LoopLevel& row, const Halide::LoopLevel& rows,
                       const Halide::LoopLevel& keys);
    /// Rows of so many channels, made by vectors; each of some pieces of a row has one formula for all its channels.
    void schedule_row_vectors(Halide::Func rows, int channels, int pieces = 1) const;
    /// The numbers that a tile reads from tensors of pairs, if queries are in lanes.
    void schedule_pairs(const cpu_prefill& cut, const Halide::LoopLevel& tile, const Halide::LoopLevel& storage);
    /// Products for `in_lanes` x `others` pairs at a time, in registers.
    void schedule_products(const Halide::LoopLevel& tile, int in_lanes, int others, int vector);

    /// Decode: whether rows of keys or values are read in place, not formed first.
    bool is_read_in_place(int tensor) const;

    /// Decode: the loop that asks for rows, the loop that reads them, so many keys and channels an iteration, and the
    /// loop over the other channels.
    struct reading {
        stage_loop asks, reads;
        int keys, channels;
        std::optional<stage_loop> parts{};
    };
    /// Decode: prefetches the inputs of `tensor`.
    void fetch_rows(Halide::Pipeline& pipeline, int tensor, const reading& loops) const;
    void fetch_keys(Halide::Pipeline& pipeline, const Halide::Func& scores) const;
    /// If queries lie in lanes: the loops that transpose a block's queries.
    std::vector<row_loop> row_loops() const;

private:
    void schedule_integers(score_tile::contraction& c, const cpu_decode& cut, const Halide::LoopLevel& rows,
                           const Halide::LoopLevel& keys_of_step);
    void schedule_rows(const score_tile::stored_rows& its, const Halide::LoopLevel& block,
                       const Halide::LoopLevel& storage);
    void schedule_side(bool of_query, const Halide::LoopLevel& block, const Halide::LoopLevel& storage);
    void schedule_hoisted(Halide::Func& kept, bool of_query, const Halide::LoopLevel& block);
    void schedule_broadcast(score_tile::contraction& c, bool of_query, const Halide::LoopLevel& block,
                            const Halide::LoopLevel& storage);
    void schedule_panel(score_tile::contraction& c, bool of_query, const Halide::LoopLevel& block,
                        const Halide::LoopLevel& storage);
    bool lies_in_lanes(bool of_query) const;
    bool is_stored(const Halide::Func& rows) const;

    const kernel_frame& f_;
    score_tile& its_;
    const int lanes_;
};

}  // namespace attune::generators::inline cpu

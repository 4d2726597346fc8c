#pragma once
#include "stages/masked_values.hpp"
#include "stages/score_tile.hpp"
#include "stages/softmax_state.hpp"
#include "stages/subblocks.hpp"

#include <optional>
#include <vector>

namespace attune::generators::inline stages {

/// The pass over the keys in prefill: for each row what its outputs are made of, added up over the blocks that are
/// visited.
///
/// Online softmax: weights are relative to their block's maximum, and the running state is rescaled where a block
/// exceeds it. The value depth is cut into chunks, each with a maximum and a sum of its own beside its accumulators.
class prefill_state : public row_state {
public:
    explicit prefill_state(const kernel_frame& frame);

    Halide::Expr maximum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed_of(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated_of(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return scores_at.scale; }
    int block() const override { return f_.cut.query_block; }
    int chunk() const override { return chunk_; }
    bool depths_in_lanes() const override { return false; }
    int chunks() const { return chunk_ ? (f_.value_depth() + chunk_ - 1) / chunk_ : 1; }
    /// Value depths of a chunk that are neighbours: all; on a GPU as many as a load fetches at once, so that
    /// neighbouring threads, which have neighbouring chunks, read neighbouring words of a row.
    int depths_together() const;

    /// How weights and values are multiplied, of which there are some.
    const value_plan& planned() const { return *f_.keys().values; }
    /// Two keys at a time.
    bool pairs_of_bf16() const { return chunk_ > 0 && is_of_bf16(planned().how); }
    /// So, by tiles: both are words of two keys.
    bool tiled() const { return chunk_ > 0 && made_by<bf16_tiles>(planned().how); }
    /// Functions of pairs that are kept beside the scores: tiled, the statistic's weights are words at once.
    std::vector<Halide::Func> kept_weights() const;
    /// Whether a sum of a row is made of words.
    bool adds_words(const Halide::Func& of_row) const { return tiled() && of_row.name() == weights.sum.name(); }

    // What there is to schedule. Rows are (query in block, key block, query block, head, batch), pairs (query in
    // block, key in block, key block, query block, head, batch).
    score_tile scores_at;
    subblocks parts;
    bool masks_apart{};             ///< the scores' update masks blocks that are not known to be full
    Halide::Func scores{"scores"};  ///< of pairs
    block_weights weights;
    Halide::Func values;  ///< (value depth, key in block, key block, head, batch)
    /// (of two, query in block, half the key in block, key block, ...) and (of two, value depth, half the key in block,
    /// key block, head, batch). Tiled, words of two keys: the same without the first axis, and values with the keys
    /// first, turned from value_rows (value depth, half the key in block, key block, head, batch).
    Halide::Func weight_pairs{"weight_pairs"}, value_pairs{"value_pairs"}, value_rows{"value_rows"};
    /// (query in block, value depth, key block, query block, head, batch): the sums of a tile, in registers; those of a
    /// block whose masked values matter; the sums of a chunk. With both loops in one Func LLVM keeps one of the tile's
    /// sums in memory (AVX2), and the loop takes twice as long.
    Halide::Func accumulated{"accumulated"}, guarded{"guarded"}, weighted{"weighted"};
    Halide::Func state{"state"};              ///< (query in block, chunk, query block, head, batch): as layout says
    Halide::Func final_state{"final_state"};  ///< on a GPU: (chunk, query in block, query block, head, batch) of the
                                              ///< state without accumulators
    state_layout layout;
    Halide::Var dc{"dc"};             ///< the chunk
    Halide::RDom rk, masked, blocks;  ///< keys of a block; those of a sub-block that the update masks, and sub-blocks;
                                      ///< blocks of keys
    Halide::RDom added, looked_at;    ///< keys of a block whose values are added: all, or one pair at a time
    Halide::RDom words;               ///< of two, half the keys of a block: tiled, what sums of weights are made of
    std::optional<masked_values> of_masked;

private:
    void define_scores();
    void define_weights();
    void define_words();
    void define_values();
    void define_pairs();
    void define_state();
    Halide::Expr of_row(int i, const std::vector<Halide::Expr>& row) const;
    Halide::Expr depth_of(const Halide::Expr& element) const;

    const kernel_frame& f_;
    const int chunk_;  ///< value depths that share a state; 0 where no values are weighed
};

}  // namespace attune::generators::inline stages

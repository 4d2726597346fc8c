#pragma once
#include "stages/prefill_values.hpp"

#include <optional>
#include <vector>

namespace attune::generators::inline stages {

/// The pass over the keys in prefill: the sums from which a row's outputs are made, added up over the visited blocks.
///
/// Online softmax: weights are relative to their block's maximum, and the running state is rescaled if a block exceeds
/// it. The value depth is cut into chunks, each with a maximum and a sum of its own beside its accumulators.
class prefill_state : public row_state {
public:
    explicit prefill_state(const kernel_frame& frame);

    Halide::Expr maximum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr sum_of(const std::vector<Halide::Expr>& row) const override;
    Halide::Expr summed_of(int weights, const std::vector<Halide::Expr>& row) const override;
    Halide::Expr accumulated_of(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const override;

    Halide::Expr scale() const override { return scores_at.scale; }
    int block() const override { return f_.cut.query_block; }
    int chunk() const override { return depths.size; }
    bool depths_in_lanes() const override { return false; }

    /// Functions of pairs that are kept beside the scores. With tiles of bf16 the statistic's weights are not: they
    /// become words at once.
    std::vector<Halide::Func> kept_weights() const;
    /// Whether a sum of a row is made of words.
    bool adds_words(const Halide::Func& of_row) const {
        return values && values->tiled() && of_row.name() == weights.sum.name();
    }

    // Functions and loops to schedule. Rows are (query in block, key block, query block, head, batch), pairs (query in
    // block, key in block, key block, query block, head, batch).
    score_tile scores_at;
    subblocks parts;
    bool masks_apart{};             ///< the scores' update masks blocks that are not known to be full
    Halide::Func scores{"scores"};  ///< of pairs
    block_weights weights;
    std::optional<prefill_values> values;     ///< unless no values are weighed
    Halide::Func state{"state"};              ///< (query in block, chunk, query block, head, batch): as layout says
    Halide::Func final_state{"final_state"};  ///< on a GPU: (chunk, query in block, query block, head, batch) of the
                                              ///< state without accumulators
    state_layout layout;
    const depth_chunks depths;
    static inline const Halide::Var dc{"dc"};  ///< the chunk
    Halide::RDom rk, masked, blocks;  ///< keys of a block; keys of a sub-block that the update masks, and sub-blocks;
                                      ///< blocks of keys

private:
    void define_scores();
    void define_weights();
    void define_state();
    Halide::Expr of_row(int i, const std::vector<Halide::Expr>& row) const;

    const kernel_frame& f_;
};

}  // namespace attune::generators::inline stages

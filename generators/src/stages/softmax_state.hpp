#pragma once
#include "passes/skip_blocks.hpp"
#include "passes/trim_tail_rows.hpp"
#include "stages/score_tile.hpp"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators {

/// What a pass over the keys leaves of each row, whichever way the work is cut.
class row_state {
public:
    virtual ~row_state() = default;

    /// At (in block, query block, head, batch), after the last key: queries in blocks of `block()`.
    virtual Halide::Expr maximum(const std::vector<Halide::Expr>& row)
        const = 0;  ///< of the scores, divided by the scale; below every score where there is none
    virtual Halide::Expr sum(
        const std::vector<Halide::Expr>& row) const = 0;  ///< of the softmax's weights relative to the maximum
    virtual Halide::Expr summed(int weights, const std::vector<Halide::Expr>& row) const = 0;  ///< what row_sum adds up
    virtual Halide::Expr accumulated(const std::vector<Halide::Expr>& row, const Halide::Expr& d) const = 0;

    virtual Halide::Expr scale() const = 0;
    virtual int block() const = 0;             ///< queries that a task finishes
    virtual int chunk() const = 0;             ///< value depths that lie side by side; 0 where no values are weighed
    virtual bool depths_in_lanes() const = 0;  ///< else the queries

    /// All that one task needs, inside it.
    virtual void schedule(const Halide::LoopLevel& task) = 0;
    /// The loop that a table guards (skip_blocks.hpp).
    virtual std::pair<std::string, std::string> guarded_loop() const = 0;
    /// Loops over the keys of a block that are clipped to the visited sub-blocks (subblocks.hpp).
    virtual std::vector<clipped_loop> clipped_loops() const { return {}; }
    /// Loops over the queries of a block.
    virtual std::vector<row_loop> row_loops() const { return {}; }
    /// What remains to be done once the loops are there.
    virtual void add_passes(Halide::Pipeline&) const {}

protected:
    /// Defines the graph's modified weights and the sums over the keys that it asks for, each once. Returns the weights
    /// that multiply values, if any do. The sum of softmax's own weights is always there. `sum` adds up a function of
    /// pairs over the keys of a block.
    Halide::Func define_further_weights(
        const kernel_frame& frame, score_tile& scores, const Halide::Func& weights, bool softmax,
        const std::function<Halide::Func(const std::string& name, const Halide::Func& pairs)>& sum);

    /// Of a block of keys in decode: all of a row's scores are there before its weights are made.
    struct block_of_scores {
        const Halide::Func& scores;
        Halide::Func &highest, &weights, &sum;  ///< of a row; of pairs; of a row
    };
    /// Defines the statistic's weights of a block, with the maximum and the sum that they need, and then what
    /// define_further_weights does, which it returns. `reduced` makes a row's maximum or sum of a function of pairs.
    Halide::Func define_weights_of_block(
        const kernel_frame& frame, score_tile& scores_at, bool softmax, const block_of_scores& block,
        const std::function<Halide::Func(const std::string& name, const Halide::Func& pairs, bool maximum)>& reduced);

    std::map<int, Halide::Func> modified_;  ///< weights other than the statistic's own, by node
    std::map<int, Halide::Func> row_sums_;  ///< by node
};

}  // namespace attune::generators

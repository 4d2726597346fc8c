#pragma once
#include "stages/epilogue.hpp"
#include "stages/score_tile.hpp"

#include <vector>

namespace attune::generators::inline stages {

/// Outputs that need every pair: scores and weights themselves, weights summed over the queries or averaged over the
/// heads. A second pass over the scores makes them, from the maximum and sum that the first pass found for each row.
/// Blocks without a visible pair are filled without being computed.
///
/// One object makes all outputs of one shape. Keys lie in lanes, as they do in the outputs.
class quadratic_outputs {
public:
    using shape = pair_shape;
    /// `rows` may write nothing.
    quadratic_outputs(kernel_frame& frame, const epilogue& rows, const pair_outputs& planned);

    Halide::Func outputs;  ///< (key, query, head, batch), means without the head, columns without the query

    // Functions and loops to schedule.
    const shape of;
    score_tile scores_at;
    Halide::Func visits_of_block;   ///< (key block, query block, head, batch): 0 for blocks that are only filled
    Halide::Func maximum, inverse;  ///< (query in block, query block, head, batch)
    Halide::Func values;            ///< of pairs: the term of each
    Halide::Func tile;              ///< of pairs; means without the head, columns without the query
    Halide::RDom steps;             ///< of the tile's update
    Halide::VarOrRVar guarded{Halide::Var()};  ///< of the tile's update: the loop that visits_of_block guards
    Halide::Expr blocks_together() const;      ///< blocks of queries of a task

private:
    void define_visits();
    std::vector<Halide::Expr> made_of_pair();
    void define_tile(const std::vector<Halide::Expr>& of_pair);
    void define_outputs();

    kernel_frame& f_;
    const epilogue& rows_;
    const std::vector<int>& nodes_;  ///< outputs
};

}  // namespace attune::generators::inline stages

#pragma once
#include "stages/epilogue.hpp"
#include "stages/score_tile.hpp"

namespace attune::generators {

/// Outputs that need every pair: scores and weights themselves, weights summed over the queries or averaged over the
/// heads. They are made by a second pass over the scores, which reads what the first one found of each row. Blocks in
/// which nothing is visible are filled without being computed.
///
/// One object makes all outputs of one shape. Keys lie in lanes, as they do in the outputs.
class quadratic_outputs {
public:
    enum class shape : std::uint8_t { pairs, head_means, columns };
    /// `rows` may write nothing.
    quadratic_outputs(const kernel_frame& frame, const epilogue& rows, shape of);

    static bool wanted(const plan& core, shape of);
    static shape shape_of(kind output);

    Halide::Func outputs;
    void schedule();
    /// The loop that a table guards (skip_blocks.hpp).
    std::pair<std::string, std::string> guarded_loop() const {
        return {tile_.name() + ".s1." + guarded_.name(), block_kinds_.name()};
    }

private:
    friend class gpu_prefill_schedule;
    void define_visits();
    std::vector<Halide::Expr> values();
    void define_tile(const std::vector<Halide::Expr>& values);
    void define_outputs();
    Halide::Expr blocks_together() const;

    const kernel_frame& f_;
    const epilogue& rows_;
    const shape of_;
    score_tile scores_at_;
    std::vector<int> nodes_;  ///< that are written
    Halide::RDom steps_;
    Halide::VarOrRVar guarded_{Halide::Var()};  ///< of the tile's update
    Halide::Func block_kinds_, maximum_, inverse_, values_, tile_;
    const Halide::Var task_{"task"};
};

}  // namespace attune::generators

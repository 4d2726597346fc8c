#pragma once
#include "passes/stage_loop.hpp"

#include <utility>
#include <vector>

namespace attune::generators::inline passes {

/// A loop over the queries of a block, `rows` of them an iteration.
struct row_loop {
    stage_loop is;
    int rows{};
};

/// Lowering pass: makes loops over the last block of queries end with the last tile that holds a query, so that large
/// query blocks do not slow down short calls.
///
/// Halide computes whole blocks, because their size has to be known for storage. It guards only the outputs.
class trim_tail_rows : public Halide::Internal::IRMutator {
public:
    /// `tasks`: the loop whose index modulo the number of blocks is the block.
    trim_tail_rows(stage_loop tasks, Halide::Expr queries, int block, std::vector<row_loop> loops)
        : tasks_(std::move(tasks)), queries_(std::move(queries)), block_(block), loops_(std::move(loops)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    const stage_loop tasks_;
    const Halide::Expr queries_;
    const int block_;
    const std::vector<row_loop> loops_;
    Halide::Expr rows_;  ///< of the task at hand, in whole tiles
};

}  // namespace attune::generators::inline passes

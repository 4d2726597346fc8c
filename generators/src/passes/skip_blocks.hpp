#pragma once
#include "passes/prefetch_rows.hpp"
#include "passes/stage_loop.hpp"

#include <functional>
#include <string>
#include <utility>

namespace attune::generators::inline passes {

/// A loop over the keys of a block, `keys` of them an iteration.
struct clipped_loop {
    prefetch_rows::loop is;
    int keys{};
    bool reads_others{};  ///< what other clipped loops make, which then is all there is
    int at_a_time{1};     ///< iterations written out, of a loop that reads rows of keys (rows_at_a_time.hpp)
};

/// Of a block, cut into sub-blocks of `keys` keys: the first sub-block that is visited, and the end.
struct visited_subblocks {
    Halide::Expr first, end;
    int keys{};
};

/// Lowering pass: moves the condition that guards a loop's innermost stores into one `if` around the loop's body.
///
/// Halide leaves a reduction's predicate at the stores if it reads memory, such as a table of block kinds, and then
/// computes what feeds them for skipped iterations too. The predicate depends on the loop alone, so the whole body may
/// be skipped.
class skip_blocks : public Halide::Internal::IRMutator {
public:
    /// Whether the predicate compares what is loaded with 0.
    using is_table = std::function<bool(const Halide::Internal::Load&)>;

    /// Which sub-blocks of a block are visited, by what the predicate loads for it.
    using visited_of = std::function<visited_subblocks(const Halide::Expr&)>;

    /// Loops inside of `loop` are clipped to the sub-blocks that are visited.
    skip_blocks(stage_loop loop, is_table table, std::vector<clipped_loop> clipped = {}, visited_of visited = {})
        : loop_(std::move(loop)),
          table_(std::move(table)),
          clipped_(std::move(clipped)),
          visited_(std::move(visited)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    stage_loop loop_;
    is_table table_;
    std::vector<clipped_loop> clipped_;
    visited_of visited_;
};

/// Lowering pass: an input axis of extent 0 is no error. Positions are clamped to at least 0, so Halide counts the
/// first one as read.
class allow_empty_inputs : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::AssertStmt* assertion) override;
};

}  // namespace attune::generators::inline passes

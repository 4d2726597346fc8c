#pragma once
#include "passes/stage_loop.hpp"

#include <functional>
#include <string>
#include <utility>

namespace attune::generators::inline passes {

/// A loop over the keys of a block, `keys` of them an iteration.
struct clipped_loop {
    stage_loop is;
    int keys{};
    bool reads_others{};  ///< reads numbers that other clipped loops make, and no more of them
    int at_a_time{1};     ///< iterations written out, if the loop reads rows of keys (rows_at_a_time.hpp)
};

/// The first visited sub-block of a block, and the end, in sub-blocks of `keys` keys.
struct visited_subblocks {
    Halide::Expr first, end;
    int keys{};
};

/// Lowering pass: moves the condition that guards a loop's innermost stores into one `if` around the loop's body.
///
/// Halide leaves a reduction's predicate at the stores if it reads memory, such as a table of block kinds, and then
/// computes the stored values for skipped iterations too. The predicate depends on the loop alone, so the whole body
/// may be skipped.
class skip_blocks : public Halide::Internal::IRMutator {
public:
    /// Whether a load is the one that the predicate compares with 0.
    using is_table = std::function<bool(const Halide::Internal::Load&)>;

    /// The visited sub-blocks of a block, from the number that the predicate loads for it.
    using visited_of = std::function<visited_subblocks(const Halide::Expr&)>;

    /// Loops inside `loop` are clipped to the visited sub-blocks.
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

/// Lowering pass: accepts an input axis of extent 0. Positions are clamped to at least 0, so Halide counts the first
/// one as read.
class allow_empty_inputs : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::AssertStmt* assertion) override;
};

}  // namespace attune::generators::inline passes

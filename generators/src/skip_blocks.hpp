#pragma once
#include <Halide.h>

namespace attune::generators {

/// Lowering pass: makes one `if` around a loop's body of the condition that guards its innermost stores.
///
/// Halide leaves a reduction's predicate at the stores when it reads memory, as a table of visits does, and then computes what feeds
/// them for skipped iterations too. The predicate depends on the loop alone, so the whole body may be skipped.
class skip_blocks : public Halide::Internal::IRMutator {
public:
    /// `loop` ends the name of the loop; `table` is the function that its predicate compares with 0.
    skip_blocks(std::string loop, std::string table) : loop_(std::move(loop)), table_(std::move(table)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    std::string loop_, table_;
};

/// Lowering pass: an input axis of extent 0 is no error. Positions are clamped to at least 0, so Halide counts the first one as read.
class allow_empty_inputs : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::AssertStmt* assertion) override;
};

}  // namespace attune::generators

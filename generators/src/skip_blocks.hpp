#pragma once
#include <Halide.h>

#include <functional>
#include <string>
#include <utility>

namespace attune::generators {

/// Lowering pass: makes one `if` around a loop's body of the condition that guards its innermost stores.
///
/// Halide leaves a reduction's predicate at the stores when it reads memory, as a table of visits does, and then computes what feeds
/// them for skipped iterations too. The predicate depends on the loop alone, so the whole body may be skipped.
class skip_blocks : public Halide::Internal::IRMutator {
public:
    /// Whether the predicate compares what is loaded with 0.
    using is_table = std::function<bool(const Halide::Internal::Load&)>;

    /// `loop` ends the name of the loop.
    skip_blocks(std::string loop, is_table table) : loop_(std::move(loop)), table_(std::move(table)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    std::string loop_;
    is_table table_;
};

/// Lowering pass: an input axis of extent 0 is no error. Positions are clamped to at least 0, so Halide counts the first one as read.
class allow_empty_inputs : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::AssertStmt* assertion) override;
};

}  // namespace attune::generators

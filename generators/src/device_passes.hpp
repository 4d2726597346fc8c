#pragma once
#include <Halide.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators {

/// Lowering pass: makes each thread's part of a function its own.
///
/// Halide gives every thread a copy of all that a block of threads computes where that lies in registers, and addresses it by the thread's number, so that it would
/// be memory. Here each thread only ever meets what it wrote itself, in the same place: the thread's number is taken out of the address.
class private_state : public Halide::Internal::IRMutator {
public:
    /// `function` names the buffers: itself, or itself with a number behind a dot.
    explicit private_state(std::string function) : function_(std::move(function)) {}

protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Load* load) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Store* store) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Allocate* allocation) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;
    Halide::Expr visit(const Halide::Internal::Let* let) override;

private:
    Halide::Expr own(Halide::Expr index) const;
    bool is_its(const std::string& buffer) const;

    std::string function_;
    std::vector<std::pair<std::string, Halide::Expr>> lets_;
    std::map<std::string, int> largest_;  ///< index that is used, by buffer
};

/// Lowering pass: makes one `if` around a loop's body of the condition that guards its stores: some byte in shared memory is not 0. All threads of a block agree
/// on it, so that they may wait for each other inside.
class skip_blocks_together : public Halide::Internal::IRMutator {
public:
    /// `loop` ends the name of the loop.
    explicit skip_blocks_together(std::string loop) : loop_(std::move(loop)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    std::string loop_;
};

/// Bytes that every device gives a block of threads.
inline constexpr int most_shared_memory = 48 << 10;

/// The most shared memory that a launch in it asks for.
int shared_memory(const Halide::Internal::Stmt& function);

}  // namespace attune::generators

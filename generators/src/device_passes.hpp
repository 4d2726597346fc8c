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

/// Lowering pass: tensors of bf16 and f16 are words of 16 bits to a GPU's kernel, which are widened by integer arithmetic. Not every device knows
/// such floats, nor can every back end of Halide store them; what is computed with them is f32 anyway.
class halves_as_words : public Halide::Internal::IRMutator {
public:
    using IRMutator::mutate;
    Halide::Expr mutate(const Halide::Expr& e) override;

protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Load* load) override;
    Halide::Expr visit(const Halide::Internal::Variable* variable) override;
    Halide::Expr visit(const Halide::Internal::Cast* conversion) override;
    Halide::Expr visit(const Halide::Internal::Reinterpret* bits) override;
    Halide::Expr visit(const Halide::Internal::Call* call) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Allocate* allocation) override;
};

/// The most shared memory that a launch in it asks for.
int shared_memory(const Halide::Internal::Stmt& function);

}  // namespace attune::generators

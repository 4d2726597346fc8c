#pragma once
#include "passes/gpu_passes.hpp"

#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {

/// Lowering pass: as private_state; and the running state before an iteration is read from its registers.
///
/// Halide has no way to let a stage that makes the state read the state. Such a stage calls `state_before(element,
/// half, tile, ...)`: a number of the state's tuple, for the thread's rows.
class fragment_registers : public private_state {
public:
    /// The running state is the first of the functions. A thread has two rows of a tile.
    explicit fragment_registers(std::vector<std::string> functions)
        : private_state(functions), state_(functions.front()) {}

    static constexpr const char* state_before = "attune_state_before";

protected:
    using private_state::visit;
    Halide::Expr visit(const Halide::Internal::Call* call) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Allocate* allocation) override;

private:
    const std::string state_;
    std::vector<std::string> buffers_;
};

/// Lowering pass: joins consecutive stores to one of some functions that have the same condition under one `if`.
///
/// Halide leaves a reduction's predicate that reads memory at each store. LLVM would then select each of many numbers
/// instead of passing over all of them.
class stores_under_one_condition : public Halide::Internal::IRMutator {
public:
    explicit stores_under_one_condition(std::vector<std::string> functions) : functions_(std::move(functions)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::Block* block) override;

private:
    const std::vector<std::string> functions_;
};

/// Lowering pass: splits a number times a distance, in stores to a function. The result is the number times the part
/// that the distances of all its registers have in common, plus the number times a constant.
///
/// An example is a slope of ALiBi times (k - q): pairs of a thread lie constants apart. One distance is converted in
/// place of all, and each costs one fused multiplication and addition.
class distances_apart : public Halide::Internal::IRMutator {
public:
    explicit distances_apart(std::string function) : function_(std::move(function)) {}

    using IRMutator::mutate;
    Halide::Expr mutate(const Halide::Expr& e) override;

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::Store* store) override;
    Halide::Expr visit(const Halide::Internal::Mul* product) override;

private:
    const std::string function_;
    bool inside_{};
};

/// Lowering pass: reads elements of inputs that every iteration of a loop needs, such as those of a task's head, before
/// the loop.
///
/// A condition around most iterations keeps LLVM from doing so, and each iteration would wait for memory. Inside the
/// loop such a number is opaque to LLVM: numbers computed from it stay inside, and take no register outside.
class loads_before_loop : public Halide::Internal::IRMutator {
public:
    /// `tensors` have elements whether or not an iteration is run.
    loads_before_loop(stage_loop loop, std::vector<std::string> tensors)
        : loop_(std::move(loop)), tensors_(std::move(tensors)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;
    Halide::Expr visit(const Halide::Internal::Let* let) override;
    Halide::Expr visit(const Halide::Internal::Load* load) override;

private:
    template <class Node> auto visit_let(const Node* let);

    const stage_loop loop_;
    const std::vector<std::string> tensors_;
    std::vector<std::string> loops_;  ///< the loop and those inside it, around this place; empty elsewhere
    named_values lets_, kept_;        ///< inside the loop; read before it
};

/// Lowering pass: reads words of rows of floats, of 16 or 32 bits, as words, four at a time if they stand in a vector,
/// and writes neighbouring elements of 16 bits whose stores follow each other as a word.
///
/// A stage calls `row_word(first element of a row, word)`: the element is loaded for its address alone. Rows begin at
/// multiples of 16 bytes (kernel::tensor_row_alignment), which Halide does not know: strides are written as multiples
/// of 8 elements, so that addresses are divided without a shift.
class words_of_rows : public Halide::Internal::IRMutator {
public:
    /// The names of buffers of 16-bit floats.
    explicit words_of_rows(std::vector<std::string> tensors) : tensors_(std::move(tensors)) {}

    static constexpr const char* row_word = "attune_row_word";

protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Call* call) override;
    Halide::Expr visit(const Halide::Internal::Let* let) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Block* block) override;

private:
    /// Two stores as one of a word; undefined unless they are of neighbours, the first at an even place.
    Halide::Internal::Stmt as_word(const Halide::Internal::Stmt& first, const Halide::Internal::Stmt& second);
    template <class Node> auto visit_let(const Node* let);
    Halide::Internal::Stmt with_multiple(const Halide::Internal::LetStmt* stride);

    const std::vector<std::string> tensors_;
    bool in_kernel_{};
    named_values lets_;  ///< of the kernel, around this place
};

}  // namespace attune::generators::inline passes

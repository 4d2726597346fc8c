#pragma once
#include "passes/gpu_passes.hpp"

#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {

/// Lowering pass: as private_state; and what a running state was before an iteration is read from its registers.
///
/// Halide has no way to say that a stage which the state is made of reads the state. Such a stage calls
/// `state_before(element, half, tile, ...)`: a number of the state's tuple, of the thread's rows.
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

/// Lowering pass: stores of one of some functions under one condition, one behind the other, are under it together.
///
/// Halide leaves a reduction's predicate that reads memory at each store. LLVM would then choose each of many numbers
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

/// Lowering pass: a number times a distance, where a function is stored, is the number times what the distances of all
/// its registers have in common, and the number times a constant.
///
/// A slope of ALiBi times (k - q): pairs of a thread lie constants apart. One distance is converted in the place of
/// all, and each costs a multiplication and an addition in one.
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

/// Lowering pass: elements of inputs that every iteration of a loop reads, of a task's head for one, are read before
/// it.
///
/// A condition that most iterations are under keeps LLVM from it, and all else would wait for memory each time. Inside
/// the loop such a number is one that LLVM knows nothing of: what it makes of it stays there, and takes no register all
/// the time.
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
    std::vector<std::string> loops_;  ///< that one and those inside, around this place; empty: elsewhere
    named_values lets_, kept_;        ///< inside the loop; read before it
};

/// Lowering pass: words of rows of 16-bit floats are read as words, four at a time where they stand in a vector, and
/// neighbouring elements that are written one after the other are written as a word.
///
/// A stage calls `row_word(first element of a row, word)`: the element is loaded for its address alone. Rows begin at
/// multiples of 16 bytes (kernel::tensor_row_alignment), which Halide is not told of: strides are written as multiples
/// of 8 elements, so that addresses are divided without a shift.
class words_of_rows : public Halide::Internal::IRMutator {
public:
    /// The buffers' names: of 16-bit floats alone.
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
    /// Two stores as one of a word; undefined where they are not of neighbours, the first at an even place.
    Halide::Internal::Stmt as_word(const Halide::Internal::Stmt& first, const Halide::Internal::Stmt& second);
    template <class Node> auto visit_let(const Node* let);
    Halide::Internal::Stmt with_multiple(const Halide::Internal::LetStmt* stride);

    const std::vector<std::string> tensors_;
    bool in_kernel_{};
    named_values lets_;  ///< of the kernel, around this place
};

}  // namespace attune::generators::inline passes

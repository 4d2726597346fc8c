#pragma once
#include "passes/lets.hpp"
#include "passes/stage_loop.hpp"

#include <Halide.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {

/// Lowering pass: leaves each thread only its own part of functions that lie in registers.
///
/// Halide gives every thread a copy of all that the block of threads computes, and addresses it by the thread's number,
/// which would force it into memory. A thread only reads what it wrote itself, so the thread's number is taken out of
/// the address.
class private_state : public Halide::Internal::IRMutator {
public:
    /// A function names its buffers: itself, or itself with a number behind a dot.
    explicit private_state(std::vector<std::string> functions) : functions_(std::move(functions)) {}

protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Load* load) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Store* store) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Allocate* allocation) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;
    Halide::Expr visit(const Halide::Internal::Let* let) override;

    /// An address without the thread in it.
    Halide::Expr own(Halide::Expr index) const;

private:
    bool is_its(const std::string& buffer) const;

    const std::vector<std::string> functions_;
    named_values lets_;
    std::map<std::string, int> largest_;  ///< index that is used, by buffer
};

/// Lowering pass: makes predicates on a loop's variable the loop's bounds.
///
/// Halide does so itself if they read no memory that the kernel wrote. Otherwise it runs all iterations, and stores
/// nothing in most.
class bounded_loop : public Halide::Internal::IRMutator {
public:
    explicit bounded_loop(stage_loop loop) : loop_(std::move(loop)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    stage_loop loop_;
};

/// Lowering pass: the last block of queries is the first one that a GPU begins. Under a mask that hides what is behind
/// a query its keys are the most, and a device that begins with the least waits for the last blocks alone.
class last_queries_first : public Halide::Internal::IRMutator {
public:
    explicit last_queries_first(stage_loop of_blocks) : loop_(std::move(of_blocks)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    stage_loop loop_;
};

/// Lowering pass: tensors of bf16 and f16 are words of 16 bits to a GPU's kernel, which are widened by integer
/// arithmetic. Not every device knows such floats, nor can every back end of Halide store them; what is computed with
/// them is f32 anyway.
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

/// Lowering pass: what Halide 21 compiles wrongly for Vulkan, said in other words inside kernels.
///
/// It shifts every signed number as if it were unsigned, which is also how it divides by constants, and so what is
/// negative comes out as something large. It takes the remainder of reals by truncation, has no floor of f64 and counts
/// no zeros, and compares a loop's variable as an unsigned number: a loop from below 0 never runs, and one of a
/// negative extent never ends. What a launch passes beside buffers lies in a block of memory in which Vulkan has no
/// truth values: theirs are passed as words.
class words_for_vulkan : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Variable* variable) override;
    Halide::Expr visit(const Halide::Internal::Let* let) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;
    Halide::Expr visit(const Halide::Internal::Div* division) override;
    Halide::Expr visit(const Halide::Internal::Mod* remainder) override;
    Halide::Expr visit(const Halide::Internal::Call* call) override;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    bool in_kernel_{};
    std::set<std::string> own_;                   ///< lets of the kernel
    std::map<std::string, Halide::Expr> passed_;  ///< narrower than a word, and from outside
};

/// Halide's code for OpenCL and CUDA has what lies within a choice more than once, at each level of a chain of choices:
/// long chains take forever, and all memory. So what lies within is given a name.
class named_choices : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Select* choice) override;
    Halide::Expr visit(const Halide::Internal::Call* call) override;
};

/// Halide's OpenCL source has constants of f64 as those of f32: they are made of their bits.
class words_for_opencl : public named_choices {
protected:
    using named_choices::visit;
    Halide::Expr visit(const Halide::Internal::FloatImm* number) override;
};

/// The most shared memory that a launch in it asks for.
int shared_memory(const Halide::Internal::Stmt& function);

}  // namespace attune::generators::inline passes

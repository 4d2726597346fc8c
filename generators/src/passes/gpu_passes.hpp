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
    /// A function's buffers have its name, or its name with a number behind a dot.
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

/// Lowering pass: makes a GPU begin with the last block of queries. Under a mask that hides keys behind a query this
/// block has the most keys, and a device that began with the fewest would wait for the last blocks alone.
class last_queries_first : public Halide::Internal::IRMutator {
public:
    explicit last_queries_first(stage_loop of_blocks) : loop_(std::move(of_blocks)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;

private:
    stage_loop loop_;
};

/// Lowering pass: turns tensors of bf16 and f16 into words of 16 bits in a GPU's kernel, and widens them by integer
/// arithmetic. Some devices lack such floats, and some back ends of Halide cannot store them; kernels compute in f32
/// anyway.
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

/// Lowering pass: rewrites operations inside kernels that Halide 21 compiles wrongly for Vulkan.
///
/// Halide shifts every signed number as if it were unsigned, in divisions by constants too, so that negative numbers
/// become large ones. It takes the remainder of reals by truncation, has no floor of f64 and counts no zeros. It
/// compares a loop's variable as an unsigned number: a loop from below 0 never runs, and one of a negative extent never
/// ends. Numbers that a launch passes beside buffers lie in a block of memory in which Vulkan has no truth values:
/// these are passed as words.
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
    std::map<std::string, Halide::Expr> passed_;  ///< parameters that are narrower than a word
};

/// Halide's code for OpenCL and CUDA repeats the operands of a choice at each level of a chain of choices: long chains
/// take forever, and all memory. This pass gives the operands names.
class named_choices : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Select* choice) override;
    Halide::Expr visit(const Halide::Internal::Call* call) override;
};

/// Halide's OpenCL source writes constants of f64 as those of f32: this pass makes them from their bits.
class words_for_opencl : public named_choices {
protected:
    using named_choices::visit;
    Halide::Expr visit(const Halide::Internal::FloatImm* number) override;
};

/// The most shared memory that a launch in the function asks for.
int shared_memory(const Halide::Internal::Stmt& function);

}  // namespace attune::generators::inline passes

#pragma once
#include "passes/lets.hpp"
#include "passes/stage_loop.hpp"

#include <Halide.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline passes {

/// Lowering pass: copies keys of the next block into shared memory while values of this block are weighed, and values
/// of this block while its scores are made.
///
/// A loop goes over the blocks, of 32, that a table lets it visit (skip_blocks). In each it makes rows of keys, rows of
/// values, and then the weighted sums. The rows have one place in memory: they are written anew once all warps are
/// through with them.
///
///     visited = the bits of the table
///     if there are any: copy keys of the first one
///     for each block that is visited:
///         wait for copies; barrier; copy its values; scores
///         wait for copies; barrier; copy keys of the next one that is visited; weighted sums
///
/// In the text, loads and stores of 16 bytes become the instructions that copy (ptx/body.hpp).
class copies_ahead : public Halide::Internal::IRMutator {
public:
    /// Names of functions.
    struct stages {
        std::string keys, values, sums;
        bool read_by_products = false;  ///< warpgroups read the rows in place
    };
    copies_ahead(stage_loop loop, stages of) : loop_(std::move(loop)), of_(std::move(of)) {}

protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::For* loop) override;
    Halide::Internal::Stmt visit(const Halide::Internal::ProducerConsumer* stage) override;
    Halide::Internal::Stmt visit(const Halide::Internal::LetStmt* let) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Evaluate* call) override;

private:
    Halide::Internal::Stmt copies_of_first(const Halide::Expr& bits, const Halide::Expr& from) const;
    Halide::Internal::Stmt wait() const;

    const stage_loop loop_;
    const stages of_;
    std::string lane_;                       ///< a thread's place in its warp: loop around it
    const Halide::Internal::For* inside_{};  ///< the loop
    Halide::Expr visited_;                   ///< a bit for each of its blocks
    Halide::Internal::Stmt keys_;            ///< copies the keys of a block
    named_values lets_, of_keys_;            ///< lets of the body around this place; around copies of keys
    enum class seen : std::uint8_t { nothing, keys, kept_keys, values, others, sums } last_{};  ///< of the body
};

}  // namespace attune::generators::inline passes

#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// Lowering pass: interleaves vectors that consecutive stores put into every second word, or every fourth byte. It does
/// so in registers, in steps of two, and stores them at once.
///
/// Halide stores each with a stride. LLVM merges such stores, and of computed bytes makes several instructions for each
/// number: 600 where ten do.
class interleave_stores : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::Block* all) override;
};

}  // namespace attune::generators::inline passes

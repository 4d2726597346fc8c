#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// Lowering pass: what is stored into every second word, or every fourth byte, by stores that follow each other is
/// interleaved in registers, in steps of two, and stored at once.
///
/// Halide stores each with a stride. LLVM merges such stores, and of computed bytes makes several instructions for each
/// number: 600 where ten do.
class interleave_stores : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::Block* all) override;
};

}  // namespace attune::generators::inline passes

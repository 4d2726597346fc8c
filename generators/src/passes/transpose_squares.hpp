#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// Lowering pass: transposes squares of 4 x 4, 8 x 8 and 16 x 16 numbers of 32 bits in registers.
///
/// Halide reads the columns of a square that was stored by rows as strided vectors, and writes a square that is made by
/// columns as an interleaved vector. LLVM compiles the strided vectors to an instruction or more for each number, and
/// the interleaved one to one row at a time. This pass takes whole rows, and exchanges numbers within pieces of 128
/// bits, then pieces: two to four instructions a row, without constants.
class transpose_squares : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::ProducerConsumer* stage) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Store* store) override;
};

}  // namespace attune::generators::inline passes

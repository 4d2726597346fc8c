#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// Lowering pass: squares of 4 x 4, 8 x 8 and 16 x 16 numbers of 32 bits are transposed in registers.
///
/// Halide reads the columns of a square that was stored by rows as strided vectors, and writes one that is made by
/// columns as an interleaved vector. LLVM makes an instruction or more a number of the former, and of the latter one
/// row at a time. Here whole rows are taken, and exchanged within pieces of 128 bits, then between them: two to four
/// instructions a row, without constants.
class transpose_squares : public Halide::Internal::IRMutator {
protected:
    using IRMutator::visit;
    Halide::Internal::Stmt visit(const Halide::Internal::ProducerConsumer* stage) override;
    Halide::Internal::Stmt visit(const Halide::Internal::Store* store) override;
};

}  // namespace attune::generators::inline passes

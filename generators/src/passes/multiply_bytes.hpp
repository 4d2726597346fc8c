#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// Lowering pass: maps sums of four products of bytes, one factor without a sign, to instructions.
///
/// One instruction takes all four products (vpdpbusd); or one adds two products in 16 bits, and another adds two such
/// sums in 32 (vpmaddubsw and vpmaddwd of AVX2). Halide finds vpdpbusd unless it knows that the first factor is small:
/// it gives such a factor a sign. It finds the pair of instructions only if a sum of two products may saturate. Here
/// none does: an i16 holds every such sum of the kernel (`pair_fits_word`).
class multiply_bytes : public Halide::Internal::IRMutator {
public:
    explicit multiply_bytes(bool in_pairs) : in_pairs_(in_pairs) {}

protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::VectorReduce* sum) override;

private:
    const bool in_pairs_;
};

}  // namespace attune::generators::inline passes

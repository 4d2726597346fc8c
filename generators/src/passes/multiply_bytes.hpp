#pragma once
#include <Halide.h>

namespace attune::generators::inline passes {

/// Lowering pass: sums of four products of bytes, one factor without a sign, become what instructions make of them.
///
/// An instruction takes all four (vpdpbusd), or one adds two products in 16 bits, and another two such sums in 32
/// (vpmaddubsw and vpmaddwd of AVX2). Halide finds the former unless it knows that the first factor is small, which it
/// then gives a sign; and the latter where a sum of two may saturate. Here none does: an i16 holds every such sum of
/// the kernel (`pair_fits_word`).
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

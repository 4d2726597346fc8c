#pragma once
#include <Halide.h>

#include <vector>

namespace attune::generators::inline passes {

// Calls that only multiply_bytes knows. They say of words of 32 bits what Halide says of vectors of their parts alone.

/// Four bytes, or two numbers of 16 bits, as a u32, the first one in its lowest bits.
Halide::Expr word_of_codes(const std::vector<Halide::Expr>& parts);
inline constexpr const char* name_of_words = "word_of_codes";
/// The sum of the products of four bytes without a sign and four with one, as an i32.
Halide::Expr dot_of_bytes(const Halide::Expr& without_sign, const Halide::Expr& with_sign);
inline constexpr const char* name_of_dots = "dot_of_bytes";
/// The sum of the products of two numbers of 16 bits each, all with a sign, as an i32.
Halide::Expr dot_of_halves(const Halide::Expr& one, const Halide::Expr& other);
inline constexpr const char* name_of_dots_of_halves = "dot_of_halves";

/// Lowering pass: maps sums of four products of bytes, one factor without a sign, to instructions.
///
/// One instruction takes all four products (vpdpbusd); or one adds two products in 16 bits, and another adds two such
/// sums in 32 (vpmaddubsw and vpmaddwd of AVX2). Halide finds vpdpbusd unless it knows that the first factor is small:
/// it gives such a factor a sign. It finds the pair of instructions only if a sum of two products may saturate. Here
/// none does: an i16 holds every such sum of the kernel (`pair_fits_word`). Products of 16 bits are added two at a time
/// in 32 (vpmaddwd, vpdpwssd).
class multiply_bytes : public Halide::Internal::IRMutator {
public:
    explicit multiply_bytes(bool in_pairs) : in_pairs_(in_pairs) {}

protected:
    using IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::VectorReduce* sum) override;
    Halide::Expr visit(const Halide::Internal::Call* call) override;

private:
    /// The sums of each four neighbouring products.
    Halide::Expr sums(const Halide::Expr& without_sign, const Halide::Expr& with_sign) const;

    const bool in_pairs_;
};

}  // namespace attune::generators::inline passes

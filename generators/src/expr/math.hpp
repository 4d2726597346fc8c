#pragma once
#include <attune/ir/graph_ir.hpp>

#include <Halide.h>

/// Arithmetic of the language as Halide expressions. Everything vectorises; nothing calls libm.
namespace attune::generators::inline expr {

/// The same number for a test of its bits. LLVM is told that other sums are finite, and leaves such tests out.
Halide::Expr perhaps_infinite(const Halide::Expr& x);

/// Whether x, an f32, is NaN. It tests bits, as arithmetic may assume that there is none. (Halide's is_nan copies x as
/// a tree: shared parts would multiply without end.)
Halide::Expr holds_nan(const Halide::Expr& x);

/// x, an f32, bf16 or f16, or NaN if a condition holds: chosen by bits, as arithmetic may assume that there is none.
Halide::Expr not_a_number_where(const Halide::Expr& condition, const Halide::Expr& x);

/// The larger or the smaller of x and a limit, and x if x is NaN. Halide's max and min may drop a NaN, since arithmetic
/// is compiled as if there were none; these cost no more.
Halide::Expr at_least(const Halide::Expr& x, const Halide::Expr& limit);
Halide::Expr at_most(const Halide::Expr& x, const Halide::Expr& limit);

/// The larger or the smaller of two numbers of one type; NaN if either is.
Halide::Expr larger_of(const Halide::Expr& a, const Halide::Expr& b);
Halide::Expr smaller_of(const Halide::Expr& a, const Halide::Expr& b);

/// Comparisons of two numbers of one type, false if either is NaN. Halide's own may be turned round as if there were no
/// NaN; these stay as they stand.
Halide::Expr is_less(const Halide::Expr& a, const Halide::Expr& b);
Halide::Expr is_less_equal(const Halide::Expr& a, const Halide::Expr& b);
Halide::Expr is_equal(const Halide::Expr& a, const Halide::Expr& b);

/// A product and a difference that keep infinities and NaN: compilers may assume that others make none.
Halide::Expr product_as_it_is(const Halide::Expr& a, const Halide::Expr& b);
Halide::Expr difference_as_it_is(const Halide::Expr& a, const Halide::Expr& b);

/// 2^x for x <= 0, relative error 1e-7; exactly 0 below -127 and exactly 1 at 0. NaN stays NaN, here and below.
Halide::Expr exp2_of_nonpositive(const Halide::Expr& x);

/// e^x for x <= 0, by exp2_of_nonpositive: the error of a weight exp(score - lse) is at most 1e-7, whatever the score.
Halide::Expr exponential_of_nonpositive(const Halide::Expr& x);

/// Relative error 6e-7 everywhere, tiny arguments included.
Halide::Expr hyperbolic_tangent(const Halide::Expr& x);

/// The same for CUDA, with an absolute error of 5e-7: by two instructions that approximate, (1 / (1 + exp2(...)) - 0.5)
/// * 2.
Halide::Expr hyperbolic_tangent_by_exp2(const Halide::Expr& x);

/// Relative error 5e-7 everywhere.
Halide::Expr error_function(const Halide::Expr& x);

/// Natural exponential; +infinity is never made: saturates near the largest float.
Halide::Expr exponential(const Halide::Expr& x);

Halide::Expr natural_logarithm(const Halide::Expr& x);

/// An f32 as an element of another type: rounded to nearest even, too large becomes infinity, NaN stays NaN. In
/// integers, so that every level, with instructions for it or without, stores the same bits.
Halide::Expr stored_as(const Halide::Type& element, const Halide::Expr& x);

/// The same by the instruction of a CUDA card from sm_80 on: any NaN becomes one and the same.
Halide::Expr rounded_by_instruction(const Halide::Type& element, const Halide::Expr& x);

/// Two numbers of bf16 in a u32, the first one in its lower half; and number 0 or 1 of such a word, a bf16.
Halide::Expr word_of(const Halide::Expr& first, const Halide::Expr& second);
Halide::Expr half_of(const Halide::Expr& word, const Halide::Expr& which);

/// The f32 with the value of a byte as float8_e4m3fn, or as float8_e5m2, exactly: denormal numbers, NaN and infinities
/// included.
Halide::Expr from_f8(bool e4m3, const Halide::Expr& byte);

/// ((byte >> shift) & mask) + offset as an f32, exactly, without a conversion: the masked bits of the byte become the
/// last bits of the fraction of a power of two, which is then subtracted. For shifts below 8 and offsets below 2^15;
/// the mask is a u32.
Halide::Expr real_of_bits(const Halide::Expr& byte, const Halide::Expr& shift, const Halide::Expr& mask, int offset);

/// An f32 as such a byte, as float8_e4m3 and float8_e5m2 (element.hpp) convert it; in integers, as stored_as.
Halide::Expr to_f8(bool e4m3, const Halide::Expr& x);

/// select(condition, a, b) with both sides always computed. Otherwise bounds inference would cut the tile over which
/// `a` or `b` is computed to the part where the condition holds, and take it apart.
Halide::Expr choose_whole(const Halide::Expr& condition, const Halide::Expr& a, const Halide::Expr& b);

/// i32; rounds down whatever the signs, 0 if b is 0. Vectors of unknown divisors go through f64, exactly.
Halide::Expr divide_down(const Halide::Expr& a, const Halide::Expr& b);

/// i32; the sign of b (-1 % 4 = 3), 0 if b is 0.
Halide::Expr remainder_down(const Halide::Expr& a, const Halide::Expr& b);

/// i32 arithmetic that wraps around, modulo 2^32: a negation (of a), a sum, a difference or a product. Compilers assume
/// that i32 arithmetic does not overflow, and move terms across comparisons; they leave these expressions as they are.
Halide::Expr wrapped(attune::operation op, const Halide::Expr& a, const Halide::Expr& b);

/// An i32 as a u32 of the same order; no compiler moves terms to or from it.
Halide::Expr as_ordered(const Halide::Expr& x);

/// Word `k % 4` of Philox 4x32-10 with counter (k / 4, q, h, b), u32. (Salmon et al. 2011)
Halide::Expr philox(const Halide::Expr& seed, const Halide::Expr& upper_half, const Halide::Expr& b,
                    const Halide::Expr& h, const Halide::Expr& q, const Halide::Expr& k);

/// An i32 that the caller passes, as one side of an order. Compilers move terms across the comparison, which must not
/// overflow: the number is clamped to +-2^30, beyond any position or length.
Halide::Expr as_limit(const Halide::Expr& x);

/// Whether x is this number. It compares bits: arithmetic may assume that infinities and NaN do not occur.
Halide::Expr is_exactly(const Halide::Expr& x, float number);
Halide::Expr is_negative_infinity(const Halide::Expr& x);

/// An f32 as a u32 of the same order: NaN is above all, both zeros are one, and -infinity is 0. And back. Halide's
/// maximum may drop a NaN.
Halide::Expr in_order(const Halide::Expr& x);
Halide::Expr from_order(const Halide::Expr& number);

/// `a` if `condition`, else -infinity, chosen by bits.
Halide::Expr or_negative_infinity(const Halide::Expr& condition, const Halide::Expr& a);

}  // namespace attune::generators::inline expr

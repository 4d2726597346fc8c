#pragma once
#include <Halide.h>

/// Elementary functions of f32, of any argument: the f32 nearest to the function's value or one beside it, on every
/// target. They compute in f64 between two roundings, so that cancellation does not show in f32, and have no branches:
/// all vectorise. Undefined values are NaN; a value too large for f32 is the largest float, as in `exponential`.
namespace attune::generators::inline expr {

Halide::Expr exp2_of(const Halide::Expr& x);
Halide::Expr expm1_of(const Halide::Expr& x);
Halide::Expr sinh_of(const Halide::Expr& x);
Halide::Expr cosh_of(const Halide::Expr& x);

/// -infinity at the pole.
Halide::Expr log2_of(const Halide::Expr& x);
Halide::Expr log1p_of(const Halide::Expr& x);

/// Arguments in radians of any size: 2/pi is known to 224 bits.
Halide::Expr sin_of(const Halide::Expr& x);
Halide::Expr cos_of(const Halide::Expr& x);
Halide::Expr tan_of(const Halide::Expr& x);

Halide::Expr asin_of(const Halide::Expr& x);
Halide::Expr acos_of(const Halide::Expr& x);
Halide::Expr atan_of(const Halide::Expr& x);
/// The angle of the point (x, y).
Halide::Expr atan2_of(const Halide::Expr& y, const Halide::Expr& x);

/// As C's pow.
Halide::Expr pow_of(const Halide::Expr& x, const Halide::Expr& y);

/// The rest of x after multiples of y, with the sign of x, as C's fmod: exact if |x / y| < 2^54, else 0.
Halide::Expr fmod_of(const Halide::Expr& x, const Halide::Expr& y);

/// Tests bits: arithmetic may assume that there are no infinities.
Halide::Expr holds_infinity(const Halide::Expr& x);

}  // namespace attune::generators::inline expr

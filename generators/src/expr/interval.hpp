#pragma once
#include <Halide.h>

/// Interval arithmetic on Halide expressions, for values over a tile of (query, key) pairs. Intervals are never too
/// narrow.
namespace attune::generators::inline expr {

/// A verdict on a condition over a tile: `may` is false only if no pair satisfies it, `must` is true only if all do.
struct verdict {
    Halide::Expr may = Halide::Internal::const_true();
    Halide::Expr must = Halide::Internal::const_false();
};

inline Halide::Expr yes() { return Halide::Internal::const_true(); }
inline Halide::Expr no() { return Halide::Internal::const_false(); }

/// Conditions as numbers, for reductions over them.
inline Halide::Expr byte(const Halide::Expr& condition) { return Halide::cast<uint8_t>(condition); }
inline Halide::Expr is_set(const Halide::Expr& byte) { return byte != Halide::cast<uint8_t>(0); }

/// Conditions joined, constants folded.
Halide::Expr both(const Halide::Expr& a, const Halide::Expr& b);
Halide::Expr either(const Halide::Expr& a, const Halide::Expr& b);
Halide::Expr opposite(const Halide::Expr& a);

verdict operator&&(const verdict& a, const verdict& b);
verdict operator||(const verdict& a, const verdict& b);
verdict operator!(const verdict& a);
verdict always();
verdict never();

/// Whether an end of a real's bounds is an infinity or NaN, as a sum of infinities is.
Halide::Expr is_not_finite(const Halide::Expr& end);

/// Bounds of a value; an undefined end is unbounded. i32, i64 (a product of two ranges) or f32. `masked`: whether the
/// value stands for -infinity. The bounds leave out -infinity and NaN.
struct interval {
    Halide::Expr lo, hi;
    verdict masked = never();
    Halide::Expr nan = no();  ///< whether a value may be NaN

    bool is_point() const { return lo.defined() && lo.same_as(hi); }
};

interval point(const Halide::Expr& value);

interval negate(const interval& a);
interval absolute(const interval& a);
interval add(const interval& a, const interval& b);
interval subtract(const interval& a, const interval& b);
interval multiply(const interval& a, const interval& b);
interval divide(const interval& a, const interval& b);
interval remainder(const interval& a, const interval& b);
interval minimum(const interval& a, const interval& b);
interval maximum(const interval& a, const interval& b);
interval bit_and(const interval& a, const interval& b);
interval bit_or(const interval& a, const interval& b);  ///< for bit_xor, too
interval shift_left(const interval& a, const interval& b);
interval shift_right(const interval& a, const interval& b);
interval choose(const verdict& condition, const interval& if_true, const interval& if_false);
interval to_real(const interval& a);
/// The range of an i32 from that of its exact value: it wraps around, so a value that may leave i32 may be any.
interval within_i32(const interval& exact);

verdict less(const interval& a, const interval& b);
verdict less_equal(const interval& a, const interval& b);
verdict equal(const interval& a, const interval& b);

}  // namespace attune::generators::inline expr

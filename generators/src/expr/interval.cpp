#include "expr/interval.hpp"

#include "expr/math.hpp"

#include <cstdint>
#include <limits>
#include <utility>

namespace attune::generators::inline expr {
using namespace Halide;

namespace {

/// An i64 end (of a product) meets an i32 one in i64.
Expr alike(const Expr& x, const Expr& other) {
    return x.type() == other.type() || other.type().bits() < 64 ? x : cast(other.type(), x);
}

template <class Operation> Expr joined(const Expr& a, const Expr& b, Operation&& operation) {
    if (!a.defined() || !b.defined()) return {};
    return operation(alike(a, b), alike(b, a));
}

const auto plus = [](const Expr& a, const Expr& b) { return a + b; };
const auto smaller = [](const Expr& a, const Expr& b) { return min(a, b); };
const auto larger = [](const Expr& a, const Expr& b) { return max(a, b); };

// ir/visibility.hpp has the rules of `masked` for masked arguments; this file has the arithmetic of numbers.

/// Kernels may contract and reorder f32 arithmetic: ends move outwards by a few units in the last place of `scale`.
interval widened(interval a, const Expr& scale) {
    if (!a.lo.defined() || !a.hi.defined() || !a.lo.type().is_float()) return a;
    const Expr slack = abs(scale) * (1.0f / (1 << 21));
    return {a.lo - slack, a.hi + slack, never(), a.nan};
}
Expr magnitude(const interval& a) { return max(abs(a.lo), abs(a.hi)); }
bool bounded(const interval& a) { return a.lo.defined() && a.hi.defined(); }

interval unknown(const interval& a, const interval& b) { return {{}, {}, never(), either(a.nan, b.nan)}; }

interval corners(const Expr& a, const Expr& b, const Expr& c, const Expr& d) {
    return {min(min(a, b), min(c, d)), max(max(a, b), max(c, d))};
}

/// The result of arithmetic on two ranges; an infinite range may make NaN.
interval made_of(interval result, const interval& a, const interval& b) {
    result.nan = either(a.nan, b.nan);
    for (const interval* each : {&a, &b, &std::as_const(result)})
        for (const Expr& end : {each->lo, each->hi}) result.nan = either(result.nan, is_not_finite(end));
    return result;
}

}  // namespace

Expr both(const Expr& a, const Expr& b) {
    if (is_const_zero(a) || is_const_one(b)) return a;
    if (is_const_zero(b) || is_const_one(a)) return b;
    return a && b;
}
Expr either(const Expr& a, const Expr& b) {
    if (is_const_one(a) || is_const_zero(b)) return a;
    if (is_const_one(b) || is_const_zero(a)) return b;
    return a || b;
}
Expr opposite(const Expr& a) { return is_const_one(a) ? no() : is_const_zero(a) ? yes() : !a; }

verdict operator&&(const verdict& a, const verdict& b) { return {both(a.may, b.may), both(a.must, b.must)}; }
verdict operator||(const verdict& a, const verdict& b) { return {either(a.may, b.may), either(a.must, b.must)}; }
verdict operator!(const verdict& a) { return {opposite(a.must), opposite(a.may)}; }
verdict always() { return {yes(), yes()}; }
verdict never() { return {no(), no()}; }

Expr is_not_finite(const Expr& end) {
    if (!end.defined() || !end.type().is_float() || as_const_float(end)) return no();
    return (reinterpret<std::uint32_t>(end) & Expr(0x7fffffffu)) >= Expr(0x7f800000u);
}

interval point(const Expr& value) { return {value, value}; }

interval negate(const interval& a) {
    return {a.hi.defined() ? -a.hi : Expr(), a.lo.defined() ? -a.lo : Expr(), never(), a.nan};
}

interval absolute(const interval& a) {
    if (!bounded(a)) return {{}, {}, never(), a.nan};
    const Expr zero = Internal::make_zero(a.lo.type());
    return {max(max(a.lo, -a.hi), zero), max(-a.lo, a.hi), never(), a.nan};
}

interval add(const interval& a, const interval& b) {
    interval sum{joined(a.lo, b.lo, plus), joined(a.hi, b.hi, plus)};
    if (bounded(sum) && sum.lo.type().is_float()) sum = widened(sum, max(magnitude(a), magnitude(b)));
    return made_of(sum, a, b);
}

interval subtract(const interval& a, const interval& b) { return add(a, negate(b)); }

interval multiply(const interval& a, const interval& b) {
    if (!bounded(a) || !bounded(b)) return unknown(a, b);
    // Ranges of i32 multiply in i64: their corners need not be values of the formula, so they may exceed it.
    const bool wide = !a.lo.type().is_float() && !as_const_int(a.lo) && !as_const_int(b.lo);
    const auto product = [&](const Expr& x, const Expr& y) {
        return wide ? cast<int64_t>(x) * cast<int64_t>(y) : alike(x, y) * alike(y, x);
    };
    for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)}) {
        if (!y->is_point()) continue;
        const bool positive = as_const_int(y->lo) && *as_const_int(y->lo) >= 0;
        if (x->is_point() && !x->lo.type().is_float()) return {product(x->lo, y->lo), product(x->lo, y->lo)};
        if (positive) return {product(x->lo, y->lo), product(x->hi, y->lo)};
    }
    const interval result = corners(product(a.lo, b.lo), product(a.lo, b.hi), product(a.hi, b.lo), product(a.hi, b.hi));
    return made_of(result.lo.type().is_float() ? widened(result, magnitude(result)) : result, a, b);
}

interval divide(const interval& a, const interval& b) {
    if (!bounded(a) || !bounded(b)) return unknown(a, b);
    if (a.lo.type().is_float()) {
        const Expr safe = b.lo > 0.0f || b.hi < 0.0f, lo = select(safe, b.lo, 1.0f), hi = select(safe, b.hi, 1.0f);
        interval quotient = corners(a.lo / lo, a.lo / hi, a.hi / lo, a.hi / hi);
        quotient = widened(quotient, magnitude(quotient));
        // If the divisor's sign is unknown, it may be arbitrarily small. The bound is below infinities, since they do
        // not compute.
        const Expr huge = 1e38f;
        interval result = made_of({select(safe, quotient.lo, -huge), select(safe, quotient.hi, huge)}, a, b);
        result.nan = either(result.nan, !safe), result.masked.may = !safe;
        return result;
    }
    if (const auto divisor = as_const_int(b.lo); divisor && b.is_point() && *divisor > 0 && a.lo.type().bits() == 32)
        return {a.lo / b.lo, a.hi / b.lo};
    const auto quotient = [](const Expr& x, const Expr& y) {
        if (x.type().bits() == 32 && y.type().bits() == 32) return divide_down(x, y);
        return cast<int64_t>(x) / max(cast<int64_t>(y), 1);  // used for positive divisors only
    };
    // No quotient of integers exceeds its dividend. The least i32 has no opposite: its quotients but one are within
    // those of the next one.
    const Expr lowest = a.lo.type().bits() == 32 ? max(a.lo, -std::numeric_limits<std::int32_t>::max()) : a.lo,
               largest = max(-lowest, a.hi), low = min(-largest, a.lo), high = largest;
    const Expr safe = b.lo > Internal::make_zero(b.lo.type());
    const interval inner =
        corners(quotient(a.lo, b.lo), quotient(a.lo, b.hi), quotient(a.hi, b.lo), quotient(a.hi, b.hi));
    return {select(safe, inner.lo, alike(low, inner.lo)), select(safe, inner.hi, alike(high, inner.hi))};
}

interval remainder(const interval& a, const interval& b) {
    if (!bounded(a) || !bounded(b) || a.lo.type().bits() == 64 || b.lo.type().bits() == 64) return unknown(a, b);
    const interval whole{min(b.lo + 1, 0), max(b.hi - 1, 0)};
    if (!b.is_point()) return whole;
    // Within one period the remainder is as regular as its dividend.
    const Expr one_period = b.lo > 0 && divide_down(a.lo, b.lo) == divide_down(a.hi, b.lo);
    return {select(one_period, remainder_down(a.lo, b.lo), whole.lo),
            select(one_period, remainder_down(a.hi, b.lo), whole.hi)};
}

interval minimum(const interval& a, const interval& b) {
    return {joined(a.lo, b.lo, smaller),
            !a.hi.defined()   ? b.hi
            : !b.hi.defined() ? a.hi
                              : joined(a.hi, b.hi, smaller),
            never(), either(a.nan, b.nan)};
}

interval maximum(const interval& a, const interval& b) {
    // Masked only where both are; where one is, the other is the maximum, so the lower end is the lower one.
    const bool plain = is_const_zero(a.masked.may) && is_const_zero(b.masked.may);
    Expr lo = joined(a.lo, b.lo, smaller);
    if (plain) lo = !a.lo.defined() ? b.lo : !b.lo.defined() ? a.lo : joined(a.lo, b.lo, larger);
    return {lo, joined(a.hi, b.hi, larger), never(), either(a.nan, b.nan)};
}

interval bit_and(const interval& a, const interval& b) {
    for (const interval* mask : {&a, &b})
        if (const auto bits = mask->is_point() ? as_const_int(mask->lo) : std::nullopt; bits && *bits >= 0)
            return {Internal::make_zero(mask->lo.type()), mask->hi};
    return unknown(a, b);
}

interval bit_or(const interval& a, const interval& b) {
    if (!bounded(a) || !bounded(b) || a.lo.type() != Int(32) || b.lo.type() != Int(32)) return unknown(a, b);
    // No bit above the highest one of either end.
    const Expr ends = a.hi | b.hi,
               bits = cast<int>(
                   (cast<uint32_t>(-1) >> min(cast<uint32_t>(count_leading_zeros(ends)), cast<uint32_t>(31))));
    const Expr positive = a.lo >= 0 && b.lo >= 0;
    return {select(positive, 0, Int(32).min()), select(positive, bits, Int(32).max())};
}

interval shift_left(const interval& a, const interval& b) {
    const auto by = b.is_point() ? as_const_int(b.lo) : std::nullopt;
    return by ? multiply(a, point(Internal::make_const(Int(64), std::int64_t{1} << (*by & 31)))) : unknown(a, b);
}

interval shift_right(const interval& a, const interval& b) {
    if (!b.is_point() || b.lo.type().bits() == 64) return unknown(a, b);
    const auto end = [&](const Expr& e) { return e.defined() ? e >> cast(UInt(e.type().bits()), b.lo & 31) : e; };
    return {end(a.lo), end(a.hi)};
}

interval choose(const verdict& condition, const interval& if_true, const interval& if_false) {
    const auto pick = [&](const Expr& x, const Expr& y, const Expr& union_of) {
        if (!union_of.defined()) return union_of;
        return select(condition.must, alike(x, y), select(condition.may, union_of, alike(y, x)));
    };
    interval result;
    result.lo = pick(if_true.lo, if_false.lo, joined(if_true.lo, if_false.lo, smaller));
    result.hi = pick(if_true.hi, if_false.hi, joined(if_true.hi, if_false.hi, larger));
    result.masked = (condition && if_true.masked) || (!condition && if_false.masked);
    // `x where c, y elsewhere` is also settled when both sides are.
    result.masked.must = either(result.masked.must, both(if_true.masked.must, if_false.masked.must));
    result.nan = either(both(condition.may, if_true.nan), both(opposite(condition.must), if_false.nan));
    return result;
}

interval to_real(const interval& a) {
    const auto real = [](const Expr& e) { return e.defined() ? cast<float>(e) : Expr(); };
    return {real(a.lo), real(a.hi), never(), a.nan};
}

interval within_i32(const interval& exact) {
    const Expr least = Internal::make_const(Int(64), std::numeric_limits<std::int32_t>::min()),
               most = Internal::make_const(Int(64), std::numeric_limits<std::int32_t>::max());
    if (!bounded(exact)) return {least, most};
    const Expr lo = cast<std::int64_t>(exact.lo), hi = cast<std::int64_t>(exact.hi);
    const Expr stays = lo >= least && hi <= most;
    return {select(stays, lo, least), select(stays, hi, most)};
}

namespace {

/// Decides by the ends. An end that is NaN decides nothing, and no comparison with a NaN holds.
verdict decided(const interval& a, const interval& b, const Expr& may, const Expr& must) {
    return {either(may, either(a.masked.may, b.masked.may)),
            both(must, both(opposite(either(a.nan, b.nan)), both(opposite(a.masked.may), opposite(b.masked.may))))};
}

}  // namespace

verdict less(const interval& a, const interval& b) {
    verdict v;
    if (a.lo.defined() && b.hi.defined()) {
        const Expr x = alike(a.lo, b.hi), y = alike(b.hi, a.lo);
        v.may = x.type().is_float() ? opposite(is_less_equal(y, x)) : x < y;
    }
    if (a.hi.defined() && b.lo.defined()) v.must = is_less(alike(a.hi, b.lo), alike(b.lo, a.hi));
    return decided(a, b, v.may, v.must);
}

verdict less_equal(const interval& a, const interval& b) {
    verdict v;
    if (a.lo.defined() && b.hi.defined()) {
        const Expr x = alike(a.lo, b.hi), y = alike(b.hi, a.lo);
        v.may = x.type().is_float() ? opposite(is_less(y, x)) : x <= y;
    }
    if (a.hi.defined() && b.lo.defined()) v.must = is_less_equal(alike(a.hi, b.lo), alike(b.lo, a.hi));
    return decided(a, b, v.may, v.must);
}

verdict equal(const interval& a, const interval& b) { return less_equal(a, b) && less_equal(b, a); }

}  // namespace attune::generators::inline expr

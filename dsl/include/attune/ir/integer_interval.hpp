#pragma once
#include <attune/ir/integer_operations.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>

/// Interval arithmetic of integers and conditions: which integers a formula may make. The language's checks of stores,
/// the runtime's checks of indices, the reference's tensors and chunks of a sequence over ranks ask it.
namespace attune {

/// The integers between two ends, both inclusive, as if integers had any size. A condition is 0 or 1.
struct integer_interval {
    static constexpr std::int64_t least = std::numeric_limits<std::int32_t>::min(),
                                  most = std::numeric_limits<std::int32_t>::max();
    /// An unknown end. Every other end is exact, also beyond 32 bits: products of two numbers of 32 bits lie between.
    static constexpr std::int64_t far = (std::int64_t{1} << 62) + 1;

    std::int64_t lowest{-far}, highest{far};

    static constexpr integer_interval of(std::int64_t number) { return {number, number}; }
    static constexpr integer_interval of_32_bits() { return {least, most}; }

    constexpr bool operator==(const integer_interval&) const = default;
    constexpr bool is_point() const { return lowest == highest; }
    constexpr bool is_within(std::int64_t places) const { return lowest >= 0 && highest < places; }
    constexpr bool is_within(const integer_interval& other) const {
        return lowest >= other.lowest && highest <= other.highest;
    }
    constexpr bool fits() const { return lowest >= least && highest <= most; }
    /// Whether numbers above those of 32 bits are known to be among them.
    constexpr bool is_above() const { return highest > most && highest < far; }
    constexpr bool overflows() const { return (lowest < least && lowest > -far) || is_above(); }
    /// The interval in kernels, whose integers have 32 bits: if some do not fit, they wrap around, and every integer is
    /// possible.
    constexpr integer_interval wrapped() const { return fits() ? *this : of_32_bits(); }

    friend constexpr integer_interval joined(const integer_interval& x, const integer_interval& y) {
        return {std::min(x.lowest, y.lowest), std::max(x.highest, y.highest)};
    }
};

/// The integers that elements of a type may be; of reals nothing is known.
constexpr integer_interval interval_of(element_type element) {
    switch (element) {
        case element_type::boolean: return {0, 1};
        case element_type::i8: return {-128, 127};
        case element_type::u8: return {0, 255};
        case element_type::i16: return {-32768, 32767};
        case element_type::i32: return integer_interval::of_32_bits();
        default: return {};
    }
}

namespace intervals {

using interval = integer_interval;

constexpr bool is_known(std::int64_t end) { return end > -interval::far && end < interval::far; }
constexpr std::int64_t limited(std::int64_t x) { return std::clamp(x, -interval::far, interval::far); }
constexpr std::int64_t plus(std::int64_t x, std::int64_t y) {
    std::int64_t sum = 0;
    if (!is_known(x) || !is_known(y)) return is_known(x) ? y : x;
    return __builtin_add_overflow(x, y, &sum) ? (x < 0 ? -interval::far : interval::far) : limited(sum);
}
constexpr std::int64_t times(std::int64_t x, std::int64_t y) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(x, y, &product)) return (x < 0) != (y < 0) ? -interval::far : interval::far;
    return limited(product);
}

/// The interval of a function that is bounded by its values at the ends.
template <class F> constexpr interval of_ends(const interval& x, const interval& y, F f) {
    const std::initializer_list<std::int64_t> all{f(x.lowest, y.lowest), f(x.lowest, y.highest), f(x.highest, y.lowest),
                                                  f(x.highest, y.highest)};
    return {std::min(all), std::max(all)};
}
constexpr interval times(const interval& x, const interval& y) {
    return of_ends(x, y, [](std::int64_t a, std::int64_t b) { return times(a, b); });
}

/// An operation on one argument gets it twice.
using of_two = interval (*)(const interval&, const interval&);
inline constexpr of_two least_of = [](const interval& x, const interval& y) {
    return interval{std::min(x.lowest, y.lowest), std::min(x.highest, y.highest)};
};
inline constexpr of_two most_of = [](const interval& x, const interval& y) {
    return interval{std::max(x.lowest, y.lowest), std::max(x.highest, y.highest)};
};

inline constexpr by_operation<family::arithmetic, of_two> of_arithmetic{
    {operation::negate, [](const interval& x, const interval&) { return interval{-x.highest, -x.lowest}; }},
    {operation::absolute,
     [](const interval& x, const interval&) {
         return interval{std::max<std::int64_t>({x.lowest, -x.highest, 0}), std::max(-x.lowest, x.highest)};
     }},
    {operation::add, [](const interval& x,
                        const interval& y) { return interval{plus(x.lowest, y.lowest), plus(x.highest, y.highest)}; }},
    {operation::subtract,
     [](const interval& x, const interval& y) {
         return interval{plus(x.lowest, -y.highest), plus(x.highest, -y.lowest)};
     }},
    {operation::multiply, [](const interval& x, const interval& y) { return times(x, y); }},
    {operation::divide,
     [](const interval& x, const interval& y) {
         const std::int64_t largest = std::max(-x.lowest, x.highest);  // no quotient exceeds its dividend
         if (y.lowest < 1) return interval{-largest, largest};
         return of_ends(x, y, [](std::int64_t of, std::int64_t by) { return is_known(of) ? quotient_of(of, by) : of; });
     }},
    {operation::remainder,
     [](const interval& x, const interval& y) {
         if (x.lowest >= 0 && y.lowest >= 1 && x.highest < y.lowest) return x;
         return interval{std::min<std::int64_t>(plus(y.lowest, 1), 0), std::max<std::int64_t>(plus(y.highest, -1), 0)};
     }},
    {operation::minimum, least_of},
    {operation::maximum, most_of}};

/// Bits no higher than the highest one of either.
inline constexpr of_two below_highest_bit = [](const interval& x, const interval& y) {
    if (x.lowest < 0 || y.lowest < 0 || x.highest > interval::most || y.highest > interval::most) return interval{};
    std::int64_t bits = 1;
    while (bits <= std::max(x.highest, y.highest)) bits *= 2;
    return interval{0, bits - 1};
};
inline constexpr by_operation<family::bits, of_two> of_bits{
    {operation::bit_and,
     [](const interval& x, const interval& y) {
         if (y.lowest >= 0) return interval{0, x.lowest >= 0 ? std::min(x.highest, y.highest) : y.highest};
         return x.lowest >= 0 ? interval{0, x.highest} : interval{};
     }},
    {operation::bit_or, below_highest_bit},
    {operation::bit_xor, below_highest_bit},
    {operation::shift_left,
     [](const interval& x, const interval& by) {
         if (by.lowest < 0 || by.highest > 31) return interval{};
         const interval all =
             of_ends(x, by, [](std::int64_t number, std::int64_t to) { return times(number, std::int64_t{1} << to); });
         return all.fits() ? all : interval{};  // the shift drops bits
     }},
    {operation::shift_right, [](const interval& x, const interval& by) {
         if (by.lowest < 0 || by.highest > 31) return interval{};
         return of_ends(x, by,
                        [](std::int64_t number, std::int64_t to) { return is_known(number) ? number >> to : number; });
     }}};

/// A condition that must hold is 1, one that may not hold is 0.
constexpr interval condition(bool must, bool may) { return {must, may}; }
constexpr bool are_apart(const interval& a, const interval& b) { return a.highest < b.lowest || b.highest < a.lowest; }
constexpr bool are_one(const interval& a, const interval& b) { return a.is_point() && a == b; }

inline constexpr by_operation<family::comparison, of_two> of_comparisons{
    {operation::equal, [](const interval& a, const interval& b) { return condition(are_one(a, b), !are_apart(a, b)); }},
    {operation::not_equal,
     [](const interval& a, const interval& b) { return condition(are_apart(a, b), !are_one(a, b)); }},
    {operation::less,
     [](const interval& a, const interval& b) { return condition(a.highest < b.lowest, a.lowest < b.highest); }},
    {operation::less_equal,
     [](const interval& a, const interval& b) { return condition(a.highest <= b.lowest, a.lowest <= b.highest); }},
    {operation::greater,
     [](const interval& a, const interval& b) { return condition(a.lowest > b.highest, a.highest > b.lowest); }},
    {operation::greater_equal,
     [](const interval& a, const interval& b) { return condition(a.lowest >= b.highest, a.highest >= b.lowest); }}};

inline constexpr by_operation<family::logic, of_two> of_logic{
    {operation::logical_and, least_of},
    {operation::logical_or, most_of},
    {operation::logical_not, [](const interval& a, const interval&) { return interval{1 - a.highest, 1 - a.lowest}; }}};

}  // namespace intervals

/// The interval that an operation of integers or conditions makes of two intervals; an operation on one gets it twice.
/// Comparisons are of integers.
constexpr integer_interval interval_of(operation op, const integer_interval& x, const integer_interval& y) {
    const family of = family_of(op);
    if (of == family::arithmetic) return intervals::of_arithmetic[op](x, y);
    if (of == family::bits) return intervals::of_bits[op](x, y);
    if (of == family::comparison) return intervals::of_comparisons[op](x, y);
    if (of == family::logic) return intervals::of_logic[op](x, y);
    return {};
}

}  // namespace attune

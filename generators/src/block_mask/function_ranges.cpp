#include "block_mask/function_ranges.hpp"

#include "expr/functions.hpp"
#include "expr/math.hpp"

#include <cstdint>
#include <optional>

namespace attune::generators::inline block_mask {
using namespace Halide;

namespace {

/// Whether a function's values rise with its argument wherever it is defined, and limits of these values.
enum class course : std::uint8_t { any, rising, in_steps };
/// The numbers for which a function is not NaN.
enum class domain : std::uint8_t { all, finite, up_to_one, part };
struct limits {
    std::optional<float> low, high;
    course goes = course::any;
    domain of = domain::all;
};
constexpr limits from_minus_one_to_one{-1.00001f, 1.00001f};
constexpr limits of_a_wave{-1.00001f, 1.00001f, course::any, domain::finite};
constexpr limits of_a_part{{}, {}, course::any, domain::part};
constexpr by_operation<family::function, limits> of_functions{
    {operation::exp, {0.0f, {}, course::rising}},
    {operation::exp2, {0.0f, {}, course::rising}},
    {operation::expm1, {-1.00001f, {}, course::rising}},
    {operation::tanh, from_minus_one_to_one},
    {operation::erf, from_minus_one_to_one},
    {operation::sigmoid, {0.0f, 1.00001f, course::rising}},
    {operation::sin, of_a_wave},
    {operation::cos, of_a_wave},
    {operation::tan, {{}, {}, course::any, domain::finite}},
    {operation::asin, {-1.5708f, 1.5708f, course::any, domain::up_to_one}},
    {operation::acos, {-0.00001f, 3.1416f, course::any, domain::up_to_one}},
    {operation::atan, {-1.5708f, 1.5708f, course::rising}},
    {operation::sinh, {{}, {}, course::rising}},
    {operation::cosh, {0.99999f, {}}},
    {operation::floor, {{}, {}, course::in_steps}},
    {operation::round, {{}, {}, course::in_steps}},
    {operation::trunc, {{}, {}, course::in_steps}},
    {operation::sign, {-1.0f, 1.0f, course::in_steps}},
    {operation::log, of_a_part},  // may be of nothing
    {operation::log2, of_a_part},
    {operation::log1p, of_a_part},
    {operation::sqrt, of_a_part},
    {operation::rsqrt, of_a_part}};

/// Whether a function of numbers may be NaN.
Expr has_no_value(domain of, const interval& x) {
    switch (of) {
        case domain::all: return no();
        case domain::part: return yes();
        case domain::finite: return either(is_not_finite(x.lo), is_not_finite(x.hi));
        case domain::up_to_one: break;
    }
    if (!x.lo.defined() || !x.hi.defined()) return yes();
    return opposite(both(is_less_equal(-1.0f, x.lo), is_less_equal(x.hi, 1.0f)));
}

}  // namespace

interval function_range(operation op, const interval& x) {
    const auto& [low, high, goes, of_numbers] = of_functions[op];
    const auto end = [&](const Expr& of, std::optional<float> otherwise, bool upwards) {
        const Expr known = otherwise ? Expr(*otherwise) : Expr();
        if (goes == course::any || !of.defined()) return known;
        const Expr value = function_value(op, of);
        if (goes == course::in_steps) return value;
        const Expr slack = abs(value) * (1.0f / (1 << 19)) + 1e-37f;
        const Expr beyond = upwards ? value + slack : value - slack;
        return !otherwise ? beyond : upwards ? min(beyond, known) : max(beyond, known);
    };
    interval result{end(x.lo, low, false), end(x.hi, high, true), never(), either(x.nan, has_no_value(of_numbers, x))};
    if (op == operation::log || op == operation::log2 || op == operation::log1p) {
        const Expr pole = op == operation::log1p ? -1.0f : 0.0f;
        result.masked.may = x.lo.defined() ? opposite(is_less(pole, x.lo)) : yes();
    }
    if (const auto limit = limit_of(op); limit && result.lo.defined() && !is_const_zero(x.masked.may))
        result.lo = select(x.masked.may, min(result.lo, static_cast<float>(*limit)), result.lo);
    return result;
}

namespace {

using of_two = interval (*)(const interval&, const interval&);
constexpr by_operation<family::function_of_two, of_two> of_two_reals{
    {operation::atan2,
     [](const interval& a, const interval& b) { return interval{-3.1416f, 3.1416f, never(), either(a.nan, b.nan)}; }},
    {operation::pow, [](const interval&, const interval&) { return interval{{}, {}, never(), yes()}; }},
    {operation::fmod, [](const interval& a, const interval& b) {
         // No larger than either, and of the sign of the first.
         const interval x = absolute(a), y = absolute(b);
         if (!x.hi.defined() || !y.hi.defined()) return interval{{}, {}, never(), yes()};
         const Expr most = min(x.hi, y.hi), is_defined = b.lo > 0.0f || b.hi < 0.0f;
         Expr nan = either(either(a.nan, b.nan), opposite(is_defined));
         for (const Expr& end : {a.lo, a.hi}) nan = either(nan, is_not_finite(end));
         return interval{select(a.lo >= 0.0f, 0.0f, -most), select(a.hi <= 0.0f, 0.0f, most), never(), nan};
     }}};

}  // namespace

interval function_range(operation op, const interval& x, const interval& y) { return of_two_reals[op](x, y); }

}  // namespace attune::generators::inline block_mask

#include "expr/functions.hpp"

#include "expr/elementary.hpp"
#include "expr/math.hpp"

#include <cmath>
#include <cstdint>

namespace attune::generators::inline expr {
using namespace Halide;

namespace {

Expr either(const Expr& a, const Expr& b) { return !a.defined() ? b : !b.defined() ? a : a || b; }

struct rule {
    double (*of_constant)(double);
    Expr (*of)(const Expr&);
};
constexpr by_operation<family::function, rule> of_one{
    {operation::exp, {[](double x) { return std::exp(x); }, exponential}},
    {operation::log, {[](double x) { return std::log(x); }, natural_logarithm}},
    {operation::tanh, {[](double x) { return std::tanh(x); }, hyperbolic_tangent}},
    {operation::erf, {[](double x) { return std::erf(x); }, error_function}},
    {operation::sqrt, {[](double x) { return std::sqrt(x); }, [](const Expr& x) { return sqrt(x); }}},
    {operation::rsqrt, {[](double x) { return 1 / std::sqrt(x); }, [](const Expr& x) { return 1.0f / sqrt(x); }}},
    {operation::sin, {[](double x) { return std::sin(x); }, sin_of}},
    {operation::cos, {[](double x) { return std::cos(x); }, cos_of}},
    {operation::tan, {[](double x) { return std::tan(x); }, tan_of}},
    {operation::asin, {[](double x) { return std::asin(x); }, asin_of}},
    {operation::acos, {[](double x) { return std::acos(x); }, acos_of}},
    {operation::atan, {[](double x) { return std::atan(x); }, atan_of}},
    {operation::sinh, {[](double x) { return std::sinh(x); }, sinh_of}},
    {operation::cosh, {[](double x) { return std::cosh(x); }, cosh_of}},
    {operation::exp2, {[](double x) { return std::exp2(x); }, exp2_of}},
    {operation::expm1, {[](double x) { return std::expm1(x); }, expm1_of}},
    {operation::log1p, {[](double x) { return std::log1p(x); }, log1p_of}},
    {operation::log2, {[](double x) { return std::log2(x); }, log2_of}},
    {operation::sigmoid,
     {[](double x) { return 1 / (1 + std::exp(-x)); }, [](const Expr& x) { return 1.0f / (1.0f + exponential(-x)); }}},
    {operation::floor, {[](double x) { return std::floor(x); }, [](const Expr& x) { return floor(x); }}},
    {operation::round, {[](double x) { return std::nearbyint(x); }, [](const Expr& x) { return round(x); }}},
    {operation::trunc, {[](double x) { return std::trunc(x); }, [](const Expr& x) { return trunc(x); }}},
    {operation::sign,
     {[](double x) { return x > 0   ? 1.0
                            : x < 0 ? -1.0
                                    : x; },
      [](const Expr& x) { return select(holds_nan(x), x, x > 0.0f, 1.0f, x < 0.0f, -1.0f, 0.0f); }}}};

/// A power: by multiplication if that is exact to an ulp; for any other exponent as C's.
Expr power(const Expr& x, const Expr& y) {
    if (const auto exponent = as_const_float(y)) {
        if (*exponent == 1) return x;
        if (*exponent == 2) return x * x;
        if (*exponent == -1) return 1.0f / x;
    }
    return pow_of(x, y);
}

struct rule_of_two {
    double (*of_constants)(double, double);
    Expr (*of)(const Expr&, const Expr&);
};
constexpr by_operation<family::function_of_two, rule_of_two> of_two{
    {operation::atan2, {[](double y, double x) { return std::atan2(y, x); }, atan2_of}},
    {operation::pow, {[](double x, double y) { return std::pow(x, y); }, power}},
    {operation::fmod, {[](double x, double y) { return std::fmod(x, y); }, fmod_of}}};

struct rule_of_classes {
    Expr (*of)(const Expr&);
    bool where_masked;
};
constexpr by_operation<family::classification, rule_of_classes> classes{
    {operation::is_nan, {holds_nan, false}}, {operation::is_infinite, {holds_infinity, true}}};

}  // namespace

Expr function_value(operation op, const Expr& x) { return of_one[op].of(x); }

/// A function of a constant is folded, so that rsqrt(depth) costs nothing.
quantity function_of_one(operation op, const quantity& x, const known_of_argument& known) {
    const rule& how = of_one[op];
    const auto of = op == operation::exp && known.at_most_zero ? exponential_of_nonpositive : how.of;
    const auto constant = as_const_float(x.value);
    const Expr value = constant ? Expr(static_cast<float>(how.of_constant(*constant))) : of(x.value);
    const auto limit = limit_of(op);
    if (known.pole) {
        const Expr at_pole = op == operation::log1p ? is_exactly(x.value, -1.0f)
                                                    : (reinterpret<std::uint32_t>(x.value) << 1) == Expr(0u);
        return {select(at_pole, 0.0f, value), either(x.masked, at_pole)};
    }
    if (!limit) return {value, x.masked};
    if (!x.masked.defined()) return {value, {}};
    return {select(x.masked, static_cast<float>(*limit), value), {}, *limit == 0 ? x.masked : Expr()};
}

quantity function_of_two(operation op, const quantity& x, const quantity& y) {
    const rule_of_two& how = of_two[op];
    const auto first = as_const_float(x.value), second = as_const_float(y.value);
    const Expr value =
        first && second ? Expr(static_cast<float>(how.of_constants(*first, *second))) : how.of(x.value, y.value);
    return {value, either(x.masked, y.masked)};
}

quantity classified(operation op, const quantity& x) {
    const rule_of_classes& how = classes[op];
    const Expr value = how.of(x.value);
    if (!x.masked.defined()) return {value, {}};
    return {how.where_masked ? x.masked || value : !x.masked && value, {}};
}

}  // namespace attune::generators::inline expr

#include "pointwise.hpp"

#include <attune/ir/element.hpp>
#include <attune/ir/operations.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace attune::reference {
namespace {

constexpr double masked = -std::numeric_limits<double>::infinity();

bool holds_integers(kind k) { return k == kind::integer || k == kind::condition; }

template <class Out, class In, class F> void map(std::vector<Out>& out, const std::vector<In>& x, F f) {
    out.resize(x.size());
    std::transform(x.begin(), x.end(), out.begin(), f);
}

template <class Out, class In, class F>
void zip(std::vector<Out>& out, const std::vector<In>& x, const std::vector<In>& y, F f) {
    const bool empty = x.empty() || y.empty();
    const std::size_t n = empty ? 0 : std::max(x.size(), y.size());
    for (std::size_t size : {x.size(), y.size()})
        if (size > 1 && size != n)
            throw std::invalid_argument("reference: a column over the keys meets one over the channels");
    out.resize(n);
    const std::size_t dx = x.size() == 1 ? 0 : 1, dy = y.size() == 1 ? 0 : 1;
    for (std::size_t i = 0; i < n; ++i) out[i] = f(x[i * dx], y[i * dy]);
}

constexpr by_operation<family::comparison, bool (*)(double, double)> comparisons_of_reals{
    {operation::equal, [](double x, double y) { return x == y; }},
    {operation::not_equal, [](double x, double y) { return x != y; }},
    {operation::less, [](double x, double y) { return x < y; }},
    {operation::less_equal, [](double x, double y) { return x <= y; }},
    {operation::greater, [](double x, double y) { return x > y; }},
    {operation::greater_equal, [](double x, double y) { return x >= y; }}};

template <class T>
void choose(std::vector<T>& out, const std::vector<std::int32_t>& condition, const std::vector<T>& x,
            const std::vector<T>& y) {
    const bool empty = condition.empty() || x.empty() || y.empty();
    const std::size_t n = empty ? 0 : std::max({condition.size(), x.size(), y.size()});
    out.resize(n);
    const auto at = [](const auto& values, std::size_t i) { return values[values.size() == 1 ? 0 : i]; };
    for (std::size_t i = 0; i < n; ++i) out[i] = at(condition, i) != 0 ? at(x, i) : at(y, i);
}

std::int32_t truncated(double x) {
    if (std::isnan(x)) return 0;
    constexpr double low = std::numeric_limits<std::int32_t>::min(), high = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int32_t>(std::clamp(std::trunc(x), low, high));
}

constexpr by_operation<family::arithmetic, double (*)(double, double)> of_reals{
    {operation::negate, [](double x, double) { return -x; }},
    {operation::absolute, [](double x, double) { return std::abs(x); }},
    {operation::add, [](double x, double y) { return x + y; }},
    {operation::subtract, [](double x, double y) { return x - y; }},
    {operation::multiply, [](double x, double y) { return x * y; }},
    {operation::divide, [](double x, double y) { return x / y; }},
    {operation::remainder, [](double, double) { return std::nan(""); }},  // of integers only
    {operation::minimum, [](double x, double y) { return std::isnan(y) ? y : std::min(x, y); }},
    {operation::maximum, [](double x, double y) { return std::isnan(y) ? y : std::max(x, y); }}};

using of_one = double (*)(double);
constexpr by_operation<family::function, of_one> of_functions{
    {operation::exp, [](double x) { return std::exp(x); }},
    {operation::log, [](double x) { return std::log(x); }},
    {operation::tanh, [](double x) { return std::tanh(x); }},
    {operation::erf, [](double x) { return std::erf(x); }},
    {operation::sqrt, [](double x) { return std::sqrt(x); }},
    {operation::rsqrt, [](double x) { return 1.0 / std::sqrt(x); }},
    {operation::sin, [](double x) { return std::sin(x); }},
    {operation::cos, [](double x) { return std::cos(x); }},
    {operation::tan, [](double x) { return std::tan(x); }},
    {operation::asin, [](double x) { return std::asin(x); }},
    {operation::acos, [](double x) { return std::acos(x); }},
    {operation::atan, [](double x) { return std::atan(x); }},
    {operation::sinh, [](double x) { return std::sinh(x); }},
    {operation::cosh, [](double x) { return std::cosh(x); }},
    {operation::exp2, [](double x) { return std::exp2(x); }},
    {operation::expm1, [](double x) { return std::expm1(x); }},
    {operation::log1p, [](double x) { return std::log1p(x); }},
    {operation::log2, [](double x) { return std::log2(x); }},
    {operation::sigmoid, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }},
    {operation::floor, [](double x) { return std::floor(x); }},
    {operation::round, [](double x) { return std::nearbyint(x); }},
    {operation::trunc, [](double x) { return std::trunc(x); }},
    {operation::sign, [](double x) { return x > 0   ? 1.0
                                            : x < 0 ? -1.0
                                                    : x; }}};
constexpr by_operation<family::function_of_two, double (*)(double, double)> of_functions_of_two{
    {operation::atan2, [](double y, double x) { return std::atan2(y, x); }},
    {operation::pow, [](double x, double y) { return std::pow(x, y); }},
    {operation::fmod, [](double x, double y) { return std::fmod(x, y); }}};
constexpr by_operation<family::classification, bool (*)(double)> of_classes{
    {operation::is_nan, [](double x) { return std::isnan(x); }},
    {operation::is_infinite, [](double x) { return std::isinf(x); }}};

}  // namespace

double real_operation(operation op, double x, double y) {
    if (op != operation::maximum && (x == masked || y == masked)) return masked;
    return family_of(op) == family::function_of_two ? of_functions_of_two[op](x, y) : of_reals[op](x, y);
}

double real_function(operation op, double x) {
    if (family_of(op) == family::arithmetic) return real_operation(op, x, x);
    if (x == masked) return limit_of(op).value_or(masked);
    return of_functions[op](x);
}

namespace {

/// One argument or two, both of integers or both of reals.
void evaluate_numbers(operation op, bool integers, std::span<const column* const> arguments, column& result) {
    const column &x = *arguments.front(), &y = *arguments.back();
    if (arguments.size() == 1 && integers)
        map(result.integer, x.integer, [op](std::int32_t i) { return integer_operation(op, i, i); });
    else if (arguments.size() == 1)
        map(result.real, x.real, [op](double r) { return real_function(op, r); });
    else if (integers)
        zip(result.integer, x.integer, y.integer, [op](auto i, auto j) { return integer_operation(op, i, j); });
    else
        zip(result.real, x.real, y.real, [op](double r, double s) { return real_operation(op, r, s); });
}

void convert(operation op, bool integers, const column& x, column& result) {
    if (op == operation::to_real && integers)
        map(result.real, x.integer, [](std::int32_t i) { return static_cast<double>(i); });
    else if (op == operation::to_real)
        result.real = x.real;
    else if (integers)
        result.integer = x.integer;
    else
        map(result.integer, x.real, truncated);
}

void read_bits(const instruction& node, const column& x, column& result) {
    const element_type element = element_in_bits(node);
    if (node.kind == kind::integer)
        map(result.integer, x.integer,
            [&](std::int32_t i) { return integer_from_bits(element, static_cast<std::uint32_t>(i)); });
    else
        map(result.real, x.integer, [&](std::int32_t i) {
            return static_cast<double>(real_from_bits(element, static_cast<std::uint32_t>(i)));
        });
}

void compare(operation op, bool integers, const column& x, const column& y, column& result) {
    const auto of_integers = integer_comparisons[op];
    const auto of_reals = comparisons_of_reals[op];
    if (integers)
        zip(result.integer, x.integer, y.integer, [&](auto i, auto j) -> std::int32_t { return of_integers(i, j); });
    else
        zip(result.integer, x.real, y.real, [&](double r, double s) -> std::int32_t { return of_reals(r, s); });
}

constexpr by_operation<family::logic, std::int32_t (*)(std::int32_t, std::int32_t)> of_conditions{
    {operation::logical_and, [](std::int32_t i, std::int32_t j) -> std::int32_t { return i != 0 && j != 0; }},
    {operation::logical_or, [](std::int32_t i, std::int32_t j) -> std::int32_t { return i != 0 || j != 0; }},
    {operation::logical_not, [](std::int32_t i, std::int32_t) -> std::int32_t { return i == 0; }}};

}  // namespace

namespace {

/// A product with 0 is 0, and so is a quotient of 0.
void keep_nothing(operation op, const column& x, const column& y, column& result) {
    const auto at = [](const column& c, std::size_t i) { return c.real[c.real.size() == 1 ? 0 : i]; };
    for (std::size_t i = 0; i < result.real.size(); ++i)
        if (std::isnan(result.real[i]) && (at(x, i) == 0 || (op == operation::multiply && at(y, i) == 0)))
            result.real[i] = 0;
}

}  // namespace

bool evaluate_pointwise(const instruction& node, std::span<const kind> kinds, std::span<const column* const> arguments,
                        column& result, bool of_gradient) {
    const operation op = node.op;
    const bool integers = !kinds.empty() && holds_integers(kinds[0]);
    const auto& x = *arguments[0];
    switch (family_of(op)) {
        case family::conversion: convert(op, integers, x, result); return true;
        case family::arithmetic:
        case family::bits:
        case family::function:
        case family::function_of_two:
            evaluate_numbers(op, integers, arguments, result);
            if (of_gradient && (op == operation::multiply || op == operation::divide))
                keep_nothing(op, x, *arguments[1], result);
            return true;
        case family::classification:
            map(result.integer, x.real, [op](double r) -> std::int32_t { return of_classes[op](r); });
            return true;
        case family::comparison: compare(op, integers, x, *arguments[1], result); return true;
        case family::logic: zip(result.integer, x.integer, arguments.back()->integer, of_conditions[op]); return true;
        case family::patterns: read_bits(node, x, result); return true;
        case family::selection:
            if (op == operation::same)
                result.integer = x.integer;
            else if (holds_integers(kinds[1]))
                choose(result.integer, x.integer, arguments[1]->integer, arguments[2]->integer);
            else
                choose(result.real, x.integer, arguments[1]->real, arguments[2]->real);
            return true;
        case family::attention: {
            if (op != operation::mask) return false;
            static const std::vector<double> hidden{masked};
            choose(result.real, arguments[1]->integer, x.real, hidden);
            return true;
        }
        case family::terminal:
        case family::tensors:
        case family::sums:
        case family::recurrent:
        case family::random: break;
    }
    return false;
}

}  // namespace attune::reference

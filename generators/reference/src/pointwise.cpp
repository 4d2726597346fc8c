#include "pointwise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace attune::reference {
namespace {

constexpr double masked = -std::numeric_limits<double>::infinity();

std::int32_t wrapped(std::uint32_t x) { return static_cast<std::int32_t>(x); }

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

template <class T> bool compare(operation op, T x, T y) {
    switch (op) {
        case operation::equal: return x == y;
        case operation::not_equal: return x != y;
        case operation::less: return x < y;
        case operation::less_equal: return x <= y;
        case operation::greater: return x > y;
        default: return x >= y;
    }
}

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

}  // namespace

std::int32_t integer_operation(operation op, std::int32_t x, std::int32_t y) {
    const auto ux = static_cast<std::uint32_t>(x), uy = static_cast<std::uint32_t>(y);
    const std::int64_t wide = x;
    switch (op) {
        case operation::add: return wrapped(ux + uy);
        case operation::subtract: return wrapped(ux - uy);
        case operation::multiply: return wrapped(ux * uy);
        case operation::divide: {
            if (y == 0) return 0;
            const std::int64_t quotient = wide / y, rest = wide % y;
            return wrapped(static_cast<std::uint32_t>(quotient - (rest != 0 && (rest < 0) != (y < 0) ? 1 : 0)));
        }
        case operation::remainder: {
            if (y == 0) return 0;
            const std::int64_t rest = wide % y;
            return static_cast<std::int32_t>(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
        }
        case operation::minimum: return std::min(x, y);
        case operation::maximum: return std::max(x, y);
        case operation::bit_and: return x & y;
        case operation::bit_or: return x | y;
        case operation::bit_xor: return x ^ y;
        case operation::shift_left: return wrapped(ux << (uy & 31));
        case operation::same: return x;
        case operation::shift_right: return x >> (uy & 31);
        default: return 0;
    }
}

double real_operation(operation op, double x, double y) {
    if (op == operation::maximum) return std::max(x, y);
    if (x == masked || y == masked) return masked;
    switch (op) {
        case operation::add: return x + y;
        case operation::subtract: return x - y;
        case operation::multiply: return x * y;
        case operation::divide: return x / y;
        case operation::minimum: return std::min(x, y);
        default: return std::nan("");
    }
}

double real_function(operation op, double x) {
    const bool has_limit = op == operation::exp || op == operation::tanh || op == operation::erf;
    if (x == masked && !has_limit) return masked;
    switch (op) {
        case operation::negate: return -x;
        case operation::absolute: return std::abs(x);
        case operation::exp: return std::exp(x);
        case operation::log: return std::log(x);
        case operation::tanh: return std::tanh(x);
        case operation::erf: return std::erf(x);
        case operation::sqrt: return std::sqrt(x);
        case operation::rsqrt: return 1.0 / std::sqrt(x);
        default: return std::nan("");
    }
}

bool evaluate_pointwise(const instruction& node, std::span<const kind> kinds, std::span<const column* const> arguments,
                        column& result) {
    const operation op = node.op;
    const bool integers = !kinds.empty() && holds_integers(kinds[0]);
    const auto& x = *arguments[0];
    switch (op) {
        case operation::to_real:
            if (integers)
                map(result.real, x.integer, [](std::int32_t i) { return static_cast<double>(i); });
            else
                result.real = x.real;
            return true;
        case operation::to_integer:
            if (integers)
                result.integer = x.integer;
            else
                map(result.integer, x.real, truncated);
            return true;
        case operation::negate:
        case operation::absolute:
            if (integers) {
                map(result.integer, x.integer, [op](std::int32_t i) {
                    return op == operation::absolute && i >= 0 ? i : wrapped(0u - static_cast<std::uint32_t>(i));
                });
                return true;
            }
            [[fallthrough]];
        case operation::exp:
        case operation::log:
        case operation::tanh:
        case operation::erf:
        case operation::sqrt:
        case operation::rsqrt: map(result.real, x.real, [op](double r) { return real_function(op, r); }); return true;
        case operation::add:
        case operation::subtract:
        case operation::multiply:
        case operation::divide:
        case operation::remainder:
        case operation::minimum:
        case operation::maximum:
        case operation::bit_and:
        case operation::bit_or:
        case operation::bit_xor:
        case operation::shift_left:
        case operation::shift_right:
        case operation::same:
            if (integers)
                zip(result.integer, x.integer, arguments[1]->integer,
                    [op](auto i, auto j) { return integer_operation(op, i, j); });
            else
                zip(result.real, x.real, arguments[1]->real,
                    [op](double r, double s) { return real_operation(op, r, s); });
            return true;
        case operation::equal:
        case operation::not_equal:
        case operation::less:
        case operation::less_equal:
        case operation::greater:
        case operation::greater_equal:
            if (integers)
                zip(result.integer, x.integer, arguments[1]->integer,
                    [op](auto i, auto j) -> std::int32_t { return compare(op, i, j); });
            else
                zip(result.integer, x.real, arguments[1]->real,
                    [op](double r, double s) -> std::int32_t { return compare(op, r, s); });
            return true;
        case operation::logical_and:
            zip(result.integer, x.integer, arguments[1]->integer,
                [](auto i, auto j) -> std::int32_t { return i != 0 && j != 0; });
            return true;
        case operation::logical_or:
            zip(result.integer, x.integer, arguments[1]->integer,
                [](auto i, auto j) -> std::int32_t { return i != 0 || j != 0; });
            return true;
        case operation::logical_not:
            map(result.integer, x.integer, [](std::int32_t i) -> std::int32_t { return i == 0; });
            return true;
        case operation::where:
            if (holds_integers(kinds[1]))
                choose(result.integer, x.integer, arguments[1]->integer, arguments[2]->integer);
            else
                choose(result.real, x.integer, arguments[1]->real, arguments[2]->real);
            return true;
        case operation::mask: {
            static const std::vector<double> hidden{masked};
            choose(result.real, arguments[1]->integer, x.real, hidden);
            return true;
        }
        default: return false;
    }
}

}  // namespace attune::reference

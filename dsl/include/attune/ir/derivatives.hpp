#pragma once
#include <attune/ir/builder.hpp>
#include <attune/ir/operations.hpp>

#include <optional>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // the lists of a graph are indexed by int

/// The derivatives of pointwise operations, a rule for each: from the cotangent of the result to that of an argument.
namespace attune::dsl::detail {

/// Enters reals into a list; multiplications by one are left out.
struct real_writer {
    ir_builder& list;

    constexpr node_id number(double x) {
        return list.add({.op = operation::constant, .kind = kind::real, .number = x});
    }
    constexpr node_id apply(operation op, node_id x, kind is = kind::real) {
        return list.add({.op = op, .kind = is, .argument_count = 1, .arguments = {x}});
    }
    constexpr node_id apply(operation op, node_id x, node_id y, kind is = kind::real) {
        return list.add({.op = op, .kind = is, .argument_count = 2, .arguments = {x, y}});
    }
    constexpr bool is(node_id x, double constant) const {
        return list.nodes[x].op == operation::constant && list.nodes[x].kind == kind::real &&
               list.nodes[x].number == constant;
    }
    /// A constant, which may have been an integer.
    constexpr std::optional<double> constant(node_id x) const {
        const instruction& it = list.nodes[x];
        if (it.op == operation::to_real) return constant(it.arguments[0]);
        if (it.op != operation::constant) return {};
        return it.kind == kind::real ? it.number : static_cast<double>(it.integer);
    }
    constexpr node_id add(node_id x, node_id y) { return apply(operation::add, x, y); }
    constexpr node_id subtract(node_id x, node_id y) { return apply(operation::subtract, x, y); }
    constexpr node_id multiply(node_id x, node_id y) {
        const instruction& by = list.nodes[y];
        if (by.op == operation::divide && is(by.arguments[0], 1)) return divide(x, by.arguments[1]);
        return is(x, 1) ? y : is(y, 1) ? x : apply(operation::multiply, x, y);
    }
    constexpr node_id divide(node_id x, node_id y) { return is(y, 1) ? x : apply(operation::divide, x, y); }
    constexpr node_id negate(node_id x) {
        return list.nodes[x].op == operation::negate ? list.nodes[x].arguments[0] : apply(operation::negate, x);
    }
    constexpr node_id times(double factor, node_id x) { return multiply(x, number(factor)); }
    constexpr node_id plus(node_id x, double more) { return add(x, number(more)); }
    constexpr node_id squared(node_id x) { return multiply(x, x); }
    constexpr node_id inverse(node_id x) { return divide(number(1), x); }
    constexpr node_id one_less(node_id x) { return subtract(number(1), x); }
    constexpr node_id where(node_id condition, node_id x, node_id y) {
        return list.add(
            {.op = operation::where, .kind = kind::real, .argument_count = 3, .arguments = {condition, x, y}});
    }
    constexpr node_id compare(operation op, node_id x, node_id y) { return apply(op, x, y, kind::condition); }
};

/// A node that is differentiated: its arguments' values, its own value and its cotangent.
struct differentiated_node {
    node_id x{}, y{};  ///< arguments; y is x where there is one
    node_id value{}, reaching{};
};

/// The slope of y(x).
using slope_of_function = std::optional<node_id (*)(real_writer&, node_id x, node_id y)>;

/// What the table of operations calls flat: nothing flows through it.
inline constexpr std::nullopt_t flat = std::nullopt;

/// Sources: any table of derivatives. They use y, the function's own value, where they can: it is computed anyhow.
inline constexpr by_operation<family::function, slope_of_function> slopes_of_functions{
    {operation::exp, [](real_writer&, auto, auto y) { return y; }},
    {operation::log, [](real_writer& w, auto x, auto) { return w.inverse(x); }},
    {operation::tanh, [](real_writer& w, auto, auto y) { return w.one_less(w.squared(y)); }},
    {operation::erf,
     [](real_writer& w, auto x, auto) {  // 2 / sqrt(pi) exp(-x^2)
         return w.times(1.1283791670955126, w.apply(operation::exp, w.negate(w.squared(x))));
     }},
    {operation::sqrt, [](real_writer& w, auto, auto y) { return w.times(0.5, w.inverse(y)); }},
    {operation::rsqrt, [](real_writer& w, auto, auto y) { return w.times(-0.5, w.multiply(y, w.squared(y))); }},
    {operation::sin, [](real_writer& w, auto x, auto) { return w.apply(operation::cos, x); }},
    {operation::cos, [](real_writer& w, auto x, auto) { return w.negate(w.apply(operation::sin, x)); }},
    {operation::tan, [](real_writer& w, auto, auto y) { return w.plus(w.squared(y), 1); }},
    {operation::asin, [](real_writer& w, auto x, auto) { return w.apply(operation::rsqrt, w.one_less(w.squared(x))); }},
    {operation::acos,
     [](real_writer& w, auto x, auto) { return w.negate(w.apply(operation::rsqrt, w.one_less(w.squared(x)))); }},
    {operation::atan, [](real_writer& w, auto x, auto) { return w.inverse(w.plus(w.squared(x), 1)); }},
    {operation::sinh, [](real_writer& w, auto x, auto) { return w.apply(operation::cosh, x); }},
    {operation::cosh, [](real_writer& w, auto x, auto) { return w.apply(operation::sinh, x); }},
    {operation::exp2, [](real_writer& w, auto, auto y) { return w.times(0.6931471805599453, y); }},  // log(2)
    {operation::expm1, [](real_writer& w, auto, auto y) { return w.plus(y, 1); }},
    {operation::log1p, [](real_writer& w, auto x, auto) { return w.inverse(w.plus(x, 1)); }},
    {operation::log2, [](real_writer& w, auto x, auto) { return w.inverse(w.times(0.6931471805599453, x)); }},
    {operation::sigmoid, [](real_writer& w, auto, auto y) { return w.multiply(y, w.one_less(y)); }},
    {operation::floor, flat},
    {operation::round, flat},
    {operation::trunc, flat},
    {operation::sign, flat}};

/// The argument whose derivative is asked for: 0 or 1.
using derivative_by_argument = std::optional<node_id (*)(real_writer&, const differentiated_node&, int side)>;

/// Half to each where two are equal, as torch.maximum and JAX do.
template <operation Before>
constexpr node_id derivative_of_extremum(real_writer& w, const differentiated_node& n, int side) {
    const node_id own = side == 0 ? n.x : n.y, other = side == 0 ? n.y : n.x;
    const auto half = w.where(w.compare(operation::equal, own, other), w.times(0.5, n.reaching), w.number(0));
    return w.where(w.compare(Before, own, other), n.reaching, half);
}

inline constexpr by_operation<family::arithmetic, derivative_by_argument> derivatives_of_arithmetic{
    {operation::negate, [](real_writer& w, const differentiated_node& n, int) { return w.negate(n.reaching); }},
    {operation::absolute,
     [](real_writer& w, const differentiated_node& n, int) {  // 0 at 0
         const auto zero = w.number(0);
         return w.where(w.compare(operation::greater, n.x, zero), n.reaching,
                        w.where(w.compare(operation::less, n.x, zero), w.negate(n.reaching), zero));
     }},
    {operation::add, [](real_writer&, const differentiated_node& n, int) { return n.reaching; }},
    {operation::subtract, [](real_writer& w, const differentiated_node& n,
                             int side) { return side == 0 ? n.reaching : w.negate(n.reaching); }},
    {operation::multiply, [](real_writer& w, const differentiated_node& n,
                             int side) { return w.multiply(n.reaching, side == 0 ? n.y : n.x); }},
    {operation::divide,
     [](real_writer& w, const differentiated_node& n, int side) {
         return side == 0 ? w.divide(n.reaching, n.y) : w.negate(w.divide(w.multiply(n.reaching, n.value), n.y));
     }},
    {operation::remainder, flat},  // of integers only
    {operation::minimum, derivative_of_extremum<operation::less>},
    {operation::maximum, derivative_of_extremum<operation::greater>}};

/// x^y, as PyTorch: the slope by x is 0 where y is 0, the slope by y where x is 0 and y is not negative; at any x.
constexpr node_id derivative_of_power(real_writer& w, const differentiated_node& n, int side) {
    const auto zero = w.number(0);
    if (side == 1) {
        const auto at_zero = w.apply(operation::logical_and, w.compare(operation::equal, n.x, zero),
                                     w.compare(operation::greater_equal, n.y, zero), kind::condition);
        return w.where(at_zero, zero, w.multiply(n.reaching, w.multiply(n.value, w.apply(operation::log, n.x))));
    }
    if (const auto y = w.constant(n.y)) {
        if (*y == 0) return zero;
        const auto power = *y == 1 ? w.number(1) : *y == 2 ? n.x : w.apply(operation::pow, n.x, w.number(*y - 1));
        return w.multiply(n.reaching, w.times(*y, power));
    }
    const auto slope = w.multiply(n.y, w.apply(operation::pow, n.x, w.subtract(n.y, w.number(1))));
    return w.where(w.compare(operation::equal, n.y, zero), zero, w.multiply(n.reaching, slope));
}

inline constexpr by_operation<family::function_of_two, derivative_by_argument> derivatives_of_functions_of_two{
    {operation::atan2,
     [](real_writer& w, const differentiated_node& n, int side) {  // x / (x^2 + y^2), -y / (x^2 + y^2) of atan2(y, x)
         const auto slope = w.divide(side == 0 ? n.y : w.negate(n.x), w.add(w.squared(n.x), w.squared(n.y)));
         return w.multiply(n.reaching, slope);
     }},
    {operation::pow, derivative_of_power},
    {operation::fmod, [](real_writer& w, const differentiated_node& n, int side) {  // 1, -trunc(x / y)
         const auto times = w.apply(operation::trunc, w.divide(n.x, n.y));
         return side == 0 ? n.reaching : w.negate(w.multiply(n.reaching, times));
     }}};

static_assert(
    [] {
        for (const operation_row& row : operation_table::rows_of_all) {
            const bool has_rule = slopes_of_functions[row.op] || derivatives_of_arithmetic[row.op] ||
                                  derivatives_of_functions_of_two[row.op];
            if (has_rule != (row.derivative == derivative::rule)) return false;
        }
        return true;
    }(),
    "attune: an operation has a rule here where its row says so, and nowhere else");

}  // namespace attune::dsl::detail

#pragma GCC diagnostic pop

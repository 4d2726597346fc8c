#include "expr/comparisons.hpp"

#include "expr/math.hpp"

namespace attune::generators::inline expr {
using namespace Halide;

namespace {

using of_two = Expr (*)(const Expr&, const Expr&);
Expr is_number(const Expr& x) { return is_const(x) ? Internal::const_true() : !holds_nan(x); }

/// -infinity is below every number and equal to itself: p and q say where a and b stand for it.
using of_masked = Expr (*)(const Expr& a, const Expr& p, const Expr& b, const Expr& q);
struct comparison_rule {
    of_two is;
    of_masked is_where_masked;
};
constexpr of_masked less_where_masked = [](const Expr& a, const Expr& p, const Expr& b, const Expr& q) {
    return !q && ((p && is_number(b)) || is_less(a, b));
};
constexpr of_masked less_equal_where_masked = [](const Expr& a, const Expr& p, const Expr& b, const Expr& q) {
    return (p && is_number(b)) || (!q && is_less_equal(a, b));
};
constexpr by_operation<family::comparison, comparison_rule> comparisons{
    {operation::equal,
     {is_equal, [](const Expr& a, const Expr& p, const Expr& b,
                   const Expr& q) { return (p && q) || (!p && !q && is_equal(a, b)); }}},
    {operation::not_equal,
     {[](const Expr& a, const Expr& b) { return a.type().is_float() ? !is_equal(a, b) : a != b; },
      [](const Expr& a, const Expr& p, const Expr& b, const Expr& q) { return (p != q) || (!p && !is_equal(a, b)); }}},
    {operation::less, {is_less, less_where_masked}},
    {operation::less_equal, {is_less_equal, less_equal_where_masked}},
    {operation::greater,
     {[](const Expr& a, const Expr& b) { return is_less(b, a); },
      [](const Expr& a, const Expr& p, const Expr& b, const Expr& q) { return less_where_masked(b, q, a, p); }}},
    {operation::greater_equal,
     {[](const Expr& a, const Expr& b) { return is_less_equal(b, a); },
      [](const Expr& a, const Expr& p, const Expr& b, const Expr& q) { return less_equal_where_masked(b, q, a, p); }}}};

}  // namespace

quantity compare(operation op, const quantity& a, const quantity& b) {
    const comparison_rule& rule = comparisons[op];
    if (!a.masked.defined() && !b.masked.defined()) return {rule.is(a.value, b.value), {}};
    const auto masked = [](const quantity& x) { return x.masked.defined() ? x.masked : Internal::const_false(); };
    return {rule.is_where_masked(a.value, masked(a), b.value, masked(b)), {}};
}

}  // namespace attune::generators::inline expr

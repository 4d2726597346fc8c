#include "analysis/mask_formula.hpp"

#include <attune/ir/visibility.hpp>

#include <cmath>
#include <limits>

namespace attune::generators::inline analysis {

linear operator+(const linear& a, const linear& b) {
    linear result = a;
    result.constant += b.constant;
    for (const auto& [node, factor] : b.terms)
        if ((result.terms[node] += factor) == 0) result.terms.erase(node);
    return result;
}

linear operator*(const linear& a, std::int64_t factor) {
    linear result;
    if (factor == 0) return result;
    result.constant = a.constant * factor;
    for (const auto& [node, times] : a.terms) result.terms[node] = times * factor;
    return result;
}

double magnitude_of(const linear& sum, const std::vector<double>& of_nodes) {
    double result = std::abs(static_cast<double>(sum.constant));
    for (const auto& [node, factor] : sum.terms) result += std::abs(static_cast<double>(factor)) * of_nodes[node];
    return result;
}

std::strong_ordering formula::operator<=>(const formula& other) const {
    if (const auto c = what <=> other.what; c != 0) return c;
    if (const auto c = negated <=> other.negated; c != 0) return c;
    if (const auto c = node <=> other.node; c != 0) return c;
    if (const auto c = sum <=> other.sum; c != 0) return c;
    for (std::size_t i = 0; i < parts.size() && i < other.parts.size(); ++i)
        if (const auto c = parts[i] <=> other.parts[i]; c != 0) return c;
    return parts.size() <=> other.parts.size();
}

formula always_true() { return {}; }
formula always_false() { return {.what = formula::is::any}; }

namespace {

formula joined(formula::is how, const formula& a, const formula& b) {
    const formula neutral{.what = how},
        absorbing{.what = how == formula::is::all ? formula::is::any : formula::is::all};
    if (a == neutral || b == absorbing || a == b) return b;
    if (b == neutral || a == absorbing) return a;
    formula result{.what = how};
    for (const formula* side : {&a, &b})
        if (side->what == how)
            result.parts.insert(result.parts.end(), side->parts.begin(), side->parts.end());
        else
            result.parts.push_back(*side);
    return result;
}

formula atom(formula::is what, const linear& sum) {
    if (sum.terms.empty()) {
        const bool holds =
            what == formula::is::positive ? sum.constant >= 1 : (sum.constant == 0) == (what == formula::is::zero);
        return holds ? always_true() : always_false();
    }
    return {.what = what, .sum = sum};
}

dependence joined(dependence a, const dependence& b) {
    a.query |= b.query, a.key |= b.key, a.head |= b.head, a.batch |= b.batch, a.channel |= b.channel,
        a.score |= b.score, a.bound |= b.bound;
    return a;
}

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();

/// Whether a sum's numbers are those of i32 arithmetic.
bool is_small(const linear& sum) {
    for (const auto& [node, factor] : sum.terms)
        if (std::abs(factor) > most) return false;
    return std::abs(sum.constant) <= most;
}

}  // namespace

formula operator&&(const formula& a, const formula& b) { return joined(formula::is::all, a, b); }
formula operator||(const formula& a, const formula& b) { return joined(formula::is::any, a, b); }

formula operator!(const formula& a) {
    formula result = a;
    if (!a.exact.empty()) result.negated = !a.negated;
    switch (a.what) {
        case formula::is::positive: result.sum = a.sum * -1 + 1; break;
        case formula::is::zero: result.what = formula::is::nonzero; break;
        case formula::is::nonzero: result.what = formula::is::zero; break;
        case formula::is::flag:
        case formula::is::masked: result.negated = !a.negated; break;
        case formula::is::all:
        case formula::is::any:
            result.what = a.what == formula::is::all ? formula::is::any : formula::is::all;
            for (formula& part : result.parts) part = !part;
    }
    return result;
}

dependence depends_on(const linear& sum, const std::vector<dependence>& depends) {
    dependence result;
    for (const auto& [node, factor] : sum.terms) result = joined(result, depends[node]);
    return result;
}

dependence depends_on(const formula& f, const std::vector<dependence>& depends) {
    dependence result = depends_on(f.sum, depends);
    if (f.node >= 0) result = joined(result, depends[f.node]);
    for (const formula& part : f.parts) result = joined(result, depends_on(part, depends));
    return result;
}

linear formula_reader::sum(int number, std::vector<linear>* exact) const {
    const instruction& node = graph_.nodes[number];
    const auto argument = [&](int i) { return sum(node.arguments[i], exact); };
    const linear itself{{{number, 1}}};
    if (wraps_.here[number] && exact == nullptr) return itself;
    linear result = itself;
    if (node.op == operation::constant) return {{}, node.integer};
    if (node.op == operation::negate) result = argument(0) * -1;
    if (node.op == operation::add) result = argument(0) + argument(1);
    if (node.op == operation::subtract) result = argument(0) - argument(1);
    if (node.op == operation::multiply) {
        const linear a = argument(0), b = argument(1);
        if (a.terms.empty())
            result = b * a.constant;
        else if (b.terms.empty())
            result = a * b.constant;
    }
    if (node.op == operation::shift_left)
        if (const linear by = argument(1); by.terms.empty())
            result = argument(0) * (std::int64_t{1} << (by.constant & 31));
    if (!is_small(result)) return itself;  // which is always right
    if (wraps_.here[number] && result != itself) exact->push_back(result);
    return result;
}

/// Cases of one term that depends on query and key alike. They are exact; the term's range would forget its relation to
/// the other terms.
bool formula_reader::split(const linear& whole, int splits, formula& result) {
    constexpr auto positive = formula::is::positive;
    for (const auto& [number, factor] : whole.terms) {
        if (!depends_[number].query || !depends_[number].key || depends_[number].score) continue;
        const instruction& node = graph_.nodes[number];
        const linear rest = whole - linear{{{number, factor}}};
        const auto with = [&, factor = factor](const linear& value) {
            return compare(positive, rest + value * factor, splits - 1);
        };
        if (node.op == operation::minimum || node.op == operation::maximum) {
            const formula x = with(sum(node.arguments[0])), y = with(sum(node.arguments[1]));
            result = (node.op == operation::maximum) == (factor > 0) ? x || y : x && y;
            return true;
        }
        if (node.op == operation::absolute) {
            const formula x = with(sum(node.arguments[0])), y = with(sum(node.arguments[0]) * -1);
            result = factor > 0 ? x || y : x && y;
            return true;
        }
        if (node.op == operation::where) {
            const formula c = condition(node.arguments[0]);
            result = (c && with(sum(node.arguments[1]))) || (!c && with(sum(node.arguments[2])));
            return true;
        }
        if (node.op == operation::to_integer && graph_.nodes[node.arguments[0]].kind == kind::condition) {
            const formula c = condition(node.arguments[0]);
            result = (c && with({{}, 1})) || (!c && with({}));
            return true;
        }
        if (node.op == operation::divide || node.op == operation::shift_right) {
            // x / c >= n if and only if x >= c * n, and x / c <= n if and only if x < c * (n + 1).
            const linear by = sum(node.arguments[1]);
            if (!by.terms.empty() || std::abs(factor) != 1) continue;
            const std::int64_t c = node.op == operation::divide ? by.constant : std::int64_t{1} << (by.constant & 31);
            if (c < 1) continue;
            const linear x = sum(node.arguments[0]);
            const linear moved = factor > 0 ? x + rest * c + (1 - c) : rest * c - x;
            if (!is_small(moved)) continue;
            result = compare(positive, moved, splits - 1);
            return true;
        }
    }
    return false;
}

formula formula_reader::compare(formula::is what, const linear& difference, int splits) {
    formula result;
    if (splits <= 0) return atom(what, difference);
    if (what == formula::is::positive) return split(difference, splits, result) ? result : atom(what, difference);
    // Equal is neither more nor less.
    if (!split(difference, splits, result)) return atom(what, difference);
    const formula more = compare(formula::is::positive, difference, splits - 1),
                  less = compare(formula::is::positive, difference * -1, splits - 1);
    return what == formula::is::zero ? !more && !less : more || less;
}

namespace {

/// A comparison as a statement about the difference of one argument and the other.
struct comparison_rule {
    formula::is what;
    int larger, plus;
};
constexpr by_operation<family::comparison, comparison_rule> comparisons{
    {operation::equal, {formula::is::zero, 0, 0}},       {operation::not_equal, {formula::is::nonzero, 0, 0}},
    {operation::less, {formula::is::positive, 1, 0}},    {operation::less_equal, {formula::is::positive, 1, 1}},
    {operation::greater, {formula::is::positive, 0, 0}}, {operation::greater_equal, {formula::is::positive, 0, 1}}};

}  // namespace

formula formula_reader::condition(int number) {
    const instruction& node = graph_.nodes[number];
    const formula itself{.what = formula::is::flag, .node = number};
    const auto argument = [&](int i) { return condition(node.arguments[i]); };
    const auto is_integer = [&] { return graph_.nodes[node.arguments[0]].kind == kind::integer; };
    constexpr int most_splits = 4;
    // Argument number `a` minus the other.
    const auto more = [&](int a) { return sum(node.arguments[a]) - sum(node.arguments[1 - a]); };
    if (node.op == operation::constant) return node.integer != 0 ? always_true() : always_false();
    if (node.op == operation::logical_and) return argument(0) && argument(1);
    if (node.op == operation::logical_or) return argument(0) || argument(1);
    if (node.op == operation::logical_not) return !argument(0);
    if (node.op == operation::where) {
        const formula c = argument(0);
        return (c && argument(1)) || (!c && argument(2));
    }
    if (family_of(node.op) != family::comparison || !is_integer()) return itself;
    const comparison_rule& as = comparisons[node.op];
    if (!wraps_.below[node.arguments[0]] && !wraps_.below[node.arguments[1]])
        return compare(as.what, more(as.larger) + as.plus, most_splits);
    formula result;
    const linear larger = sum(node.arguments[as.larger], &result.exact),
                 smaller = sum(node.arguments[1 - as.larger], &result.exact);
    const linear difference = larger - smaller + as.plus;
    if (difference.terms.empty()) return result.exact.empty() ? atom(as.what, difference) : itself;
    result.what = as.what, result.sum = difference;
    if (!result.exact.empty()) result.node = number;
    return result;
}

/// Whether x and y are equal where a and b are.
bool formula_reader::alike(int x, int y, int a, int b) const {
    if (x == y || (x == a && y == b) || (x == b && y == a)) return true;
    const instruction &f = graph_.nodes[x], &g = graph_.nodes[y];
    if (f.op != g.op || f.kind != g.kind || f.argument_count != g.argument_count || f.argument_count == 0 ||
        f.integer != g.integer)
        return false;
    if (family_of(f.op) == family::sums) return false;
    for (int i = 0; i < f.argument_count; ++i)
        if (!alike(f.arguments[i], g.arguments[i], a, b)) return false;
    return true;
}

std::optional<formula> formula_reader::given(const formula& equation, const formula& statement) const {
    const auto is_comparison = [](const formula& f) {
        return f.what == formula::is::positive || f.what == formula::is::zero || f.what == formula::is::nonzero;
    };
    const auto& equals = equation.sum.terms;
    if (!equation.exact.empty() || equation.what != formula::is::zero || equation.sum.constant != 0 ||
        equals.size() != 2 || !is_comparison(statement))
        return {};
    const auto [a, by] = *equals.begin();
    const auto [b, less] = *equals.rbegin();
    if (by + less != 0) return {};
    formula result = statement;
    for (const auto& [x, plus] : statement.sum.terms)
        for (const auto& [y, minus] : statement.sum.terms) {
            if (plus <= 0 || minus >= 0 || !result.sum.terms.contains(x) || !result.sum.terms.contains(y)) continue;
            const std::int64_t both = std::min(result.sum.terms[x], -result.sum.terms[y]);
            if (both <= 0) continue;
            const linear difference{{{x, both}, {y, -both}}};
            const instruction &f = graph_.nodes[x], &g = graph_.nodes[y], &n = graph_.nodes[a], &m = graph_.nodes[b];
            if (alike(x, y, a, b))
                result.sum = result.sum - difference;
            else if (f.op == operation::remainder && g.op == operation::remainder && n.op == operation::divide &&
                     m.op == operation::divide && f.arguments[1] == g.arguments[1] &&
                     n.arguments[1] == f.arguments[1] && m.arguments[1] == f.arguments[1] &&
                     ((n.arguments[0] == f.arguments[0] && m.arguments[0] == g.arguments[0]) ||
                      (n.arguments[0] == g.arguments[0] && m.arguments[0] == f.arguments[0])))
                // If quotients are equal, remainders differ as their dividends do.
                result.sum = result.sum - difference + (sum(f.arguments[0]) - sum(g.arguments[0])) * both;
        }
    if (result.sum == statement.sum) return {};
    if (!result.sum.terms.empty()) return result;
    // A constant says nothing of integers that wrap around.
    return statement.exact.empty() ? std::optional(atom(result.what, result.sum)) : std::nullopt;
}

formula formula_reader::visible(int number) {
    const formula of_arguments = visible_by_arguments(number);
    if (!makes_infinity_[number]) return of_arguments;
    return of_arguments && formula{.what = formula::is::masked, .negated = true, .node = number};
}

formula formula_reader::visible_by_arguments(int number) {
    const instruction& node = graph_.nodes[number];
    const auto argument = [&](int i) { return visible(node.arguments[i]); };
    switch (visibility_of(node)) {
        case visibility::always: break;
        case visibility::never: return always_false();
        case visibility::by_value: return {.what = formula::is::masked, .negated = true, .node = number};
        case visibility::as_first: return argument(0);
        case visibility::as_both: return argument(0) && argument(1);
        case visibility::as_either: return argument(0) || argument(1);
        case visibility::where_kept: return argument(0) && condition(node.arguments[1]);
        case visibility::as_chosen: {
            const formula c = condition(node.arguments[0]), x = argument(1), y = argument(2);
            return x == y ? x : (c && x) || (!c && y);
        }
    }
    return always_true();
}

}  // namespace attune::generators::inline analysis

#include "coverage.hpp"

#include "numbers.hpp"

#include <algorithm>
#include <cmath>

namespace attune::generators {
using namespace Halide;

namespace {

Expr yes() { return Internal::const_true(); }
Expr no() { return Internal::const_false(); }
Expr byte(const Expr& condition) { return cast<uint8_t>(condition); }
Expr is_set(const Expr& byte) { return byte != cast<uint8_t>(0); }

/// Least and most comparisons of ends; an undefined end says nothing.
Expr may_exceed(const interval& a, const interval& b) { return less(b, a).may; }

constexpr int most_places = 5;  // of each index that a tensor is read at

bool is_compare(const formula& f) { return f.what == formula::is::positive || f.what == formula::is::zero; }

}  // namespace

coverage::coverage(const kernel_request& request, const kernel_inputs& inputs, const std::vector<dependence>&, tile_tables& tables, tile at)
    : request_(request),
      inputs_(inputs),
      tables_(tables),
      its_(std::make_shared<const facts>(tables.known())),
      known_(*its_),
      at_(std::move(at)),
      keys_(inputs.keys_in_use(at_.b)),
      reader_(request.graph, known_.depends) {
    const Expr query = at_.query_tile * request.schedule.query_block, key = at_.key_block * request.schedule.key_block;
    whole_.queries = {query, min(query + request.schedule.query_block, inputs.query_length) - 1, {}};
    whole_.keys = {key, min(key + request.schedule.key_block, keys_) - 1, {}};
}

coverage::coverage(const coverage& outer, std::shared_ptr<const facts> its, std::map<int, Expr> indices, std::map<int, quantity> fixed)
    : request_(outer.request_),
      inputs_(outer.inputs_),
      tables_(outer.tables_),
      its_(std::move(its)),
      known_(*its_),
      at_(outer.at_),
      indices_(std::move(indices)),
      fixed_(std::move(fixed)),
      keys_(outer.keys_),
      reader_(request_.graph, known_.depends),
      whole_(outer.whole_) {}

verdict coverage::visible(int scores) {
    const Expr first = whole_.keys.first;
    const formula seen = reader_.visible(scores);
    return {both(first < keys_, may(seen)), both(first + request_.schedule.key_block <= keys_, opposite(may(!seen)))};
}

verdict coverage::hidden(int scores) {
    const formula seen = reader_.visible(scores);
    return {may(!seen), opposite(may(seen))};
}

verdict coverage::decide(int node) {
    const formula condition = reader_.condition(node);
    return {may(condition), opposite(may(!condition))};
}

pointwise coverage::at(const Expr& q, const Expr& k) const {
    return pointwise(request_, inputs_, known_.depends, {at_.b, at_.h, q, k, keys_, fixed_, {}, indices_});
}

coverage coverage::inside(int index, const Expr& value) const {
    std::map<int, Expr> indices = indices_;
    indices[index] = value;
    return coverage(*this, its_, std::move(indices), fixed_);
}

coverage coverage::where_is(int node, const Expr& value) const {
    std::map<int, quantity> fixed = fixed_;
    fixed[node] = {value, {}};
    std::set<int> given;
    for (const auto& [number, known] : fixed) given.insert(number);
    return coverage(*this, std::make_shared<const facts>(request_.graph, dependences(request_.graph, given)), indices_, std::move(fixed));
}

// Which pairs a statement leaves: sound for whatever the statement is, exact for what is said below.

Expr coverage::may(const formula& f) {
    if (const auto done = decided_.find(f); done != decided_.end()) return done->second;
    Expr result = no();
    if (f.what == formula::is::any && !is_one_sided(depends_on(f)))
        for (const formula& part : f.parts) result = either(result, may(part));
    else
        result = may_all(f.what == formula::is::all ? f.parts : std::vector{f});
    decided_.emplace(f, result);
    return result;
}

/// All of some statements: alternatives among them are tried one by one, while they are few.
Expr coverage::may_all(const std::vector<formula>& parts) {
    constexpr std::size_t most_cases = 8;
    std::vector<formula> plain, alternatives;
    for (const formula& part : parts) {
        const dependence on = depends_on(part);
        (part.what == formula::is::any && !is_one_sided(on) && !is_uniform(on) ? alternatives : plain).push_back(part);
    }
    std::sort(alternatives.begin(), alternatives.end(), [](const formula& a, const formula& b) { return a.parts.size() < b.parts.size(); });
    std::size_t cases = 1;
    Expr apart = yes();
    for (std::size_t i = 0; i < alternatives.size(); ++i) {
        cases *= alternatives[i].parts.size();
        if (cases <= most_cases) continue;
        for (std::size_t j = i; j < alternatives.size(); ++j) apart = both(apart, may(alternatives[j]));
        alternatives.resize(i);
    }
    if (alternatives.empty()) return both(joint(plain), apart);
    Expr result = no();
    for (const formula& one : alternatives[0].parts) {
        formula together = one;
        for (const formula& other : plain) together = together && other;
        for (std::size_t i = 1; i < alternatives.size(); ++i) together = together && alternatives[i];
        result = either(result, may(together));
    }
    return both(result, apart);
}

/// Whether one pair may have all of some properties: of its query, of its key and of both.
///
/// Exact for one comparison of a sum of queries' numbers and keys' numbers, whatever these are; for several that bound the same sum from
/// two sides; and for several that bound keys between two numbers of a query, or queries between two numbers of a key.
Expr coverage::joint(const std::vector<formula>& literals) {
    std::vector<formula> of_queries, of_keys, of_pairs;
    Expr result = yes();
    for (const formula& f : literals) {
        const dependence on = depends_on(f);
        if (is_uniform(on)) {
            pointwise here = at(0, 0);
            result = both(result, holds(f, here, known_));
        } else {
            (!is_one_sided(on) ? of_pairs : on.query ? of_queries : of_keys).push_back(f);
        }
    }
    const std::size_t said = of_pairs.size();
    for (std::size_t i = 0; i < said; ++i)
        for (std::size_t j = 0; j < said; ++j)
            if (const auto anew = i == j ? std::nullopt : reader_.given(of_pairs[i], of_pairs[j])) {
                const dependence on = depends_on(*anew);
                if (*anew == always_false()) return no();
                if (!is_uniform(on)) (!is_one_sided(on) ? of_pairs : on.query ? of_queries : of_keys).push_back(*anew);
            }
    sides in = whole_;
    if (!of_queries.empty()) {
        restrict(in.queries, true, of_queries);
        result = both(result, in.queries.first <= in.queries.last);
    }
    if (!of_keys.empty()) {
        restrict(in.keys, false, of_keys);
        result = both(result, in.keys.first <= in.keys.last);
    }
    for (const formula& f : of_pairs) result = both(result, may_literal(f, in));

    const auto compare = [&](formula::is what, const linear& sum) {
        pointwise here = at(0, 0);
        result = both(result, holds({.what = what, .sum = sum}, here, known_));
    };
    const auto is_fixed = [&](const linear& sum) { return is_uniform(generators::depends_on(sum, known_.depends)); };
    bool by_queries = false, by_keys = false;
    for (std::size_t i = 0; i < of_pairs.size(); ++i)
        for (std::size_t j = i + 1; j < of_pairs.size(); ++j) {
            const formula &a = of_pairs[i], &b = of_pairs[j];
            if (!is_compare(a) || !is_compare(b)) continue;
            const bool a_equal = a.what == formula::is::zero, b_equal = b.what == formula::is::zero;
            const linear sum = a.sum + b.sum, difference = a.sum - b.sum;
            if (is_fixed(sum)) compare(a_equal && b_equal ? formula::is::zero : formula::is::positive, !a_equal && !b_equal ? sum + -1 : sum);
            else if (is_fixed(difference) && (a_equal || b_equal))
                compare(a_equal && b_equal ? formula::is::zero : formula::is::positive, a_equal ? difference * -1 : difference);
            if (a_equal || b_equal || !split(a.sum).of_both.terms.empty() || !split(b.sum).of_both.terms.empty()) continue;
            const parts together = split(sum);
            by_queries |= together.of_key.terms.empty() && direction_of(together.of_query, known_.directions) == direction::none;
            by_keys |= together.of_query.terms.empty() && direction_of(together.of_key, known_.directions) == direction::none;
        }
    if (by_queries) result = both(result, may_by_rows(of_pairs, in, true));
    if (by_keys) result = both(result, may_by_rows(of_pairs, in, false));
    return result;
}

/// Each query by itself against the range of the keys, or each key against that of the queries.
Expr coverage::may_by_rows(const std::vector<formula>& literals, const sides& in, bool by_queries) {
    const side& rows = by_queries ? in.queries : in.keys;
    RDom each(0, by_queries ? request_.schedule.query_block : request_.schedule.key_block, "row");
    const Expr position = min((by_queries ? whole_.queries.first : whole_.keys.first) + each, max((by_queries ? inputs_.query_length : keys_) - 1, 0));
    pointwise here = at(position, position);
    Expr result = rows.first <= position && position <= rows.last;
    for (const formula& f : rows.where) result = result && holds(f, here, known_);
    for (const formula& f : literals) {
        if (!is_compare(f)) continue;
        const parts of = split(f.sum);
        if (!of.of_both.terms.empty()) continue;
        const Expr value = value_of((by_queries ? of.of_query : of.of_key) + of.uniform, here, known_);
        const interval other = of_side((by_queries ? of.of_key : of.of_query) * -1, !by_queries, in);
        result = result && (f.what == formula::is::positive ? may_exceed(point(value), other) : equal(point(value), other).may);
    }
    return is_set(maximum(each, byte(result), "any_row"));
}

/// Positions from a bound on: q_idx >= n. False where a statement is not of this form.
bool coverage::clip(const formula& f, side& of, bool of_queries) {
    if (!is_compare(f)) return false;
    const parts its = split(f.sum);
    const linear& position = of_queries ? its.of_query : its.of_key;
    if (position.terms.size() != 1) return false;
    const auto [node, factor] = *position.terms.begin();
    if (request_.graph.nodes[node].op != (of_queries ? operation::q_idx : operation::kv_idx)) return false;
    const int times = static_cast<int>(std::abs(factor));
    if (times > 1024 || (f.what == formula::is::zero && times != 1)) return false;
    // factor * position + rest >= 1, or == 0
    Expr rest = uniform(its.uniform, times * longest);
    if (rest.type().bits() == 64) rest = cast<int>(clamp(rest, Expr(-(std::int64_t{1} << 30)), Expr(std::int64_t{1} << 30)));
    if (f.what == formula::is::zero) {
        const Expr only = factor > 0 ? -rest : rest;
        of.first = max(of.first, only), of.last = min(of.last, only);
    } else if (factor > 0) {
        of.first = max(of.first, times == 1 ? 1 - rest : (times - rest) / times);
    } else {
        of.last = min(of.last, times == 1 ? rest - 1 : (rest - 1) / times);
    }
    return true;
}

void coverage::restrict(side& of, bool of_queries, std::vector<formula> statements) {
    std::sort(statements.begin(), statements.end());
    bool all_clip = true;
    side clipped = of;
    for (const formula& f : statements) all_clip = clip(f, clipped, of_queries) && all_clip;
    clipped.where = statements;
    if (all_clip) {
        of = std::move(clipped);
        return;
    }
    const interval left = tables_.positions(statements, {of_queries, of_queries ? at_.query_tile : at_.key_block, at_.h, at_.b});
    of = {max(clipped.first, left.lo), min(clipped.last, left.hi), std::move(statements)};
}

Expr coverage::may_literal(const formula& f, const sides& in) {
    switch (f.what) {
        case formula::is::flag: {
            const verdict v = decide_real(f.node, in);
            return f.negated ? opposite(v.must) : v.may;
        }
        case formula::is::hidden: {
            const verdict v = range(f.node, in).hidden;
            return f.negated ? opposite(v.must) : v.may;
        }
        case formula::is::all:
        case formula::is::any: return may(f);
        default: return may_compare(f, in);
    }
}

/// Queries' numbers on one side, keys' numbers on the other: no arithmetic joins them, so nothing is lost.
Expr coverage::may_compare(const formula& f, const sides& in) {
    const parts its = split(f.sum);
    const bool one_term = its.of_both.terms.size() == 1 && its.of_query.terms.empty() && its.of_key.terms.empty();
    if (f.what == formula::is::zero && one_term) {
        // x % m == c where some x of its range is the next one that is c after a multiple of m.
        const auto [node, factor] = *its.of_both.terms.begin();
        const instruction& remains = request_.graph.nodes[node];
        if (remains.op == operation::remainder && std::abs(factor) == 1 && is_uniform(known_.depends[remains.arguments[1]])) {
            const interval x = range(remains.arguments[0], in);
            const Expr c = uniform(its.uniform * -factor, largest_int), m = uniform(linear{{{remains.arguments[1], 1}}}, largest_int);
            if (x.lo.defined() && x.hi.defined() && x.hi.type() == Int(32) && c.type() == Int(32)) {
                const Expr last = divide_down(x.hi - c, m) * m + c;
                return select(m > 0, 0 <= c && c < m && last >= x.lo, yes());
            }
        }
    }
    interval a = of_side(its.of_query, true, in), b = of_side(its.of_key * -1, false, in);
    if (!its.uniform.terms.empty() || its.uniform.constant != 0) {
        const auto size = [&](const linear& sum) { return magnitude_of(sum, known_.magnitudes); };
        const double others = size(its.of_query) + size(its.of_key) + size(its.of_both);
        const Expr constant = uniform(its.uniform, others);
        const bool fits = others <= largest_int / 4 && size(its.uniform) <= largest_int / 4;
        const auto end = [&](const Expr& e) {
            return !e.defined() ? e : its.of_query.terms.empty() ? constant : fits || is_cut(its.uniform, others) ? e + constant : cast<int64_t>(e) + cast<int64_t>(constant);
        };
        a = {end(a.lo), end(a.hi)};
    }
    for (const auto& [node, factor] : its.of_both.terms) {
        const interval x = range(node, in);
        const auto end = [&](const Expr& e) { return e.defined() ? cast<int64_t>(e) * Expr(std::int64_t{factor}) : e; };
        a = add(a, factor > 0 ? interval{end(x.lo), end(x.hi)} : interval{end(x.hi), end(x.lo)});
    }
    switch (f.what) {
        case formula::is::positive: return may_exceed(a, b);
        case formula::is::zero: return equal(a, b).may;
        default: return either(may_exceed(a, b), may_exceed(b, a));
    }
}

// Ranges of numbers.

coverage::parts coverage::split(const linear& sum) const {
    parts result;
    result.uniform.constant = sum.constant;
    for (const auto& [node, factor] : sum.terms) {
        const dependence& on = known_.depends[node];
        linear& part = is_uniform(on) ? result.uniform : on.score || (on.query && on.key) ? result.of_both : on.query ? result.of_query : result.of_key;
        part.terms[node] = factor;
    }
    return result;
}

/// A number that is passed may be as large as it likes. Beside others that are small, it is cut where it changes nothing.
bool coverage::is_cut(const linear& sum, double others) const {
    if (sum.terms.size() != 1 || others + static_cast<double>(std::abs(sum.constant)) > largest_int / 4) return false;
    const auto [node, factor] = *sum.terms.begin();
    return is_passed(request_.graph.nodes[node]) && std::abs(factor) == 1;
}

Expr coverage::uniform(const linear& sum, double others) {
    pointwise here = at(0, 0);
    if (!is_cut(sum, others)) return value_of(sum, here, known_);
    const auto [node, factor] = *sum.terms.begin();
    const Expr cut = as_limit(here(node).value), constant = static_cast<int>(sum.constant);
    return factor > 0 ? cut + constant : constant - cut;
}

interval coverage::of_side(const linear& sum, bool of_query, const sides& in) {
    if (sum.terms.empty()) return point(0);
    const side& here = of_query ? in.queries : in.keys;
    const tile_tables::place place{of_query, of_query ? at_.query_tile : at_.key_block, at_.h, at_.b};
    const dependence on = generators::depends_on(sum, known_.depends);
    const direction goes = direction_of(sum, known_.directions);
    if (goes != direction::none) {
        const side& all = of_query ? whole_.queries : whole_.keys;
        const auto is_reduction = [&](const auto& term) { return known_.reduces[term.first]; };
        const bool whole = here.where.empty() && here.first.same_as(all.first) && here.last.same_as(all.last);
        if (whole && on.bound == 0 && std::any_of(sum.terms.begin(), sum.terms.end(), is_reduction)) return tables_.ends(sum, place);
        pointwise at_first = at(here.first, here.first), at_last = at(here.last, here.last);
        const Expr first = value_of(sum, at_first, known_), last = value_of(sum, at_last, known_);
        if (goes == direction::up) return {first, last};
        if (goes == direction::down) return {last, first};
        return {min(first, last), max(first, last)};
    }
    if (on.bound == 0) return tables_.range(sum, here.where, place);
    interval result = point(Internal::make_zero(Int(64)));
    for (const auto& [node, factor] : sum.terms) {
        const interval x = sum.terms.size() == 1 ? compute(node, in) : range(node, in);
        const auto end = [&](const Expr& e) { return e.defined() ? cast<int64_t>(e) * Expr(std::int64_t{factor}) : e; };
        result = add(result, factor > 0 ? interval{end(x.lo), end(x.hi)} : interval{end(x.hi), end(x.lo)});
    }
    return result;
}

interval coverage::range(const linear& sum, const sides& in) {
    const parts its = split(sum);
    interval result = point(uniform(its.uniform, largest_int));
    const bool wide = magnitude_of(sum, known_.magnitudes) >= largest_int / 2;
    const auto include = [&](interval x) {
        const auto end = [&](const Expr& e) { return e.defined() && wide ? cast<int64_t>(e) : e; };
        result = add({end(result.lo), end(result.hi)}, {end(x.lo), end(x.hi)});
    };
    if (!its.of_query.terms.empty()) include(of_side(its.of_query, true, in));
    if (!its.of_key.terms.empty()) include(of_side(its.of_key, false, in));
    for (const auto& [node, factor] : its.of_both.terms) {
        const interval x = range(node, in);
        include(multiply(x, point(Expr(static_cast<int>(factor)))));
    }
    return result;
}

interval coverage::range(int number, const sides& in) {
    const instruction& node = request_.graph.nodes[number];
    const dependence& on = known_.depends[number];
    if (is_uniform(on)) {
        const quantity x = at(0, 0)(number);
        interval one = point(x.value);
        if (x.hidden.defined()) one.hidden = {x.hidden, x.hidden};
        return one;
    }
    if (node.is == kind::integer) {
        const linear sum = reader_.sum(number);
        if (sum != linear{{{number, 1}}}) return range(sum, in);
        if (!on.score && on.query != on.key) return of_side(sum, on.query, in);
    } else if (is_one_sided(on) && node.op != operation::to_real) {
        return tables_.range(number, {on.query, on.query ? at_.query_tile : at_.key_block, at_.h, at_.b});
    }
    return compute(number, in);
}

interval coverage::compute(int number, const sides& in) {
    const instruction& node = request_.graph.nodes[number];
    const auto argument = [&](int i) { return range(node.arguments[i], in); };
    switch (node.op) {
        case operation::to_real:
            if (request_.graph.nodes[node.arguments[0]].is == kind::condition) {
                const verdict v = decide(node.arguments[0]);
                return {select(v.must, 1.0f, 0.0f), select(v.may, 1.0f, 0.0f)};
            }
            return to_real(argument(0));
        case operation::to_integer:
            if (request_.graph.nodes[node.arguments[0]].is == kind::condition) {
                const verdict v = decide(node.arguments[0]);
                return {select(v.must, 1, 0), select(v.may, 1, 0)};
            }
            return {};
        case operation::negate: return negate(argument(0));
        case operation::absolute: return absolute(argument(0));
        case operation::add: return add(argument(0), argument(1));
        case operation::subtract: return subtract(argument(0), argument(1));
        case operation::multiply: return multiply(argument(0), argument(1));
        case operation::divide: return divide(argument(0), argument(1));
        case operation::remainder: return remainder(argument(0), argument(1));
        case operation::minimum: return minimum(argument(0), argument(1));
        case operation::maximum: return maximum(argument(0), argument(1));
        case operation::bit_and: return bit_and(argument(0), argument(1));
        case operation::bit_or:
        case operation::bit_xor: return bit_or(argument(0), argument(1));
        case operation::shift_left: return shift_left(argument(0), argument(1));
        case operation::shift_right: return shift_right(argument(0), argument(1));
        case operation::where: return choose(decide(node.arguments[0]), argument(1), argument(2));
        case operation::mask: {
            interval masked = argument(0);
            masked.hidden = masked.hidden || !decide(node.arguments[1]);
            return masked;
        }
        case operation::exp: return {0.0f, {}};
        case operation::tanh:
        case operation::erf: return {-1.00001f, 1.00001f};
        case operation::log:
        case operation::sqrt:
        case operation::rsqrt: return {{}, {}, argument(0).hidden};
        case operation::load: return enumerate(number, in);
        case operation::sum: return reduce(number);
        default: return {};
    }
}

/// What a sum is made of, term by term.
interval coverage::reduce(int number) {
    const instruction& node = request_.graph.nodes[number];
    RDom each(0, max(at(0, 0)(node.arguments[1]).value, 0), "each");
    coverage within = inside(static_cast<int>(request_.graph.nodes[node.arguments[0]].integer), each);
    const interval x = within.range(node.arguments[2], whole_);
    const auto total = [&](const Expr& end) { return end.defined() ? sum(each, end.type().is_float() ? end : cast<int64_t>(end), "total") : Expr(); };
    interval result{total(x.lo), total(x.hi)};
    if (result.lo.defined() && result.hi.defined() && result.lo.type().is_float()) {  // in any order
        const Expr slack = sum(each, max(abs(x.lo), abs(x.hi)), "slack") * (1.0f / (1 << 11));
        result = {result.lo - slack, result.hi + slack};
    }
    const auto any = [&](const Expr& c) { return is_const(c) ? c : is_set(maximum(each, byte(c), "any_hidden")); };
    result.hidden = {any(x.hidden.may), any(x.hidden.must)};
    return result;
}

/// How many values a number takes over a tile, as far as its formula shows.
double coverage::width(int number) const {
    const instruction& node = request_.graph.nodes[number];
    const dependence& on = known_.depends[number];
    if (is_uniform(on)) return 1;
    const auto of = [&](int i) { return width(node.arguments[i]); };
    const auto constant = [&](int i) { return std::max<double>(static_cast<double>(request_.graph.nodes[node.arguments[i]].integer), 1); };
    const auto is_constant = [&](int i) { return request_.graph.nodes[node.arguments[i]].op == operation::constant; };
    constexpr double unknown = 1e9;
    switch (node.op) {
        case operation::q_idx: return request_.schedule.query_block;
        case operation::kv_idx: return request_.schedule.key_block;
        case operation::add:
        case operation::subtract: return of(0) + of(1) - 1;
        case operation::minimum:
        case operation::maximum: return std::max(of(0), of(1));
        case operation::divide: return is_constant(1) ? std::ceil(of(0) / constant(1)) + 1 : is_uniform(known_.depends[node.arguments[1]]) ? 2 : unknown;
        case operation::shift_right: return is_constant(1) ? std::ceil(of(0) / std::exp2(constant(1))) + 1 : unknown;
        case operation::negate: return of(0);
        default: return unknown;
    }
}

/// A tensor read at few places: all of them are looked at.
interval coverage::enumerate(int number, const sides& in) {
    const instruction& node = request_.graph.nodes[number];
    const quantity anywhere = at(0, 0)(number);
    const Expr one = byte(yes()), none = byte(no());
    const verdict unknown_hidden = anywhere.hidden.defined() ? verdict{} : never();
    interval unknown{{}, {}, unknown_hidden};
    std::vector<std::pair<int, interval>> varying;
    for (int i = 1; i < node.argument_count; ++i) {
        const int index = node.arguments[i];
        if (is_uniform(known_.depends[index])) continue;
        const interval positions = width(index) <= most_places ? range(index, in) : interval{};
        if (!positions.lo.defined() || !positions.hi.defined() || positions.lo.type() != Int(32)) return unknown;
        if (std::none_of(varying.begin(), varying.end(), [&](const auto& v) { return v.first == index; })) varying.push_back({index, positions});
    }
    if (varying.empty() || varying.size() > 2) return unknown;
    std::vector<Halide::Range> extents;
    for (std::size_t i = 0; i < varying.size(); ++i) extents.emplace_back(0, most_places);
    RDom each(extents, "places");
    place here{at_.b, at_.h, 0, 0, keys_, fixed_, {}, indices_};
    Expr few = yes();
    for (std::size_t i = 0; i < varying.size(); ++i) {
        const interval& positions = varying[i].second;
        here.known[varying[i].first] = {min(positions.lo + each[static_cast<int>(i)], max(positions.hi, positions.lo)), {}};
        few = both(few, positions.hi - positions.lo < most_places);
    }
    const quantity x = pointwise(request_, inputs_, known_.depends, here)(number);
    if (node.is == kind::condition) {
        const Expr all = is_set(minimum(each, byte(x.value), "all_places")), any = is_set(maximum(each, byte(x.value), "any_place"));
        return {select(few && all, 1, 0), select(few && !any, 0, 1)};
    }
    const Type type = node.is == kind::integer ? Int(64) : Float(32);
    const Expr value = cast(type, x.value), far = type.is_float() ? Expr(3.4e38f) : Internal::make_const(type, std::int64_t{1} << 31);
    interval result{select(few, minimum(each, value, "least"), -far), select(few, maximum(each, value, "most"), far), never()};
    if (x.hidden.defined())
        result.hidden = {!few || maximum(each, byte(x.hidden), "any_hidden") == one, few && minimum(each, byte(x.hidden), "all_hidden") != none};
    return result;
}

/// A number of queries or of keys that takes few values in a tile, at which a tensor under a node is read; -1 where there is none.
int coverage::few_valued_index(int number) const {
    const instruction& node = request_.graph.nodes[number];
    for (int i = 0; i < node.argument_count; ++i) {
        const int argument = node.arguments[i];
        const bool is_index = node.op == operation::load && i > 0 && is_one_sided(known_.depends[argument]);
        if (is_index && width(argument) <= most_places) return argument;
        if (const int below = few_valued_index(argument); below >= 0) return below;
    }
    return -1;
}

verdict coverage::any_of(int number) {
    const instruction& node = request_.graph.nodes[number];
    RDom each(0, max(at(0, 0)(node.arguments[1]).value, 0), "each");
    coverage within = inside(static_cast<int>(request_.graph.nodes[node.arguments[0]].integer), each);
    const verdict v = within.decide(node.arguments[2]);
    return {is_set(maximum(each, byte(v.may), "may_any")), is_const(v.must) ? v.must : is_set(maximum(each, byte(v.must), "must_any"))};
}

/// Conditions that are no comparisons of integers.
verdict coverage::decide_real(int number, const sides& in) {
    const instruction& node = request_.graph.nodes[number];
    const auto argument = [&](int i) { return range(node.arguments[i], in); };
    switch (node.op) {
        case operation::equal: return equal(argument(0), argument(1));
        case operation::not_equal: return !equal(argument(0), argument(1));
        case operation::less: return less(argument(0), argument(1));
        case operation::less_equal: return less_equal(argument(0), argument(1));
        case operation::greater: return less(argument(1), argument(0));
        case operation::greater_equal: return less_equal(argument(1), argument(0));
        case operation::load: {
            const interval zero_or_one = enumerate(number, in);
            return zero_or_one.lo.defined() ? verdict{zero_or_one.hi > 0, zero_or_one.lo > 0} : verdict{};
        }
        case operation::any: {
            // Read at few places, tensors are looked at one place at a time: of two tiles' lists, what lies between them does not count.
            const int index = few_valued_index(number);
            const interval positions = index < 0 ? interval{} : range(index, in);
            if (!positions.lo.defined() || !positions.hi.defined()) return any_of(number);
            RDom each(0, most_places, "place");
            const verdict v = where_is(index, min(positions.lo + each, max(positions.hi, positions.lo))).any_of(number);
            const Expr few = positions.hi - positions.lo < most_places;
            return {!few || is_set(maximum(each, byte(v.may), "may_at_places")), few && is_set(minimum(each, byte(v.must), "must_at_places"))};
        }
        default: return {};
    }
}

}  // namespace attune::generators

#include "block_mask/block_mask.hpp"

#include "expr/math.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace attune::generators::inline block_mask {
using namespace Halide;

namespace {

/// Least and most comparisons of ends; an undefined end says nothing.
Expr may_exceed(const interval& a, const interval& b) { return less(b, a).may; }

bool is_compare(const formula& f) { return f.what == formula::is::positive || f.what == formula::is::zero; }

}  // namespace

tile_mask::tile_mask(tile_tables& tables, tile at)
    : request_(tables.request()),
      inputs_(tables.inputs()),
      tables_(tables),
      its_(std::make_shared<const facts>(tables.known())),
      known_(*its_),
      at_(std::move(at)),
      keys_(inputs_.keys_in_use(at_.b)),
      reader_(request_.graph(), known_.depends, known_.wraps, request_.facts->makes_infinity) {
    const auto [query_block, key_block] = request_.blocks();
    const Expr query = at_.query_tile * query_block, key = at_.key_block * key_block;
    whole_.queries = {query, min(query + query_block, inputs_.query_length) - 1, {}};
    whole_.keys = {key, min(key + key_block, keys_) - 1, {}};
}

tile_mask::tile_mask(const tile_mask& outer, std::shared_ptr<const facts> its, std::map<int, Expr> indices,
                     std::map<int, quantity> fixed)
    : request_(outer.request_),
      inputs_(outer.inputs_),
      tables_(outer.tables_),
      its_(std::move(its)),
      known_(*its_),
      at_(outer.at_),
      indices_(std::move(indices)),
      fixed_(std::move(fixed)),
      keys_(outer.keys_),
      reader_(request_.graph(), known_.depends, known_.wraps, request_.facts->makes_infinity),
      whole_(outer.whole_) {}

verdict tile_mask::visible(int scores) {
    const Expr first = whole_.keys.first;
    const formula seen = reader_.visible(scores);
    return {both(first < keys_, may(seen)), both(first + request_.blocks().key_block <= keys_, opposite(may(!seen)))};
}

verdict tile_mask::masked(int scores) {
    const formula seen = reader_.visible(scores);
    return {may(!seen), opposite(may(seen))};
}

verdict tile_mask::decide(int node) {
    const formula condition = reader_.condition(node);
    return {may(condition), opposite(may(!condition))};
}

pointwise tile_mask::at(const Expr& q, const Expr& k) const {
    return pointwise(request_, inputs_, known_.depends, {at_.b, at_.h, q, k, keys_, fixed_, {}, indices_});
}

tile_mask tile_mask::inside(int index, const Expr& value) const {
    std::map<int, Expr> indices = indices_;
    indices[index] = value;
    return tile_mask(*this, its_, std::move(indices), fixed_);
}

tile_mask tile_mask::where_is(int node, const Expr& value) const {
    std::map<int, quantity> fixed = fixed_;
    fixed[node] = {value, {}};
    std::set<int> given;
    for (const auto& [number, known] : fixed) given.insert(number);
    return tile_mask(*this, std::make_shared<const facts>(*request_.facts, dependences(request_.graph(), given)),
                     indices_, std::move(fixed));
}

// Which pairs a statement leaves: sound for whatever the statement is, exact for what is said below.

Expr tile_mask::may(const formula& f) {
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
Expr tile_mask::may_all(const std::vector<formula>& parts) {
    constexpr std::size_t most_cases = 8;
    std::vector<formula> plain, alternatives;
    for (const formula& part : parts) {
        const dependence on = depends_on(part);
        (part.what == formula::is::any && !is_one_sided(on) && !is_uniform(on) ? alternatives : plain).push_back(part);
    }
    std::sort(alternatives.begin(), alternatives.end(),
              [](const formula& a, const formula& b) { return a.parts.size() < b.parts.size(); });
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

/// Whether one pair may have some properties together, of its query, of its key and of both.
///
/// Exact for one comparison of a sum of queries' numbers and keys' numbers, whatever these are; for several that bound
/// the same sum from two sides; and for several that bound keys between two numbers of a query, or queries between two
/// numbers of a key.
Expr tile_mask::joint(const std::vector<formula>& literals) {
    statements said;
    Expr result = yes();
    for (const formula& f : literals) {
        const dependence on = depends_on(f);
        if (is_about(f, known_.of_lists)) continue;
        if (is_uniform(on)) {
            pointwise here = at(0, 0);
            result = both(result, holds(f, here, known_));
        } else {
            (!is_one_sided(on) ? said.of_pairs : said.of_side(on.query)).push_back(f);
        }
    }
    if (!add_what_follows(said)) return no();
    sides in = whole_;
    for (const bool of_queries : {true, false}) {
        if (said.of_side(of_queries).empty()) continue;
        side& of = of_queries ? in.queries : in.keys;
        restrict(of, of_queries, said.of_side(of_queries));
        result = both(result, of.first <= of.last);
    }
    for (const formula& f : said.of_pairs) result = both(result, may_literal(f, in));
    bool by_queries = false, by_keys = false;
    for (auto a = said.of_pairs.begin(); a != said.of_pairs.end(); ++a)
        for (auto b = a + 1; b != said.of_pairs.end(); ++b) {
            if (!is_compare(*a) || !is_compare(*b)) continue;
            result = both(result, may_compare_both(*a, *b));
            by_queries |= are_bounds(*a, *b, true), by_keys |= are_bounds(*a, *b, false);
        }
    if (by_queries) result = both(result, may_by_rows(said.of_pairs, in, true));
    if (by_keys) result = both(result, may_by_rows(said.of_pairs, in, false));
    return result;
}

/// Adds what two statements about pairs imply together. False if they exclude each other.
bool tile_mask::add_what_follows(statements& said) {
    const std::size_t count = said.of_pairs.size();
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < count; ++j) {
            const auto anew = i == j ? std::nullopt : reader_.given(said.of_pairs[i], said.of_pairs[j]);
            if (!anew) continue;
            if (*anew == always_false()) return false;
            const dependence on = depends_on(*anew);
            if (!is_one_sided(on))
                said.of_pairs.push_back(*anew);
            else if (!is_uniform(on) && anew->exact.empty())
                said.of_side(on.query).push_back(*anew);
        }
    return true;
}

/// Whether two comparisons may hold together that bound one sum from two sides: x >= 1 and y >= 1 give x + y >= 2. All
/// others may, as far as this looks.
Expr tile_mask::may_compare_both(const formula& a, const formula& b) {
    const bool a_equal = a.what == formula::is::zero, b_equal = b.what == formula::is::zero;
    const linear sum = a.sum + b.sum, difference = a.sum - b.sum;
    const auto is_fixed = [&](const linear& x) { return is_uniform(generators::depends_on(x, known_.depends)); };
    formula together{.what = a_equal && b_equal ? formula::is::zero : formula::is::positive};
    if (is_fixed(sum))
        together.sum = !a_equal && !b_equal ? sum + -1 : sum;
    else if (is_fixed(difference) && (a_equal || b_equal))
        together.sum = a_equal ? difference * -1 : difference;
    else
        return yes();
    pointwise here = at(0, 0);
    const Expr holds_of_sum = holds(together, here, known_);
    return either(either(may_wrap(a), may_wrap(b)), holds_of_sum);
}

/// Whether two inequalities bound keys between two numbers of each query, or queries between two numbers of each key,
/// and these neither rise nor fall with the position.
bool tile_mask::are_bounds(const formula& a, const formula& b, bool of_each_query) const {
    if (a.what == formula::is::zero || b.what == formula::is::zero) return false;
    if (!split(a.sum).of_both.terms.empty() || !split(b.sum).of_both.terms.empty()) return false;
    const parts together = split(a.sum + b.sum);
    const linear &bounded = of_each_query ? together.of_key : together.of_query,
                 &bounds = of_each_query ? together.of_query : together.of_key;
    return bounded.terms.empty() && direction_of(bounds, known_.directions) == direction::none;
}

/// Tests each query by itself against the range of the keys, or each key against that of the queries.
Expr tile_mask::may_by_rows(const std::vector<formula>& literals, const sides& in, bool by_queries) {
    const side& rows = by_queries ? in.queries : in.keys;
    RDom row(0, by_queries ? request_.blocks().query_block : request_.blocks().key_block, "row");
    const Expr position = min((by_queries ? whole_.queries.first : whole_.keys.first) + row,
                              max((by_queries ? inputs_.query_length : keys_) - 1, 0));
    pointwise here = at(position, position);
    Expr result = rows.first <= position && position <= rows.last;
    for (const formula& f : rows.where) result = result && holds(f, here, known_);
    for (const formula& f : literals) {
        if (!is_compare(f)) continue;
        const parts of = split(f.sum);
        if (!of.of_both.terms.empty()) continue;
        const Expr value = value_of((by_queries ? of.of_query : of.of_key) + of.uniform, here, known_);
        const interval other = of_side((by_queries ? of.of_key : of.of_query) * -1, !by_queries, in);
        const Expr may =
            f.what == formula::is::positive ? may_exceed(point(value), other) : equal(point(value), other).may;
        result = result && either(may_wrap(f), may);
    }
    return is_set(maximum(row, byte(result), "any_row"));
}

/// Whether, over the tile, some integer of a comparison may wrap around: its sum then does not decide it.
Expr tile_mask::may_wrap(const formula& f) {
    const auto end = [](std::int64_t number) { return Internal::make_const(Int(64), number); };
    Expr result = no();
    for (const linear& exact : f.exact) {
        const interval x = range(exact, whole_);
        if (!x.lo.defined() || !x.hi.defined()) return yes();
        const Expr stays = cast<std::int64_t>(x.lo) >= end(std::numeric_limits<std::int32_t>::min()) &&
                           cast<std::int64_t>(x.hi) <= end(std::numeric_limits<std::int32_t>::max());
        result = either(result, !stays);
    }
    return result;
}

/// Clips a side by a bound of its position, q_idx >= n. False if the statement has another form.
bool tile_mask::clip(const formula& f, side& of, bool of_queries) {
    if (!is_compare(f)) return false;
    const parts its = split(f.sum);
    const linear& position = of_queries ? its.of_query : its.of_key;
    if (position.terms.size() != 1) return false;
    const auto [node, factor] = *position.terms.begin();
    if (request_.graph().nodes[node].op != (of_queries ? operation::q_idx : operation::kv_idx)) return false;
    const int times = static_cast<int>(std::abs(factor));
    if (times > 1024 || (f.what == formula::is::zero && times != 1)) return false;
    // factor * position + rest >= 1, or == 0
    Expr rest = uniform(its.uniform, times * longest);
    const bool is_large =
        !is_cut(its.uniform, times * longest) && magnitude_of(its.uniform, known_.magnitudes) > largest_int / 2;
    if (is_large) rest = cast<std::int64_t>(rest);
    const auto bound = [](const Expr& x) {  // no position is beyond it
        const Expr far = Internal::make_const(x.type(), 1 << 30);
        return x.type() == Int(32) ? x : cast<int>(clamp(x, -far, far));
    };
    const Expr wraps = may_wrap(f);
    const auto first = [&](const Expr& at) { of.first = select(wraps, of.first, max(of.first, bound(at))); };
    const auto last = [&](const Expr& at) { of.last = select(wraps, of.last, min(of.last, bound(at))); };
    if (f.what == formula::is::zero) {
        const Expr only = factor > 0 ? -rest : rest;
        first(only), last(only);
    } else if (factor > 0) {
        first(times == 1 ? 1 - rest : (times - rest) / times);
    } else {
        last(times == 1 ? rest - 1 : (rest - 1) / times);
    }
    return true;
}

void tile_mask::restrict(side& of, bool of_queries, std::vector<formula> where) {
    std::sort(where.begin(), where.end());
    bool all_clip = true;
    side clipped = of;
    for (const formula& f : where) all_clip = clip(f, clipped, of_queries) && all_clip;
    clipped.where = where;
    if (all_clip) {
        of = std::move(clipped);
        return;
    }
    const interval left =
        tables_.positions(where, {of_queries, of_queries ? at_.query_tile : at_.key_block, at_.h, at_.b});
    of = {max(clipped.first, left.lo), min(clipped.last, left.hi), std::move(where)};
}

Expr tile_mask::may_literal(const formula& f, const sides& in) {
    switch (f.what) {
        case formula::is::flag: {
            const verdict v = decide_real(f.node, in);
            return f.negated ? opposite(v.must) : v.may;
        }
        case formula::is::masked: {
            const verdict v = range(f.node, in).masked;
            return f.negated ? opposite(v.must) : v.may;
        }
        case formula::is::all:
        case formula::is::any: return may(f);
        case formula::is::positive:
        case formula::is::zero:
        case formula::is::nonzero: break;
    }
    return either(may_wrap(f), may_compare(f, in));
}

/// Queries' numbers on one side, keys' numbers on the other: no arithmetic joins them, so nothing is lost.
Expr tile_mask::may_compare(const formula& f, const sides& in) {
    const parts its = split(f.sum);
    const bool one_term = its.of_both.terms.size() == 1 && its.of_query.terms.empty() && its.of_key.terms.empty();
    if (f.what == formula::is::zero && one_term) {
        // x % m == c if the range of x contains the next number that is c after a multiple of m.
        const auto [node, factor] = *its.of_both.terms.begin();
        const instruction& remains = request_.graph().nodes[node];
        if (remains.op == operation::remainder && std::abs(factor) == 1 &&
            is_uniform(known_.depends[remains.arguments[1]])) {
            const interval x = range(remains.arguments[0], in);
            const Expr c = uniform(its.uniform * -factor, largest_int),
                       m = uniform(linear{{{remains.arguments[1], 1}}}, largest_int);
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
        Expr constant = uniform(its.uniform, others);
        if (!is_cut(its.uniform, others) && size(its.uniform) > largest_int / 2) constant = cast<int64_t>(constant);
        const bool fits = others <= largest_int / 4 && size(its.uniform) <= largest_int / 4;
        const auto end = [&](const Expr& e) {
            return !e.defined()                          ? e
                   : its.of_query.terms.empty()          ? constant
                   : fits || is_cut(its.uniform, others) ? e + constant
                                                         : cast<int64_t>(e) + cast<int64_t>(constant);
        };
        a = {end(a.lo), end(a.hi)};
    }
    for (const auto& [node, factor] : its.of_both.terms) {
        const interval x = range(node, in);
        const auto end = [&](const Expr& e) { return e.defined() ? cast<int64_t>(e) * Expr(std::int64_t{factor}) : e; };
        a = add(a, factor > 0 ? interval{end(x.lo), end(x.hi)} : interval{end(x.hi), end(x.lo)});
    }
    if (f.what == formula::is::positive) return may_exceed(a, b);
    if (f.what == formula::is::zero) return equal(a, b).may;
    return either(may_exceed(a, b), may_exceed(b, a));
}

}  // namespace attune::generators::inline block_mask

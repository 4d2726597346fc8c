#include "block_mask/block_mask.hpp"
#include "block_mask/few_places.hpp"
#include "block_mask/function_ranges.hpp"

#include "expr/math.hpp"

#include <attune/ir/visibility.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

// Ranges of numbers over a tile, and of the conditions that are no comparisons of integers.

namespace attune::generators::inline block_mask {
using namespace Halide;

namespace {

constexpr int most_places = 5, most_chosen_places = 16;  // of each index at which a tensor is read

using of_two = interval (*)(const interval&, const interval&);
constexpr by_operation<family::arithmetic, of_two> of_arithmetic{
    {operation::negate, [](const interval& a, const interval&) { return negate(a); }},
    {operation::absolute, [](const interval& a, const interval&) { return absolute(a); }},
    {operation::add, add},
    {operation::subtract, subtract},
    {operation::multiply, multiply},
    {operation::divide, divide},
    {operation::remainder, remainder},
    {operation::minimum, minimum},
    {operation::maximum, maximum}};
constexpr by_operation<family::bits, of_two> of_bits{{operation::bit_and, bit_and},
                                                     {operation::bit_or, bit_or},
                                                     {operation::bit_xor, bit_or},
                                                     {operation::shift_left, shift_left},
                                                     {operation::shift_right, shift_right}};

struct comparison_rule {
    verdict (*is)(const interval&, const interval&);
    bool is_turned;  ///< of the second argument and the first
};
constexpr by_operation<family::comparison, comparison_rule> comparisons{
    {operation::equal, {equal, false}},
    {operation::not_equal, {[](const interval& a, const interval& b) { return !equal(a, b); }, false}},
    {operation::less, {less, false}},
    {operation::less_equal, {less_equal, false}},
    {operation::greater, {less, true}},
    {operation::greater_equal, {less_equal, true}}};

}  // namespace

tile_mask::parts tile_mask::split(const linear& sum) const {
    parts result;
    result.uniform.constant = sum.constant;
    for (const auto& [node, factor] : sum.terms) {
        const dependence& on = known_.depends[node];
        linear& part = is_uniform(on)                     ? result.uniform
                       : on.score || (on.query && on.key) ? result.of_both
                       : on.query                         ? result.of_query
                                                          : result.of_key;
        part.terms[node] = factor;
    }
    return result;
}

/// A number of the call may be arbitrarily large. Beside small numbers it is clamped if that changes nothing.
bool tile_mask::is_cut(const linear& sum, double others) const {
    if (sum.terms.size() != 1 || others + static_cast<double>(std::abs(sum.constant)) > largest_int / 4) return false;
    const auto [node, factor] = *sum.terms.begin();
    return is_passed(request_.graph().nodes[node]) && std::abs(factor) == 1;
}

Expr tile_mask::uniform(const linear& sum, double others) {
    pointwise here = at(0, 0);
    if (!is_cut(sum, others)) return value_of(sum, here, known_);
    const auto [node, factor] = *sum.terms.begin();
    const Expr cut = as_limit(here(node).value), constant = static_cast<int>(sum.constant);
    return factor > 0 ? cut + constant : constant - cut;
}

interval tile_mask::of_side(const linear& sum, bool of_query, const sides& in) {
    if (sum.terms.empty()) return point(0);
    const side& here = of_query ? in.queries : in.keys;
    const tile_tables::place place{of_query, of_query ? at_.query_tile : at_.key_block, at_.h, at_.b};
    const dependence on = generators::depends_on(sum, known_.depends);
    const direction goes = direction_of(sum, known_.directions);
    if (goes != direction::none) {
        const side& all = of_query ? whole_.queries : whole_.keys;
        const auto is_reduction = [&](const auto& term) { return known_.reduces[term.first]; };
        const bool whole = here.where.empty() && here.first.same_as(all.first) && here.last.same_as(all.last);
        if (whole && on.bound == 0 && std::any_of(sum.terms.begin(), sum.terms.end(), is_reduction))
            return tables_.ends(sum, place);
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

interval tile_mask::range(const linear& sum, const sides& in) {
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

interval tile_mask::range(int number, const sides& in) {
    const instruction& node = request_.graph().nodes[number];
    const dependence& on = known_.depends[number];
    if (is_uniform(on)) {
        const quantity x = at(0, 0)(number);
        interval one = point(x.value);
        if (x.masked.defined()) one.masked = {x.masked, x.masked};
        if (x.value.type().is_float() && !is_const(x.value)) one.nan = holds_nan(x.value);
        return one;
    }
    if (node.kind == kind::integer) {
        const linear sum = reader_.sum(number);
        if (sum != linear{{{number, 1}}}) return range(sum, in);
        if (!on.score && on.query != on.key) return of_side(sum, on.query, in);
    } else if (is_one_sided(on) && node.op != operation::to_real) {
        return tables_.range(number, {on.query, on.query ? at_.query_tile : at_.key_block, at_.h, at_.b});
    }
    return compute(number, in);
}

namespace {

/// The range in i64, wide enough for a result of arithmetic on two i32.
interval in_i64(const interval& a) {
    const auto end = [](const Expr& e) { return e.defined() ? cast<std::int64_t>(e) : e; };
    return {end(a.lo), end(a.hi)};
}

}  // namespace

interval tile_mask::compute(int number, const sides& in) {
    const instruction& node = request_.graph().nodes[number];
    interval result;
    if (about(node.op).interval != interval_rule::open) result = of_operation(number, in);
    const bool is_integer = node.kind == kind::integer, is_real = !is_integer && node.kind != kind::condition;
    if (is_real && !result.lo.defined() && !result.hi.defined()) result.nan = yes();
    if (is_integer && known_.wraps.here[number]) return within_i32(result);
    const bool taken = node.op == operation::negate || node.op == operation::subtract || node.op == operation::multiply;
    if (taken && request_.facts->makes_infinity[number]) result.masked.may = yes();
    if (node.op == operation::divide && is_real && !result.lo.defined()) result.masked.may = yes();
    return result;
}

namespace {

/// The result of an operation whose arguments may be masked.
interval with_masked(const instruction& node, interval made, const interval& a, const interval& b) {
    const visibility rule = visibility_of(node);
    if (rule == visibility::as_first) made.masked = a.masked || made.masked;
    if (rule == visibility::as_both) made.masked = (a.masked || b.masked) || made.masked;
    if (rule == visibility::as_either) made.masked = (a.masked && b.masked) || made.masked;
    return made;
}

}  // namespace

interval tile_mask::of_operation(int number, const sides& in) {
    const instruction& node = request_.graph().nodes[number];
    const auto argument = [&](int i) { return i < node.argument_count ? range(node.arguments[i], in) : interval{}; };
    switch (family_of(node.op)) {
        case family::conversion: {
            const bool to_reals = node.op == operation::to_real;
            if (request_.graph().nodes[node.arguments[0]].kind != kind::condition)
                return to_reals ? to_real(argument(0)) : interval{};
            const verdict v = decide(node.arguments[0]);
            if (to_reals) return {select(v.must, 1.0f, 0.0f), select(v.may, 1.0f, 0.0f)};
            return {select(v.must, 1, 0), select(v.may, 1, 0)};
        }
        case family::arithmetic: {
            interval a = argument(0), b = argument(1);
            if (known_.wraps.here[number]) a = in_i64(a), b = in_i64(b);
            return with_masked(node, of_arithmetic[node.op](a, b), a, b);
        }
        case family::bits: return of_bits[node.op](argument(0), argument(1));
        case family::selection: return choose(decide(node.arguments[0]), argument(1), argument(2));
        case family::attention: {  // a mask
            interval masked = argument(0);
            masked.masked = masked.masked || !decide(node.arguments[1]);
            return masked;
        }
        case family::function: {
            const interval x = argument(0);
            return with_masked(node, function_range(node.op, x), x, {});
        }
        case family::function_of_two: {
            const interval x = argument(0), y = argument(1);
            return with_masked(node, function_range(node.op, x, y), x, y);
        }
        case family::tensors: return enumerate(number, in);
        case family::sums: return node.op == operation::sum ? reduce(number) : interval{{}, {}, verdict{}};
        case family::patterns:
            return node.kind == kind::real ? interval{{}, {}, verdict{}} : interval{};  // a real may be -infinity
        case family::terminal:
        case family::classification:  // conditions are decided, not bounded
        case family::comparison:
        case family::logic:
        case family::recurrent:
        case family::random: break;
    }
    return {};
}

/// The range of a sum, term by term.
interval tile_mask::reduce(int number) {
    const instruction& node = request_.graph().nodes[number];
    const int index = static_cast<int>(request_.graph().nodes[node.arguments[0]].integer);
    const RDom each(0, max(at(0, 0)(node.arguments[1]).value, 0), "each_" + std::to_string(index));
    tile_mask within = inside(index, each.x);
    const interval x = within.range(node.arguments[2], whole_);
    const auto total = [&](const Expr& end) {
        return end.defined() ? sum(each, end.type().is_float() ? end : cast<int64_t>(end), "total") : Expr();
    };
    interval result{total(x.lo), total(x.hi)};
    if (node.kind == kind::integer && known_.magnitudes[number] >= largest_int) result = within_i32(result);
    if (result.lo.defined() && result.hi.defined() && result.lo.type().is_float()) {  // in any order
        const Expr slack = sum(each, max(abs(x.lo), abs(x.hi)), "slack") * (1.0f / (1 << 11));
        result = {result.lo - slack, result.hi + slack};
    }
    const auto any = [&](const Expr& c) { return is_const(c) ? c : is_set(maximum(each, byte(c), "any_hidden")); };
    result.masked = {any(x.masked.may), any(x.masked.must)};
    result.nan = any(x.nan);
    for (const Expr& end : {result.lo, result.hi}) result.nan = either(result.nan, is_not_finite(end));
    return result;
}

/// How many values a number takes over a tile, as far as its formula shows.
double tile_mask::width(int number) const {
    const instruction& node = request_.graph().nodes[number];
    const dependence& on = known_.depends[number];
    if (is_uniform(on)) return 1;
    const auto of = [&](int i) { return width(node.arguments[i]); };
    const auto constant = [&](int i) {
        return std::max<double>(static_cast<double>(request_.graph().nodes[node.arguments[i]].integer), 1);
    };
    const auto is_constant = [&](int i) { return request_.graph().nodes[node.arguments[i]].op == operation::constant; };
    constexpr double unknown = 1e9;
    if (node.op == operation::q_idx) return request_.blocks().query_block;
    if (node.op == operation::kv_idx) return request_.blocks().key_block;
    if (node.op == operation::add || node.op == operation::subtract) return of(0) + of(1) - 1;
    if (node.op == operation::minimum || node.op == operation::maximum) return std::max(of(0), of(1));
    if (node.op == operation::divide)
        return is_constant(1)                                  ? std::ceil(of(0) / constant(1)) + 1
               : is_uniform(known_.depends[node.arguments[1]]) ? 2
                                                               : unknown;
    if (node.op == operation::shift_right && is_constant(1)) return std::ceil(of(0) / std::exp2(constant(1))) + 1;
    return node.op == operation::negate ? of(0) : unknown;
}

/// One of the numbers that an index takes in a tile, the last one again beyond them. Queries and keys of the index are
/// those of the call: a tile may have more.
Expr tile_mask::one_of(int index, const interval& positions, const Expr& number) const {
    const Expr position = min(positions.lo + number, max(positions.hi, positions.lo));
    const operation op = request_.graph().nodes[index].op;
    if (op != operation::q_idx && op != operation::kv_idx) return position;
    return clamp(position, 0, max(op == operation::q_idx ? inputs_.query_length : inputs_.key_length, 1) - 1);
}

/// The places at which a tile reads a tensor, if they are few. Empty if they are many, or not known.
tile_mask::few_places tile_mask::places_of(int load, const sides& in) {
    const instruction& node = request_.graph().nodes[load];
    const bool is_choice = chooses(request_.graph().nodes[node.arguments[0]].op);
    const int most = is_choice ? most_chosen_places : most_places;
    few_places found;
    for (int i = 1; i < node.argument_count; ++i) {
        const int index = node.arguments[i];
        if (is_uniform(known_.depends[index])) continue;
        if (is_choice && request_.graph().nodes[index].op == operation::q_idx) {
            found.of_each_query = true;
            continue;
        }
        const bool is_known = width(index) <= most && !known_.wraps.here[index];
        const interval positions = is_known ? range(index, in) : interval{};
        if (!positions.lo.defined() || !positions.hi.defined() || positions.lo.type() != Int(32)) return {};
        if (std::ranges::find(found.along, index, &few_places::axis::index) == found.along.end())
            found.along.push_back({index, positions, is_choice ? int(width(index)) : most});
    }
    const std::size_t most_axes = found.of_each_query ? 1 : 2;
    return found.along.size() <= most_axes ? found : few_places{};
}

/// A tensor that is read at few places: looks at all of them.
interval tile_mask::enumerate(int number, const sides& in) {
    const instruction& node = request_.graph().nodes[number];
    if (known_.depends[number].score) return {{}, {}, verdict{}};  // the place is known once the score is
    const quantity anywhere = at(0, 0)(number);
    const few_places read = places_of(number, in);
    if (read.along.empty()) return {{}, {}, anywhere.masked.defined() ? verdict{} : never()};
    std::vector<Halide::Range> places;
    for (const few_places::axis& axis : read.along) places.emplace_back(0, axis.most);
    RDom each_place(places, "each_place");
    place here{at_.b, at_.h, 0, 0, keys_, fixed_, {}, indices_};
    Expr few = yes();
    for (std::size_t i = 0; i < read.along.size(); ++i) {
        const auto& [index, positions, most] = read.along[i];
        here.known[index] = {one_of(index, positions, each_place[static_cast<int>(i)]), {}};
        few = both(few, positions.hi - positions.lo < most);
    }
    if (read.of_each_query) {
        const few_places::axis& keys = read.along.front();
        return condition_at_places(tables_.over_queries(number, keys.index, here.known[keys.index].value, keys.most,
                                                        {true, at_.query_tile, at_.h, at_.b}),
                                   each_place, few);
    }
    const quantity x = pointwise(request_, inputs_, known_.depends, here)(number);
    if (node.kind != kind::condition)
        return number_at_places(x, node.kind == kind::integer ? Int(64) : Float(32), each_place, few);
    return condition_at_places({byte(x.value), byte(x.value)}, each_place, few);
}

/// A number of queries or of keys that takes few values in a tile, at which a tensor under a node is read; -1 if there
/// is none.
int tile_mask::few_valued_index(int number) const {
    const instruction& node = request_.graph().nodes[number];
    for (int i = 0; i < node.argument_count; ++i) {
        const int argument = node.arguments[i];
        const bool is_index = node.op == operation::load && i > 0 && is_one_sided(known_.depends[argument]);
        if (is_index && width(argument) <= most_places && !known_.wraps.here[argument]) return argument;
        if (const int below = few_valued_index(argument); below >= 0) return below;
    }
    return -1;
}

verdict tile_mask::any_of(int number) {
    const instruction& node = request_.graph().nodes[number];
    const int index = static_cast<int>(request_.graph().nodes[node.arguments[0]].integer);
    const RDom each(0, max(at(0, 0)(node.arguments[1]).value, 0), "each_" + std::to_string(index));
    tile_mask within = inside(index, each.x);
    const verdict v = within.decide(node.arguments[2]);
    return {is_set(maximum(each, byte(v.may), "may_any")),
            is_const(v.must) ? v.must : is_set(maximum(each, byte(v.must), "must_any"))};
}

/// Conditions that are no comparisons of integers.
verdict tile_mask::decide_real(int number, const sides& in) {
    const instruction& node = request_.graph().nodes[number];
    const auto argument = [&](int i) { return range(node.arguments[i], in); };
    if (family_of(node.op) == family::comparison) {
        const auto& [is, is_turned] = comparisons[node.op];
        return is_turned ? is(argument(1), argument(0)) : is(argument(0), argument(1));
    }
    if (node.op == operation::load) {
        const interval zero_or_one = enumerate(number, in);
        return zero_or_one.lo.defined() ? verdict{zero_or_one.hi > 0, zero_or_one.lo > 0} : verdict{};
    }
    if (node.op != operation::any) return {};  // which is always right
    // Tensors that are read at few places are looked at one place at a time: elements between the entries of two tiles'
    // lists do not count.
    const int index = few_valued_index(number);
    const interval positions = index < 0 ? interval{} : range(index, in);
    if (!positions.lo.defined() || !positions.hi.defined()) return any_of(number);
    RDom read_place(0, most_places, "read_place");
    const verdict v = where_is(index, one_of(index, positions, read_place)).any_of(number);
    const Expr few = positions.hi - positions.lo < most_places;
    return {!few || is_set(maximum(read_place, byte(v.may), "may_at_places")),
            few && is_set(minimum(read_place, byte(v.must), "must_at_places"))};
}

}  // namespace attune::generators::inline block_mask

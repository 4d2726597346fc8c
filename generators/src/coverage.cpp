#include "coverage.hpp"

#include "numbers.hpp"

#include <cmath>

namespace attune::generators {
using namespace Halide;

Func tile_tables::tabulate(int node) {
    if (const auto known = tables_.find(node); known != tables_.end()) return known->second;
    const dependence& depends = depends_[node];
    const int block = depends.query ? request_.schedule.query_block : request_.schedule.key_block;
    Var t("tile"), h("h"), b("b");
    const Expr keys = depends.batch ? inputs_.keys_in_use(b) : min(inputs_.most_keys_in_use(), inputs_.key_length);
    const Expr end = depends.query ? inputs_.query_length : keys;
    RDom i(0, block, "in_tile");
    const Expr position = t * block + i;
    i.where(position < end);

    // Algorithm
    quantity x = pointwise(request_, inputs_, depends_, {b, h, position, position, keys, {}})(node);
    if (x.value.type().is_bool()) x.value = cast<int>(x.value);
    const Type type = x.value.type();
    const Expr lowest = type.is_float() ? Expr(-3.4e38f) : type.min(), highest = type.is_float() ? Expr(3.4e38f) : type.max();
    std::vector<Var> at{t};
    if (depends.head) at.push_back(h);
    if (depends.batch) at.push_back(b);
    Func extremes("extremes_" + std::to_string(node));  // (tile, head, batch), where they matter
    const std::vector<Expr> index(at.begin(), at.end());
    if (x.hidden.defined()) {  // smallest, largest, any hidden, all hidden
        const Expr is_hidden = cast<uint8_t>(x.hidden);
        extremes(at) = Tuple(highest, lowest, cast<uint8_t>(0), cast<uint8_t>(1));
        extremes(index) =
            Tuple(min(extremes(index)[0], select(x.hidden, highest, x.value)), max(extremes(index)[1], select(x.hidden, lowest, x.value)),
                  max(extremes(index)[2], is_hidden), min(extremes(index)[3], is_hidden));
    } else {
        extremes(at) = Tuple(highest, lowest);
        extremes(index) = Tuple(min(extremes(index)[0], x.value), max(extremes(index)[1], x.value));
    }

    // Schedule
    extremes.compute_root();
    return tables_.emplace(node, extremes).first->second;
}

interval tile_tables::range(int node, const Expr& t, const Expr& h, const Expr& b) {
    const Func extremes = tabulate(node);
    std::vector<Expr> at{t};
    if (depends_[node].head) at.push_back(h);
    if (depends_[node].batch) at.push_back(b);
    const FuncRef found = extremes(at);
    if (extremes.outputs() == 2) return {found[0], found[1]};
    return {found[0], found[1], {found[2] != cast<uint8_t>(0), found[3] != cast<uint8_t>(0)}};
}

coverage::coverage(const kernel_request& request, const kernel_inputs& inputs, const std::vector<dependence>& depends, tile_tables& tables,
                   tile at)
    : request_(request), inputs_(inputs), depends_(depends), tables_(tables), at_(std::move(at)), keys_(inputs.keys_in_use(at_.b)) {}

verdict coverage::visible(int scores) {
    const Expr first = at_.key_block * request_.schedule.key_block;
    const verdict inside{first < keys_, first + request_.schedule.key_block <= keys_};
    return inside && !hidden(scores);
}

interval coverage::range(int node) {
    if (const auto done = ranges_.find(node); done != ranges_.end()) return done->second;
    return ranges_.emplace(node, compute(node)).first->second;
}

verdict coverage::decide(int node) {
    if (const auto done = verdicts_.find(node); done != verdicts_.end()) return done->second;
    return verdicts_.emplace(node, compute_verdict(node)).first->second;
}

interval coverage::compute(int number) {
    const instruction& node = request_.graph.nodes[number];
    const dependence& depends = depends_[number];
    if (!depends.query && !depends.key && !depends.score) {  // one value for the tile
        const quantity x = pointwise(request_, inputs_, depends_, {at_.b, at_.h, 0, 0, keys_, {}})(number);
        interval one = point(x.value);
        if (x.hidden.defined()) one.hidden = {x.hidden, x.hidden};
        return one;
    }
    if (depends.irregular && depends.query != depends.key && !depends.score && depends.bound == 0)
        return tables_.range(number, depends.query ? at_.query_tile : at_.key_block, at_.h, at_.b);

    const auto argument = [&](int i) { return range(node.arguments[i]); };
    const int queries = request_.schedule.query_block, keys = request_.schedule.key_block;
    switch (node.op) {
        case operation::q_idx: return {at_.query_tile * queries, min(at_.query_tile * queries + queries, inputs_.query_length) - 1};
        case operation::kv_idx: return {at_.key_block * keys, min(at_.key_block * keys + keys, keys_) - 1};
        case operation::to_real: {
            if (request_.graph.nodes[node.arguments[0]].is != kind::condition) return to_real(argument(0));
            const verdict v = decide(node.arguments[0]);
            return {select(v.must, 1.0f, 0.0f), select(v.may, 1.0f, 0.0f)};
        }
        case operation::to_integer: {
            if (request_.graph.nodes[node.arguments[0]].is == kind::condition) {
                const verdict v = decide(node.arguments[0]);
                return {select(v.must, 1, 0), select(v.may, 1, 0)};
            }
            return {};
        }
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
        case operation::load: {
            // Read by query and key together: nothing is known but that integers and bytes are never hidden.
            const bool may_hide = node.is == kind::real && inputs_.tensor(request_.graph.nodes[node.arguments[0]].input).type().is_float();
            return {{}, {}, may_hide ? verdict{} : never()};
        }
        default: return {};
    }
}

verdict coverage::compute_verdict(int number) {
    const instruction& node = request_.graph.nodes[number];
    const dependence& depends = depends_[number];
    if (!depends.query && !depends.key && !depends.score) {
        const Expr c = pointwise(request_, inputs_, depends_, {at_.b, at_.h, 0, 0, keys_, {}}).condition(number);
        return {c, c};
    }
    if (depends.irregular && depends.query != depends.key && !depends.score && depends.bound == 0) {
        const interval zero_or_one = tables_.range(number, depends.query ? at_.query_tile : at_.key_block, at_.h, at_.b);
        return {zero_or_one.hi > 0, zero_or_one.lo > 0};
    }
    const auto argument = [&](int i) { return range(node.arguments[i]); };
    const auto limit = [&](int i) {
        interval side = argument(i);
        if (!is_passed(request_.graph.nodes[node.arguments[i]])) return side;
        if (side.lo.defined()) side.lo = as_limit(side.lo);
        if (side.hi.defined()) side.hi = as_limit(side.hi);
        return side;
    };
    switch (node.op) {
        case operation::equal: return equal(argument(0), argument(1));
        case operation::not_equal: return !equal(argument(0), argument(1));
        case operation::less: return less(limit(0), limit(1));
        case operation::less_equal: return less_equal(limit(0), limit(1));
        case operation::greater: return less(limit(1), limit(0));
        case operation::greater_equal: return less_equal(limit(1), limit(0));
        case operation::logical_and: return decide(node.arguments[0]) && decide(node.arguments[1]);
        case operation::logical_or: return decide(node.arguments[0]) || decide(node.arguments[1]);
        case operation::logical_not: return !decide(node.arguments[0]);
        case operation::where: {
            const verdict c = decide(node.arguments[0]), x = decide(node.arguments[1]), y = decide(node.arguments[2]);
            verdict result = (c && x) || (!c && y);
            return result;
        }
        default: return {};
    }
}

}  // namespace attune::generators

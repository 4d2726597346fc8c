#include "expr/pointwise.hpp"

#include "expr/math.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace attune::generators {
using namespace Halide;

namespace {

Expr either(const Expr& a, const Expr& b) { return !a.defined() ? b : !b.defined() ? a : a || b; }

/// Folds a function of a constant, so that rsqrt(depth) costs nothing.
template <class Fold> bool fold(const Expr& x, Expr& result, Fold&& function) {
    const auto constant = as_const_float(x);
    if (!constant) return false;
    result = static_cast<float>(function(*constant));
    return true;
}

/// How far to shift: never beyond what the machine can.
Expr bits(const Expr& x) { return cast<uint32_t>(x) & cast<uint32_t>(31); }

Expr real_function(operation op, const Expr& x) {
    Expr folded;
    switch (op) {
        case operation::exp: return fold(x, folded, [](double v) { return std::exp(v); }) ? folded : exponential(x);
        case operation::log: return fold(x, folded, [](double v) { return std::log(v); }) ? folded : log(x);
        case operation::tanh:
            return fold(x, folded, [](double v) { return std::tanh(v); }) ? folded : hyperbolic_tangent(x);
        case operation::erf: return fold(x, folded, [](double v) { return std::erf(v); }) ? folded : error_function(x);
        case operation::sqrt: return fold(x, folded, [](double v) { return std::sqrt(v); }) ? folded : sqrt(x);
        default: return fold(x, folded, [](double v) { return 1 / std::sqrt(v); }) ? folded : 1.0f / sqrt(x);
    }
}

}  // namespace

quantity pointwise::evaluate(int node, bool as_index) {
    if (const auto known = at_.known.find(node); known != at_.known.end()) return known->second;
    const std::pair key{node, as_index};
    if (const auto done = done_.find(key); done != done_.end()) return done->second;
    const quantity result = compute(request_.graph.nodes[node], as_index);
    done_.emplace(key, result);
    return result;
}

Expr pointwise::number(const instruction& node, bool as_index) {
    switch (node.op) {
        case operation::b: return at_.b;
        case operation::h: return at_.h;
        // What is read stays inside the tensors; a pair beyond the lengths is masked or not written.
        case operation::q_idx: return as_index ? clamp(at_.q, 0, inputs_.query_length - 1) : at_.q;
        case operation::kv_idx: return as_index ? clamp(at_.k, 0, max(at_.key_limit, 1) - 1) : at_.k;
        case operation::d_idx: return at_.d;
        case operation::bound: return at_.indices.at(static_cast<int>(node.integer));
        case operation::depth: return request_.depths.depth;
        case operation::value_depth: return request_.depths.value_depth;
        case operation::query_length: return inputs_.query_length;
        case operation::key_length: return inputs_.key_length;
        case operation::heads: return inputs_.heads;
        case operation::key_heads: return inputs_.key_heads;
        case operation::batches: return inputs_.batches;
        case operation::kv_lengths: return inputs_.keys_in_use(at_.b);
        default: throw std::runtime_error("a kernel cannot compute one of this graph's nodes");
    }
}

bool pointwise::length_is_given(operation formed) const {
    for (const instruction& node : request_.graph.nodes) {
        const bool alike = node.op == formed || (formed == operation::keys && node.op == operation::values);
        if (alike && node.argument_count > 1) return true;
    }
    return false;
}

/// An element of tokens or of an output: what the kernel computed itself has no -infinity.
quantity pointwise::load_computed(const instruction& node) {
    const Func& tensor = inputs_.computed.at(node.arguments[0]);
    const instruction& of = request_.graph.nodes[node.arguments[0]];
    const auto index = [&](int i, const Expr& extent) {
        return clamp(evaluate(node.arguments[i + 1], true).value, 0, extent - 1);
    };
    const auto bare = [&](int i, operation op) { return request_.graph.nodes[node.arguments[i + 1]].op == op; };
    const Expr batch = bare(0, operation::b) ? at_.b : index(0, inputs_.batches);
    if (of.op == operation::tokens) {
        const Expr width = pointwise(request_, inputs_, depends_, {})(of.arguments[1]).value;
        return {tensor(index(2, width), index(1, inputs_.query_length), batch), {}};
    }
    return {
        tensor(index(3, request_.depths.value_depth), index(2, inputs_.query_length), index(1, inputs_.heads), batch),
        {}};
}

quantity pointwise::load(const instruction& node) {
    if (request_.graph.nodes[node.arguments[0]].op != operation::input) return load_computed(node);
    const int input = request_.graph.nodes[node.arguments[0]].input;
    const input_declaration& declared = request_.graph.inputs[input];
    const ImageParam& tensor = inputs_.tensor(input);
    std::vector<Expr> at;  // innermost first
    for (int axis = declared.rank - 1; axis >= 0; --axis) {
        const int argument = node.arguments[axis + 1];
        const operation index = request_.graph.nodes[argument].op;
        const axis_kind along = declared.axes[axis].kind;
        const Expr extent = tensor.dim(declared.rank - 1 - axis).extent();
        if (along == axis_kind::key_head && index == operation::h) {
            at.push_back(inputs_.key_head(at_.h));
            continue;
        }
        const Expr position = evaluate(argument, true).value;
        const bool is_channel = along == axis_kind::depth || along == axis_kind::value_depth;
        const bool inside =
            (along == axis_kind::batch && index == operation::b) ||
            (along == axis_kind::head && index == operation::h) ||
            (along == axis_kind::query && index == operation::q_idx && !length_is_given(operation::queries)) ||
            (along == axis_kind::key && index == operation::kv_idx && !length_is_given(operation::keys)) ||
            (is_channel && index == operation::d_idx);
        const bool is_key = along == axis_kind::key && !length_is_given(operation::keys);
        at.push_back(inside ? position : clamp(position, 0, (is_key ? max(at_.key_limit, 1) : extent) - 1));
    }
    const Expr element = tensor(at);
    if (node.kind == kind::condition) return {element != cast(element.type(), 0), {}};
    if (node.kind == kind::integer) return {cast<int>(element), {}};
    const bool narrow = declared.element == element_type::f8_e4m3 || declared.element == element_type::f8_e5m2;
    const Expr value = narrow ? from_f8(declared.element == element_type::f8_e4m3, element) : cast<float>(element);
    // What lies along a depth is an element of a row, never a score: -infinity masks nothing there.
    if (declared.element == element_type::f8_e4m3 || depends_[node.arguments[declared.rank]].channel)
        return {value, {}};
    const Expr masked = is_negative_infinity(value);
    return {select(masked, 0.0f, value), masked};
}

quantity pointwise::compare(operation op, const quantity& x, const quantity& y) {
    if (op == operation::greater || op == operation::greater_equal)
        return compare(op == operation::greater ? operation::less : operation::less_equal, y, x);
    const Expr a = x.value, b = y.value;
    if (!x.masked.defined() && !y.masked.defined()) {
        switch (op) {
            case operation::equal: return {a == b, {}};
            case operation::not_equal: return {a != b, {}};
            case operation::less: return {a < b, {}};
            default: return {a <= b, {}};
        }
    }
    // -infinity is below every number and equal to itself.
    const Expr never = Internal::const_false(), p = x.masked.defined() ? x.masked : never,
               q = y.masked.defined() ? y.masked : never;
    switch (op) {
        case operation::equal: return {(p && q) || (!p && !q && a == b), {}};
        case operation::not_equal: return {(p != q) || (!p && a != b), {}};
        case operation::less: return {!q && (p || a < b), {}};
        default: return {p || (!q && a <= b), {}};
    }
}

quantity pointwise::divide(const instruction& node, const quantity& a, const quantity& b) {
    const Expr masked = either(a.masked, b.masked);
    if (a.value.type().is_int()) return {divide_down(a.value, b.value), {}};
    // Scores over one number of the task are multiplied by its inverse; conditions may ask for equality, so they
    // divide.
    const dependence &dividend = depends_[node.arguments[0]], &divisor = depends_[node.arguments[1]];
    const bool uniform = dividend.score && !divisor.query && !divisor.key && !divisor.score;
    return {uniform ? a.value * (1.0f / b.value) : a.value / b.value, masked};
}

quantity pointwise::reduce(const instruction& node, bool as_index) {
    const Expr extent = max(evaluate(node.arguments[1], false).value, 0);
    const int index = static_cast<int>(request_.graph.nodes[node.arguments[0]].integer);
    if ((depends_[node.arguments[2]].bound >> index & 1) == 0) {  // Halide would add it once
        const quantity x = evaluate(node.arguments[2], as_index);
        const Expr some = extent > 0;
        if (node.op == operation::any) return {x.value && some, {}};
        if (x.value.type().is_int()) return {x.value * extent, {}};
        return {select(some, x.value * cast<float>(extent), 0.0f), x.masked.defined() ? x.masked && some : Expr()};
    }
    RDom each(0, extent, "each");
    place inside = at_;
    inside.indices[index] = each;
    // Anew, as what was computed so far may have been for another index of this name.
    const quantity x = pointwise(request_, inputs_, depends_, std::move(inside)).evaluate(node.arguments[2], as_index);
    const auto for_any = [&](const Expr& condition) {
        return maximum(each, cast<uint8_t>(condition), "any") != cast<uint8_t>(0);
    };
    if (node.op == operation::any) return {for_any(x.value), {}};
    if (x.value.type().is_int()) return {cast<int>(Halide::sum(each, cast<uint32_t>(x.value), "sum")), {}};
    if (!x.masked.defined()) return {Halide::sum(each, x.value, "sum"), {}};
    return {Halide::sum(each, select(x.masked, 0.0f, x.value), "sum"), for_any(x.masked)};
}

quantity pointwise::compute(const instruction& node, bool as_index) {
    if (node.op == operation::load) return load(node);
    if (node.op == operation::sum || node.op == operation::any) return reduce(node, as_index);
    if (node.op == operation::keep) {
        const Expr p = evaluate(node.arguments[0], false).value, seed = evaluate(node.arguments[1], false).value,
                   upper = evaluate(node.arguments[2], false).value;
        const instruction& probability = request_.graph.nodes[node.arguments[0]];
        const auto real = [](double x) { return Internal::make_const(Float(64), x); };
        const Expr exact = probability.op == operation::constant ? real(probability.number) : cast<double>(p);
        const Expr limit = cast<uint64_t>(floor(clamp(exact, real(0), real(1)) * real(4294967296) + real(0.5)));
        const Expr word = philox(seed, upper, at_.b, at_.h, at_.q, at_.k);
        return {word >= cast<uint32_t>(min(limit, cast<uint64_t>(Expr(0xffffffffu)))) &&
                    limit <= cast<uint64_t>(Expr(0xffffffffu)),
                {}};
    }
    if (node.op == operation::extent) {
        const instruction& tensor = request_.graph.nodes[node.arguments[0]];
        return {inputs_.tensor(tensor.input)
                    .dim(request_.graph.inputs[tensor.input].rank - 1 - static_cast<int>(node.integer))
                    .extent(),
                {}};
    }
    if (node.op == operation::constant) {
        if (node.kind == kind::integer) return {static_cast<int>(node.integer), {}};
        if (node.kind == kind::condition)
            return {node.integer != 0 ? Internal::const_true() : Internal::const_false(), {}};
        if (std::isinf(node.number) && node.number < 0) return {0.0f, Internal::const_true()};
        return {static_cast<float>(node.number), {}};
    }
    if (node.op == operation::scalar) return {inputs_.scalar(node.input), {}};
    if (node.argument_count == 0) return {number(node, as_index), {}};

    quantity a = evaluate(node.arguments[0], as_index), b, c;
    if (node.argument_count > 1) b = evaluate(node.arguments[1], as_index);
    if (node.argument_count > 2) c = evaluate(node.arguments[2], as_index);
    const Expr masked = either(a.masked, b.masked);
    switch (node.op) {
        case operation::to_real: return {cast<float>(a.value), a.masked};
        case operation::to_integer: return {cast<int>(a.value), {}};
        case operation::negate: return {-a.value, masked};
        case operation::absolute: return {cast(a.value.type(), abs(a.value)), masked};
        case operation::exp: {
            const Expr e = real_function(node.op, a.value);
            return {a.masked.defined() ? select(a.masked, 0.0f, e) : e, {}};
        }
        case operation::tanh:
        case operation::erf: {
            const Expr e = real_function(node.op, a.value);
            return {a.masked.defined() ? select(a.masked, -1.0f, e) : e, {}};
        }
        case operation::log:
        case operation::sqrt:
        case operation::rsqrt: return {real_function(node.op, a.value), masked};
        case operation::add: return {a.value + b.value, masked};
        case operation::subtract: return {a.value - b.value, masked};
        case operation::multiply: return {a.value * b.value, masked};
        case operation::divide: return divide(node, a, b);
        case operation::remainder: return {remainder_down(a.value, b.value), {}};
        case operation::minimum: return {min(a.value, b.value), masked};
        case operation::maximum: {
            if (!masked.defined()) return {max(a.value, b.value), {}};
            const Expr lowest = std::numeric_limits<float>::lowest();
            const Expr x = a.masked.defined() ? select(a.masked, lowest, a.value) : a.value;
            const Expr y = b.masked.defined() ? select(b.masked, lowest, b.value) : b.value;
            return {max(x, y), a.masked.defined() && b.masked.defined() ? a.masked && b.masked : Expr()};
        }
        case operation::bit_and: return {a.value & b.value, {}};
        case operation::bit_or: return {a.value | b.value, {}};
        case operation::bit_xor: return {a.value ^ b.value, {}};
        case operation::shift_left: return {cast<int>(cast<uint32_t>(a.value) << bits(b.value)), {}};
        case operation::shift_right: return {a.value >> bits(b.value), {}};
        case operation::same:
        case operation::as_row:
        case operation::as_output: return a;
        case operation::where: {
            // `where(c, s, -inf)` keeps s: only `masked` depends on the condition.
            const bool b_never_counts = b.masked.defined() && is_const_one(b.masked),
                       c_never_counts = c.masked.defined() && is_const_one(c.masked);
            const Expr value = b_never_counts   ? c.value
                               : c_never_counts ? b.value
                                                : choose_whole(a.value, b.value, c.value);
            if (!b.masked.defined() && !c.masked.defined()) return {value, {}};
            const Expr never = Internal::const_false();
            const Expr p = b.masked.defined() ? b.masked : never, q = c.masked.defined() ? c.masked : never;
            return {value, (a.value && p) || (!a.value && q)};
        }
        case operation::equal:
        case operation::not_equal: return compare(node.op, a, b);
        case operation::less:
        case operation::less_equal:
        case operation::greater:
        case operation::greater_equal:
            for (const auto& [side, argument] : {std::pair(&a, 0), std::pair(&b, 1)})
                if (is_passed(request_.graph.nodes[node.arguments[argument]])) side->value = as_limit(side->value);
            return compare(node.op, a, b);
        case operation::logical_and: return {a.value && b.value, {}};
        case operation::logical_or: return {a.value || b.value, {}};
        case operation::logical_not: return {!a.value, {}};
        case operation::mask: return {a.value, a.masked.defined() ? a.masked || !b.value : !b.value};
        default: throw std::runtime_error("a kernel cannot compute one of this graph's nodes");
    }
}

}  // namespace attune::generators

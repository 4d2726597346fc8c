// Reads of nodes: inputs, tensors that the kernel computes in full, and tensors that it computes before the first
// score.
#include "expr/math.hpp"
#include "expr/pointwise.hpp"

#include <cstdint>
#include <vector>

namespace attune::generators::inline expr {
using namespace Halide;

/// An element of tokens, an output or a formed tensor: tensors that the kernel computes itself have no -infinity.
quantity pointwise::load_computed(const instruction& node) {
    const Func& tensor = inputs_.computed.at(node.arguments[0]);
    const instruction& of = request_.graph().nodes[node.arguments[0]];
    const auto index = [&](int i, const Expr& extent) {
        return clamp(evaluate(node.arguments[i + 1], true).value, 0, extent - 1);
    };
    const auto bare = [&](int i, operation op) { return request_.graph().nodes[node.arguments[i + 1]].op == op; };
    const Expr batch = bare(0, operation::b) ? at_.b : index(0, inputs_.batches);
    if (of.op == operation::tokens) {
        const Expr width = pointwise(request_, inputs_, depends_, {})(of.arguments[1]).value;
        return {tensor(index(2, width), index(1, inputs_.query_length), batch), {}};
    }
    const bool of_keys = of.op == operation::keys || of.op == operation::values;
    const int depth =
        of.op == operation::queries || of.op == operation::keys ? request_.depths.depth : request_.depths.value_depth;
    return {tensor(index(3, depth), index(2, of_keys ? inputs_.key_length : inputs_.query_length),
                   index(1, inputs_.heads), batch),
            {}};
}

bool pointwise::runs_over(const instruction& index, int extent) const {
    if (index.op != operation::bound) return false;
    const auto known = at_.extents.find(static_cast<int>(index.integer));
    return known != at_.extents.end() && known->second == extent;
}

/// Whether an index is a key in use, or a channel, along an extent of as many: it stays inside. Channels of keys and of
/// values have one name, and those of tokens run over a layer's width.
bool pointwise::is_along(const instruction& index, int extent) const {
    const operation length = request_.graph().nodes[extent].op;
    if (index.op == operation::kv_idx)
        return length == operation::key_length && !length_is_given(request_.graph(), operation::keys);
    return index.op == operation::d_idx && (length == operation::depth || length == operation::value_depth) &&
           request_.depths.depth == request_.depths.value_depth &&
           std::ranges::none_of(request_.graph().nodes,
                                [](const instruction& node) { return node.op == operation::tokens; });
}

bool pointwise::runs_over_channels(const instruction& index, axis_kind along) const {
    if (index.op != operation::bound) return false;
    const auto known = at_.extents.find(static_cast<int>(index.integer));
    return known != at_.extents.end() && request_.graph().nodes[known->second].op ==
                                             (along == axis_kind::depth ? operation::depth : operation::value_depth);
}

/// An element of a tensor that is computed before the first score.
quantity pointwise::load_precomputed(const instruction& node) {
    const graph_ir& graph = request_.graph();
    const int tensor = node.arguments[0];
    const bool chosen = chooses(graph.nodes[tensor].op);
    const instruction& made = graph.nodes[chosen ? graph.nodes[tensor].arguments[0] : tensor];
    const auto index = [&](int i) -> const instruction& { return graph.nodes[node.arguments[i]]; };
    std::vector<Expr> at;  // innermost first
    for (int i = node.argument_count - 1; i > 2; --i) {
        const int extent = made.arguments[2 * (i - 2)];
        const Expr position = evaluate(node.arguments[i], true).value;
        const Expr last = max(pointwise(request_, inputs_, depends_, {})(extent).value, 1) - 1;
        at.push_back(runs_over(index(i), extent)  ? position
                     : is_along(index(i), extent) ? unsafe_promise_clamped(position, 0, last)
                                                  : clamp(position, 0, last));
    }
    const Expr head =
        index(2).op == operation::h ? at_.h : clamp(evaluate(node.arguments[2], true).value, 0, inputs_.heads - 1);
    at.push_back(request_.facts->of_query_heads[tensor] ? head : inputs_.key_head(head));
    at.push_back(index(1).op == operation::b ? at_.b
                                             : clamp(evaluate(node.arguments[1], true).value, 0, inputs_.batches - 1));
    const Expr element = inputs_.computed.at(tensor)(at);
    if (chosen) return {element != cast<std::uint8_t>(0), {}};
    if (element.type() == Int(8)) return {cast<float>(element), {}};  // a code
    if (inputs_.never_masked.contains(tensor)) return {element, {}};
    const Expr masked = is_negative_infinity(element);
    return {select(masked, 0.0f, element), masked};
}

/// Whether an index is the position along the axis itself, and so inside.
bool pointwise::goes_along(const instruction& index, axis_kind along) const {
    const bool is_channel = along == axis_kind::depth || along == axis_kind::value_depth;
    return (along == axis_kind::batch && index.op == operation::b) ||
           (along == axis_kind::head && index.op == operation::h) ||
           (along == axis_kind::query && index.op == operation::q_idx &&
            !length_is_given(request_.graph(), operation::queries)) ||
           (along == axis_kind::key && index.op == operation::kv_idx &&
            !length_is_given(request_.graph(), operation::keys)) ||
           (is_channel && index.op == operation::d_idx) || (is_channel && runs_over_channels(index, along));
}

Expr pointwise::is_inside(int number) {
    const auto [found, is_new] = inside_.try_emplace(number, Internal::const_true());
    const instruction& node = request_.graph().nodes[number];
    if (!is_new || family_of(node.op) == family::sums) return found->second;
    Expr all = Internal::const_true();
    const auto expect = [&](const Expr& holds) { all = is_const_one(all) ? holds : all && holds; };
    const bool chooses = node.op == operation::where;
    if (chooses || node.op == operation::logical_and || node.op == operation::logical_or) {
        const Expr first = condition(node.arguments[0]), others = is_inside(node.arguments[1]);
        expect(is_inside(node.arguments[0]));
        if (chooses)
            expect(select(first, others, is_inside(node.arguments[2])));
        else
            expect(others || (node.op == operation::logical_and ? !first : first));
        return inside_[number] = simplify(all);
    }
    const bool reads = node.op == operation::load && request_.graph().nodes[node.arguments[0]].op == operation::input;
    for (int i = reads ? 1 : 0; i < node.argument_count; ++i) {
        expect(is_inside(node.arguments[i]));
        if (!reads) continue;
        const int input = request_.graph().nodes[node.arguments[0]].input;
        const input_declaration& declared = request_.graph().inputs[input];
        const instruction& index = request_.graph().nodes[node.arguments[i]];
        const axis_kind along = declared.axes[i - 1].kind;
        if (goes_along(index, along) || (along == axis_kind::key_head && index.op == operation::h)) continue;
        if (index.op == operation::d_idx) continue;  // the channels of a row are those that its tensor has
        const Expr position = evaluate(node.arguments[i], true).value;
        expect(position >= 0 && position < inputs_.tensor(input).dim(declared.rank - i).extent());
    }
    return inside_[number] = simplify(all);
}

std::vector<Expr> pointwise::place_of(int load) {
    const instruction& node = request_.graph().nodes[load];
    const int input = request_.graph().nodes[node.arguments[0]].input;
    const input_declaration& declared = request_.graph().inputs[input];
    const ImageParam& tensor = inputs_.tensor(input);
    std::vector<Expr> at;
    if (const auto row = at_.rows.find(load); row != at_.rows.end()) {
        // The bound serves Halide's inference alone, which sees the first row. The address is linear in the innermost
        // index, so that it reaches every other row (tests/generators/caches.tests.cpp).
        at.assign(static_cast<std::size_t>(declared.rank), 0);
        at[0] = unsafe_promise_clamped(row->second + at_.d, 0, tensor.dim(0).extent() - 1);
        return at;
    }
    for (int axis = declared.rank - 1; axis >= 0; --axis) {
        const int argument = node.arguments[axis + 1];
        const operation index = request_.graph().nodes[argument].op;
        const axis_kind along = declared.axes[axis].kind;
        const Expr extent = tensor.dim(declared.rank - 1 - axis).extent();
        if (along == axis_kind::key_head && index == operation::h) {
            at.push_back(inputs_.key_head(at_.h));
            continue;
        }
        const Expr position = evaluate(argument, true).value;
        const bool inside = goes_along(request_.graph().nodes[argument], along);
        const bool is_key = along == axis_kind::key && !length_is_given(request_.graph(), operation::keys);
        const bool is_refused_outside =
            is_of_channels_alone(request_.graph(), depends_, argument) && always_read(request_.graph())[load];
        at.push_back(inside               ? position
                     : is_refused_outside ? unsafe_promise_clamped(position, 0, extent - 1)
                                          : clamp(position, 0, (is_key ? max(at_.key_limit, 1) : extent) - 1));
    }
    return at;
}

Expr pointwise::row_of(int load) {
    const ImageParam& tensor = inputs_.tensor(request_.graph().nodes[request_.graph().nodes[load].arguments[0]].input);
    const std::vector<Expr> at = place_of(load);
    Expr begins = 0;
    for (int axis = 1; axis < static_cast<int>(at.size()); ++axis)
        begins += at[static_cast<std::size_t>(axis)] * tensor.dim(axis).stride();
    return begins;
}

namespace {

/// Tests the bits in memory: a compiler may assume that a conversion makes no infinity.
Expr lies_as_negative_infinity(element_type declared, const Expr& element, const Expr& value) {
    if (element.type() == Float(16)) return reinterpret<std::uint16_t>(element) == cast<std::uint16_t>(Expr(0xfc00));
    if (declared == element_type::f8_e5m2) return element == cast<std::uint8_t>(Expr(0xfc));
    return is_negative_infinity(value);
}

}  // namespace

quantity pointwise::load(const instruction& node) {
    const instruction& of = request_.graph().nodes[node.arguments[0]];
    if (of.kind == kind::precomputed) return load_precomputed(node);
    if (of.op != operation::input) return load_computed(node);
    const input_declaration& declared = request_.graph().inputs[of.input];
    const Expr element = inputs_.tensor(of.input)(place_of(static_cast<int>(&node - request_.graph().nodes.data())));
    if (node.kind == kind::condition) return {element != cast(element.type(), 0), {}};
    if (node.kind == kind::integer) return {cast<int>(element), {}};
    const bool narrow = declared.element == element_type::f8_e4m3 || declared.element == element_type::f8_e5m2;
    const Expr value = narrow ? from_f8(declared.element == element_type::f8_e4m3, element) : cast<float>(element);
    // Along a depth lie elements of a row, never scores: -infinity masks nothing there.
    const axis_kind last = declared.axes[declared.rank - 1].kind;
    const bool of_row = is_precomputing() && (last == axis_kind::depth || last == axis_kind::value_depth);
    if (declared.element == element_type::f8_e4m3 || of_row || depends_[node.arguments[declared.rank]].channel)
        return {value, {}};
    const Expr masked = lies_as_negative_infinity(declared.element, element, value);
    return {select(masked, 0.0f, value), masked};
}

quantity pointwise::extent_of(const instruction& node) {
    const instruction& tensor = request_.graph().nodes[node.arguments[0]];
    const int axis = request_.graph().inputs[tensor.input].rank - 1 - static_cast<int>(node.integer);
    return {inputs_.tensor(tensor.input).dim(axis).extent(), {}};
}

/// An element that lies in the last bits of an integer. -infinity is masked, as in a tensor.
quantity pointwise::element_of_bits(const instruction& node, const Expr& bits) {
    const element_type is = element_in_bits(node);
    if (is == element_type::i8) return {cast<int>(reinterpret<std::int8_t>(cast<std::uint8_t>(bits))), {}};
    if (is == element_type::i16) return {cast<int>(reinterpret<std::int16_t>(cast<std::uint16_t>(bits))), {}};
    const Expr byte = cast<std::uint8_t>(bits), word = cast<std::uint16_t>(bits);
    const Expr element = is == element_type::bf16  ? reinterpret(BFloat(16), word)
                         : is == element_type::f16 ? reinterpret(Float(16), word)
                         : bytes_of(is) == 1       ? byte
                                                   : reinterpret<float>(bits);
    const Expr value = bytes_of(is) == 1 ? from_f8(is == element_type::f8_e4m3, byte) : cast<float>(element);
    if (is == element_type::f8_e4m3 || depends_[node.arguments[0]].channel) return {value, {}};
    const Expr masked = lies_as_negative_infinity(is, element, value);
    return {select(masked, 0.0f, value), masked};
}

}  // namespace attune::generators::inline expr

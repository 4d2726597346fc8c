#include "call/indices/numbers.hpp"
#include "call/indices/indices.hpp"

#include <attune/ir/element.hpp>
#include <attune/ir/stores.hpp>

#include <algorithm>
#include <bit>

namespace attune::detail {
namespace {

constexpr integer_interval anything{};

/// Channels of whatever has most of them.
std::int64_t most_channels(const call_numbers& call) {
    std::int64_t count = std::max({call.shape[axis_kind::depth], call.shape[axis_kind::value_depth], std::int64_t{1}});
    for (const node_id at : call.graph.nodes.ids())
        if (call.node(at).op == operation::tokens)
            count = std::max(count, width_of_tokens(call.shape, call.graph, call.given, at));
    for (const store_declaration& store : call.graph.stores)
        if (const int axis = channel_axis(call.graph.nodes, store); axis >= 0)
            count = std::max(count, call.places(call.node(store.element), static_cast<std::size_t>(axis)));
    return count;
}

/// How far a bound index is counted, by what counts it farthest.
std::int64_t most_counted(const call_numbers& call, std::int64_t index) {
    std::int64_t count = 1;
    for (const instruction& n : call.graph.nodes)
        each_bound_index(n, [&](node_id counted, node_id extent, node_id) {
            if (call.node(counted).integer == index) count = std::max(count, call.number(extent));
        });
    return count;
}

using range_of_terminal = integer_interval (*)(const call_numbers&, node_id);
template <axis_kind Axis> integer_interval positions(const call_numbers& call, node_id) {
    return {0, std::max<std::int64_t>(call.shape[Axis], 1) - 1};
}
template <axis_kind Axis> integer_interval extent_along(const call_numbers& call, node_id) {
    return integer_interval::of(call.shape[Axis]);
}

constexpr by_operation<family::terminal, range_of_terminal> of_terminals{
    {operation::constant,
     [](const call_numbers& call, node_id at) { return integer_interval::of(call.node(at).integer); }},
    {operation::scalar, [](const call_numbers& call, node_id at) { return integer_interval::of(call.number(at)); }},
    {operation::b, positions<axis_kind::batch>},
    {operation::h, positions<axis_kind::head>},
    {operation::q_idx, positions<axis_kind::query>},
    {operation::kv_idx, positions<axis_kind::key>},
    {operation::d_idx, [](const call_numbers& call, node_id) { return integer_interval{0, most_channels(call) - 1}; }},
    {operation::bound, [](const call_numbers& call,
                          node_id at) { return integer_interval{0, most_counted(call, call.node(at).integer) - 1}; }},
    {operation::input, [](const call_numbers&, node_id) { return anything; }},
    {operation::kv_lengths,
     [](const call_numbers& call, node_id) { return integer_interval{0, call.shape[axis_kind::key]}; }},
    {operation::depth, extent_along<axis_kind::depth>},
    {operation::value_depth, extent_along<axis_kind::value_depth>},
    {operation::query_length, extent_along<axis_kind::query>},
    {operation::key_length, extent_along<axis_kind::key>},
    {operation::heads, extent_along<axis_kind::head>},
    {operation::key_heads, extent_along<axis_kind::key_head>},
    {operation::batches, extent_along<axis_kind::batch>}};

integer_interval of_elements(const call_numbers& call, const instruction& load) {
    const named_argument* const read = call.read_by(load);
    const element_type type = read ? read->view.type() : element_type::i32;
    return type == element_type::i32 ? anything : interval_of(type);  // an element of a table is looked at itself
}

}  // namespace

std::int64_t call_numbers::keys_in_use(std::int64_t batch) const {
    const std::int64_t keys = shape[axis_kind::key];
    if (!given.kv_lengths || given.kv_lengths->view.where() != memory::host) return keys;
    const tensor& lengths = given.kv_lengths->view;
    const std::int64_t at = lengths.extent(0) == 1 ? 0 : batch * lengths.stride(0);
    return std::clamp<std::int64_t>(static_cast<const std::int32_t*>(lengths.data())[at], 0, keys);
}

std::int64_t call_numbers::key_head(std::int64_t head) const {
    const std::int64_t heads = shape[axis_kind::head], key_heads = shape[axis_kind::key_head];
    return head / std::max<std::int64_t>(heads / std::max<std::int64_t>(key_heads, 1), 1);
}

int call_numbers::input_of(const instruction& load) const {
    return load.op == operation::deposit ? load.input : node(load.arguments[0]).input;
}

const named_argument* call_numbers::read_by(const instruction& load) const {
    const int input = input_of(load);
    return input >= 0 ? given.inputs[static_cast<std::size_t>(input)] : nullptr;
}

axis_kind call_numbers::along(const instruction& load, std::size_t axis) const {
    if (const int input = input_of(load); input >= 0)
        return graph.inputs[static_cast<std::size_t>(input)].axes[axis].kind;
    const instruction& of = node(load.arguments[0]);
    if (of.kind == kind::precomputed)  // or a choice, which has the axes of what it chooses from
        return axis == 0 ? axis_kind::batch : axis == 1 ? axis_kind::head : axis_kind::free;
    return axes_of_output(of)[axis];
}

std::int64_t call_numbers::places(const instruction& load, std::size_t axis) const {
    const int input = input_of(load);
    const axis_kind is = along(load, axis);
    if (input >= 0)
        return shape.logical(static_cast<std::size_t>(input), is, read_by(load)->view.extent(static_cast<int>(axis)));
    if (node(load.arguments[0]).kind == kind::precomputed && is == axis_kind::free)
        return std::max<std::int64_t>(number(precomputed_reals(graph, load.arguments[0]).arguments[2 * (axis - 1)]), 0);
    if (node(load.arguments[0]).op == operation::tokens && is == axis_kind::free)
        return width_of_tokens(shape, graph, given, load.arguments[0]);
    return shape[is];
}

bool call_numbers::ends_with_keys(const instruction& load, std::size_t axis) const {
    const int input = input_of(load);
    return given.kv_lengths && along(load, axis) == axis_kind::key &&
           (input < 0 || !shape.is_own(static_cast<std::size_t>(input), axis_kind::key)) && !shape.keys_stated;
}

void find_variations(const graph_ir& graph, node_span<variation_bits> to) {
    constexpr variation_bits positions = of_batch | of_head | of_query | of_key | of_channel, all_bound = -of_bound;
    fold(graph.nodes, to, [&](node_id, const instruction& n, const auto& of) {
        const dependences_of_node differs = dependences_at(n, [&](node_id argument) {
            return dependences_of_node{.on = of(argument) & positions, .bound = of(argument) / of_bound};
        });
        variation_bits here =
            (differs.on & positions) | (static_cast<variation_bits>(differs.bound) * of_bound & all_bound);
        // And who knows the number.
        if (n.op == operation::value_idx) here |= of_value_channel;
        if (n.op == operation::extent || about(n.op).family == family::terminal) return here;
        for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i)
            here |= of[i] & (of_tensor | not_before | of_sum);
        if (n.op == operation::load)
            here |= node_of(graph, n.arguments[0]).op == operation::input ? of_tensor : not_before;
        if (family_of(n.op) == family::sums && here != 0) here |= of_sum;
        if (n.op == operation::keep || (n.kind != kind::integer && n.kind != kind::real && n.kind != kind::condition))
            here |= not_before;
        return here;
    });
}

namespace {

/// The integers of a node from those of its arguments, `x(0)`.
template <class Argument>
integer_interval range_of(const call_numbers& call, node_id at, const instruction& n, const Argument& x) {
    if (n.kind == kind::condition) return {0, 1};
    if (n.kind != kind::integer) return anything;
    switch (family_of(n.op)) {
        case family::terminal: return of_terminals[n.op](call, at);
        case family::tensors:
            return n.op == operation::load ? of_elements(call, n) : integer_interval::of(call.number(at));  // an extent
        case family::conversion:
            return call.node(n.arguments[0]).kind == kind::condition ? integer_interval{0, 1} : anything;
        case family::arithmetic:
        case family::bits: return interval_of(n.op, x(0), x(1));
        case family::selection:
            if (n.op == operation::same) return x(0);
            return joined(x(1), x(2));
        case family::sums: {  // of integers: no more terms than counted; what leaves 32 bits wraps around
            const integer_interval all = intervals::times({0, std::max<std::int64_t>(x(1).highest, 0)}, x(2));
            return n.op == operation::sum && all.fits() ? all : anything;
        }
        case family::recurrent:
            return n.op == operation::value_idx ? positions<axis_kind::value_depth>(call, at) : anything;
        case family::patterns: return interval_of(element_in_bits(n)).wrapped();
        case family::function:
        case family::function_of_two:
        case family::classification:
        case family::comparison:
        case family::logic:
        case family::random:
        case family::attention: break;
    }
    return anything;
}

}  // namespace

void find_ranges(const call_numbers& call, node_span<integer_interval> to) {
    fold(call.graph.nodes, to, [&](node_id at, const instruction& n, const auto& of) {
        return range_of(call, at, n, [&](std::size_t i) { return of[i < n.argument_count ? i : 0]; });
    });
}

number_run::number number_run::from_bits(const instruction& n, std::int32_t bits) {
    const auto pattern = static_cast<std::uint32_t>(bits);
    const element_type is = element_in_bits(n);
    if (n.kind == kind::real) return {.real = real_from_bits(is, pattern)};
    return {.integer = integer_from_bits(is, pattern)};
}

}  // namespace attune::detail

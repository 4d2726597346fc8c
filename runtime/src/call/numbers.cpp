#include "call/numbers.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace attune::detail {
namespace {

constexpr std::int64_t least = std::numeric_limits<std::int32_t>::min(),
                       most = std::numeric_limits<std::int32_t>::max();
constexpr number_range anything{least, most};

number_range around(std::initializer_list<std::int64_t> ends) {
    const auto [lowest, highest] = std::minmax(ends);
    return lowest < least || highest > most ? anything : number_range{lowest, highest};  // kernels wrap around
}

number_range range_of_binary(operation op, number_range x, number_range y) {
    switch (op) {
        case operation::add: return around({x.lowest + y.lowest, x.highest + y.highest});
        case operation::subtract: return around({x.lowest - y.highest, x.highest - y.lowest});
        case operation::multiply:
            return around({x.lowest * y.lowest, x.lowest * y.highest, x.highest * y.lowest, x.highest * y.highest});
        case operation::divide:
            if (y.lowest < 1) return anything;
            return around({quotient_of(x.lowest, y.lowest), quotient_of(x.lowest, y.highest),
                           quotient_of(x.highest, y.lowest), quotient_of(x.highest, y.highest)});
        case operation::remainder:
            if (y.lowest < 1) return anything;
            if (x.lowest >= 0 && x.highest < y.lowest) return x;
            return {0, y.highest - 1};
        case operation::minimum: return {std::min(x.lowest, y.lowest), std::min(x.highest, y.highest)};
        case operation::maximum: return {std::max(x.lowest, y.lowest), std::max(x.highest, y.highest)};
        case operation::bit_and:
            if (y.lowest >= 0) return {0, x.lowest >= 0 ? std::min(x.highest, y.highest) : y.highest};
            return x.lowest >= 0 ? number_range{0, x.highest} : anything;
        case operation::shift_right:
            if (y.lowest < 0 || y.highest > 31) return anything;
            return around({x.lowest >> y.lowest, x.lowest >> y.highest, x.highest >> y.lowest, x.highest >> y.highest});
        case operation::same: return x;
        default: return anything;
    }
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

const named_argument* call_numbers::read_by(const instruction& load) const {
    const instruction& of = node(load.arguments[0]);
    return of.op == operation::input ? given.inputs[static_cast<std::size_t>(of.input)] : nullptr;
}

axis_kind call_numbers::along(const instruction& load, std::size_t axis) const {
    const instruction& of = node(load.arguments[0]);
    if (of.op == operation::input) return graph.inputs[static_cast<std::size_t>(of.input)].axes[axis].kind;
    return axes_of_output(of.op == operation::tokens ? kind::tokens : of.kind)[axis];
}

std::int64_t call_numbers::places(const instruction& load, std::size_t axis) const {
    const instruction& of = node(load.arguments[0]);
    const axis_kind is = along(load, axis);
    if (of.op == operation::tokens && is == axis_kind::free)
        return width_of_tokens(shape, graph, given, load.arguments[0]);
    if (of.op != operation::input) return shape[is];
    return shape.logical(static_cast<std::size_t>(of.input), is, read_by(load)->view.extent(static_cast<int>(axis)));
}

bool call_numbers::ends_with_keys(const instruction& load, std::size_t axis) const {
    const instruction& of = node(load.arguments[0]);
    return given.kv_lengths && along(load, axis) == axis_kind::key &&
           !shape.is_own(static_cast<std::size_t>(of.input), axis_kind::key) && !shape.keys_stated;
}

void find_variations(const call_numbers& call, std::span<variation_bits> to) {
    for (std::size_t at = 0; at < call.graph.nodes.size(); ++at) {
        const instruction& n = call.graph.nodes[at];
        variation_bits here = 0;
        for (std::size_t i = n.op == operation::load ? 1 : 0; i < n.argument_count; ++i)
            here |= to[static_cast<std::size_t>(n.arguments[i])];
        switch (n.op) {
            case operation::b:
            case operation::kv_lengths: here = of_batch; break;
            case operation::h: here = of_head; break;
            case operation::q_idx: here = of_query; break;
            case operation::kv_idx: here = of_key; break;
            case operation::d_idx: here = of_channel; break;
            case operation::bound: here = of_bound_index(n.integer); break;
            case operation::extent:
            case operation::input: here = 0; break;
            case operation::load: here |= call.read_by(n) ? of_tensor : not_before; break;
            case operation::sum:
            case operation::any:
                here &= ~to[static_cast<std::size_t>(n.arguments[0])];
                if (here != 0) here |= of_sum;
                break;
            default:
                if (n.op == operation::keep ||
                    (n.kind != kind::integer && n.kind != kind::real && n.kind != kind::condition))
                    here |= not_before;
                break;
        }
        to[at] = here;
    }
}

number_range range_of(const call_numbers& call, int at, std::span<const number_range> below) {
    const instruction& n = call.node(at);
    const auto x = [&](std::size_t i) { return below[static_cast<std::size_t>(n.arguments[i])]; };
    const auto up_to = [](std::int64_t count) { return number_range{0, std::max<std::int64_t>(count, 1) - 1}; };
    const auto exactly = [&](std::int64_t number) { return around({number}); };
    const call_shape& shape = call.shape;
    if (n.kind == kind::condition) return {0, 1};
    if (n.kind != kind::integer) return anything;
    switch (n.op) {
        case operation::constant: return exactly(n.integer);
        case operation::b: return up_to(shape[axis_kind::batch]);
        case operation::h: return up_to(shape[axis_kind::head]);
        case operation::q_idx: return up_to(shape[axis_kind::query]);
        case operation::kv_idx: return up_to(shape[axis_kind::key]);
        case operation::d_idx:
        case operation::bound: return {0, most};
        case operation::kv_lengths: return {0, shape[axis_kind::key]};
        case operation::depth: return exactly(shape[axis_kind::depth]);
        case operation::value_depth: return exactly(shape[axis_kind::value_depth]);
        case operation::query_length: return exactly(shape[axis_kind::query]);
        case operation::key_length: return exactly(shape[axis_kind::key]);
        case operation::heads: return exactly(shape[axis_kind::head]);
        case operation::key_heads: return exactly(shape[axis_kind::key_head]);
        case operation::batches: return exactly(shape[axis_kind::batch]);
        case operation::scalar:
        case operation::extent: return exactly(call.number(at));
        case operation::load: {
            const named_argument* const read = call.read_by(n);
            if (read && read->view.type() == element_type::u8) return {0, 255};
            if (read && read->view.type() == element_type::i16) return {-32768, 32767};
            return read && read->view.type() == element_type::i8 ? number_range{-128, 127} : anything;
        }
        case operation::to_integer:
            return call.node(n.arguments[0]).kind == kind::condition ? number_range{0, 1} : anything;
        case operation::negate: return around({-x(0).lowest, -x(0).highest});
        case operation::absolute:
            return x(0).lowest >= 0       ? x(0)
                   : x(0).lowest == least ? anything
                                          : number_range{0, std::max(-x(0).lowest, std::abs(x(0).highest))};
        case operation::where: return {std::min(x(1).lowest, x(2).lowest), std::max(x(1).highest, x(2).highest)};
        default: return n.argument_count == 2 ? range_of_binary(n.op, x(0), x(1)) : anything;
    }
}

}  // namespace attune::detail

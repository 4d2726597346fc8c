#include "base/text.hpp"
#include "call/shape/shape.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/ir/own_axes.hpp>
#include <attune/ir/recurrence.hpp>
#include <attune/ir/stores.hpp>

#include <attune/runtime/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>

namespace attune::detail {
namespace {

/// The bytes from a tensor's first element to its last, wherever the strides lead; empty for an empty tensor.
struct byte_range {
    const char *begin{}, *end{};
    bool overlaps(const byte_range& other) const {
        return std::less<>{}(begin, other.end) && std::less<>{}(other.begin, end);
    }
};
byte_range range_of(const tensor& t) {
    if (t.empty()) return {};
    const std::int64_t size = bytes_of(t.type());
    if (t.where() == memory::opencl)
        return {static_cast<const char*>(t.data()),
                static_cast<const char*>(t.data()) + 1};  // a handle: only itself is the same memory
    std::int64_t lowest = 0, highest = 0;                 // in elements; check_alone keeps each term below 2^31
    for (int axis = 0; axis < t.rank(); ++axis) {
        const std::int64_t reach = t.extent(axis) > 1 ? (t.extent(axis) - 1) * t.stride(axis) : 0;
        (reach < 0 ? lowest : highest) += reach;
    }
    const auto* const data = static_cast<const char*>(t.data());
    return {data + lowest * size, data + (highest + 1) * size};
}

/// Whether two elements may share an address. Axes are taken by rising stride; each has to step over all that the
/// smaller ones reach.
bool overlaps_itself(const tensor& t) {
    if (t.empty()) return false;
    std::array<std::pair<std::int64_t, std::int64_t>, tensor::max_axes> axes{};  // (stride, extent), by rising stride
    std::size_t count = 0;
    for (int axis = 0; axis < t.rank(); ++axis) {
        if (t.extent(axis) == 1) continue;
        std::size_t at = count++;
        for (; at > 0 && axes[at - 1].first > std::abs(t.stride(axis)); --at) axes[at] = axes[at - 1];
        axes[at] = {std::abs(t.stride(axis)), t.extent(axis)};
    }
    std::int64_t reach = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (axes[i].first <= reach) return true;
        reach += axes[i].first * (axes[i].second - 1);
    }
    return false;
}

void check_writable(std::string_view name, const tensor& t) {
    if (t.read_only())
        fail(say("a tensor that may be written for ", name), "a view of const elements", "a pointer to non-const");
}

void check_shape(std::string_view name, const tensor& t, const output_axes& axes, const output_extents& wanted) {
    for (std::size_t i = 0; i < axes.rank; ++i)
        if (t.shape()[i] != wanted.of[i])
            fail(say(axes.names[i], " extent ", wanted.of[i], " in ", name), shown(name, t),
                 say("the shape ", list_of(wanted.view()), "; what is written does not broadcast"));
}

}  // namespace

std::span<const axis_kind> axes_of_output(const instruction& made) {
    static constexpr axis_kind output[] = {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::value_depth};
    static constexpr axis_kind row[] = {axis_kind::batch, axis_kind::head, axis_kind::query};
    static constexpr axis_kind pairs[] = {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::key};
    static constexpr axis_kind column[] = {axis_kind::batch, axis_kind::head, axis_kind::key};
    static constexpr axis_kind head_mean[] = {axis_kind::batch, axis_kind::query, axis_kind::key};
    static constexpr axis_kind tokens[] = {axis_kind::batch, axis_kind::query, axis_kind::free};
    static constexpr axis_kind precomputed[] = {axis_kind::batch, axis_kind::head, axis_kind::free,
                                                axis_kind::free,  axis_kind::free, axis_kind::free};
    static constexpr axis_kind states[] = {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::depth,
                                           axis_kind::value_depth};
    static constexpr axis_kind last_state[] = {axis_kind::batch, axis_kind::head, axis_kind::depth,
                                               axis_kind::value_depth};
    if (made.op == operation::tokens) return tokens;
    switch (made.kind) {
        case kind::tokens: return tokens;
        case kind::output: return output;
        case kind::states: return states;
        case kind::last_state: return last_state;
        case kind::row: return row;
        case kind::column: return column;
        case kind::head_mean: return head_mean;
        case kind::precomputed: return std::span(precomputed).first(rank_of_precomputed(made));
        default: return pairs;  // scores and weights
    }
}

namespace {
bool has_states_of_key_heads_as_output(const graph_ir& graph, const output_declaration& output) {
    const kind is = kind_of(graph, output);
    return (is == kind::last_state || is == kind::states) &&
           has_states_of_key_heads(graph, recurrence_under(graph.nodes, output.node));
}

/// Whether a graph reads an input at one place alone.
bool is_read_once(const graph_ir& graph, std::size_t input) {
    int reads = 0;
    for (const instruction& it : graph.nodes) {
        if (it.op == operation::extent) continue;
        for (std::size_t i = 0; i < it.argument_count; ++i) {
            const instruction& read = node_of(graph, it.arguments[i]);
            reads += read.op == operation::input && read.input == static_cast<std::int16_t>(input);
        }
    }
    return reads == 1;
}

/// Whether an output is the last states of a recurrence, in the memory of the input that its first ones are: a call
/// goes on in place. Any other reader of that input would read states of some later token.
bool goes_on_in_place(const graph_ir& graph, const matched_arguments& given, const tensor& written, std::size_t input) {
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
        if (!given.outputs[i] || &given.outputs[i]->view != &written) continue;
        const output_declaration& output = graph.outputs[i];
        if (kind_of(graph, output) != kind::last_state) return false;
        const node_id recurrence = recurrence_under(graph.nodes, output.node);
        if (!is_a_state_as_passed(graph, recurrence) || !is_read_once(graph, input)) return false;
        const node_id initial = arguments_of(node_of(graph, recurrence)).initial;
        const tensor& before = given.inputs[input]->view;
        return node_of(graph, node_of(graph, initial).arguments[0]).input == static_cast<std::int16_t>(input) &&
               before.data() == written.data() && std::ranges::equal(before.shape(), written.shape()) &&
               has_equal_steps(before, written);
    }
    return false;
}
}  // namespace

output_axes axes_of_output(const graph_ir& graph, const output_declaration& output) {
    output_axes axes;
    if (const int input = input_of_gradient(graph, output); input >= 0) {
        const input_declaration& d = graph.inputs[static_cast<std::size_t>(input)];
        for (std::size_t axis = 0; axis < d.rank; ++axis)
            axes.kinds[axis] = d.axes[axis].kind, axes.names[axis] = d.axes[axis].name;
        axes.rank = d.rank;
        return axes;
    }
    for (axis_kind axis : axes_of_output(node_of(graph, output.node))) {
        if (axis == axis_kind::head && has_states_of_key_heads_as_output(graph, output)) axis = axis_kind::key_head;
        axes.kinds[axes.rank] = axis;
        axes.names[axes.rank] = axis == axis_kind::free ? name_of_own_axis(graph, output, axes.rank) : name_of(axis);
        ++axes.rank;
    }
    return axes;
}

output_extents extents_of_output(const call_shape& shape, const graph_ir& graph, const matched_arguments& given,
                                 const output_declaration& d) {
    output_extents result;
    const output_axes axes = axes_of_output(graph, d);
    if (const int input = input_of_gradient(graph, d);
        input >= 0) {  // as the call reads it: gradients do not broadcast
        const auto at = static_cast<std::size_t>(input);
        for (; result.rank < axes.rank; ++result.rank)
            result.of[result.rank] = shape.logical(at, axes.kinds[result.rank],
                                                   given.inputs[at]->view.extent(static_cast<int>(result.rank)));
        return result;
    }
    for (const axis_kind axis : axes.view()) {
        result.of[result.rank] = axis != axis_kind::free ? shape[axis]
                                 : kind_of(graph, d) == kind::tokens
                                     ? width_of_tokens(shape, graph, given, d.node)
                                     : number_of_call(shape, graph, given, extent_of_own_axis(graph, d, result.rank));
        ++result.rank;
    }
    return result;
}

element_type output_type(const graph_ir& graph, const matched_arguments& given, const output_declaration& d,
                         element_type chosen) {
    if (const int input = input_of_gradient(graph, d); input >= 0)
        return is_core(graph.inputs[static_cast<std::size_t>(input)])
                   ? given.inputs[static_cast<std::size_t>(input)]->view.type()
                   : element_type::f32;
    return kind_of(graph, d) == kind::output ? chosen : element_type::f32;
}

void check_output_alone(const graph_ir& graph, const output_declaration& d, const tensor& t) {
    const output_axes axes = axes_of_output(graph, d);
    check_alone(d.name, t, std::span(axes.names).first(axes.rank),
                kind_of(graph, d) != kind::row);  // a row may be a column of the caller's table
}

void check_outputs(const graph_ir& graph, const matched_arguments& given, const call_shape& shape,
                   element_type chosen) {
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
        if (!given.outputs[i]) continue;
        const std::string_view name = graph.outputs[i].name;
        const tensor& t = given.outputs[i]->view;
        check_shape(name, t, axes_of_output(graph, graph.outputs[i]),
                    extents_of_output(shape, graph, given, graph.outputs[i]));
        if (const element_type wanted = output_type(graph, given, graph.outputs[i], chosen); t.type() != wanted)
            fail(say(name_of(wanted), " elements in ", name), shown(name, t), say("a tensor of ", name_of(wanted)));
        check_writable(name, t);
    }
    check_apart(graph, given);
}

void check_stored(const graph_ir& graph, const matched_arguments& given, const call_shape& shape) {
    each_stored(graph, [&](std::size_t input) {
        const input_declaration& d = graph.inputs[input];
        const tensor& t = given.inputs[input]->view;
        check_writable(d.name, t);
        output_axes axes{.rank = d.rank};
        output_extents wanted{.rank = d.rank};
        for (std::size_t axis = 0; axis < d.rank; ++axis) {
            axes.names[axis] = d.axes[axis].name;
            wanted.of[axis] = shape.logical(input, d.axes[axis].kind, t.shape()[axis]);
        }
        check_shape(d.name, t, axes, wanted);
    });
}

void check_apart(const graph_ir& graph, const matched_arguments& given) {
    const auto check = [&](std::string_view name, const tensor& t, bool is_output) {
        if (overlaps_itself(t))
            fail(say("elements of ", name, " at distinct addresses"),
                 say("strides ", list_of(t.strides()), " in ", shown(name, t)),
                 "strides that each step over the axes inside");

        const byte_range written = range_of(t);
        const auto look_at = [&](const named_argument* other) {
            if (other && written.overlaps(range_of(other->view)))
                fail(say(name, " apart from ", other->name), "two tensors that overlap in memory",
                     say("another buffer for ", name));
        };
        for (std::size_t in = 0; in < graph.inputs.size(); ++in)
            if (!graph.inputs[in].is_scalar && (is_output || !is_stored(graph, in)) &&
                !(is_output && goes_on_in_place(graph, given, t, in)))
                look_at(given.inputs[in]);
        look_at(given.kv_lengths), look_at(given.cu_seqlens_q);
        for (const named_argument* other : given.outputs) {
            if (!is_output || (other && &other->view == &t)) break;
            look_at(other);
        }
    };
    for (const named_argument* each : given.outputs)
        if (each) check(each->name, each->view, true);
    each_stored(graph, [&](std::size_t input) { check(graph.inputs[input].name, given.inputs[input]->view, false); });
}

void check_copied(const graph_ir& graph, const matched_arguments& given) {
    const auto check = [](const named_argument* each) {
        if (!each || each->is != named_argument::form::view || each->view.where() != memory::host) return;
        const tensor& t = each->view;
        for (int axis = 0; axis < t.rank(); ++axis)
            if (t.stride(axis) < 0 && t.extent(axis) > 1)
                fail(say("no stride below 0 in ", each->name, ", which a call copies to a GPU"),
                     say("strides ", list_of(t.strides()), " in ", shown(each->name, t)),
                     "a copy in ascending order, or a CPU");
    };
    for (const named_argument* each : given.inputs) check(each);
    for (const named_argument* each : given.outputs) check(each);
    check(given.kv_lengths);
    each_stored(graph, [&](std::size_t input) {
        const tensor& t = given.inputs[input]->view;
        if (t.where() != memory::host) return;
        for (std::size_t other = 0; other < input; ++other)
            if (is_stored(graph, other) && given.inputs[other]->view.where() == memory::host &&
                range_of(t).overlaps(range_of(given.inputs[other]->view)))
                fail(say("what a GPU stores to in host memory of its own, ", graph.inputs[input].name, " apart from ",
                         graph.inputs[other].name),
                     "two tensors that overlap there", "the pool in the GPU's memory, or a CPU");
    });
}

}  // namespace attune::detail

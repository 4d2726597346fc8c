#include "call/shape/shape.hpp"
#include "base/text.hpp"

#include <attune/dsl/build.hpp>
#include <attune/ir/block_axes.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace attune::detail {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // Halide counts elements in 32 bits

/// The names of an input's axes, outermost first.
struct axis_names {
    std::array<std::string_view, max_rank> names{};
    std::size_t rank;

    explicit axis_names(const input_declaration& d) : rank(d.rank) {
        for (std::size_t axis = 0; axis < rank; ++axis) names[axis] = d.axes[axis].name;
    }
    std::span<const std::string_view> view() const { return {names.data(), rank}; }
};

std::string signature(std::span<const std::string_view> axes) {
    std::string result;
    for (const auto axis : axes) append(result, result.empty() ? "(" : ", "), append(result, axis);
    return result + ")";
}
std::string signature(const input_declaration& d) { return signature(axis_names(d).view()); }

void check_type(const input_declaration& d, const tensor& t) {
    if (is_core(d) || t.type() == d.element || (d.element == element_type::boolean && t.type() == element_type::u8))
        return;
    fail(say(name_of(d.element), " elements in ", d.name), shown(d.name, t),
         say("a tensor of ", d.element == element_type::boolean ? "bool or std::uint8_t" : name_of(d.element)));
}

[[noreturn]] void refuse(const call_shape& shape, axis_kind axis, std::string_view name, const tensor& t,
                         bool broadcasts, std::string_view attempt) {
    const std::int64_t wanted = shape[axis];
    fail(say(name_of(axis), " extent ", wanted, broadcasts && wanted != 1 ? " or 1" : "", " in ", name, ", as in ",
             shape.from[static_cast<std::size_t>(axis)]),
         shown(name, t), attempt);
}

/// One more tensor that has an axis.
void enter(call_shape& shape, axis_kind axis, std::int64_t extent, std::string_view name, const tensor& t,
           bool broadcasts) {
    const std::int64_t known = shape[axis];
    if (known < 0 || (broadcasts && known == 1))
        shape.set(axis, extent, name);
    else if (known != extent && !(broadcasts && extent == 1))
        refuse(shape, axis, name, t, broadcasts,
               "q (batch, head, query, depth), k (batch, key_head, key, depth) and v (batch, key_head, key, "
               "value_depth) of one call");
}

/// Marks the inputs that are read on the way to `node`.
std::uint64_t inputs_under(const graph_ir& graph, node_id node) {
    node_table<bool> reached{};
    std::uint64_t inputs = 0;
    reached[node] = true;
    for (node_id at = node; at >= 0; --at) {  // arguments lie before their users
        if (!reached[at]) continue;
        const instruction& n = node_of(graph, at);
        if (n.op == operation::input) inputs |= std::uint64_t{1} << n.input;
        for (int i = 0; i < n.argument_count; ++i) reached[n.arguments[static_cast<std::size_t>(i)]] = true;
    }
    return inputs;
}

static_assert(dsl::detail::max_inputs <= 64, "call_shape has a bit for each input");

void find_own_lengths(call_shape& shape, const graph_ir& graph) {
    for (const instruction& n : graph.nodes) {
        if (!states_length(n)) continue;
        (n.op == operation::queries ? shape.own_queries : shape.own_keys) |= inputs_under(graph, n.arguments[0]);
        (n.op == operation::queries ? shape.queries_stated : shape.keys_stated) = true;
        shape.heads_stated |= n.argument_count > 2;
    }
}

void check_heads(const call_shape& shape) {
    const std::int64_t heads = shape[axis_kind::head], key_heads = shape[axis_kind::key_head];
    if (heads == 0 || (key_heads > 0 && heads % key_heads == 0)) return;
    const auto from = [&](axis_kind axis) { return shape.from[static_cast<std::size_t>(axis)]; };
    fail(say("a number of heads in ", from(axis_kind::head), " that is a multiple of those in ",
             from(axis_kind::key_head)),
         say(heads, " and ", key_heads), "key heads that each serve the same number of query heads");
}

/// Whether the graph asks how long an axis of this input is: then it may be empty.
bool extent_is_read(const graph_ir& graph, std::size_t input, int axis) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const instruction& n) {
        return n.op == operation::extent && n.integer == axis &&
               static_cast<std::size_t>(node_of(graph, n.arguments[0]).input) == input;
    });
}

[[noreturn]] void refuse_table(const input_declaration& d, const tensor& t, std::int64_t wanted,
                               std::string_view longer) {
    fail(say("an extent of at least ", wanted, " (the longer of queries and ", longer, ") or 1 along position of ",
             d.name),
         shown(d.name, t), say("an entry for each position: ", d.name, " ", signature(d)));
}

/// An axis whose length the formula says, or how many channels each of its blocks has.
void check_stated(const input_declaration& d, std::size_t axis, const tensor& t, const call_shape& shape) {
    const axis_declaration& over = d.axes[axis];
    const std::int64_t extent = t.extent(static_cast<int>(axis)), step = t.stride(static_cast<int>(axis));
    if (over.length == 0) return;
    if (over.counts == axis_kind::free) {
        if (extent != over.length)
            fail(say(over.length, " elements along ", over.name, " of ", d.name), shown(d.name, t),
                 say("the layout that the formula states: ", d.name, " ", signature(d)));
        return;
    }
    if (const std::int64_t channels = shape[over.counts]; channels != extent * over.length)
        fail(say("blocks of ", over.length, " channels for each of the ", channels, " along ", name_of(over.counts),
                 ", as in ", shape.from[static_cast<std::size_t>(over.counts)], ", along ", over.name, " of ", d.name),
             shown(d.name, t), say("a ", name_of(over.counts), " that is a multiple of ", over.length));
    if (!has_blocks(d) || axis + 2 != d.rank) return;
    if (const std::int64_t bytes = d.axes[axis + 1].length;
        extent > 1 && step != bytes && t.extent(static_cast<int>(axis) + 1) == bytes)
        fail(say("a stride of ", bytes, " along ", over.name, " of ", d.name, ", whose blocks lie side by side"),
             say(step, " in ", shown(d.name, t), " with strides ", list_of(t.strides())),
             "a layout whose bytes count the room between blocks");
}

/// The user's inputs against the shape: each axis at its length, or 1. A table over position that kv_lengths may allow
/// is noted.
void check_extents(const graph_ir& graph, std::size_t input, const tensor& t, call_shape& shape,
                   const named_argument* kv_lengths) {
    const input_declaration& d = graph.inputs[input];
    for (int axis = 0; axis < d.rank; ++axis) {
        const axis_declaration& over = d.axes[static_cast<std::size_t>(axis)];
        const std::int64_t extent = t.extent(axis);
        if (over.kind == axis_kind::free) {
            if (extent < 1 && !extent_is_read(graph, input, axis))
                fail(say("at least one element along ", over.name, " of ", d.name), shown(d.name, t),
                     "a table with an entry");
            check_stated(d, static_cast<std::size_t>(axis), t, shape);
        } else if (shape.is_own(input, over.kind)) {
            continue;
        } else if (over.kind == axis_kind::position) {
            if (extent == 1 || extent >= shape.longest()) continue;
            if (!kv_lengths || kv_lengths->view.where() != memory::host)
                refuse_table(d, t, shape.longest(), kv_lengths ? "slots, as kv_lengths is on a GPU" : "keys");
            shape.tables_of_keys_in_use |= std::uint64_t{1} << input;
        } else if (const bool whole = axis == d.rank - 1 && has_dense_rows(d);
                   extent != shape[over.kind] && (whole || extent != 1)) {
            refuse(shape, over.kind, d.name, t, true,
                   say("the shape ", signature(d), ", where 1 broadcasts", whole ? " but along the last axis" : ""));
        }
    }
}

/// Tables over position that are shorter than the slots. A kernel reads an entry even of a call without keys in use.
void check_tables(const graph_ir& graph, const matched_arguments& given, const call_shape& shape, std::int64_t in_use) {
    const std::int64_t wanted = std::max({shape[axis_kind::query], in_use, std::int64_t{1}});
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        if ((shape.tables_of_keys_in_use >> i & 1) == 0) continue;
        const input_declaration& d = graph.inputs[i];
        const tensor& t = given.inputs[i]->view;
        for (int axis = 0; axis < d.rank; ++axis)
            if (const std::int64_t extent = t.extent(axis);
                d.axes[static_cast<std::size_t>(axis)].kind == axis_kind::position && extent != 1 && extent < wanted)
                refuse_table(d, t, wanted, "keys in use");
    }
}

void check_lengths_tensor(const tensor& t, const call_shape& shape) {
    static constexpr std::string_view axes[] = {name_of(axis_kind::batch)};
    check_alone("kv_lengths", t, axes, false);
    if (t.type() != element_type::i32)
        fail("i32 elements in kv_lengths", shown("kv_lengths", t), "a tensor of std::int32_t");
    if (t.extent(0) != 1 && t.extent(0) != shape[axis_kind::batch])
        refuse(shape, axis_kind::batch, "kv_lengths", t, true, "one length a batch element");
}

}  // namespace

std::int64_t bytes_of(std::span<const std::int64_t> shape, element_type element) {
    std::int64_t bytes = attune::bytes_of(element);
    for (const std::int64_t extent : shape)
        if (extent == 0) return 0;
    for (const std::int64_t extent : shape)
        if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::numeric_limits<std::int64_t>::max();
    return bytes;
}

std::string shown(std::string_view name, const tensor& t) { return say(name, ": ", t.description()); }

bool has_equal_steps(const tensor& one, const tensor& other) {
    for (int axis = 0; axis < one.rank() && !one.empty(); ++axis)
        if (one.extent(axis) > 1 && one.stride(axis) != other.stride(axis)) return false;
    return true;
}

void check_alone(std::string_view name, const tensor& t, std::span<const std::string_view> axes, bool dense_innermost) {
    const int rank = static_cast<int>(axes.size());
    if (t.rank() != rank)
        fail(say(name, " with ", rank, rank == 1 ? " axis " : " axes ", signature(axes)),
             say(t.rank(), t.rank() == 1 ? " axis in " : " axes in ", shown(name, t)),
             t.rank() > rank ? "a view without the axes beyond"
                             : "a view with all of them; an axis that there is only one of has extent 1");
    for (int axis = 0; axis < rank; ++axis) {
        const std::string_view along = axes[static_cast<std::size_t>(axis)];
        if (const std::int64_t extent = t.extent(axis); extent < 0 || extent > most)
            fail(say("an extent from 0 to ", most, " along ", along, " of ", name), std::to_string(extent),
                 "a call for a part of it");
    }
    if (t.empty())
        return;  // where nothing lies, no stride leads and no address counts: NumPy's strides are zeros there
    std::int64_t reach = 1;
    for (int axis = 0; axis < rank; ++axis) {
        const std::string_view along = axes[static_cast<std::size_t>(axis)];
        const std::int64_t extent = t.extent(axis), stride = t.stride(axis);
        if (extent > 1 && (stride > most || stride < -most))
            fail(say("a stride of at most ", most, " elements along ", along, " of ", name), std::to_string(stride),
                 "a denser copy, or a call for each part");
        if (extent > 1 && extent * std::abs(stride) > most)
            fail(say("at most ", most, " elements from the first to the last along ", along, " of ", name),
                 say(extent, " steps of ", std::abs(stride)), "a denser copy, or a call for each part");
        if (extent > 1) reach += (extent - 1) * std::abs(stride);  // below 2^34: each axis is below 2^31
    }
    // Kernels add the steps of all axes in 32 bits.
    if (reach > most)
        fail(say("at most ", most, " elements from the first to the last of ", name),
             say(reach, " in ", shown(name, t), " with strides ", list_of(t.strides())),
             "a denser copy, or a call for each part");
    if (dense_innermost && t.extent(rank - 1) > 1 && t.stride(rank - 1) != 1)
        fail(say("a stride of 1 along ", axes.back(), " of ", name),
             say(t.stride(rank - 1), " in ", shown(name, t), " with strides ", list_of(t.strides())),
             "a copy whose innermost axis is dense");
    if (const int bytes = bytes_of(t.type());
        t.where() != memory::opencl && bytes > 1 &&
        reinterpret_cast<std::uintptr_t>(t.data()) % static_cast<std::uintptr_t>(bytes) != 0)
        fail(say(name, " at an address that is a multiple of ", bytes, ", the size of its elements"), shown(name, t),
             "a copy that is aligned as its element type");
    if (!t.data())
        fail(say("a pointer to the elements of ", name), say("null for ", shown(name, t)),
             "null only where an extent is 0");
}

void check_input_alone(const input_declaration& d, const tensor& t) {
    check_alone(d.name, t, axis_names(d).view(), has_dense_rows(d));
    check_type(d, t);
}

std::int64_t call_shape::longest() const { return std::max((*this)[axis_kind::query], (*this)[axis_kind::key]); }

bool call_shape::is_own(std::size_t input, axis_kind a) const {
    const auto marked = [&](std::uint64_t inputs) { return (inputs >> input & 1) != 0; };
    if (a == axis_kind::query) return marked(own_queries);
    if (a == axis_kind::key) return marked(own_keys);
    return a == axis_kind::position && marked(own_queries | own_keys);
}

std::int64_t call_shape::as_counted_outside(const input_declaration& of, std::size_t axis, std::int64_t place) const {
    const auto is_batch = [](const axis_declaration& each) { return each.kind == axis_kind::batch; };
    if (is_batch(of.axes[axis])) return first_batch + place;
    const std::span axes = std::span(of.axes).first(of.rank);
    return of.axes[axis].kind == axis_kind::query && std::ranges::none_of(axes, is_batch) ? first_query + place : place;
}
std::int64_t call_shape::logical(std::size_t input, axis_kind a, std::int64_t own) const {
    if (a == axis_kind::free || is_own(input, a)) return own;
    if (a == axis_kind::position) return own == 1 ? longest() : own;
    return (*this)[a];
}

call_shape agree(const graph_ir& graph, const matched_arguments& given) {
    call_shape shape{};
    shape.extents.fill(-1);
    find_own_lengths(shape, graph);
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const input_declaration& d = graph.inputs[i];
        if (d.is_scalar) continue;
        check_input_alone(d, given.inputs[i]->view);
    }
    const auto each_axis = [&](bool core, auto visit) {
        for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
            const input_declaration& d = graph.inputs[i];
            if (d.is_scalar || is_core(d) != core) continue;
            const tensor& t = given.inputs[i]->view;
            for (int axis = 0; axis < d.rank; ++axis)
                if (const axis_kind is = d.axes[static_cast<std::size_t>(axis)].kind; !shape.is_own(i, is))
                    visit(d, is, t, t.extent(axis));
        }
    };
    each_axis(true, [&](const auto& d, axis_kind axis, const tensor& t, std::int64_t extent) {
        enter(shape, axis, extent, d.name, t, axis == axis_kind::batch);
    });
    const call_shape from_core = shape;
    each_axis(false, [&](const auto& d, axis_kind axis, const tensor& t, std::int64_t extent) {
        if (axis != axis_kind::position && axis != axis_kind::free && !from_core.has(axis) && !shape.is_stated(axis))
            enter(shape, axis, extent, d.name, t, true);
    });
    // A depth that is known from inputs of extent 1 alone is not known: they broadcast.
    for (const axis_kind axis : {axis_kind::depth, axis_kind::value_depth})
        if (!from_core.has(axis) && shape[axis] == 1) shape.set(axis, -1, {});
    // If only keys tell the number of heads, query heads are as many. Outputs tell extents that no input tells.
    if (!shape.has(axis_kind::head) && !shape.heads_stated && shape.has(axis_kind::key_head))
        shape.set(axis_kind::head, shape[axis_kind::key_head],
                  shape.from[static_cast<std::size_t>(axis_kind::key_head)]);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
        if (!given.outputs[i]) continue;
        const tensor& t = given.outputs[i]->view;
        check_output_alone(graph, graph.outputs[i], t);
        int at = 0;
        const output_axes axes = axes_of_output(graph, graph.outputs[i]);
        for (const axis_kind axis : axes.view()) {
            if (axis != axis_kind::free && axis != axis_kind::position && !shape.has(axis) && !shape.is_stated(axis))
                shape.set(axis, t.extent(at), graph.outputs[i].name);
            ++at;
        }
    }
    return shape;
}

void settle(call_shape& shape, const graph_ir& graph, const matched_arguments& given, std::int64_t depth,
            std::int64_t value_depth) {
    const auto otherwise = [&](axis_kind axis, std::int64_t extent, std::string_view by) {
        if (!shape.has(axis)) shape.set(axis, extent, by);
    };
    otherwise(axis_kind::depth, depth, "the kernel");
    otherwise(axis_kind::value_depth, value_depth, "the kernel");
    otherwise(axis_kind::batch, 1, "a call without a tensor that has it");
    if (shape.queries_stated || shape.keys_stated) state_numbers(shape, graph, given);
    for (const axis_kind axis : {axis_kind::head, axis_kind::query, axis_kind::key})
        otherwise(axis, 1, "a call without a tensor that has it");
    otherwise(axis_kind::key_head, shape[axis_kind::head], shape.from[static_cast<std::size_t>(axis_kind::head)]);
    check_heads(shape);
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (!graph.inputs[i].is_scalar && !is_core(graph.inputs[i]))
            check_extents(graph, i, given.inputs[i]->view, shape, given.kv_lengths);
    check_equalities(shape, graph, given);
    if (given.kv_lengths) check_lengths_tensor(given.kv_lengths->view, shape);
}

void check_lengths(const graph_ir& graph, const matched_arguments& given, const call_shape& shape) {
    const tensor& lengths = given.kv_lengths->view;
    const std::int64_t key_length = shape[axis_kind::key];
    const auto* const values = static_cast<const std::int32_t*>(lengths.data());
    std::int64_t in_use = 0;
    for (std::int64_t i = 0; i < lengths.extent(0); ++i) {
        const std::int32_t value = values[i * lengths.stride(0)];
        if (value < 0 || value > key_length)
            fail(say("kv_lengths from 0 to ", key_length, ", the key_length"),
                 say(value, " for batch element ", shape.first_batch + i), "the number of keys in use");
        in_use = std::max<std::int64_t>(in_use, value);
    }
    if (shape.tables_of_keys_in_use != 0) check_tables(graph, given, shape, in_use);
}

}  // namespace attune::detail

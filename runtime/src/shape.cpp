#include "shape.hpp"
#include "text.hpp"

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
    if (is_core(d) || t.type() == d.element || (d.element == element_type::boolean && t.type() == element_type::u8)) return;
    fail(say(name_of(d.element), " elements in ", d.name), shown(d.name, t),
         say("a tensor of ", d.element == element_type::boolean ? "bool or std::uint8_t" : name_of(d.element)));
}

/// Agrees on the extents of a call, one tensor after another, remembering who said what.
class agreement {
public:
    call_shape shape;

    agreement() { shape.extents.fill(-1); }

    void enter(axis_kind axis, std::int64_t extent, std::string_view name, const tensor& t, bool broadcasts) {
        const auto at = static_cast<std::size_t>(axis);
        std::int64_t& known = shape.extents[at];
        if (known < 0 || (broadcasts && known == 1)) known = extent, from_[at] = name;
        else if (known != extent && !(broadcasts && extent == 1)) refuse(axis, name, t, broadcasts);
    }
    [[noreturn]] void refuse(axis_kind axis, std::string_view name, const tensor& t, bool broadcasts) const {
        const std::int64_t wanted = shape[axis];
        fail(say(name_of(axis), " extent ", wanted, broadcasts && wanted != 1 ? " or 1" : "", " in ", name, ", as in ", from(axis)), shown(name, t),
             "q (batch, head, query, depth), k (batch, key_head, key, depth) and v (batch, key_head, key, value_depth) of one call");
    }
    std::string_view from(axis_kind axis) const { return from_[static_cast<std::size_t>(axis)]; }

private:
    std::array<std::string_view, 9> from_{};
};

void check_heads(const agreement& agreed) {
    const call_shape& shape = agreed.shape;
    if (!shape.has(axis_kind::head) || !shape.has(axis_kind::key_head)) return;
    const std::int64_t heads = shape[axis_kind::head], key_heads = shape[axis_kind::key_head];
    if (heads == 0 || (key_heads > 0 && heads % key_heads == 0)) return;
    fail(say("a number of heads in ", agreed.from(axis_kind::head), " that is a multiple of those in ", agreed.from(axis_kind::key_head)), say(heads, " and ", key_heads),
         "key heads that each serve the same number of query heads");
}

/// The user's inputs against the shape: each axis at its length, or 1.
void check_extents(const input_declaration& d, const tensor& t, const agreement& agreed) {
    for (int axis = 0; axis < d.rank; ++axis) {
        const axis_declaration& over = d.axes[static_cast<std::size_t>(axis)];
        const std::int64_t extent = t.extent(axis);
        if (over.is == axis_kind::free) {
            if (extent < 1) fail(say("at least one element along ", over.name, " of ", d.name), shown(d.name, t), "a table with an entry");
        } else if (over.is == axis_kind::position) {
            const std::int64_t wanted = agreed.shape.longest();
            if (extent != 1 && extent < wanted)
                fail(say("an extent of at least ", wanted, " (the longer of queries and keys) or 1 along position of ", d.name), shown(d.name, t),
                     say("an entry for each position: ", d.name, " ", signature(d)));
        } else if (extent != 1 && extent != agreed.shape[over.is]) {
            fail(say(name_of(over.is), " extent ", agreed.shape[over.is], " or 1 in ", d.name, ", as in ", agreed.from(over.is)), shown(d.name, t),
                 say("the shape ", signature(d), ", where 1 broadcasts"));
        }
    }
}

void check_lengths_tensor(const tensor& t, const agreement& agreed) {
    static constexpr std::string_view axes[] = {name_of(axis_kind::batch)};
    check_alone("kv_lengths", t, axes, false);
    if (t.type() != element_type::i32) fail("i32 elements in kv_lengths", shown("kv_lengths", t), "a tensor of std::int32_t");
    if (t.extent(0) != 1 && t.extent(0) != agreed.shape[axis_kind::batch])
        fail(say("batch extent ", agreed.shape[axis_kind::batch], " or 1 in kv_lengths, as in ", agreed.from(axis_kind::batch)), shown("kv_lengths", t),
             "one length a batch element");
}

}  // namespace

std::string shown(std::string_view name, const tensor& t) { return say(name, ": ", t.description()); }

void check_alone(std::string_view name, const tensor& t, std::span<const std::string_view> axes, bool dense_innermost) {
    const int rank = static_cast<int>(axes.size());
    if (t.rank() != rank)
        fail(say(name, " with ", rank, rank == 1 ? " axis " : " axes ", signature(axes)), say(t.rank(), t.rank() == 1 ? " axis in " : " axes in ", shown(name, t)),
             t.rank() > rank ? "a view without the axes beyond" : "a view with all of them; an axis that there is only one of has extent 1");
    for (int axis = 0; axis < rank; ++axis) {
        const std::string_view along = axes[static_cast<std::size_t>(axis)];
        if (const std::int64_t extent = t.extent(axis); extent < 0 || extent > most)
            fail(say("an extent from 0 to ", most, " along ", along, " of ", name), std::to_string(extent), "a call for a part of it");
    }
    for (int axis = 0; axis < rank; ++axis) {
        const std::string_view along = axes[static_cast<std::size_t>(axis)];
        const std::int64_t extent = t.extent(axis), stride = t.stride(axis);
        if (extent > 1 && (stride > most || stride < -most))
            fail(say("a stride of at most ", most, " elements along ", along, " of ", name), std::to_string(stride), "a denser copy, or a call for each part");
        if (extent > 1 && extent * std::abs(stride) > most)
            fail(say("at most ", most, " elements from the first to the last along ", along, " of ", name), say(extent, " steps of ", std::abs(stride)), "a denser copy, or a call for each part");
    }
    if (dense_innermost && rank > 0 && t.extent(rank - 1) > 1 && t.stride(rank - 1) != 1)
        fail(say("a stride of 1 along ", axes.back(), " of ", name), say(t.stride(rank - 1), " in ", shown(name, t), " with strides ", list_of(t.strides())),
             "a copy whose innermost axis is dense");
    if (const int bytes = bytes_of(t.type()); bytes > 1 && reinterpret_cast<std::uintptr_t>(t.data()) % static_cast<std::uintptr_t>(bytes) != 0)
        fail(say(name, " at an address that is a multiple of ", bytes, ", the size of its elements"), shown(name, t), "a copy that is aligned as its element type");
    if (!t.data() && !t.empty()) fail(say("a pointer to the elements of ", name), say("null for ", shown(name, t)), "null only where an extent is 0");
}

std::int64_t call_shape::longest() const { return std::max((*this)[axis_kind::query], (*this)[axis_kind::key]); }

std::int64_t call_shape::logical(axis_kind a, std::int64_t own) const {
    if (a == axis_kind::free) return own;
    if (a == axis_kind::position) return own == 1 ? longest() : own;
    return (*this)[a];
}

call_shape check_inputs(const listing& graph, const matched_arguments& given) {
    agreement agreed;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const input_declaration& d = graph.inputs[i];
        if (d.is_scalar) continue;
        check_alone(d.name, given.inputs[i]->view, axis_names(d).view(), is_core(d));
        check_type(d, given.inputs[i]->view);
    }
    const auto each_axis = [&](bool core, auto visit) {
        for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
            const input_declaration& d = graph.inputs[i];
            if (d.is_scalar || is_core(d) != core) continue;
            const tensor& t = given.inputs[i]->view;
            for (int axis = 0; axis < d.rank; ++axis) visit(d, d.axes[static_cast<std::size_t>(axis)].is, t, t.extent(axis));
        }
    };
    each_axis(true, [&](const auto& d, axis_kind axis, const tensor& t, std::int64_t extent) { agreed.enter(axis, extent, d.name, t, axis == axis_kind::batch); });
    const call_shape from_core = agreed.shape;
    each_axis(false, [&](const auto& d, axis_kind axis, const tensor& t, std::int64_t extent) {
        if (axis != axis_kind::position && axis != axis_kind::free && !from_core.has(axis)) agreed.enter(axis, extent, d.name, t, true);
    });
    check_heads(agreed);
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (!graph.inputs[i].is_scalar && !is_core(graph.inputs[i])) check_extents(graph.inputs[i], given.inputs[i]->view, agreed);
    if (given.kv_lengths) check_lengths_tensor(given.kv_lengths->view, agreed);
    return agreed.shape;
}

void check_lengths(const tensor& lengths, std::int64_t key_length) {
    const auto* const values = static_cast<const std::int32_t*>(lengths.data());
    for (std::int64_t i = 0; i < lengths.extent(0); ++i)
        if (const std::int32_t value = values[i * lengths.stride(0)]; value < 0 || value > key_length)
            fail(say("kv_lengths from 0 to ", key_length, ", the keys of k"), say(value, " for batch element ", i), "the number of keys in use");
}

}  // namespace attune::detail

#include "call/bind/rebind.hpp"
#include "base/text.hpp"
#include "call/bind/slot.hpp"

#include <attune/ir/stores.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <new>

/// Prepared calls with other tensors and numbers.
namespace attune::detail {
namespace {

std::string names_of(std::span<const named_argument> all) {
    std::string names;
    for (const named_argument& each : all) add_part(names, each.name);
    return names;
}

std::string shown_with_strides(std::string_view name, const tensor& t) {
    return say(shown(name, t), " with strides ", list_of(t.strides()));
}

/// The steps along axes of one element lead nowhere, and none does in an empty tensor.
bool is_written(const graph_ir& graph, std::string_view name) {
    const auto input = std::ranges::find(graph.inputs, name, &input_declaration::name);
    if (input == graph.inputs.end()) return std::ranges::count(graph.outputs, name, &output_declaration::name) > 0;
    return is_stored(graph, static_cast<std::size_t>(input - graph.inputs.begin()));
}

void check_alike(const graph_ir& graph, const named_argument& bound, const tensor& other) {
    const tensor& t = bound.view;
    if (other.type() != t.type() || !std::ranges::equal(other.shape(), t.shape()) || !has_equal_steps(t, other))
        fail(say("a tensor like the one that the call was prepared with, ", shown_with_strides(bound.name, t)),
             shown_with_strides(bound.name, other), "preparing a call for each shape");
    const auto is_named = [](const tensor& each) { return each.device() != tensor::any_device; };
    if (other.where() != t.where() || (is_named(t) && is_named(other) && other.device() != t.device()))
        fail(say(bound.name, " in the memory that the call was prepared with"), "memory of another device",
             "preparing a call for each device");
    if (other.read_only() && is_written(graph, bound.name))
        fail(say("a tensor that may be written for ", bound.name), "a view of const elements",
             "a pointer to non-const");
    if (t.empty()) return;
    if (!other.data())
        fail(say("a pointer to the elements of ", bound.name), say("null for ", shown(bound.name, other)),
             "null only where an extent is 0");
    const int bytes = bytes_of(t.type());
    if (t.where() != memory::opencl &&
        reinterpret_cast<std::uintptr_t>(other.data()) % static_cast<std::uintptr_t>(bytes) != 0)
        fail(say(bound.name, " at an address that is a multiple of ", bytes, ", the size of its elements"),
             shown(bound.name, other), "a copy that is aligned as its element type");
}

bool is_number(const instruction& n) { return n.kind == kind::integer || n.kind == kind::condition; }

/// Whether an argument of a node is an index or a length, or one of two numbers that must be equal.
bool is_place_or_length(const instruction& n, std::size_t argument) {
    if (n.op == operation::same) return true;
    if (family_of(n.op) == family::sums || n.op == operation::each) return argument == 1;
    return argument > 0 && (n.op == operation::load || n.op == operation::deposit || n.op == operation::tokens ||
                            n.op == operation::precomputed || states_length(n));
}

}  // namespace

std::uint64_t deciding_scalars(const graph_ir& graph) {
    node_table<bool> decides{};
    std::uint64_t scalars = 0;
    for (node_id at = graph.nodes.ids().last(); at >= 0; --at) {
        const instruction& n = graph.nodes[at];
        if (n.op == operation::scalar && decides[at]) scalars |= std::uint64_t{1} << n.input;
        for (std::size_t i = 0; i < n.argument_count; ++i)
            if (is_number(node_of(graph, n.arguments[i])) &&
                (is_place_or_length(n, i) || (decides[at] && n.op != operation::load)))
                decides[n.arguments[i]] = true;
    }
    return scalars;
}

replacements::replacements(const graph_ir& graph, std::span<const named_argument> prepared,
                           std::span<const named_argument> others, bool alike) {
    for (const named_argument& other : others) {
        const auto bound = std::ranges::find(prepared, other.name, &named_argument::name);
        if (bound == prepared.end())
            fail(say("one of the arguments that the call was prepared with, ", names_of(prepared)), other.name,
                 say("preparing the call with ", other.name));
        if (std::ranges::any_of(all(), [&](const auto& each) { return each.bound == &*bound; }))
            fail(say(other.name, " once"), "it twice", "leaving one of them out");
        check_form(other, bound->is != named_argument::form::view);
        if (alike && bound->is == named_argument::form::view) check_alike(graph, *bound, other.view);
        all_[count_++] = {&*bound, &other};
    }
}

bool replacements::decide(const graph_ir& graph, std::uint64_t scalars) const {
    return scalars != 0 && std::ranges::any_of(all(), [&](const bound_call::replacement& each) {
               const auto input = std::ranges::find(graph.inputs, each.bound->name, &input_declaration::name);
               return input != graph.inputs.end() && (scalars >> (input - graph.inputs.begin()) & 1) != 0;
           });
}

void bound_call::run_with(std::span<const replacement> others, int threads) const {
    struct held {
        halide_buffer_t buffer;
        scalar_value value;
    };
    const graph_ir& graph = table_.graph;
    const std::size_t inputs = graph.inputs.size(), first_output = argv_.size() - graph.outputs.size();
    const scratch room(argv_.size() * sizeof(void*) + others.size() * sizeof(held) +
                       (inputs + graph.outputs.size()) * sizeof(void*) + 4 * alignof(std::max_align_t));
    if (!room.data()) throw std::bad_alloc();
    std::pmr::monotonic_buffer_resource memory(room.data(), bytes_of_scratch(room.data()));
    matched_arguments given(memory);
    given = given_;
    std::pmr::vector<void*> argv(argv_.begin(), argv_.end(), &memory);
    std::pmr::vector<held> own(others.size(), &memory);

    for (std::size_t i = 0; i < others.size(); ++i) {
        const auto [bound, by] = others[i];
        const auto input = static_cast<std::size_t>(std::ranges::find(given.inputs, bound) - given.inputs.begin()),
                   output = static_cast<std::size_t>(std::ranges::find(given.outputs, bound) - given.outputs.begin());
        const bool is_input = input < inputs, is_lengths = given.kv_lengths == bound;
        (is_input ? given.inputs[input] : is_lengths ? given.kv_lengths : given.outputs[output]) = by;
        void*& at = argv[is_input ? 1 + input : is_lengths ? 1 + inputs : first_output + output];
        if (is_input && graph.inputs[input].is_scalar) {
            own[i].value = scalar_of(graph.inputs[input], *by);
            at = &own[i].value;
        } else if (!by->view.empty()) {  // an empty one stays where it is
            own[i].buffer = *static_cast<const halide_buffer_t*>(at);
            own[i].buffer.host = static_cast<std::uint8_t*>(const_cast<void*>(by->view.data()));
            at = &own[i].buffer;
        }
    }
    check_apart(graph, given);
    if (is_device(chosen().target)) check_copied(graph, given);
    check_values(given);
    if (nothing_to_do()) return write_empty_sums(given);
    run({given, argv}, threads);
}

}  // namespace attune::detail

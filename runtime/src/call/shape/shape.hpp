#pragma once
#include "call/shape/arguments.hpp"

#include <attune/runtime/detail/call.hpp>

#include <array>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// The numbers of a call, from its inputs, its outputs and the lengths that computed tensors state.
struct call_shape {
    std::array<std::int64_t, 9> extents;      ///< by axis_kind; -1 if unknown
    std::array<std::string_view, 9> from{};   ///< the tensor that it is from, for messages: "q"
    std::uint64_t own_queries{}, own_keys{};  ///< inputs, a bit for each, that are read where a computed tensor states
                                              ///< its length; they have lengths of their own
    bool queries_stated{}, keys_stated{}, heads_stated{};  ///< by a computed tensor
    std::uint64_t tables_of_keys_in_use{};  ///< inputs over position that are shorter than the slots, a bit for each
    std::int64_t first_batch{}, first_query{};  ///< the caller's numbers of batch element 0 and query 0, for messages

    std::int64_t operator[](axis_kind a) const { return extents[static_cast<std::size_t>(a)]; }
    bool has(axis_kind a) const { return (*this)[a] >= 0; }
    void set(axis_kind a, std::int64_t extent, std::string_view by) {
        extents[static_cast<std::size_t>(a)] = extent;
        from[static_cast<std::size_t>(a)] = by;
    }
    bool is_stated(axis_kind a) const {
        return a == axis_kind::query ? queries_stated
               : a == axis_kind::key ? keys_stated
                                     : a == axis_kind::head && heads_stated;
    }
    std::int64_t longest() const;  ///< the least length of a position axis
    /// Whether an input's extent along this axis is independent of the call's.
    bool is_own(std::size_t input, axis_kind a) const;
    /// The extent that an input is read over along an axis where the tensor has `own`.
    std::int64_t logical(std::size_t input, axis_kind a, std::int64_t own) const;
    /// A place along an axis of an input as the caller counts, for messages: in a packed call a query is one of its
    /// sequence where the tensor has a batch axis, which says the sequence.
    std::int64_t as_counted_outside(const input_declaration& of, std::size_t axis, std::int64_t place) const;
};

/// q, k and v: their element types and depths choose the kernel.
inline bool is_core(const input_declaration& d) { return d.element == element_type::any && !d.is_scalar; }

inline const instruction& node_of(const graph_ir& graph, node_id node) { return graph.nodes[node]; }
/// precomputed(...), or the one that is chosen among.
inline const instruction& precomputed_reals(const graph_ir& graph, node_id node) {
    const instruction& n = node_of(graph, node);
    return n.op == operation::precomputed ? n : node_of(graph, n.arguments[0]);
}
inline kind kind_of(const graph_ir& graph, const output_declaration& d) { return node_of(graph, d.node).kind; }

/// queries(...), keys(...) or values(...) with a length, and perhaps with heads.
inline bool states_length(const instruction& n) {
    return n.argument_count >= 2 &&
           (n.op == operation::queries || n.op == operation::keys || n.op == operation::values);
}

/// Bytes of so many elements; the largest number if it does not fit.
std::int64_t bytes_of(std::span<const std::int64_t> shape, element_type element);

/// "q: f32 (2, 8, 1024, 64)"
std::string shown(std::string_view name, const tensor& t);

/// Checks that do not depend on other tensors: rank, extents, strides and their products within 32 bits, an innermost
/// stride of 1 if `dense_innermost`, a pointer unless it is empty.
void check_alone(std::string_view name, const tensor& t, std::span<const std::string_view> axes, bool dense_innermost);

/// Whether the elements of two tensors of one shape lie alike. Steps along an axis of extent 1 lead nowhere.
bool has_equal_steps(const tensor& one, const tensor& other);

/// The same of an input, and its element type.
void check_input_alone(const input_declaration& d, const tensor& t);

/// Checks every tensor by itself, and finds the extents that the tensors share. Unknown ones stay -1.
call_shape agree(const graph_ir& graph, const matched_arguments& given);

/// Completes the shape, once the kernel and so the depths are known, and checks every input against it.
void settle(call_shape& shape, const graph_ir& graph, const matched_arguments& given, std::int64_t depth,
            std::int64_t value_depth);

/// Depths that computed tensors state. The kernel is chosen by them.
void state_depths(call_shape& shape, const graph_ir& graph, const matched_arguments& given);

/// The lengths and heads that queries(...), keys(...) and values(...) state replace those of tensors. Throws
/// attune::error if one is negative, beyond 32 bits, or disagrees with a tensor or with another.
void state_numbers(call_shape& shape, const graph_ir& graph, const matched_arguments& given);

/// Once the shape is known: throws attune::error if numbers differ that the graph calls the same.
void check_equalities(const call_shape& shape, const graph_ir& graph, const matched_arguments& given);

/// The number of the call that a node stands for, once the shape is known.
std::int64_t number_of_call(const call_shape& shape, const graph_ir& graph, const matched_arguments& given,
                            node_id node);

/// The width of the tokens that a node makes, once the shape is known.
std::int64_t width_of_tokens(const call_shape& shape, const graph_ir& graph, const matched_arguments& given,
                             node_id node);

/// Axes of an output of a graph, outermost first; those of a gradient are its input's.
struct output_axes {
    std::array<axis_kind, max_rank> kinds{};
    std::array<std::string_view, max_rank> names{};
    std::size_t rank{};
    std::span<const axis_kind> view() const { return {kinds.data(), rank}; }
};
output_axes axes_of_output(const graph_ir& graph, const output_declaration& output);

/// An output's extents, outermost first.
struct output_extents {
    std::array<std::int64_t, max_rank> of{};
    std::size_t rank{};
    std::span<const std::int64_t> view() const { return {of.data(), rank}; }
};
output_extents extents_of_output(const call_shape& shape, const graph_ir& graph, const matched_arguments& given,
                                 const output_declaration& d);

/// Checks an output by itself, as `check_alone`.
void check_output_alone(const graph_ir& graph, const output_declaration& d, const tensor& t);

/// Checks the outputs that are passed: their shapes and element types, that they may be written, and that they overlap
/// neither an input nor each other. Outputs proper have the element type `chosen` of the kernel, everything else is
/// f32.
void check_outputs(const graph_ir& graph, const matched_arguments& given, const call_shape& shape, element_type chosen);

/// Checks the inputs that the call stores to: they may be written and do not broadcast.
void check_stored(const graph_ir& graph, const matched_arguments& given, const call_shape& shape);

element_type output_type(const graph_ir& graph, const matched_arguments& given, const output_declaration& d,
                         element_type chosen);

/// Checks that no tensor shares memory with an output, nor with what the call stores to. Two tensors to which the call
/// stores may share memory, as keys and values in one pool: all stores come one after another, and before all reads.
void check_apart(const graph_ir& graph, const matched_arguments& given);

/// Checks what a GPU copies from host memory and back: no stride is below 0, which Halide does not copy, and no two
/// tensors to which it stores share memory, since the last copy back would undo what the others brought.
void check_copied(const graph_ir& graph, const matched_arguments& given);

/// Values of kv_lengths, within 0 .. key_length and within the tables over position. To be called after the other
/// checks.
void check_lengths(const graph_ir& graph, const matched_arguments& given, const call_shape& shape);

/// Refuses i64 elements that do not fit 32 bits, and i64 tensors in a device's memory, where they cannot be read.
void check_wide_integers(const graph_ir& graph, const call_shape& shape, const matched_arguments& given);

}  // namespace attune::detail
#pragma GCC visibility pop

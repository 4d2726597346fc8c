#pragma once
#include "arguments.hpp"

#include <array>

namespace attune::detail {

/// The numbers of a call, read off q, k and v (and off other inputs where the variant has no such tensor).
struct call_shape {
    std::array<std::int64_t, 9> extents;  ///< by axis_kind; -1 where no tensor has the axis

    std::int64_t operator[](axis_kind a) const { return extents[static_cast<std::size_t>(a)]; }
    std::int64_t longest() const;  ///< what a position axis has to reach
    bool has(axis_kind a) const { return (*this)[a] >= 0; }
    /// The extent along an axis that an input is read over; `own` for a free axis.
    std::int64_t logical(axis_kind a, std::int64_t own) const;
};

/// q, k and v: their element types and depths choose the kernel.
inline bool is_core(const input_declaration& d) { return d.element == element_type::any && !d.is_scalar; }

/// "q: f32 (2, 8, 1024, 64)"
std::string shown(std::string_view name, const tensor& t);

/// What a tensor has to satisfy whatever the others are: rank, extents, strides and their products of 32 bits, an innermost stride of 1 if `dense_innermost`,
/// a pointer unless it is empty.
void check_alone(std::string_view name, const tensor& t, std::span<const std::string_view> axes, bool dense_innermost);

/// Derives the shape and checks every input's rank, extents, element type (but those of q, k and v), strides and pointer against it.
call_shape check_inputs(const listing& graph, const matched_arguments& given);

/// Axes of an output, outermost first: by what its node stands for.
std::span<const axis_kind> axes_of_output(kind node);

/// Checks the outputs that are given: shape, strides, pointer, that they may be written and overlap neither an input nor each other.
/// Outputs proper have the element type `chosen` of the kernel, everything else is f32.
void check_outputs(const listing& graph, const matched_arguments& given, const call_shape& shape, element_type chosen);

element_type output_type(kind node, element_type chosen);
inline kind kind_of(const listing& graph, const output_declaration& d) { return graph.nodes[static_cast<std::size_t>(d.node)].is; }

/// Values of kv_lengths, within 0 .. key_length. To be called after the other checks.
void check_lengths(const tensor& lengths, std::int64_t key_length);

}  // namespace attune::detail

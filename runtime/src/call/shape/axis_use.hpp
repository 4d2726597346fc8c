#pragma once
#include <attune/ir/graph_ir.hpp>

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// How a formula uses the axes of one kind, those of the batch or of heads.
enum class axis_use : std::uint8_t {
    apart,           ///< each is read at its index alone: some of its places can be a call of their own, from 0 on
    by_extent,       ///< the formula asks for an extent
    read_elsewhere,  ///< an axis is read elsewhere than at the index
    as_a_number      ///< the index stands elsewhere than at such an axis
};

/// `index`: b or h; `is_along`: whether an axis is of the kind. Reads are loads of inputs and of what is precomputed,
/// and places of gradients.
axis_use use_of_axes(const graph_ir& graph, operation index, bool (*is_along)(axis_kind));

}  // namespace attune::detail
#pragma GCC visibility pop

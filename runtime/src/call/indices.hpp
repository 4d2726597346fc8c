#pragma once
#include "call/shape.hpp"

namespace attune::detail {

/// Refuses what is read outside of a tensor over what the lengths in use reach: integers that the caller's tensors hold
/// and that are used as indices, such as page tables, and tables that are shorter than the positions that read them.
/// What takes a look at each pair, or at each channel, is done where `all` asks for it. To be called after the other
/// checks; tensors on devices are not looked at.
void check_indices(const graph_ir& graph, const matched_arguments& given, const call_shape& shape, bool all);

}  // namespace attune::detail

#pragma once
#include <attune/ir/graph_ir.hpp>

namespace attune {

/// Whether the last two axes of an input are the blocks of a row and the elements of a block. Kernels know how far the
/// blocks are apart.
constexpr bool has_blocks(const input_declaration& input) {
    if (!has_dense_rows(input)) return false;
    const axis_declaration *const innermost = &input.axes[static_cast<std::size_t>(input.rank - 1)], *const blocks =
                                                                                                         innermost - 1;
    return blocks->counts != axis_kind::free && innermost->length > 0;
}

/// The elements of a row of such an input, of so many channels.
constexpr int elements_of_blocks(const input_declaration& input, int channels) {
    const axis_declaration* const innermost = &input.axes[static_cast<std::size_t>(input.rank - 1)];
    return channels * innermost->length / (innermost - 1)->length;
}

}  // namespace attune

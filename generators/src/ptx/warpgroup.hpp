#pragma once
#include "ptx/instructions.hpp"

namespace attune::generators::inline ptx {

/// Products of a warpgroup, which sm_90a has (wgmma): 64 rows, 16 of each of four warps, by n columns. Null for other
/// names.
///
///     attune_wgmma_n<n>_s<steps>_<element>       operands: number of a result, A, B
///     attune_wgmma_in_turn_n<n>_s<steps>_<element>   the same of a block of two warpgroups, of which the second begins
///                                                    once the first has: while that one works on its sums, this one's
///                                                    are made. Blocks of 32 x 8 threads alone, whose barrier 1 is
///                                                    taken for it
///     attune_wgmma_add_n<n>_s<steps>_<element>   operands: number of a result, A, B, the sums before
///
/// A are fragments of `steps` steps of 16, four registers each, as mma.sync has them, and the sums n / 8 of its tiles
/// of 16 x 8. B lies in shared memory from a multiple of 1024 bytes on, 128 bytes a row, whose eight pieces of 16 bytes
/// lie at their number xor the row's, rows one behind the other; what is wider is cut into parts of 64 elements, all
/// rows of one before those of the next. Without `add` a row is a column of the product, and its elements the steps;
/// with it a row is of a step, and its elements are columns. The sums are there when the instruction is over.
const instruction* product_of_warpgroup(std::string_view name);

}  // namespace attune::generators::inline ptx

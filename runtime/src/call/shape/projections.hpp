#pragma once
#include "call/shape/shape.hpp"

#include <attune/runtime/detail/kernel_table.hpp>

#include <cstddef>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// The cost of the tensors that a kernel computes in full (ir/projections.hpp), and of precomputed ones.
struct computed_cost {
    double flops{};               ///< of their matrix products; a multiplication and an addition count as two
    std::size_t tensor_bytes{};   ///< of those that are no outputs; exact, for precomputed ones an upper bound
    std::size_t packed_bytes{};   ///< of the products' factors that vary with the channel, in the kernel's
                                  ///< panels; exact
    std::size_t largest_bytes{};  ///< of one of both; a kernel counts a tensor's bytes in 32 bits
    std::size_t block_bytes{};    ///< of one thread's block of positions, at most
};

/// Once the shape is known, with the kernel's tiles.
computed_cost cost_of_computed(const call_shape& shape, const graph_ir& graph, const matched_arguments& given,
                               const kernel& k);

}  // namespace attune::detail
#pragma GCC visibility pop

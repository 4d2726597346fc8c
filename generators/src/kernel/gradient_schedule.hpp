#pragma once
#include "kernel/kernel_request.hpp"

namespace attune::generators::inline kernel {

/// The schedule of a gradient. Throws std::runtime_error, a sentence, for targets that have no gradients yet.
cpu_gradient default_cpu_gradient(const kernel_request& request);

/// How the sums of a gradient lie in memory: in rows of whole vectors, as wide as the wider of both depths. A row has
/// the channels of a position. Sums over the keys that are one number for each query lie side by side instead, if rows
/// and blocks fit each other.
struct sum_layout {
    explicit sum_layout(const kernel_request& request);
    int width{}, block{}, tile{};

    bool is_flat(const gradient_sum& sum) const;
    /// Rows that a block of queries or keys has; whole tiles.
    int rows_of_block(const gradient_sum& sum) const;
};

}  // namespace attune::generators::inline kernel

#pragma once
#include <attune/mpi/plan.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace simulated {

/// A mask's kernels, and the inputs that decide what is visible.
struct masked {
    const attune::kernel_table* table;
    std::vector<std::int32_t> document{};

    std::vector<attune::detail::named_argument> given() const;
};

/// Documents have lengths of a log-normal distribution: the median, and the standard deviation of the logarithm.
struct documents {
    std::int64_t median;
    double spread;
    std::uint32_t seed;
};

/// `name`: causal, window or documents.
masked mask_of(const std::string& name, std::int64_t tokens, const documents& lengths);

}  // namespace simulated

// Graphs of variants.hpp whose gradients a GPU refuses: pairs compute their places, or multiply channels of their own.
#include "by_kernels.hpp"

namespace attune::testing {

std::vector<recipe> gradient_pair_cases() {
    return {
        by_kernels<golden_gradients::relative_table, golden_gradients::relative_table_gradient>("grad_relative_table"),
    };
}

}  // namespace attune::testing

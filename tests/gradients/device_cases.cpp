// Files of the graphs and the depth whose gradients run on a device in every build.
#include "by_kernels.hpp"

namespace attune::testing {

std::vector<recipe> device_gradient_cases() {
    return {
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_full"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_kv_lengths"),
        by_kernels<golden_gradients::causal_only, golden_gradients::causal_gradient>("grad_gqa"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_mqa"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_one_query"),
    };
}

}  // namespace attune::testing

// Those whose kernels gradients_full asks for.
#include "by_kernels.hpp"

namespace attune::testing {

std::vector<recipe> more_gradient_pair_cases() {
    return {
        by_kernels<golden_gradients::t5_buckets, golden_gradients::t5_buckets_gradient>("grad_t5_buckets"),
        by_kernels<golden_gradients::mla_rope, golden_gradients::mla_rope_gradient>("grad_mla_rope"),
    };
}

}  // namespace attune::testing

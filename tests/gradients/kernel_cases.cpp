// Graphs of variants.hpp whose gradients have kernels in every build.
#include "by_kernels.hpp"

namespace attune::testing {

std::vector<recipe> gradient_kernel_cases() {
    return {
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_full"),
        by_kernels<golden_gradients::causal_only, golden_gradients::causal_gradient>("grad_causal"),
        by_kernels<golden_gradients::at_the_end, golden_gradients::at_the_end_gradient>("grad_causal_bottom_right"),
        by_kernels<golden_gradients::documents, golden_gradients::documents_gradient>("grad_documents"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_kv_lengths"),
        by_kernels<golden_gradients::causal_only, golden_gradients::causal_gradient>("grad_gqa"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_mqa"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_value_depth_larger"),
        by_kernels<golden_gradients::causal_only, golden_gradients::causal_gradient>("grad_value_depth_smaller"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_one_query"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_large_scores"),
        by_kernels<golden_gradients::causal_only, golden_gradients::lse_gradient>("grad_lse"),
        by_kernels<golden_gradients::alibi, golden_gradients::alibi_gradient>("grad_alibi"),
        by_kernels<golden_gradients::bias_heads, golden_gradients::bias_heads_gradient>("grad_bias_heads"),
        by_kernels<golden_gradients::bias_shared, golden_gradients::bias_shared_gradient>("grad_bias_shared"),
        by_kernels<golden_gradients::bias_keys, golden_gradients::bias_keys_gradient>("grad_bias_keys"),
        by_kernels<golden_gradients::softcapped, golden_gradients::softcapped_gradient>("grad_softcap"),
        by_kernels<golden_gradients::cosine, golden_gradients::cosine_gradient>("grad_cosine"),
        by_kernels<golden_gradients::rope, golden_gradients::rope_gradient>("grad_rope"),
        by_kernels<golden_gradients::quantised_cache, golden_gradients::quantised_cache_gradient>(
            "grad_quantised_cache"),
        by_kernels<golden_gradients::sink_two_lse, golden_gradients::sink_two_lse_gradient>("grad_sink_two_lse"),
        by_kernels<golden_gradients::gate, golden_gradients::gate_gradient>("grad_gate"),
        by_kernels<golden_gradients::renormalised, golden_gradients::renormalised_gradient>("grad_renormalised"),
    };
}

}  // namespace attune::testing

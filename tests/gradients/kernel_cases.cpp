#include "kernel_cases.hpp"
#include "variants.hpp"

namespace attune::testing {
namespace {

template <const auto& Forward, const auto& Gradient> recipe by_kernels(std::string_view stem) {
    return {stem, {graph_step{dsl::ir_of<Forward>, nullptr}, computes<Gradient>()}};
}

}  // namespace

std::vector<recipe> gradient_kernel_cases() {
    return {
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_full"),
        by_kernels<golden_gradients::causal_only, golden_gradients::causal_gradient>("grad_causal"),
        by_kernels<golden_gradients::at_the_end, golden_gradients::at_the_end_gradient>("grad_causal_bottom_right"),
        by_kernels<golden_gradients::windowed, golden_gradients::windowed_gradient>("grad_window"),
        by_kernels<golden_gradients::documents, golden_gradients::documents_gradient>("grad_documents"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_kv_lengths"),
        by_kernels<golden_gradients::empty_rows, golden_gradients::empty_rows_gradient>("grad_empty_rows"),
        by_kernels<golden_gradients::causal_only, golden_gradients::causal_gradient>("grad_gqa"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_mqa"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_value_depth_larger"),
        by_kernels<golden_gradients::causal_only, golden_gradients::causal_gradient>("grad_value_depth_smaller"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_one_query"),
        by_kernels<golden_gradients::full, golden_gradients::full_lse_gradient>("grad_one_key"),
        by_kernels<golden_gradients::full, golden_gradients::full_gradient>("grad_large_scores"),
        by_kernels<golden_gradients::causal_only, golden_gradients::lse_gradient>("grad_lse"),
        by_kernels<golden_gradients::alibi, golden_gradients::alibi_gradient>("grad_alibi"),
        by_kernels<golden_gradients::bias_keys, golden_gradients::bias_keys_gradient>("grad_bias_keys"),
        by_kernels<golden_gradients::bias_queries, golden_gradients::bias_queries_gradient>("grad_bias_queries"),
        by_kernels<golden_gradients::softcapped, golden_gradients::softcapped_gradient>("grad_softcap"),
        by_kernels<golden_gradients::key_scale, golden_gradients::key_scale_gradient>("grad_key_scale"),
        by_kernels<golden_gradients::sink_two_lse, golden_gradients::sink_two_lse_gradient>("grad_sink_two_lse"),
        by_kernels<golden_gradients::dropout, golden_gradients::dropout_gradient>("grad_dropout"),
        by_kernels<golden_gradients::sigmoid_weights, golden_gradients::sigmoid_gradient>("grad_sigmoid"),
        by_kernels<golden_gradients::renormalised, golden_gradients::renormalised_gradient>("grad_renormalised"),
        by_kernels<golden_gradients::combined, golden_gradients::combined_gradient>("grad_combined"),
    };
}

}  // namespace attune::testing

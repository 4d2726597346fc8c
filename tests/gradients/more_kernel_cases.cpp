// Those whose kernels gradients_full asks for.
#include "by_kernels.hpp"

namespace attune::testing {

std::vector<recipe> more_gradient_kernel_cases() {
    return {
        by_kernels<golden_gradients::windowed, golden_gradients::windowed_gradient>("grad_window"),
        by_kernels<golden_gradients::prefix_lm, golden_gradients::prefix_lm_gradient>("grad_prefix_lm"),
        by_kernels<golden_gradients::global_window, golden_gradients::global_window_gradient>("grad_global_window"),
        by_kernels<golden_gradients::empty_rows, golden_gradients::empty_rows_gradient>("grad_empty_rows"),
        by_kernels<golden_gradients::full, golden_gradients::full_lse_gradient>("grad_one_key"),
        by_kernels<golden_gradients::head_scale, golden_gradients::head_scale_gradient>("grad_head_scale"),
        by_kernels<golden_gradients::temperature, golden_gradients::temperature_gradient>("grad_temperature"),
        by_kernels<golden_gradients::bias_batch_heads, golden_gradients::bias_batch_heads_gradient>(
            "grad_bias_batch_heads"),
        by_kernels<golden_gradients::bias_queries, golden_gradients::bias_queries_gradient>("grad_bias_queries"),
        by_kernels<golden_gradients::squared, golden_gradients::squared_gradient>("grad_squared"),
        by_kernels<golden_gradients::silu, golden_gradients::silu_gradient>("grad_silu"),
        by_kernels<golden_gradients::where_score, golden_gradients::where_score_gradient>("grad_where"),
        by_kernels<golden_gradients::relu_score, golden_gradients::relu_score_gradient>("grad_relu_score"),
        by_kernels<golden_gradients::clamped, golden_gradients::clamped_gradient>("grad_clamped"),
        by_kernels<golden_gradients::gelu_log, golden_gradients::gelu_log_gradient>("grad_gelu_log"),
        by_kernels<golden_gradients::key_scale, golden_gradients::key_scale_gradient>("grad_key_scale"),
        by_kernels<golden_gradients::sink, golden_gradients::sink_gradient>("grad_sink"),
        by_kernels<golden_gradients::dropout, golden_gradients::dropout_gradient>("grad_dropout"),
        by_kernels<golden_gradients::sigmoid_weights, golden_gradients::sigmoid_gradient>("grad_sigmoid"),
        by_kernels<golden_gradients::relu_normalised, golden_gradients::relu_normalised_gradient>(
            "grad_relu_normalised"),
        by_kernels<golden_gradients::weight_factor, golden_gradients::weight_factor_gradient>("grad_weight_factor"),
        by_kernels<golden_gradients::combined, golden_gradients::combined_gradient>("grad_combined"),
    };
}

}  // namespace attune::testing

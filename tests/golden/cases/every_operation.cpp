#include "../variants/every_operation.hpp"
#include "../golden.hpp"

// A device's compiler takes seconds a kernel: few that have all that there is between them and tests/gpu/opencl
// (every_operation.tests.cpp).
std::vector<attune::testing::recipe> attune::testing::every_operation_cases() {
    return {
        computes<golden::conv_dropout_keep>("conv_dropout_keep"),
        computes<golden::conv_extra_outputs>("conv_extra_outputs"),
        computes<golden::conv_kv_lengths_causal_br>("conv_kv_lengths_causal_br"),
        computes<golden::conv_merge>("conv_merge"),
        computes<golden::conv_selected_attention>("conv_selected_attention"),
        computes<golden::mask_natten_morton>("mask_natten_morton"),
        computes<golden::mask_vsa_topk>("mask_vsa_topk"),
        {"score_activation_gelu", {computes<golden::score_activation_gelu>(), computes<golden::activation_gelu>()}},
        computes<golden::score_fa4_xor>("score_fa4_xor"),
        computes<layers::per_head_projection::look_ahead>("seed002_lookahead"),
        computes<layers::multi_head_self::with_weights>("seed003_nn_mha"),
    };
}

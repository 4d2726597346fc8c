#include "../variants/windows.hpp"
#include "../golden.hpp"

std::vector<attune::testing::recipe> attune::testing::window_cases() {
    return {
        computes<golden::conv_causal_bottom_right>("conv_causal_bottom_right_tall"),
        computes<golden::conv_causal_bottom_right>("conv_causal_bottom_right_wide"),
        computes<golden::conv_decode_window_alibi>("conv_decode_window_alibi"),
        computes<golden::conv_gqa_per_head_mod>("conv_gqa_per_head_mod"),
        computes<golden::conv_kv_lengths_causal_br>("conv_kv_lengths_causal_br"),
        computes<golden::conv_window_left_only>("conv_window_left_only"),
        computes<golden::conv_window_left_right>("conv_window_left_right"),
        computes<golden::conv_window_left_right_br>("conv_window_left_right_br"),
        computes<golden::conv_window_w_keys>("conv_window_w_keys"),
        computes<golden::mask_sliding_window>("conv_window_w_plus_1"),
        computes<golden::mask_dilated_window>("mask_dilated_window"),
        computes<golden::mask_fa4_dilated_causal>("mask_fa4_dilated_causal"),
        computes<golden::mask_fa4_key_threshold>("mask_fa4_key_threshold"),
        computes<golden::mask_global_window>("mask_global_window"),
        computes<golden::mask_sliding_window>("mask_sliding_window"),
    };
}

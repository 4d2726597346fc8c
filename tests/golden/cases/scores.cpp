#include "../variants/scores.hpp"
#include "../golden.hpp"

std::vector<attune::testing::recipe> attune::testing::score_cases() {
    return {
        computes<golden::conv_alibi_fa>("conv_alibi_fa"),
        computes<golden::score_alibi_causal>("conv_alibi_heads_gym"),
        computes<golden::score_alibi_causal>("conv_alibi_heads_paper"),
        computes<golden::conv_softcap_then_mask>("conv_softcap_then_mask"),
        computes<golden::score_alibi>("score_alibi"),
        computes<golden::score_alibi_causal>("score_alibi_causal"),
        computes<golden::score_causal>("score_causal"),
        computes<golden::score_checkerboard>("score_checkerboard"),
        computes<golden::score_fa4_alibi>("score_fa4_alibi"),
        computes<golden::score_fa4_rel_bias>("score_fa4_rel_bias"),
        computes<golden::score_fa4_rel_bias_clamped>("score_fa4_rel_bias_clamped"),
        computes<golden::score_fa4_rel_bias_x2>("score_fa4_rel_bias_x2"),
        computes<golden::score_fa4_squared>("score_fa4_squared"),
        computes<golden::score_fa4_times_two>("score_fa4_times_two"),
        computes<golden::score_fa4_xor>("score_fa4_xor"),
        computes<golden::score_head_bias>("score_head_bias"),
        computes<golden::score_relative>("score_relative"),
        computes<golden::score_softcap>("score_softcap"),
    };
}

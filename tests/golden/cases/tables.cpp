#include "../variants/tables.hpp"
#include "../golden.hpp"

std::vector<attune::testing::recipe> attune::testing::table_cases() {
    return {
        computes<golden::conv_dense_bias>("conv_dense_bias_batch"),
        computes<golden::conv_dense_bias>("conv_dense_bias_heads"),
        computes<golden::conv_empty_rows>("conv_empty_rows"),
        computes<golden::conv_dense_bias>("conv_float_mask"),
        computes<golden::score_fa4_batch_bias>("score_fa4_batch_bias"),
        computes<golden::score_fa4_dual_buffer>("score_fa4_dual_buffer"),
        computes<golden::score_fa4_multi_buffer>("score_fa4_multi_buffer"),
        computes<golden::score_graphormer_edge>("score_graphormer_edge"),
        computes<golden::score_graphormer_spatial>("score_graphormer_spatial"),
        computes<golden::score_mla_rope>("score_mla_rope"),
        computes<golden::score_sandwich>("score_sandwich"),
    };
}

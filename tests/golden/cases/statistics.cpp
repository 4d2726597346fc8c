#include "../variants/statistics.hpp"
#include "../golden.hpp"

std::vector<attune::testing::recipe> attune::testing::statistic_cases() {
    return {
        computes<golden::conv_dropout_keep>("conv_dropout_keep"),
        computes<golden::conv_extra_outputs>("conv_extra_outputs"),
        computes<golden::conv_merge>("conv_merge"),
        computes<golden::conv_selected_attention>("conv_selected_attention"),
        computes<golden::conv_sink>("conv_sink"),
        computes<golden::conv_sink_empty_rows>("conv_sink_empty_rows"),
        {"score_activation_gelu", {computes<golden::score_activation_gelu>(), computes<golden::activation_gelu>()}},
        {"score_activation_relu", {computes<golden::score_activation_relu>(), computes<golden::activation_relu>()}},
        {"score_activation_sigmoid",
         {computes<golden::score_activation_sigmoid>(), computes<golden::activation_sigmoid>()}},
    };
}

#include "../variants/plain.hpp"
#include "../golden.hpp"

std::vector<attune::testing::recipe> attune::testing::plain_cases() {
    std::vector<recipe> cases;
    for (const auto* stem :
         {"conv_decode", "conv_depth_72", "conv_depth_80", "conv_depth_96", "conv_depth_112", "conv_depth_128",
          "conv_empty_kv", "conv_kv_lengths", "conv_large_scores", "conv_large_scores_exact", "conv_mqa",
          "conv_nan_padding", "conv_scale", "conv_value_depth_smaller"})
        cases.push_back(computes<golden::plain>(stem));
    return cases;
}

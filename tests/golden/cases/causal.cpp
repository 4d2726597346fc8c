#include "../golden.hpp"
#include "../variants/causal.hpp"

std::vector<attune::testing::variant_of_stem> attune::testing::causal_cases() {
    std::vector<variant_of_stem> cases;
    for (const auto* stem : {"mask_causal", "conv_causal_top_left_tall", "conv_causal_top_left_wide", "conv_depth_causal_80", "conv_gqa", "conv_value_depth_larger"})
        cases.push_back(computes<golden::mask_causal>(stem));
    return cases;
}

#include "../variants/positions.hpp"
#include "../golden.hpp"

std::vector<attune::testing::recipe> attune::testing::position_cases() {
    return {
        computes<golden::mask_batchify>("mask_batchify"),
        computes<golden::mask_block_diffusion>("mask_block_diffusion"),
        computes<golden::mask_fa4_block_diagonal>("mask_fa4_block_diagonal"),
        computes<golden::mask_fa4_causal_offset>("mask_fa4_causal_offset"),
        computes<golden::mask_fa4_mini_causal>("mask_fa4_mini_causal"),
        computes<golden::mask_fa4_prefix>("mask_fa4_prefix"),
        computes<golden::mask_jetspec_training>("mask_jetspec_training"),
        computes<golden::mask_jetspec_tree>("mask_jetspec_tree"),
        computes<golden::mask_prefix_lm>("mask_prefix_lm"),
        computes<golden::mask_svg_spatial>("mask_svg_spatial"),
        computes<golden::mask_svg_spatial>("mask_svg_spatial_sink"),
        computes<golden::mask_svg_temporal>("mask_svg_temporal"),
        computes<golden::mask_vision_cross>("mask_vision_cross"),
    };
}

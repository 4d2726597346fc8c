#include "../variants/images.hpp"
#include "../golden.hpp"

std::vector<attune::testing::recipe> attune::testing::image_cases() {
    return {
        computes<golden::mask_natten>("mask_natten"),      computes<golden::mask_natten_morton>("mask_natten_morton"),
        computes<golden::mask_natten>("mask_natten_rect"), computes<golden::mask_natten_tiled>("mask_natten_tiled"),
        computes<golden::mask_sasa>("mask_sasa"),          computes<golden::mask_sta_2d>("mask_sta_2d"),
        computes<golden::mask_sta_3d>("mask_sta_3d"),
    };
}

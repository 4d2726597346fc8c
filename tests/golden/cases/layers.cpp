#include "../variants/layers.hpp"
#include "../golden.hpp"

namespace attune::testing {

std::vector<recipe> layer_cases() {
    using namespace layers;
    return {
        computes<fused_heads::plain>("seed000_v4"),
        computes<self_attention::padded>("seed001_self_mask"),
        computes<per_head_projection::look_ahead>("seed002_lookahead"),
        computes<multi_head_self::with_weights>("seed003_nn_mha"),
    };
}

}  // namespace attune::testing

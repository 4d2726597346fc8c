#pragma once
#include "multi_head_self.hpp"

/// As torch.nn.MultiheadAttention computes it, with its weights, averaged over the heads as it returns them and a head
/// at a time.
namespace layers::multi_head_self {

inline constexpr auto with_weights =
    outputs(out = of<f32>::layer(x), output<"weights"> = mean_over_heads(of<f32>::weights(x)),
            output<"weights_per_head"> = of<f32>::weights(x));

}  // namespace layers::multi_head_self

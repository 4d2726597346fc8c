#pragma once
#include "fused_masked.hpp"

/// A fused projection, a mask, dropout on the probabilities, and an output projection.
namespace layers::fused {

constexpr auto projected(auto attention) {
    return linear(attention, weight<"output_proj_weight">, bias<"output_proj_bias">);
}  // (b, l, e)
inline constexpr auto masked_projected = projected(masked);
inline constexpr auto dropout_projected = projected(dropout);

}  // namespace layers::fused

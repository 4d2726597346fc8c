#pragma once
#include <attune/dsl.hpp>

/// Sparse VideoGen (Xi et al. 2025): P tokens of text, then n frames of F tokens; a head looks around in space or in
/// time.
namespace attune::catalogue {

using namespace dsl;

/// q < P, or k < P + sink F, or |q - k| < floor(w F / round) round; sink: 1 if all see the first frame. (attention-gym
/// generate_spatial_head_mask_mod)
constexpr auto spatial_head(operand auto prefix, operand auto frame, operand auto w, operand auto sink,
                            operand auto round) {
    return q_idx < prefix || kv_idx < prefix + frame * sink || abs(q_idx - kv_idx) < w * frame / round * round;
}

/// q < P or k < P or |(q - P) % F - (k - P) % F| < w F // n. (attention-gym generate_temporal_head_mask_mod)
constexpr auto temporal_head(operand auto prefix, operand auto frames, operand auto frame, operand auto w) {
    return q_idx < prefix || kv_idx < prefix ||
           abs((q_idx - prefix) % frame - (kv_idx - prefix) % frame) < w * frame / frames;
}

}  // namespace attune::catalogue

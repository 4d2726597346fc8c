#pragma once
#include <attune/dsl.hpp>
#include <attune/dsl/recurrent.hpp>

/// A gated delta rule, as in three of four layers of Qwen3-Next: a state of 64 KiB for each head instead of a cache
/// that grows. What a key stands for is read, and the difference to its new value is written. (Yang et al. 2024)
namespace gated_delta_net {
using namespace attune::dsl;

inline constexpr auto q_new = input<"q_new", f32>(batch, key_head, query, depth);    // (b, hk, t, d)
inline constexpr auto k_new = input<"k_new", f32>(batch, key_head, query, depth);    // (b, hk, t, d)
inline constexpr auto v_new = input<"v_new", f32>(batch, head, query, value_depth);  // (b, h, t, dv)
inline constexpr auto log_decay = input<"log_decay", f32>(batch, head, query);       // (b, h, t)
inline constexpr auto beta = input<"beta", f32>(batch, head, query);                 // (b, h, t)
inline constexpr auto state = input<"state", f32>(batch, head, depth, value_depth);  // (b, h, d, dv)

inline constexpr auto key = unit(k_new, 1e-6);
inline constexpr auto states = recurrence(state, [](auto S) {
    const auto kept = exp(log_decay(b, h, q_idx)) * S;
    return kept + t(key) * (beta(b, h, q_idx) * (v_new - key * kept));
});
inline constexpr auto layer =
    outputs(out = unit(q_new, 1e-6) * states * rsqrt(depth), output<"state_after"> = last(states));

}  // namespace gated_delta_net

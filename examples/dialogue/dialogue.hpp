#pragma once
#include <attune/dsl.hpp>

/// One that no library ships: packed dialogues. A token sees, of the conversation it belongs to and up to itself,
/// everything its own speaker said, the first token of every turn, and of the other speakers only the last w tokens;
/// scores are capped and biased by how many turns ago a token was spoken.
namespace dialogue {
using namespace attune::dsl;

inline constexpr auto conversation = input<"conversation", i32>(position);
inline constexpr auto speaker = input<"speaker", i32>(position);
inline constexpr auto turn = input<"turn", i32>(position);
inline constexpr auto opens_turn = input<"opens_turn", boolean>(position);
inline constexpr auto turn_bias = input<"turn_bias", f32>(head, axis<"turns_ago">);
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto cap = scalar<"cap", f32>;

inline constexpr auto scores =
    softcap(cap, q* t(k) * rsqrt(depth)) + turn_bias(h, turn(q_idx) - turn(kv_idx));  // (b, h, lq, lk)
inline constexpr auto remembered = speaker(q_idx) == speaker(kv_idx) || opens_turn(kv_idx) || window(w, 0);
inline constexpr auto visible = conversation(q_idx) == conversation(kv_idx) && causal && remembered;
inline constexpr auto attention = softmax(mask(scores, visible)) * v;  // (b, h, lq, dv)

}  // namespace dialogue

#pragma once
#include "language.hpp"

#include <attune/dsl/recurrent.hpp>

// What recurrences that go wrong are written with.
namespace my {
inline constexpr auto q_row = input<"q_row", f32>(batch, head, query, depth);
inline constexpr auto k_row = input<"k_row", f32>(batch, head, query, depth);
inline constexpr auto values_of_token = input<"values_of_token", f32>(batch, head, query, value_depth);
inline constexpr auto beta = input<"beta", f32>(batch, head, query);
inline constexpr auto decay = input<"decay", f32>(batch, head, query);
inline constexpr auto state_in = input<"state_in", f32>(batch, head, depth, value_depth);
inline constexpr auto x = input<"x", f32>(batch, query, axis<"channel">);
inline constexpr auto taps = input<"taps", f32>(axis<"channel">, axis<"tap">);
inline constexpr auto usual =
    recurrence(state_in, [](auto S) { return decay(b, h, q_idx) * S + t(k_row) * values_of_token; });
}  // namespace my

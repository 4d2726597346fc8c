#pragma once
#include "per_head_projection.hpp"

/// A decoder's: one sequence, and a mask that looks back only.
namespace layers::per_head_projection {

inline constexpr auto own = split_heads(x, number_of_heads);
inline constexpr auto look_ahead = out_of(hidden(own * t(own)), own);

}  // namespace layers::per_head_projection

#pragma once
#include "common.hpp"

namespace golden {

inline constexpr auto mask_causal = attention(mask(scores, causal));

}  // namespace golden

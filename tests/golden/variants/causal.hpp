#pragma once
#include "common.hpp"

namespace golden {

inline constexpr auto mask_causal = masked(causal);

}  // namespace golden

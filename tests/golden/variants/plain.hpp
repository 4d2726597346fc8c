#pragma once
#include "common.hpp"

namespace golden {

inline constexpr auto plain = attention(scores);

}  // namespace golden

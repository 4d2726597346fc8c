#pragma once
#include "language.hpp"

#include <attune/runtime.hpp>

// A variant for calls that go wrong.
namespace my {
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto variant = softmax(mask(scores + slopes(h), window(w, 0))) * v;
}  // namespace my

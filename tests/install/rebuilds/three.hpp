#pragma once
#include <attune/dsl.hpp>
namespace three {
using namespace attune::dsl;
inline constexpr auto first = softmax(q * t(k)) * v;
inline constexpr auto second = softmax(q * t(k) * rsqrt(depth)) * v;
inline constexpr auto third = softmax(mask(q * t(k), causal)) * v;
}  // namespace three

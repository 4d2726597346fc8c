#pragma once
#include <attune/dsl.hpp>

namespace test {
using namespace attune::dsl;
inline constexpr auto changing = softmax(q * t(k) * rsqrt(depth)) * v;
}  // namespace test

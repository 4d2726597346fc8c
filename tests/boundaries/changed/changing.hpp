#pragma once
// The same variant after a change: its kernels were built from built/changing.hpp.
#include <attune/dsl.hpp>

namespace test {
using namespace attune::dsl;
inline constexpr auto changing = softmax(q * t(k) * rsqrt(depth) * 0.5) * v;
}  // namespace test

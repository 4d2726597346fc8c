#pragma once
#include <attune/dsl.hpp>

/// Attention as in the paper: every query sees every key. (Vaswani et al. 2017)
namespace plain {
using namespace attune::dsl;

inline constexpr auto scores = q * t(k) * rsqrt(depth);  // (b, h, lq, lk)
inline constexpr auto attention = softmax(scores) * v;   // (b, h, lq, dv)

}  // namespace plain

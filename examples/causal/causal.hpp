#pragma once
#include <attune/dsl.hpp>

/// Query i sees keys 0..i. Two outputs from one kernel: the attention and the log-sum-exp of each row, which is what
/// one needs to merge partial results.
namespace causal_example {
using namespace attune::dsl;

inline constexpr auto scores = mask(q * t(k) * rsqrt(depth), causal);  // (b, h, lq, lk)
inline constexpr auto attention =
    outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));  // (b, h, lq, dv), (b, h, lq)

}  // namespace causal_example

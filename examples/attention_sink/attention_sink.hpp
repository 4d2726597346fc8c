#pragma once
#include <attune/dsl.hpp>

/// A learned logit a head joins the denominator of the softmax: a head that finds nothing may weigh nothing. The
/// log-sum-exp counts it too. (gpt-oss; Xiao et al. 2024)
namespace attention_sink {
using namespace attune::dsl;

inline constexpr auto sink = input<"sink", f32>(head);
inline constexpr auto scores = mask(q * t(k) * rsqrt(depth), causal);           // (b, h, lq, lk)
inline constexpr auto attention = outputs(out = softmax(scores, sink(h)) * v,   // (b, h, lq, dv)
                                          lse = log_sum_exp(scores, sink(h)));  // (b, h, lq)

}  // namespace attention_sink

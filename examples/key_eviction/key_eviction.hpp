#pragma once
#include <attune/dsl.hpp>

/// Attention that also says how much each key received, summed over the queries: what decides which keys a cache may
/// forget. The weights themselves are never stored. (H2O, Zhang et al. 2023)
namespace key_eviction {
using namespace attune::dsl;

inline constexpr auto received = output<"received">;
inline constexpr auto weights = softmax(mask(q * t(k) * rsqrt(depth), causal));   // (b, h, lq, lk)
inline constexpr auto attention = outputs(out = weights * v,                      // (b, h, lq, dv)
                                          received = sum_over_queries(weights));  // (b, h, lk)

}  // namespace key_eviction

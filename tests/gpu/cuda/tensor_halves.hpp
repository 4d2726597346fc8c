#pragma once
#include <attune/dsl.hpp>

/// Prefill and decode by tensor cores in f16, at depths of its own. No pair is masked, so that no promise of finite
/// inputs is needed.
namespace tensor_halves {

using namespace attune::dsl;

inline constexpr auto scores = softcap(30, q* t(k) * rsqrt(depth)) + 0.01 * (kv_idx % 7);
inline constexpr auto all_pairs = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));

}  // namespace tensor_halves

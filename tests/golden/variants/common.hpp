#pragma once
#include <attune/catalogue.hpp>

/// Shared parts of the golden variants. They are entries of the catalogue; every number of a file's `params` is a
/// run-time scalar of the same name, an array `a` is a_0, a_1, ...
namespace golden {

using namespace attune::dsl;
namespace catalogue = attune::catalogue;

inline constexpr auto scale = scalar<"scale", f32>;
inline constexpr auto w = scalar<"w", i32>;
inline constexpr auto slopes = input<"slopes", f32>(head);

inline constexpr auto scores = q * t(k) * scale;

/// The two outputs that nearly every file has.
template <class Scores> constexpr auto attention(Scores s) {
    return outputs(out = softmax(s) * v, lse = log_sum_exp(s));
}

/// Of the plain scores where the condition holds.
template <class Condition> constexpr auto masked(Condition visible) { return attention(mask(scores, visible)); }

}  // namespace golden

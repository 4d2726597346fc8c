#pragma once
#include <attune/dsl.hpp>

/// ALiBi (Press et al. 2022): the distance times a slope for each head. Slopes are an input read at h, or one of the
/// formulas below.
namespace attune::catalogue {

using namespace dsl;

/// s + slope (k - q). (attention-gym generate_alibi_bias, FlashInfer)
constexpr auto alibi(expression auto s, operand auto slope) { return s + slope * (kv_idx - q_idx); }

/// s + slope (k - i), i = q + Lk - Lq: the last query stands at the last key in use. (decoding with a cache)
constexpr auto alibi_bottom_right(expression auto s, operand auto slope) {
    return s + slope * (kv_idx - (q_idx + (kv_lengths(b) - query_length)));
}

/// s - slope |q - k|. (FlashAttention 4, test modification ALiBi)
constexpr auto alibi_two_sided(expression auto s, operand auto slope) { return s - slope * abs(q_idx - kv_idx); }

/// s - slope |q + Lk - Lq - k|. (FlashAttention 2)
constexpr auto alibi_two_sided_bottom_right(expression auto s, operand auto slope) {
    return s - slope * abs(q_idx + (kv_lengths(b) - query_length) - kv_idx);
}

/// 2^(-8 (h + 1) / H) for any number of heads. (attention-gym; the language's alibi_slope)
inline constexpr auto alibi_slope_gym = alibi_slope;

/// n = 2^floor(log2 H): 2^(-8 (h + 1) / n) of the first n heads, 2^(-4 (2 (h - n) + 1) / n) of the rest. (Press et al.
/// 2022, heads not a power of two)
inline constexpr auto alibi_slope_paper = [] {
    const auto n = 1 << sum(bound_index<"power">, 16, (2 << bound_index<"power">) <= heads);
    return exp2(where(h < n, -8.0 * (h + 1), -4.0 * (2 * (h - n) + 1)) / n);
}();

/// 2^(-(h + 1)). (FlashAttention 4, test modification ALiBi)
inline constexpr auto alibi_slope_halving = exp2(-1.0 * (h + 1));

}  // namespace attune::catalogue

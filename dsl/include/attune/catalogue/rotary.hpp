#pragma once
#include <attune/dsl.hpp>

/// What happens to q and k before they meet. Each is a function of x, which is called with a channel: [](auto d) { return k(b, h, kv_idx, d); }.
namespace attune::catalogue {

using namespace dsl;

/// x[d] cos[i, d % (D / 2)] + (d < D / 2 ? -x[d + D / 2] : x[d - D / 2]) sin[i, d % (D / 2)]. (RoFormer, Su et al. 2021; halves, as in GPT-NeoX and Llama)
template <class X, class Cos, class Sin>
constexpr auto rotary(X x, operand auto i, Cos cos, Sin sin) {
    const auto half = depth / 2;
    return x(d_idx) * cos(i, d_idx % half) + where(d_idx < half, -x(d_idx + half), x(d_idx - half)) * sin(i, d_idx % half);
}

/// x[d] cos[i, d // 2] + (d even ? -x[d + 1] : x[d - 1]) sin[i, d // 2]. (RoFormer; pairs, as in GPT-J)
template <class X, class Cos, class Sin>
constexpr auto rotary_pairs(X x, operand auto i, Cos cos, Sin sin) {
    return x(d_idx) * cos(i, d_idx / 2) + where(d_idx % 2 == 0, -x(d_idx + 1), x(d_idx - 1)) * sin(i, d_idx / 2);
}

/// x[d] gain[d] / sqrt(mean of x^2 + epsilon). (QK normalisation: Henry et al. 2020, Qwen 3)
template <class X, class Gain>
constexpr auto rms_norm(X x, Gain gain, operand auto epsilon) {
    constexpr auto n = bound_index<"channel">;
    return x(d_idx) * gain(d_idx) * rsqrt(sum(n, depth, x(n) * x(n)) / depth + epsilon);
}

/// x[d] scale[h, d]: a scale a channel, as of quantised keys. (KIVI, Liu et al. 2024)
template <class X, class Scale>
constexpr auto channel_scaled(X x, Scale scale) { return x(d_idx) * scale(h, d_idx); }

/// s + c (q_rope[b, h, q] . k_rope[b, h // n, k]): rotary channels apart from the others, n query heads share theirs. (DeepSeek V2; attention-gym generate_mla_rope_score_mod)
template <class QueryRope, class KeyRope>
constexpr auto mla_rope(expression auto s, QueryRope q_rope, KeyRope k_rope, operand auto group, operand auto c) {
    constexpr auto n = bound_index<"rope">;
    return s + c * sum(n, extent<3>(q_rope), q_rope(b, h, q_idx, n) * k_rope(b, h / group, kv_idx, n));
}

}  // namespace attune::catalogue

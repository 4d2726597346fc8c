#pragma once
#include <attune/dsl.hpp>

/// What is done to q and k before their product, and what is added to the product. `rotary_half`, `rotary_interleaved`
/// and `rms_norm` are the language's own.
namespace attune::catalogue {

using namespace dsl;

/// x[d] scale[h, d]: a scale for each channel, as of quantised keys. x is q, k, another input, or one of these after
/// rotary_half and the like. (KIVI, Liu et al. 2024)
template <class X, class Scale> constexpr auto channel_scaled(X x, Scale scale) {
    const auto of = channels(x);
    return channels(of.position, [of, scale](auto d) { return of(d) * scale(h, d); });
}

/// s + c (q_rope[b, h, q] . k_rope[b, h // n, k]): rotary channels apart from the others; n query heads share a key
/// head. (DeepSeek V2; attention-gym generate_mla_rope_score_mod)
template <class QueryRope, class KeyRope>
constexpr auto mla_rope(expression auto s, QueryRope q_rope, KeyRope k_rope, operand auto group, operand auto c) {
    constexpr auto n = bound_index<"rope">;
    return s + c * sum(n, extent<3>(q_rope), q_rope(b, h, q_idx, n) * k_rope(b, h / group, kv_idx, n));
}

}  // namespace attune::catalogue

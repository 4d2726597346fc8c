#pragma once
#include <attune/dsl.hpp>

/// Formulas with several softmaxes, or with a mask that differs by head, linked as an application's are.
namespace cores {

using namespace attune::dsl;

inline constexpr auto q2 = input<"q2", f32>(batch, head, query, depth);
inline constexpr auto k2 = input<"k2", f32>(batch, key_head, key, depth);
inline constexpr auto v2 = input<"v2", f32>(batch, key_head, key, value_depth);
inline constexpr auto lambda = input<"lambda", f32>(head);
inline constexpr auto gate = input<"gate", f32>(batch, head, query);

inline constexpr auto scores = q * t(k) * rsqrt(depth);
inline constexpr auto other_scores = q2 * t(k2) * rsqrt(depth);
inline constexpr auto global = mask(scores, causal_bottom_right);

// Masks that see other blocks together than each alone.
inline constexpr auto recent = mask(scores, bottom_right(window(31, 0)));
inline constexpr auto first_keys = mask(scores, kv_idx < 128);
inline constexpr auto recent_and_first = softmax(recent) * v + softmax(first_keys) * v2;
inline constexpr auto first_and_recent = softmax(first_keys) * v2 + softmax(recent) * v;

// Local and global heads in one call.
inline constexpr auto is_local = input<"is_local", boolean>(head);
constexpr auto under(expression auto condition) { return softmax(mask(scores, condition)) * v; }
inline constexpr auto by_number = under(causal_bottom_right && (h >= 2 || bottom_right(kv_idx > q_idx - 64)));
inline constexpr auto by_list = under(causal_bottom_right && (!is_local(h) || bottom_right(kv_idx > q_idx - 64)));

// A cache that all sequences share, such as a prompt's, and each one's own: two softmaxes that are merged, and one over
// both. `own_k` ends with the queries' own keys.
inline constexpr auto prefix_k = input<"prefix_k", f32>(key_head, axis<"prefix">, depth);
inline constexpr auto prefix_v = input<"prefix_v", f32>(key_head, axis<"prefix">, value_depth);
inline constexpr auto own_k = input<"own_k", f32>(batch, key_head, axis<"own">, depth);
inline constexpr auto own_v = input<"own_v", f32>(batch, key_head, axis<"own">, value_depth);
inline constexpr auto own_length = input<"own_length", i32>(batch);
inline constexpr auto prefix_length = extent<1>(prefix_k);
constexpr auto not_after_query(expression auto own_idx) {
    return own_idx < own_length(b) && own_idx <= q_idx + own_length(b) - query_length;
}
inline constexpr auto in_prefix = min(kv_idx, prefix_length - 1);
inline constexpr auto in_own = min(kv_idx, extent<2>(own_k) - 1);
inline constexpr auto longer = max(prefix_length, extent<2>(own_k));
inline constexpr auto of_prefix =
    mask(q * t(keys(prefix_k(h, in_prefix, d_idx), longer)) * rsqrt(depth), kv_idx < prefix_length);
inline constexpr auto of_own =
    mask(q * t(keys(own_k(b, h, in_own, d_idx), longer)) * rsqrt(depth), not_after_query(kv_idx));
inline constexpr auto both_caches =
    merge(state(softmax(of_prefix) * values(prefix_v(h, in_prefix, d_idx), longer), log_sum_exp(of_prefix)),
          state(softmax(of_own) * values(own_v(b, h, in_own, d_idx), longer), log_sum_exp(of_own)));
inline constexpr auto shared_and_own = outputs(out = both_caches.out, lse = both_caches.lse);

inline constexpr auto behind_prefix = clamp(kv_idx - prefix_length, 0, extent<2>(own_k) - 1);
inline constexpr auto one_after_the_other = prefix_length + extent<2>(own_k);
inline constexpr auto joined_k =
    keys(where(kv_idx < prefix_length, prefix_k(h, in_prefix, d_idx), own_k(b, h, behind_prefix, d_idx)),
         one_after_the_other);
inline constexpr auto joined_v =
    values(where(kv_idx < prefix_length, prefix_v(h, in_prefix, d_idx), own_v(b, h, behind_prefix, d_idx)),
           one_after_the_other);
inline constexpr auto over_both =
    mask(q * t(joined_k) * rsqrt(depth), kv_idx < prefix_length || not_after_query(kv_idx - prefix_length));
inline constexpr auto one_softmax = outputs(out = softmax(over_both) * joined_v, lse = log_sum_exp(over_both));

// A decoder's own keys and an encoder's. `cache_first` has as many keys as `k`: of a longer encoder the stated length
// is another.
inline constexpr auto encoder_k = input<"encoder_k", f32>(batch, key_head, axis<"token">, depth);
inline constexpr auto encoder_v = input<"encoder_v", f32>(batch, key_head, axis<"token">, value_depth);
inline constexpr auto tokens_encoded = extent<2>(encoder_k);
inline constexpr auto token = min(kv_idx, tokens_encoded - 1);
constexpr auto crossed(auto length) {
    return softmax(mask(q2 * t(keys(encoder_k(b, h, token, d_idx), length)) * rsqrt(depth), kv_idx < tokens_encoded)) *
           values(encoder_v(b, h, token, d_idx), length);
}
inline constexpr auto cache_first =
    outputs(out = softmax(global) * v, output<"crossed"> = crossed(max(extent<2>(k), tokens_encoded)));
inline constexpr auto longest = max(extent<2>(own_k), tokens_encoded);
inline constexpr auto of_cache = mask(q * t(keys(own_k(b, h, in_own, d_idx), longest)) * rsqrt(depth),
                                      kv_idx < extent<2>(own_k) && kv_idx <= q_idx + extent<2>(own_k) - query_length);
inline constexpr auto either_longer = outputs(out = softmax(of_cache) * values(own_v(b, h, in_own, d_idx), longest),
                                              output<"crossed"> = crossed(longest));

// Formulas of several softmaxes in one pass over the keys.
inline constexpr auto differential =
    softmax(global) * v - lambda(h) * (softmax(mask(other_scores, causal_bottom_right)) * v);
inline constexpr auto gated =
    gate(b, h, q_idx) * (softmax(recent) * v) + (1.0 - gate(b, h, q_idx)) * (softmax(global) * v);
inline constexpr auto behind = mask(scores, causal_bottom_right && !bottom_right(window(31, 0)));
inline constexpr auto merged =
    merge(state(softmax(recent) * v, log_sum_exp(recent)), state(softmax(behind) * v, log_sum_exp(behind))).out;

}  // namespace cores

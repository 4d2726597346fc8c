#pragma once
#include <attune/dsl.hpp>

/// Masks that limit the distance of the two positions. `window(left, right)` is the language's own.
namespace attune::catalogue {

using namespace dsl;

/// 0 <= q - k <= w: w + 1 keys. (attention-gym generate_sliding_window)
constexpr auto sliding_window(operand auto w) { return window(w, 0); }

/// 0 <= q - k < n: n keys, the query's own included; none of n = 0. (Mistral; attention-gym selected_attention)
constexpr auto last_keys(operand auto n) { return q_idx - kv_idx <= n - 1 && kv_idx - q_idx <= 0; }

/// q - k <= left, with no bound ahead; below 0 with none at all. (FlashAttention window (left, -1))
constexpr auto window_back(operand auto left) {
    constexpr int farther = 1 << 30;  // as in window(left, right)
    return kv_idx >= q_idx - dsl::detail::limit_unless(left < 0 || left > farther, left, farther);
}

/// |q - k| <= w and |q - k| % d == 0. (attention-gym generate_dilated_sliding_window)
constexpr auto dilated_window(operand auto w, operand auto d) {
    return abs(q_idx - kv_idx) <= w && abs(q_idx - kv_idx) % d == 0;
}

/// 0 <= q - k < n and (q - k) % d == 0. (FlashAttention 4, test mask dilated sliding window)
constexpr auto dilated_causal(operand auto n, operand auto d) { return last_keys(n) && (q_idx - kv_idx) % d == 0; }

/// |q - k| <= w or g[q] or g[k]. (Longformer, Beltagy et al. 2020; attention-gym generate_global_sliding_window)
template <class Global> constexpr auto global_window(operand auto w, Global is_global) {
    return window(w, w) || is_global(q_idx) || is_global(kv_idx);
}

/// 0 <= q - k <= w[h]. (FlexAttention, per-head parameters)
template <class Windows> constexpr auto window_per_head(Windows w) { return window(w(h), 0); }

/// k >= t[k]. (FlashAttention 4, test mask with a threshold a key)
template <class Thresholds> constexpr auto key_threshold(Thresholds t) { return kv_idx >= t(kv_idx); }

/// from[q] <= k < to[q]: a range of keys for each query. (FlashMask, Wang et al. 2024, by rows)
template <class From, class To> constexpr auto key_range(From from, To to) {
    return from(q_idx) <= kv_idx && kv_idx < to(q_idx);
}

}  // namespace attune::catalogue

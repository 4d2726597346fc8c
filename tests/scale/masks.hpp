#pragma once
#include <attune/catalogue/documents.hpp>
#include <attune/catalogue/jetspec.hpp>
#include <attune/catalogue/natten.hpp>
#include <attune/catalogue/prefixes.hpp>
#include <attune/catalogue/windows.hpp>
#include <attune/dsl.hpp>
#include <attune/dsl/layers.hpp>

/// Twenty masks, of which shards run over ranks: prefill and decode, some with weights that are dropped by a seed.
namespace masked {
using namespace attune::dsl;
using namespace attune::catalogue;

inline constexpr auto scores = q * t(k) * rsqrt(depth);

template <class Mask> constexpr auto by(Mask visible) {
    const auto s = mask(scores, visible);
    return outputs(out = softmax(s) * v, lse = log_sum_exp(s));
}
template <class Mask> constexpr auto dropped_by(Mask visible) {
    const auto s = mask(scores, visible);
    return outputs(out = where(keep(0.25, 4711), softmax(s), 0) * v, lse = log_sum_exp(s));
}

inline constexpr auto document = input<"document", i32>(position);
inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto is_padding = input<"is_padding", boolean>(batch, key);
inline constexpr auto reach = input<"reach", i32>(head);
inline constexpr auto of_query = input<"of_query", i32>(query);

inline constexpr auto everything = by(kv_idx >= 0);
inline constexpr auto before = dropped_by(causal);
inline constexpr auto before_last = by(causal_bottom_right);
inline constexpr auto near = by(window(30, 20));
inline constexpr auto near_last = dropped_by(bottom_right(window(40, 0)));
inline constexpr auto far_ahead = by(bottom_right(window_back(25)));
inline constexpr auto dilated = by(bottom_right(dilated_window(60, 3)));
inline constexpr auto dilated_before = by(bottom_right(dilated_causal(90, 4)));
inline constexpr auto global = by(global_window(15, is_global));
inline constexpr auto of_heads = dropped_by(bottom_right(kv_idx >= q_idx - 20 - 10 * reach(h) && causal));
inline constexpr auto unpadded = by(causal_bottom_right && !is_padding(b, kv_idx));
inline constexpr auto range = by(7 * of_query(q_idx) <= kv_idx && kv_idx < 7 * of_query(q_idx) + 50);
inline constexpr auto blocks = by(block_diagonal(48));
inline constexpr auto documents = dropped_by(document(q_idx) == document(kv_idx) && causal);
inline constexpr auto prefix = by(prefix_lm(70));
inline constexpr auto prefix_both = by(prefix_block(90));
inline constexpr auto drafts = by(draft_blocks(60, 16));
inline constexpr auto image = by(natten(16, 14, 5, 5));
inline constexpr auto odd_heads = by(bottom_right(h % 2 == 1 || (causal && kv_idx >= q_idx - 12)));
inline constexpr auto far_apart = by(abs(q_idx - kv_idx) > 35 || q_idx == kv_idx);

inline constexpr auto everything_shard = shard(everything);
inline constexpr auto before_shard = shard(before);
inline constexpr auto before_last_shard = shard(before_last);
inline constexpr auto near_shard = shard(near);
inline constexpr auto near_last_shard = shard(near_last);
inline constexpr auto far_ahead_shard = shard(far_ahead);
inline constexpr auto dilated_shard = shard(dilated);
inline constexpr auto dilated_before_shard = shard(dilated_before);
inline constexpr auto global_shard = shard(global);
inline constexpr auto of_heads_shard = shard(of_heads);
inline constexpr auto unpadded_shard = shard(unpadded);
inline constexpr auto range_shard = shard(range);
inline constexpr auto blocks_shard = shard(blocks);
inline constexpr auto documents_shard = shard(documents);
inline constexpr auto prefix_shard = shard(prefix);
inline constexpr auto prefix_both_shard = shard(prefix_both);
inline constexpr auto drafts_shard = shard(drafts);
inline constexpr auto image_shard = shard(image);
inline constexpr auto odd_heads_shard = shard(odd_heads);
inline constexpr auto far_apart_shard = shard(far_apart);

}  // namespace masked

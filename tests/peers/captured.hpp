#pragma once
#include <attune/dsl.hpp>

/// The tensors and numbers that the functions of PyTorch's tests capture.
namespace peers {

using namespace attune::dsl;

inline constexpr auto num_heads = scalar<"num_heads", i32>;
inline constexpr auto head_offset = input<"head_offset", f32>(head);
inline constexpr auto head_scale = input<"head_scale", f32>(head);
inline constexpr auto batch_scale = input<"batch_scale", f32>(batch);
inline constexpr auto tok_scale = input<"tok_scale", f32>(position);
inline constexpr auto kv_scale = input<"kv_scale", f32>(key);
inline constexpr auto q_scale = input<"q_scale", f32>(query);
inline constexpr auto seq_len = input<"seq_len", i32>(batch);
inline constexpr auto document_id = input<"document_id", i32>(position);
inline constexpr auto document_masks = input<"document_masks", i32>(batch, position);
inline constexpr auto offsets = input<"offsets", i32>(axis<"document">);
inline constexpr auto seq_idx = input<"seq_idx", boolean>(position);
inline constexpr auto bias_bq = input<"bias_bq", f32>(batch, query);
inline constexpr auto bias_4bhq = input<"bias_4bhq", f32>(axis<"four">, batch, head, query);
inline constexpr auto bias_bh4q = input<"bias_bh4q", f32>(batch, head, axis<"four">, query);
inline constexpr auto which_bias = scalar<"which_bias", i32>;
inline constexpr auto bias_qk = input<"bias_qk", f32>(query, key);
inline constexpr auto bias_bqk = input<"bias_bqk", f32>(batch, query, key);
inline constexpr auto bias_bhqk = input<"bias_bhqk", f32>(batch, head, query, key);
inline constexpr auto bias_hqk = input<"bias_hqk", f32>(head, query, key);
inline constexpr auto bias_kq = input<"bias_kq", f32>(key, query);
inline constexpr auto bias_hkq = input<"bias_hkq", f32>(head, key, query);
inline constexpr auto rel_bias_table = input<"rel_bias_table", f32>(axis<"distance">);
inline constexpr auto window_bias = input<"window_bias", f32>(axis<"window">);
inline constexpr auto rel_h = input<"rel_h", f32>(batch, head, query, axis<"row">);
inline constexpr auto num_bidirectional = input<"num_bidirectional", i32>(batch);
inline constexpr auto int_scale = scalar<"int_scale", i32>;
inline constexpr auto one_scale = input<"one_scale", f32>(axis<"one">);
inline constexpr auto scale_b8 = input<"scale_b8", f32>(batch, axis<"eight">);
inline constexpr auto key_scale = scalar<"key_scale", f32>;
inline constexpr auto key_scale_bh = input<"key_scale_bh", f32>(batch, head);
inline constexpr auto attn_mask = input<"attn_mask", boolean>(batch, axis<"one_head">, query, key);
inline constexpr auto means = input<"means", f32>(position, axis<"dimension">);
inline constexpr auto length_scales = input<"length_scales", f32>(head);
inline constexpr auto input_lengths = input<"input_lengths", i32>(batch);
inline constexpr auto offset_q = input<"offset_q", bf16>(query);
inline constexpr auto offset_kv = input<"offset_kv", bf16>(key);
inline constexpr auto offset_tensor = scalar<"offset_tensor", i32>;
inline constexpr auto rand_mask = input<"rand_mask", boolean>(batch, query);
inline constexpr auto real_offset = input<"real_offset", f32>(batch);
inline constexpr auto block_offset = input<"block_offset", i32>(batch);
inline constexpr auto mass = input<"mass", f32>(axis<"one">);
inline constexpr auto rel_logits = input<"rel_logits", f32>(axis<"twice_the_batch">, head, query, key);
inline constexpr auto idx_table = input<"idx_table", i32>(query, key);
inline constexpr auto bt = input<"bt", f32>(axis<"places">, head);
inline constexpr auto gam_sig = input<"gam_sig", f32>(head);
inline constexpr auto mu_q = input<"mu_q", f32>(batch, head, query);
inline constexpr auto mu_k = input<"mu_k", f32>(batch, head, key);
inline constexpr auto r_cutoff = scalar<"r_cutoff", i32>;
inline constexpr auto offset_of_query = input<"offset_of_query", i32>(query);
inline constexpr auto key_bias = input<"key_bias", f32>(position);
inline constexpr auto gate_score = input<"gate_score", f32>(head);
inline constexpr auto width = scalar<"width", f32>;
inline constexpr auto head_type = input<"head_type", boolean>(head);
inline constexpr auto window_size = scalar<"window_size", i32>;
inline constexpr auto current_pos = scalar<"current_pos", i32>;
inline constexpr auto each = bound_index<"each">;

}  // namespace peers

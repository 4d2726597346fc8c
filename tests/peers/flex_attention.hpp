#pragma once
#include "captured.hpp"

/// The functions that PyTorch's test_flex_attention.py and test_flex_decoding.py give FlexAttention, in attune's words.
/// page.py reads them, torch_numbers.py has PyTorch's own numbers of the same name. Above an entry
/// stand the names there (A: test_flex_attention.py, D: test_flex_decoding.py), and after "word:" what is said
/// otherwise than there, beyond floor_div for //, [i][j] for [i, j], and f(x) for torch.f(x) and x.f().
namespace peers {

// --- score_mods

// A: torch's _identity, noop_mod, simple_score_mod, test_direct_backward_*.score_mod; D: torch's _identity, noop
inline constexpr auto identity = flex(score_mod([](auto score, auto, auto, auto, auto) { return score; }));
// A: _causal, test_dynamic_divisibility_guards.score_mod, test_multiple_score_mod_calls*.scoremod_2; D: _causal,
// test_multiple_score_mod_calls*.scoremod_2
inline constexpr auto causal_score =
    score_mod([](auto score, auto, auto, auto q, auto kv) { return where(q >= kv, score, -inf); });
inline constexpr auto causal_by_score = flex(causal_score);
// A: _rel_bias, test_multiple_score_mod_calls*.scoremod_1, test_function_composition.score_mod_1; D: the same
inline constexpr auto rel_bias_score =
    score_mod([](auto score, auto, auto, auto q, auto kv) { return score + (q - kv); });
inline constexpr auto rel_bias = flex(rel_bias_score);
// A, D: _rel_causal
inline constexpr auto rel_causal =
    flex(score_mod([](auto score, auto, auto, auto q, auto kv) { return where(q >= kv, score + (q - kv), -inf); }));
// A, D: _generate_alibi_bias._alibi_bias
inline constexpr auto alibi_bias = flex(score_mod([](auto score, auto, auto head, auto q, auto kv) {
    return score + (kv - q) * exp2(-((head + 1) * 8.0 / num_heads));
}));
// A, D: _inverse_causal, test_function_composition.score_mod_2
inline constexpr auto inverse_causal_score =
    score_mod([](auto score, auto, auto, auto m, auto n) { return where(m <= n, score, -inf); });
inline constexpr auto inverse_causal = flex(inverse_causal_score);
// A, D: _times_two, test_max_autotune.score_mod; A: test_float32_matmul_precision.score_mod,
// test_flex_attention_logging.score_mod
inline constexpr auto times_two = flex(score_mod([](auto score, auto, auto, auto, auto) { return score * 2; }));
// A, D: _squared
inline constexpr auto squared = flex(score_mod([](auto score, auto, auto, auto, auto) { return score * score; }));
// A, D: _head_offset.score_mod; A: test_dynamic_captured_buffer.score_mod
inline constexpr auto scaled_by_head =
    flex(score_mod([](auto score, auto, auto h, auto, auto) { return score * head_offset[h]; }));
// A, D: _trig
inline constexpr auto trig =
    flex(score_mod([](auto score, auto b, auto, auto, auto) { return sin(cos(score)) + tan(b); }));
// A, D: _trig2
inline constexpr auto trig2 = flex(score_mod([](auto score, auto b, auto, auto, auto) {
    const auto cos_score = cos(score), sin_score = sin(score);
    return cos_score * sin_score + tan(b);
}));
// D: _generate_windowed._windowed
inline constexpr auto windowed = flex(
    score_mod([](auto score, auto, auto, auto q, auto kv) { return where(q + offset_tensor >= kv, score, -inf); }));
// A: test_doc_mask_sparse.document_masking_causal
inline constexpr auto document_masking_causal = flex(score_mod([](auto score, auto, auto, auto q_idx, auto kv_idx) {
    const auto causal_mask = q_idx >= kv_idx;
    const auto document_mask = document_id[q_idx] == document_id[kv_idx];
    return where(causal_mask & document_mask, score, -inf);
}));
// A: test_index_multiple.index_multiple
inline constexpr auto index_multiple =
    flex(score_mod([](auto score, auto b, auto, auto q_idx, auto) { return score + bias_bq[b][q_idx]; }));
// A: test_index_weird1.index_weird1
inline constexpr auto index_weird1 =
    flex(score_mod([](auto score, auto b, auto h, auto q_idx, auto) { return score + bias_4bhq[0][b][h][q_idx]; }));
// A: test_index_weird2.index_weird2, test_weird_bias.bias_func
inline constexpr auto index_weird2 = flex(
    score_mod([](auto score, auto b, auto h, auto q_idx, auto) { return score + bias_bh4q[b][h][which_bias][q_idx]; }));
// A, D: test_skip_odd_keys.score_mod
inline constexpr auto skip_odd_keys =
    flex(score_mod([](auto score, auto, auto, auto, auto kv) { return where(kv % 2 == 0, score, -inf); }));
// A, D: test_function_composition.composed_score_mod
inline constexpr auto composed_score_mod = flex(score_mod([](auto score, auto b, auto h, auto m, auto n) {
    return inverse_causal_score(rel_bias_score(score, b, h, m, n), b, h, m, n);
}));
// A: test_captured_buffers_all_dims.all_bias, test_max_autotune_with_captured.bias_mod
inline constexpr auto all_bias = flex(score_mod([](auto score, auto batch, auto head, auto token_q, auto) {
    return score + tok_scale[token_q] + batch_scale[batch] + head_scale[head];
}));
// D: test_captured_buffers.score_mod; A: test_head_bias_req_grad.head_bias
inline constexpr auto captured_buffers =
    flex(score_mod([](auto score, auto, auto h, auto, auto) { return score + head_offset[h]; }));
// D: test_captured_buffers_all_dims.all_bias, test_max_autotune_with_captured.bias_mod
inline constexpr auto all_bias_of_decoding =
    flex(score_mod([](auto score, auto batch, auto head, auto token_q, auto token_kv) {
        return score + kv_scale[token_kv] + q_scale[token_q] + head_scale[head] + batch_scale[batch];
    }));
// A, D: test_seq_masking.seq_mask_mod
inline constexpr auto seq_mask_mod = flex(
    score_mod([](auto score, auto, auto, auto q, auto kv) { return where(seq_idx[q] == seq_idx[kv], score, -inf); }));
// A, D: test_load_from_bias_seq_only.bias_mod; A: test_absolute_2d_bias.bias_func,
// test_comparison_vs_sdpa_with_learnable_bias.rel_pos_2d (both)
inline constexpr auto load_from_bias_seq_only =
    flex(score_mod([](auto score, auto, auto, auto q, auto kv) { return score + bias_qk[q][kv]; }));
// A, D: test_load_from_bias_seq_batch.bias_mod; A: test_backprop_error_case.score_mod
inline constexpr auto load_from_bias_seq_batch =
    flex(score_mod([](auto score, auto b, auto, auto q, auto kv) { return score + bias_bqk[b][q][kv]; }));
// A, D: test_load_from_bias_head_seq_batch.bias_mod; A: test_bf16_score_mod_captured_grad_dtype.bias_mod,
// test_batch_head_bias.bias_func, test_modular_indexing.score_mod, test_learnable_bias_global_compiled.bias_mod
inline constexpr auto load_from_bias_head_seq_batch =
    flex(score_mod([](auto score, auto b, auto h, auto q, auto kv) { return score + bias_bhqk[b][h][q][kv]; }));
// A: test_load_from_view_buffer.score_mod
inline constexpr auto load_from_view_buffer =
    flex(score_mod([](auto score, auto batch, auto head, auto q_idx, auto k_idx) {
        const auto h_idx = floor_div(k_idx, 4);
        return score + rel_h[batch][head][q_idx][h_idx];
    }));
// A: test_load_rel_bias.bias_mod
inline constexpr auto load_rel_bias =
    flex(score_mod([](auto score, auto, auto, auto q, auto kv) { return score + rel_bias_table[(q - kv) + 16]; }));
// A: test_dependent_causal_bidirectional.bias_mod
inline constexpr auto dependent_causal_bidirectional = flex(score_mod([](auto score, auto b, auto, auto q, auto kv) {
    const auto causal_attention = q >= kv;
    const auto cur_num_bidirectional = num_bidirectional[b];
    const auto on_video = (q <= cur_num_bidirectional) & (kv <= cur_num_bidirectional);
    return where(on_video | causal_attention, score, -inf);
}));
// A: test_natten_2d.natten_mask; word: as_real(idx) / W for the idx / W that is compared with an integer (there a
// comment says that a floor divide was meant)
inline constexpr auto natten_2d = flex(score_mod([](auto score, auto, auto, auto q, auto kv) {
    return where((abs(as_real(q) / 4 - as_real(kv) / 4) <= 1) | (abs(q % 4 - kv % 4) <= 1), score, -inf);
}));
// A, D: test_subgraph_respect_decompostion.score_mod_func
inline constexpr auto subgraph =
    flex(score_mod([](auto score, auto, auto, auto q, auto kv) { return score - floor_div(q, 1 + kv); }));
// A, D: test_silu_on_score.silu_score
inline constexpr auto silu_score = flex(score_mod([](auto score, auto, auto, auto, auto) { return silu(score); }));
// A, D: test_padded_dense_causal.njt_score_mod
inline constexpr auto padded_dense_causal = flex(score_mod([](auto qk, auto b, auto h, auto q, auto kv) {
    return where(qk <= seq_len[b], causal_score(qk, b, h, q, kv), -inf);
}));
// A, D: test_captured_scale.score_mod_scale, test_recompile_changed_score_mod.score_mod_scale where ADD
inline constexpr auto captured_scale = flex(score_mod([](auto qk, auto, auto, auto, auto) { return qk + int_scale; }));
// A, D: test_recompile_changed_score_mod.score_mod_scale where not ADD
inline constexpr auto recompile_changed_score_mod = flex(score_mod([](auto qk, auto, auto, auto, auto) {
    constexpr bool ADD = false;
    if constexpr (ADD)
        return qk + int_scale;
    else
        return qk * int_scale;
}));
// A: test_captured_scalar_grad.score_mod_scale
inline constexpr auto captured_scalar_grad =
    flex(score_mod([](auto qk, auto, auto, auto, auto) { return qk + one_scale[0]; }));
// A, D: test_captured_reduction.score_mod_scale, which fails there; word: sum(each, 8, scale[b][each]) for
// scale[b].sum(dim=-1)
inline constexpr auto captured_reduction =
    flex(score_mod([](auto qk, auto b, auto, auto, auto) { return qk + sum(each, 8, scale_b8[b][each]); }));
// A: test_inputs_are_realized.func, with the sine of q and the cosine of the output; word: queries(sin(q(b, h, q_idx,
// d_idx))) for q.sin()
inline constexpr auto inputs_are_realized =
    cos(flex(queries(sin(q(b, h, q_idx, d_idx))), k, v,
             score_mod([](auto qk, auto, auto, auto q, auto) { return qk + tok_scale[q]; })));
// A, D: test_njt_causal.njt_score_mod
inline constexpr auto njt_causal = flex(score_mod([](auto qk, auto b, auto h, auto q, auto kv) {
    const auto q_nested = q - offsets[document_id[q]];
    const auto kv_nested = kv - offsets[document_id[kv]];
    return causal_score(qk, b, h, q_nested, kv_nested);
}));
// A: test_mixed_dtypes_sqnr_per_tensor.score_mod
inline constexpr auto sqnr_per_tensor =
    flex(score_mod([](auto score, auto, auto, auto, auto) { return score * key_scale; }));
// A: test_mixed_dtypes_sqnr_per_head.score_mod
inline constexpr auto sqnr_per_head =
    flex(score_mod([](auto score, auto b, auto h, auto, auto) { return score * key_scale_bh[b][h]; }));
// A: test_autograd_function_in_score_mod.score_mod; word: where(...), the forward of its class, for ApplyMask.apply
inline constexpr auto autograd_function =
    flex(score_mod([](auto score, auto, auto, auto q, auto kv) { return where(q <= kv, score, -inf); }));
// A: test_new_empty_mask_mod.score_mod and .causal; word: 0 for h.new_zeros(h.shape), as_integer(condition) for a
// condition that is added
inline constexpr auto new_empty_mask_mod =
    flex(score_mod([](auto score, auto b, auto, auto q_idx, auto kv_idx) {
             return score + as_integer(attn_mask[b][0][q_idx][kv_idx]);
         }),
         mask_mod([](auto b, auto, auto q_idx, auto kv_idx) { return attn_mask[b][0][q_idx][kv_idx]; }));
// A: test_score_mod_without_score_gradient_errors.score_mod, which fails there in training; word: 0 * score +, where a
// score_mod does not depend on the score, as_integer(condition)
inline constexpr auto without_score = flex(
    score_mod([](auto score, auto, auto, auto q_idx, auto kv_idx) { return 0 * score + as_integer(q_idx >= kv_idx); }));
// A: test_captured_wrong_device_error_message, test_cant_lower_error_message, test_reduction_unrolled:
// euclidean_dist_pos_embed; word: sum(each, 3, ...) for the .sum(-1) of rows
inline constexpr auto euclidean_dist_pos_embed = flex(score_mod([](auto score, auto, auto h, auto q_idx, auto k_idx) {
    const auto dist = sqrt(sum(each, 3, pow(means[q_idx][each] - means[k_idx][each], 2)));
    const auto scale = length_scales[h];
    const auto inv_dist = exp(-dist / scale);
    return inv_dist * score;
}));
// A: test_causal_block_non_divisible_with_captured_buffer.score_mod, test_distinct_biases.bias_func; D:
// test_non_divisible_multi_token_offset_mask_with_captured_buffer.score_mod
inline constexpr auto distinct_biases =
    flex(score_mod([](auto score, auto, auto, auto q, auto kv) { return score + offset_q[q] + offset_kv[kv]; }));
// A: test_non_divisible_with_captured_buffer.apply_multiplicative_bias, test_multiplicative_bias.bias_func
inline constexpr auto multiplicative_bias =
    flex(score_mod([](auto score, auto, auto, auto q_idx, auto) { return score * offset_q[q_idx]; }));
// A: test_symbol_closure_in_score_mod's lambda
inline constexpr auto symbol_closure = flex(score_mod([](auto s, auto, auto, auto, auto) { return s + batches; }));
// A: test_custom_score_mod_layout_freeze.score_mod; word: as_integer(has_bias) for has_bias.to(score.dtype)
inline constexpr auto layout_freeze = flex(score_mod([](auto score, auto b, auto h, auto q, auto kv) {
    const auto has_bias = (q >= r_cutoff) & (kv >= r_cutoff);
    const auto l2 = idx_table[q][kv];
    const auto bias = bt[l2][h];
    const auto w_gate = gam_sig[h] * (mu_q[b][h][q] + mu_k[b][h][kv]);
    return score + as_integer(has_bias) * w_gate * bias;
}));
// A: test_upcast_appropriately.score_mod
inline constexpr auto upcast_appropriately =
    flex(score_mod([](auto score, auto, auto, auto, auto) { return score + log(mass[0]); }));
// A: test_flex_attention_poisoned_rel_logits.score_mod and .causal
inline constexpr auto poisoned_rel_logits =
    flex(score_mod([](auto score, auto b, auto h, auto q, auto kv) { return score + rel_logits[b][h][q][kv]; }),
         mask_mod([](auto, auto, auto q, auto kv) { return q >= kv; }));
// A: test_flex_attention_poison_mod_fwd.score_mod
inline constexpr auto poison_mod_fwd = flex(score_mod([](auto score, auto, auto, auto, auto) { return 1 / score; }),
                                            mask_mod([](auto, auto, auto q, auto kv) { return q >= kv; }));
// A: test_flex_attention_poison_mod_bwd.score_mod
inline constexpr auto poison_mod_bwd =
    flex(score_mod([](auto score, auto, auto, auto, auto) { return where(score > 0, log(score), score); }),
         mask_mod([](auto, auto, auto q, auto kv) { return q >= kv; }));
// A: test_relative_1d_bias.bias_func, test_relative_1d_bias_only_grad.bias_func
inline constexpr auto relative_1d_bias = flex(score_mod(
    [](auto score, auto, auto, auto q_idx, auto kv_idx) { return score + rel_bias_table[abs(q_idx - kv_idx)]; }));
// A: test_head_specific_bias.bias_func
inline constexpr auto head_specific_bias = flex(
    score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) { return score + bias_hqk[h][q_idx][kv_idx]; }));
// A: test_local_window_bias.bias_func
inline constexpr auto local_window_bias = flex(score_mod([](auto score, auto, auto, auto q_idx, auto kv_idx) {
    const auto window_idx = clamp(q_idx - kv_idx + 3, 0, 2 * 3);
    return score + window_bias[window_idx];
}));
// A: test_global_tokens_bias.bias_func; D: test_non_divisible_offset_mask_with_captured_buffer.score_mod
inline constexpr auto global_tokens_bias =
    flex(score_mod([](auto score, auto, auto, auto, auto kv_idx) { return score + kv_scale[kv_idx]; }));
// A: test_indirect_bias.bias_func
inline constexpr auto indirect_bias =
    flex(score_mod([](auto score, auto, auto, auto q_idx, auto) { return score + tok_scale[offset_of_query[q_idx]]; }));
// A: test_symmetric_bias.bias_func
inline constexpr auto symmetric_bias = flex(score_mod(
    [](auto score, auto, auto, auto q_idx, auto kv_idx) { return score + key_bias[q_idx] + key_bias[kv_idx]; }));
// A: test_flipped_indexed_bias.bias_func, test_comparison_vs_sdpa_with_learnable_bias.rel_pos_2d_transposed
inline constexpr auto flipped_indexed_bias =
    flex(score_mod([](auto score, auto, auto, auto q_idx, auto kv_idx) { return score + bias_kq[kv_idx][q_idx]; }));
// A: test_head_specific_gate.bias_func
inline constexpr auto head_specific_gate =
    flex(score_mod([](auto score, auto, auto h, auto, auto) { return score * sigmoid(gate_score[h]); }));
// A: test_comparison_vs_sdpa_with_learnable_bias.rel_pos_1d
inline constexpr auto rel_pos_1d = flex(
    score_mod([](auto score, auto, auto, auto q_idx, auto kv_idx) { return score + rel_bias_table[q_idx + kv_idx]; }));
// A: test_comparison_vs_sdpa_with_learnable_bias.rel_pos_3d_transposed
inline constexpr auto rel_pos_3d_transposed = flex(
    score_mod([](auto score, auto, auto h, auto q_idx, auto kv_idx) { return score + bias_hkq[h][kv_idx][q_idx]; }));

// --- mask_mods

// A: torch's noop_mask; D: the same
inline constexpr auto noop_mask = flex(mask_mod([](auto b, auto, auto, auto) { return b >= 0; }));
// A: _causal_mask, every causal_mask, causal, base_mask_mod and mask_mod that is q >= kv, test_device_cuda_1's lambda;
// D: test_larger_block_mask_bug.mask_mod, test_decode_at_different_input_position.causal_mask
inline constexpr auto is_causal = mask_mod([](auto, auto, auto q, auto kv) { return q >= kv; });
inline constexpr auto causal_by_mask = flex(is_causal);
// A: _inverse_causal_mask
inline constexpr auto inverse_causal_mask = flex(mask_mod([](auto, auto, auto q, auto kv) { return q <= kv; }));
// A: test_backward_kernel_options_filtering.mask_mod
inline constexpr auto strictly_causal = flex(mask_mod([](auto, auto, auto q, auto kv) { return q > kv; }));
// A: test_small_block_mask.batch_mask_mod
inline constexpr auto batch_mask_mod = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    const auto q_idx_batch = document_id[q_idx];
    const auto kv_idx_batch = document_id[kv_idx];
    return (q_idx_batch == kv_idx_batch) & (q_idx_batch != -1) & (kv_idx_batch != -1);
}));
// A: test_kv_order_invariance_padded_causal.padded_causal_mask
inline constexpr auto padded_causal_mask =
    flex(mask_mod([](auto, auto, auto q, auto kv) { return (q < current_pos) & (q >= kv); }));
// A: test_compacted_block_mask_matches_reference_after_recompile.mask_fn
inline constexpr auto compacted = flex(mask_mod([](auto b, auto, auto q_idx, auto kv_idx) {
    const auto causal = q_idx >= kv_idx;
    const auto same_document = document_masks[b][q_idx] == document_masks[b][kv_idx];
    return causal | same_document;
}));
// A: test_mask_mod_handles_symint_addition._opaque_mask
inline constexpr auto symint_addition = flex(mask_mod([](auto, auto, auto q_idx, auto) {
    const auto ref = floor_div(query_length, 8);
    const auto mot = floor_div(key_length, 12);
    return q_idx < (ref + mot) * 4;
}));
// A: test_mask_mod_handles_derived_symint_closure._opaque_mask
inline constexpr auto derived_symint_closure = flex(mask_mod([](auto, auto, auto, auto kv_idx) {
    const auto p_plus = current_pos + 1;
    return kv_idx <= p_plus;
}));
// A: test_multiple_mask_calls.causal_mask_slidewindow_mod
inline constexpr auto causal_mask_slidewindow_mod = flex(
    mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return (q_idx >= kv_idx) & (q_idx <= kv_idx + window_size); }));
// A: test_mask_mod_combiners.causal_mask with .sliding_window
inline constexpr auto and_of_masks =
    flex(and_masks(is_causal, mask_mod([](auto, auto, auto q, auto kv) { return (q - kv) <= 5; })));
// A: test_mask_mod_combiners.causal_mask with .neg_causal_mask, which sees nothing together
inline constexpr auto is_not_causal = mask_mod([](auto, auto, auto q, auto kv) { return q < kv; });
inline constexpr auto nothing_visible = flex(and_masks(is_causal, is_not_causal));
// A: test_mask_mod_combiners.causal_mask or .neg_causal_mask
inline constexpr auto or_of_masks = flex(or_masks(is_causal, is_not_causal));
// A: _test_block_mask_reuse_with_weird_mask.mask
inline constexpr auto weird_mask = flex(mask_mod([](auto, auto, auto, auto kv) { return (kv < 3) | (kv >= 11); }));
// A: test_document_masking_edge_case.mask_mod
inline constexpr auto document_masking_edge_case = flex(mask_mod([](auto b, auto, auto q, auto kv) {
    const auto same_doc = document_masks[b][q] == document_masks[b][kv];
    return same_doc;
}));
// A: test_fully_masked_out_rows_0_check.mask_mod, test_fully_masked_out_rows.mask_mod; D:
// test_fully_masked_out_rows_0_check_gqa.mask_mod
inline constexpr auto fully_masked_out_rows =
    flex(mask_mod([](auto, auto, auto q, auto) { return q < 6; }), return_lse);
// A: test_block_mask_non_divisible.mod, generate_doc_mask_mod.doc_mask_mod
inline constexpr auto block_mask_non_divisible =
    flex(mask_mod([](auto, auto, auto q, auto kv) { return document_id[q] == document_id[kv]; }));
// A: test_lse_masked_output.sliding_window_causal
inline constexpr auto sliding_window_causal = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
                                                       const auto causal_mask = q_idx >= kv_idx;
                                                       const auto window_mask = q_idx - kv_idx <= window_size;
                                                       return causal_mask & window_mask;
                                                   }),
                                                   return_lse);
// A: test_lse_masked_output.global_causal
inline constexpr auto global_causal = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
                                               const auto causal_mask = q_idx >= kv_idx;
                                               const auto window_mask = q_idx - kv_idx > window_size;
                                               return causal_mask & window_mask;
                                           }),
                                           return_lse);
// A: test_dynamic_shapes_bug_dynamic_batch._flex_attention_mask
inline constexpr auto dynamic_batch = flex(mask_mod([](auto b, auto, auto q_idx, auto kv_idx) {
    const auto padding_condition = (q_idx < input_lengths[b]) & (kv_idx < input_lengths[b]);
    return padding_condition;
}));
// A: test_free_symbol_dynamic.batch_flip_causal
inline constexpr auto batch_flip_causal =
    flex(mask_mod([](auto b, auto, auto q_idx, auto kv_idx) { return (q_idx >= kv_idx) & (b % 2 == 0); }));
// A: test_free_symbol_dynamic's lambda
inline constexpr auto not_rand_mask =
    flex(mask_mod([](auto b, auto, auto q_idx, auto) { return ~rand_mask[b][q_idx]; }));
// A: test_direct_backward_preserves_explicit_buffers.mask_mod,
// test_direct_backward_inductor_supports_scalar_mask_mod_buffers.mask_mod,
// test_mask_mod_functools_partial.causal_mask_with_offset, test_broadcasted_head_block_mask._mask_mod; D:
// causal_offset_mask, every mask_mod that is q + 1000 >= kv
inline constexpr auto causal_mask_with_offset =
    flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return (q_idx + offset_tensor) >= kv_idx; }));
// A: test_callable_class_mask_mod.CausalOrWindowMask
struct causal_or_window_mask {
    int window;
    template <class B, class H, class Q, class K> constexpr auto operator()(B, H, Q q_idx, K kv_idx) const {
        const auto causal = q_idx >= kv_idx;
        const auto in_window = (kv_idx - q_idx) < window;
        return causal | in_window;
    }
};
inline constexpr auto callable_class = flex(mask_mod(causal_or_window_mask{4}));
// A: test_large_kv_int64_pointer_math.mask_mod
inline constexpr auto tail_of_keys =
    flex(mask_mod([](auto, auto, auto, auto kv_idx) { return kv_idx >= (key_length - window_size); }));
// A: test_block_mask_attributes.causal_mask, test_getitem.causal_mask, test_block_mask_device_change.causal_mask
inline constexpr auto real_offsets =
    flex(mask_mod([](auto b, auto, auto q, auto kv) { return (q + (real_offset[b] * 4)) >= kv; }));
// A: test_block_mask_viz.causal_offset_mask
inline constexpr auto causal_offset_mask =
    flex(mask_mod([](auto b, auto, auto q, auto kv) { return (q + block_offset[b] * 4) >= kv; }));
// A: test_compiling_create_block_mask.mask_mod
inline constexpr auto causal_documents =
    flex(mask_mod([](auto, auto, auto q, auto kv) { return (q >= kv) & (document_id[q] == document_id[kv]); }));
// A: test_doc_mask_clamped_repro.doc_mask_mod; word: extent<0>(t) for t.shape[0]
inline constexpr auto doc_mask_clamped = flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) {
    return document_id[clamp(q_idx, 0, extent<0>(document_id) - 1)] ==
           document_id[clamp(kv_idx, 0, extent<0>(document_id) - 1)];
}));
// A: test_inspect_bug.sliding_window
inline constexpr auto sliding_window_of_a_real =
    flex(mask_mod([](auto, auto, auto q_idx, auto kv_idx) { return abs(q_idx - kv_idx) < width; }));
// D: test_non_divisible_offset_mask*.mask_mod, test_non_divisible_multi_token_offset_mask*.mask_mod
inline constexpr auto offset_mask = flex(mask_mod([](auto, auto, auto q, auto kv) { return kv >= q + offset_tensor; }));
// D: test_head_dependent_mask_mod.mask_mod
inline constexpr auto head_dependent = flex(mask_mod([](auto, auto h, auto q_idx, auto kv_idx) {
    const auto bi_mask = head_type[h];
    const auto causal_mask = q_idx >= kv_idx;
    return bi_mask & causal_mask;
}));

}  // namespace peers

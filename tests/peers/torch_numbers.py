#!/usr/bin/env python3
"""PyTorch's own numbers for every entry of flex_attention.hpp and attention_gym.hpp: flex_attention in double precision, of the same names.

    torch_numbers.py <folder of attention-gym>        writes torch_numbers.safetensors; needs torch

What attention-gym makes is taken from its package; PyTorch's test functions are nested in tests, and stand below as formulas. Where those have numbers for
long sequences (a window of 512), they are smaller here, on both sides.
"""
import argparse
import json
import pathlib
import struct
import sys
import types

import torch
import torch.nn.attention.flex_attention
from torch.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask, flex_attention, noop_mask, or_masks

B, H, KEY_HEADS, Q, K, D = 2, 2, 1, 14, 16, 4
POSITIONS = max(Q, K)
INF = float("inf")
WITH_LSE = {"fully_masked_out_rows", "sliding_window_causal", "global_causal", "subtle_mask_mod"}


def inputs():
    """Tensors and numbers by the names of the headers."""
    made = torch.Generator().manual_seed(20)
    real = lambda *shape: torch.randn(*shape, generator=made)
    below = lambda most, *shape: torch.randint(0, most, shape, generator=made, dtype=torch.int32)
    i32 = lambda values: torch.tensor(values, dtype=torch.int32)
    tensors = {
        "q": real(B, H, Q, D), "k": real(B, KEY_HEADS, K, D), "v": real(B, KEY_HEADS, K, D),
        "head_offset": torch.rand(H, generator=made), "head_scale": real(H), "batch_scale": real(B), "tok_scale": real(POSITIONS), "kv_scale": real(K),
        "q_scale": real(Q), "seq_len": i32([1, 2]), "document_id": i32([0] * 5 + [1] * 4 + [2] * 7), "offsets": i32([0, 5, 9, 16]),
        "document_masks": i32([[0] * 7 + [1] * 9, [0] * 11 + [1] * 5]), "seq_idx": torch.arange(POSITIONS) >= POSITIONS // 2,
        "bias_bq": real(B, Q), "bias_4bhq": real(4, B, H, Q), "bias_bh4q": real(B, H, 4, Q), "bias_qk": real(Q, K), "bias_bqk": real(B, Q, K),
        "bias_bhqk": real(B, H, Q, K), "bias_hqk": real(H, Q, K), "bias_kq": real(K, Q), "bias_hkq": real(H, K, Q), "rel_bias_table": real(32),
        "window_bias": real(7), "rel_h": real(B, H, Q, 4), "num_bidirectional": i32([4, 9]), "one_scale": real(1), "scale_b8": real(B, 8),
        "key_scale_bh": torch.rand(B, H, generator=made), "attn_mask": torch.ones(B, 1, Q, K, dtype=torch.bool).tril(), "means": real(POSITIONS, 3),
        "length_scales": torch.rand(H, generator=made) + 0.5, "input_lengths": i32([6, 12]), "offset_q": real(Q).bfloat16(), "offset_kv": real(K).bfloat16(),
        "rand_mask": torch.rand(B, Q, generator=made) < 0.3, "real_offset": torch.tensor([0.0, 1.5]), "block_offset": i32([0, 1]),
        "mass": torch.rand(1, generator=made) + 0.5, "rel_logits": torch.cat([real(B, H, Q, K), torch.full((B, H, Q, K), float("nan"))]),
        "idx_table": below(9, Q, K), "bt": real(9, H), "gam_sig": torch.rand(H, generator=made), "mu_q": real(B, H, Q), "mu_k": real(B, H, K),
        "offset_of_query": below(Q, Q), "key_bias": real(POSITIONS), "gate_score": real(H), "head_type": torch.tensor([False, True]),
        "is_global": torch.tensor([True] + [False] * 8 + [True] + [False] * 6), "intervals": i32([[0, 4], [3, 9], [8, 14], [0, 14]]),
        "image_boundaries": torch.arange(K, dtype=torch.int32) // 4, "prefix_document_id": i32([0, 0, 1]),
        "topk_indices": below(4, B, H, 4, 2), "variable_block_sizes": i32([4, 3, 4, 2]), "block_map": torch.rand(B, H, 4, 4, generator=made) < 0.6,
        "spatial_bias": real(H, 5), "distances": below(5, B, Q, K), "edge_bias": real(H, 3, 4), "path_edge_types": below(4, B, Q, K, 3),
        "path_lengths": below(4, B, Q, K), "query_rope": real(B, H, Q, 3), "key_rope": real(B, 1, K, 3),
        "physical_to_logical": i32([[2, -1, 0, 1], [-1, 3, 1, -1]]), "alibi_slopes": torch.rand(H, generator=made),
    }
    root = [-1] + [(i - 1) // 2 for i in range(1, Q)]
    ancestors = torch.eye(Q, dtype=torch.bool)
    for i in range(1, Q):
        ancestors[i] |= ancestors[root[i]]
    tensors["ancestor_matrix"] = ancestors
    numbers = {"num_heads": 8, "which_bias": 2, "int_scale": 3, "key_scale": 0.75, "offset_tensor": 3, "r_cutoff": 2, "width": 3.5, "window_size": 4,
               "current_pos": 9, "soft_cap": 2}
    return tensors, numbers


def score_mods(t, x):
    """PyTorch's score_mods, by entry; a pair has a mask_mod beside it."""
    causal = lambda s, b, h, q, k: torch.where(q >= k, s, -INF)
    relative = lambda s, b, h, q, k: s + (q - k)
    inverse = lambda s, b, h, q, k: torch.where(q <= k, s, -INF)
    below_diagonal = lambda b, h, q, k: q >= k

    def euclidean(s, b, h, q, k):
        distance = (t.means[q] - t.means[k]).pow(2).sum(-1).sqrt()
        return torch.exp(-distance / t.length_scales[h]) * s

    def gated(s, b, h, q, k):
        real = (q >= x.r_cutoff) & (k >= x.r_cutoff)
        return s + real.to(s.dtype) * (t.gam_sig[h] * (t.mu_q[b, h, q] + t.mu_k[b, h, k])) * t.bt[t.idx_table[q, k], h]

    return {
        "identity": lambda s, b, h, q, k: s, "causal_by_score": causal, "rel_bias": relative, "inverse_causal": inverse,
        "rel_causal": lambda s, b, h, q, k: torch.where(q >= k, s + (q - k), -INF),
        "alibi_bias": lambda s, b, h, q, k: s + (k - q) * torch.exp2(-((h + 1) * 8.0 / x.num_heads)),
        "times_two": lambda s, b, h, q, k: s * 2, "squared": lambda s, b, h, q, k: s * s,
        "scaled_by_head": lambda s, b, h, q, k: s * t.head_offset[h], "trig": lambda s, b, h, q, k: torch.sin(torch.cos(s)) + torch.tan(b),
        "trig2": lambda s, b, h, q, k: torch.cos(s) * torch.sin(s) + torch.tan(b),
        "windowed": lambda s, b, h, q, k: torch.where(q + x.offset_tensor >= k, s, -INF),
        "document_masking_causal": lambda s, b, h, q, k: torch.where((q >= k) & (t.document_id[q] == t.document_id[k]), s, -INF),
        "index_multiple": lambda s, b, h, q, k: s + t.bias_bq[b][q], "index_weird1": lambda s, b, h, q, k: s + t.bias_4bhq[0][b, h][q],
        "index_weird2": lambda s, b, h, q, k: s + t.bias_bh4q[b][h][torch.tensor(x.which_bias), q],
        "skip_odd_keys": lambda s, b, h, q, k: torch.where(k % 2 == 0, s, -INF),
        "composed_score_mod": lambda s, b, h, q, k: inverse(relative(s, b, h, q, k), b, h, q, k),
        "all_bias": lambda s, b, h, q, k: s + t.tok_scale[q] + t.batch_scale[b] + t.head_scale[h],
        "captured_buffers": lambda s, b, h, q, k: s + t.head_offset[h],
        "all_bias_of_decoding": lambda s, b, h, q, k: s + t.kv_scale[k] + t.q_scale[q] + t.head_scale[h] + t.batch_scale[b],
        "seq_mask_mod": lambda s, b, h, q, k: torch.where(t.seq_idx[q] == t.seq_idx[k], s, -INF),
        "load_from_bias_seq_only": lambda s, b, h, q, k: s + t.bias_qk[q, k],
        "load_from_bias_seq_batch": lambda s, b, h, q, k: s + t.bias_bqk[b, q, k],
        "load_from_bias_head_seq_batch": lambda s, b, h, q, k: s + t.bias_bhqk[b, h, q, k],
        "load_from_view_buffer": lambda s, b, h, q, k: s + t.rel_h[b, h, q, k // 4],
        "load_rel_bias": lambda s, b, h, q, k: s + t.rel_bias_table[(q - k) + 16],
        "dependent_causal_bidirectional": lambda s, b, h, q, k: torch.where(
            ((q <= t.num_bidirectional[b]) & (k <= t.num_bidirectional[b])) | (q >= k), s, -INF),
        "natten_2d": lambda s, b, h, q, k: torch.where(((q / 4 - k / 4).abs() <= 1) | ((q % 4 - k % 4).abs() <= 1), s, -INF),
        "subgraph": lambda s, b, h, q, k: s - q // (1 + k), "silu_score": lambda s, b, h, q, k: torch.nn.functional.silu(s),
        "padded_dense_causal": lambda s, b, h, q, k: torch.where(s <= t.seq_len[b], causal(s, b, h, q, k), -INF),
        "captured_scale": lambda s, b, h, q, k: s + x.int_scale, "recompile_changed_score_mod": lambda s, b, h, q, k: s * x.int_scale,
        "captured_scalar_grad": lambda s, b, h, q, k: s + t.one_scale[0], "captured_reduction": lambda s, b, h, q, k: s + t.scale_b8[b].sum(dim=-1),
        "njt_causal": lambda s, b, h, q, k: causal(s, b, h, q - t.offsets[t.document_id[q]], k - t.offsets[t.document_id[k]]),
        "sqnr_per_tensor": lambda s, b, h, q, k: s * x.key_scale, "sqnr_per_head": lambda s, b, h, q, k: s * t.key_scale_bh[b, h],
        "autograd_function": inverse,
        "new_empty_mask_mod": (lambda s, b, h, q, k: s + t.attn_mask[b, h.new_zeros(h.shape), q, k], lambda b, h, q, k: t.attn_mask[b, h.new_zeros(h.shape), q, k]),
        "without_score": lambda s, b, h, q, k: (q >= k).to(s.dtype), "euclidean_dist_pos_embed": euclidean,
        "distinct_biases": lambda s, b, h, q, k: s + t.offset_q[q] + t.offset_kv[k], "multiplicative_bias": lambda s, b, h, q, k: s * t.offset_q[q],
        "symbol_closure": lambda s, b, h, q, k: s + B, "layout_freeze": gated, "upcast_appropriately": lambda s, b, h, q, k: s + torch.log(t.mass[0]),
        "poisoned_rel_logits": (lambda s, b, h, q, k: s + t.rel_logits[b, h, q, k], below_diagonal),
        "poison_mod_fwd": (lambda s, b, h, q, k: 1 / s, below_diagonal),
        "poison_mod_bwd": (lambda s, b, h, q, k: torch.where(s > 0, torch.log(s), s), below_diagonal),
        "relative_1d_bias": lambda s, b, h, q, k: s + t.rel_bias_table[torch.abs(q - k)],
        "head_specific_bias": lambda s, b, h, q, k: s + t.bias_hqk[h, q, k],
        "local_window_bias": lambda s, b, h, q, k: s + t.window_bias[torch.clamp(q - k + 3, 0, 6)],
        "global_tokens_bias": lambda s, b, h, q, k: s + t.kv_scale[k], "indirect_bias": lambda s, b, h, q, k: s + t.tok_scale[t.offset_of_query[q]],
        "symmetric_bias": lambda s, b, h, q, k: s + t.key_bias[q] + t.key_bias[k], "flipped_indexed_bias": lambda s, b, h, q, k: s + t.bias_kq[k, q],
        "head_specific_gate": lambda s, b, h, q, k: s * torch.sigmoid(t.gate_score[h]), "rel_pos_1d": lambda s, b, h, q, k: s + t.rel_bias_table[q + k],
        "rel_pos_3d_transposed": lambda s, b, h, q, k: s + t.bias_hkq[h, k, q],
    }


def mask_mods(t, x):
    """PyTorch's mask_mods, by entry."""
    causal, later = (lambda b, h, q, k: q >= k), (lambda b, h, q, k: q < k)
    ids = t.document_id
    same = lambda of: lambda b, h, q, k: of[b, q] == of[b, k]
    return {
        "noop_mask": noop_mask, "causal_by_mask": causal, "inverse_causal_mask": lambda b, h, q, k: q <= k, "strictly_causal": lambda b, h, q, k: q > k,
        "batch_mask_mod": lambda b, h, q, k: (ids[q] == ids[k]) & (ids[q] != -1) & (ids[k] != -1),
        "padded_causal_mask": lambda b, h, q, k: (q < x.current_pos) & (q >= k), "compacted": lambda b, h, q, k: (q >= k) | same(t.document_masks)(b, h, q, k),
        "symint_addition": lambda b, h, q, k: q < (Q // 8 + K // 12) * 4, "derived_symint_closure": lambda b, h, q, k: k <= x.current_pos + 1,
        "causal_mask_slidewindow_mod": lambda b, h, q, k: (q >= k) & (q <= k + x.window_size),
        "and_of_masks": and_masks(causal, lambda b, h, q, k: q - k <= 5), "nothing_visible": and_masks(causal, later), "or_of_masks": or_masks(causal, later),
        "weird_mask": lambda b, h, q, k: (k < 3) | (k >= 11), "document_masking_edge_case": same(t.document_masks),
        "fully_masked_out_rows": lambda b, h, q, k: q < 6, "block_mask_non_divisible": lambda b, h, q, k: ids[q] == ids[k],
        "sliding_window_causal": lambda b, h, q, k: (q >= k) & (q - k <= x.window_size),
        "global_causal": lambda b, h, q, k: (q >= k) & (q - k > x.window_size),
        "dynamic_batch": lambda b, h, q, k: (q < t.input_lengths[b]) & (k < t.input_lengths[b]),
        "batch_flip_causal": lambda b, h, q, k: (q >= k) & (b % 2 == 0), "not_rand_mask": lambda b, h, q, k: ~t.rand_mask[b, q],
        "causal_mask_with_offset": lambda b, h, q, k: q + x.offset_tensor >= k, "callable_class": lambda b, h, q, k: (q >= k) | (k - q < 4),
        "tail_of_keys": lambda b, h, q, k: k >= K - x.window_size, "real_offsets": lambda b, h, q, k: q + t.real_offset[b] * 4 >= k,
        "causal_offset_mask": lambda b, h, q, k: q + t.block_offset[b] * 4 >= k, "causal_documents": lambda b, h, q, k: (q >= k) & (ids[q] == ids[k]),
        "doc_mask_clamped": lambda b, h, q, k: ids[q.clamp(0, ids.shape[0] - 1)] == ids[k.clamp(0, ids.shape[0] - 1)],
        "sliding_window_of_a_real": lambda b, h, q, k: (q - k).abs() < torch.tensor(x.width), "offset_mask": lambda b, h, q, k: k >= q + x.offset_tensor,
        "head_dependent": lambda b, h, q, k: t.head_type[h] & (q >= k),
    }


def gym(t, x):
    """attention-gym's own functions, by entry: (score_mod, mask_mod). What its examples and its notebook define stands here as a formula."""
    from attn_gym import masks, mods
    from attn_gym.masks import vsa
    causal = masks.causal_mask
    relative = lambda s, b, h, q, k: s + (q - k)
    place = lambda k, b: t.physical_to_logical[b, k // 4]
    spatial = mods.generate_graphormer_spatial_bias(t.spatial_bias, t.distances)
    edge = mods.generate_graphormer_edge_bias(t.edge_bias, t.path_edge_types, t.path_lengths)
    image = lambda k: t.intervals[t.image_boundaries[k]]
    distance = lambda of, s, q, k: torch.where(of(q - k) <= x.window_size, s - 1.0, s + of(q - k))
    halved = lambda s, q, k: torch.where((k - q).abs() % 2 == 1, s * 0.5, s)
    return {
        "batchify": (None, masks.batchify_mask_mod(causal, 5)), "block_diffusion": (None, masks.generate_block_diffusion_mask(8, 2)),
        "causal_by_mask": (None, causal), "dilated_sliding_window": (None, masks.generate_dilated_sliding_window(7, 3)),
        "doc_mask_mod": (None, masks.generate_doc_mask_mod(causal, t.offsets)), "doc_causal_mask_mod": (None, masks.generate_packed_causal_doc_mask_mod(t.offsets)),
        "vision_cross_attention": (None, masks.generate_vision_cross_attention_mask_mod(t.intervals, 4)),
        "global_sliding_window": (None, masks.generate_global_sliding_window(3, t.is_global)),
        "jetspec_tree_causal": (None, masks.generate_jetspec_tree_causal_mask_mod(2, t.ancestor_matrix)),
        "jetspec_training": (None, masks.generate_jetspec_training_mask_mod(3, 5)), "natten": (None, masks.generate_natten(4, 4, 3, 3)),
        "tiled_natten": (None, masks.generate_tiled_natten(4, 4, 3, 3, 2, 2)), "morton_natten": (None, masks.generate_morton_natten(4, 4, 3, 3)),
        "prefix_lm": (None, masks.generate_prefix_lm_mask(5)), "shared_prefix": (None, masks.generate_shared_prefix_mask_mod(t.offsets, t.prefix_document_id)),
        "sliding_window": (None, masks.generate_sliding_window(4)), "sta_2d": (None, masks.generate_sta_mask_mod_2d((4, 3), (2, 2), (2, 1), 3)),
        "sta_3d": (None, masks.generate_sta_mask_mod_3d((2, 2, 3), (1, 2, 2), (1, 1, 1), 3)),
        "spatial_head": (None, masks.generate_spatial_head_mask_mod(2, 4, 3, 2, True, 2)), "temporal_head": (None, masks.generate_temporal_head_mask_mod(2, 4, 5, 2)),
        "vsa_mask_mod": (None, masks.generate_vsa_mask_mod(t.topk_indices, 4, t.variable_block_sizes)),
        "vsa_block_map": (None, vsa.generate_vsa_block_map_mask_mod(t.block_map, 4, t.variable_block_sizes)),
        "vsa_padding": (None, vsa.generate_vsa_padding_mask_mod(t.variable_block_sizes, 4)),
        "sliding_window_causal_mask": (None, lambda b, h, q, k: (q >= k) & (q - k <= x.window_size)),
        "prefix_lm_causal_mask": (None, lambda b, h, q, k: (k <= 5) | (q >= k)),
        "document_causal_mask": (None, lambda b, h, q, k: (q >= k) & (t.document_id[q] == t.document_id[k])),
        "sasa_mask": (None, lambda b, h, q, k: ((q // 4 - k // 4).abs() <= 1) & ((q % 4 - k % 4).abs() <= 1)),
        "causal_shard_mask": (None, lambda b, h, q, k: q + 6 >= k + 4), "subtle_mask_mod": (None, lambda b, h, q, k: torch.where((q == 0) & ~(k >= 8), False, True)),
        "gen_offset": (None, lambda b, h, q, k: q + t.block_offset[b] >= k),
        "paged_mask_mod": (None, lambda b, h, q, k: torch.where(place(k, b) >= 0, causal(b, h, q, place(k, b) * 4 + k % 4), False)),
        "paged_score_mod": (lambda s, b, h, q, k: torch.where(place(k, b) >= 0, relative(s, b, h, q, place(k, b) * 4 + k % 4), -INF), None),
        "head_bias": (lambda s, b, h, q, k: s + 2 * h, None), "relative_bias": (relative, None),
        "activation": (mods.generate_activation_score_mod(), None), "alibi": (mods.generate_alibi_bias(H), None),
        "alibi_and_causal": (lambda s, b, h, q, k: s + t.alibi_slopes[h] * (k - q), causal), "graphormer_spatial_bias": (spatial, None),
        "graphormer_edge_bias": (edge, None), "graphormer_mod": (lambda s, b, h, q, k: edge(spatial(s, b, h, q, k), b, h, q, k), None),
        "mla_rope": (mods.generate_mla_rope_score_mod(t.query_rope, t.key_rope, 2, 0.5), None), "sandwich": (mods.generate_sandwich_bias(H, K, 8), None),
        "tanh_softcap": (mods.generate_tanh_softcap(2), None),
        "checkerboard": (lambda s, b, h, q, k: torch.where((k - q).abs() % 2 == 0, halved(s, q, k) * 2.0, halved(s, q, k)), None),
        "noop": (lambda s, b, h, q, k: s, None), "causal_bias": (lambda s, b, h, q, k: torch.where(q >= k, s, -INF), None),
        "broken_anti_window_mod": (lambda s, b, h, q, k: distance(lambda i: i, s, q, k), None),
        "broken_anti_window_mod_4": (lambda s, b, h, q, k: distance(torch.abs, s, q, k), None),
    }


def attention(t, score_mod, mask_mod, q=None):
    """flex_attention in double precision, and its log-sum-exp."""
    q, k, v = t.q.double() if q is None else q, t.k.double(), t.v.double()
    block_mask = create_block_mask(mask_mod, B, H, Q, K, device="cpu") if mask_mod else None
    out, aux = flex_attention(q, k, v, score_mod=score_mod, block_mask=block_mask, enable_gqa=True, return_aux=AuxRequest(lse=True))
    return out, aux.lse


def write(file, tensors, metadata):
    names = {torch.float32: "F32", torch.int32: "I32", torch.bool: "BOOL", torch.bfloat16: "BF16"}
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        tensor = tensor.contiguous()
        flat = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
        bytes_ = flat.numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gym", help="the folder of attention-gym, where attn_gym lies")
    sys.path.insert(0, parser.parse_args().gym)
    torch.set_grad_enabled(False)
    torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True  # eager: functions as they are
    tensors, numbers = inputs()
    t, x = types.SimpleNamespace(**tensors), types.SimpleNamespace(**numbers)
    results = {}

    def add(space, name, score_mod, mask_mod, q=None):
        out, lse = attention(t, score_mod, mask_mod, q)
        results[f"{space}.{name}"] = (out.cos() if q is not None else out).float()
        if name in WITH_LSE:
            results[f"{space}.{name}.lse"] = lse.float()

    for name, mod in score_mods(t, x).items():
        add("peers", name, *(mod if isinstance(mod, tuple) else (mod, None)))
    add("peers", "inputs_are_realized", lambda s, b, h, q, k: s + t.tok_scale[q], None, t.q.double().sin())
    for name, mod in mask_mods(t, x).items():
        add("peers", name, None, mod)
    for name, (score_mod, mask_mod) in gym(t, x).items():
        add("gym", name, score_mod, mask_mod)
    from attn_gym.mods import generate_sandwich_bias
    of_sandwich = generate_sandwich_bias(H, K, 8).__closure__
    captured = dict(zip(generate_sandwich_bias(H, K, 8).__code__.co_freevars, (cell.cell_contents for cell in of_sandwich)))
    tensors["sandwich_table"], tensors["sandwich_scale"] = captured["rel_bias"].float(), captured["head_scale"].float()
    file = pathlib.Path(__file__).resolve().parent / "torch_numbers.safetensors"
    write(file, {**tensors, **results}, {"params": json.dumps(numbers), "torch": torch.__version__})
    print(f"{len(results) - len(WITH_LSE)} entries, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""peers.py [length] [heads] [seconds a case] [device]: what PyTorch reaches on a CUDA device with the cases of gpu_benchmark, in its terms: f32 without TF32, tensors on the device,
useful TFLOP/s of the pairs that the mask leaves. FlexAttention's compilation is not counted. Without PyTorch for CUDA it says so and does nothing; the device cpu shows
that the cases run where there is no GPU, with a length and heads to match."""
import json
import sys
import time

length, heads = (int(word) for word in (sys.argv[1:3] or ["4096", "32"]))
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
device = sys.argv[4] if len(sys.argv) > 4 else "cuda"
try:
    import torch
except ImportError:
    raise SystemExit(print("Left out: no PyTorch here to compare with"))
if device == "cuda" and not torch.cuda.is_available():
    raise SystemExit(print("Left out: this PyTorch has no CUDA device"))
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = False
torch.set_float32_matmul_precision("highest")
ids = torch.arange(length, device=device) * 8 // length
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
precise = {"PRECISION": "'ieee'"} if device == "cuda" else None
masks = {
    "full": None,
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i >= j) & (i - j < 256),
    "documents_causal": lambda b, h, i, j: (i >= j) & (ids[i] == ids[j]),
}


def timed(call):
    call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    calls = max(int(seconds / 5 / (time.perf_counter() - start)), 1)
    turns = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        turns.append((time.perf_counter() - start) / calls)
    return sorted(turns)[2]


for depth in (64, 128):
    q, k, v = (torch.randn(1, heads, length, depth, device=device) for _ in range(3))
    i, j = torch.arange(length, device=device)[:, None], torch.arange(length, device=device)[None, :]
    for name, mask in masks.items():
        seen = None if mask is None else mask(0, 0, i, j)
        pairs = length * length if seen is None else int(seen.sum())
        attention = torch.nn.functional.scaled_dot_product_attention
        peers = {"SDPA": lambda: attention(q, k, v, attn_mask=None if name == "causal" else seen, is_causal=name == "causal")}
        compiled = torch.compile(flex_attention)
        blocks = None if mask is None else create_block_mask(mask, None, None, length, length, device=device)
        peers["FlexAttention"] = lambda: compiled(q, k, v, block_mask=blocks, kernel_options=precise)
        for peer, call in peers.items():
            try:
                took = timed(call)
            except Exception as problem:  # what a peer refuses is said, and the others are timed
                print(json.dumps({"peer": peer, "case": name, "depth": depth, "refused": str(problem).splitlines()[0]}), flush=True)
                continue
            print(json.dumps({"peer": peer, "case": name, "depth": depth, "milliseconds": took * 1e3, "useful_tflops": 4e-12 * heads * depth * pairs / took}), flush=True)

# One query over 16 times as many keys, four heads to a key head where they can be shared out so: what there is to do is to read keys and values.
for depth in (64, 128):
    key_heads, keys = heads // 4 if heads % 4 == 0 else heads, 16 * length
    q = torch.randn(1, heads, 1, depth, device=device)
    k, v = (torch.randn(1, key_heads, keys, depth, device=device) for _ in range(2))
    compiled = torch.compile(flex_attention)
    peers = {"SDPA": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), "FlexAttention": lambda: compiled(q, k, v, enable_gqa=True, kernel_options=precise)}
    for peer, call in peers.items():
        try:
            took = timed(call)
        except Exception as problem:
            print(json.dumps({"peer": peer, "case": "decode", "depth": depth, "refused": str(problem).splitlines()[0]}), flush=True)
            continue
        read = 4 * (q.numel() * 2 + k.numel() + v.numel())
        print(json.dumps({"peer": peer, "case": "decode", "depth": depth, "milliseconds": took * 1e3, "terabytes_a_second": 1e-12 * read / took}), flush=True)

#!/usr/bin/env python3
"""peers.py [length] [heads] [seconds a case] [--device cuda] [--depths 64 128] [--cases full causal window documents_causal decode] [--peers SDPA FlexAttention]: what PyTorch reaches on
a CUDA device with the cases of gpu_benchmark, in its terms: f32 without TF32, tensors on the device, useful TFLOP/s of the pairs that the mask leaves, and the largest
difference of the output from double precision. FlexAttention's compilation is not counted. Without PyTorch for CUDA it says so and does nothing; --device cpu shows that the
cases run where there is no GPU, with a length and heads to match. Exit status 1 if what a peer computes is not the case's attention.
"""
import argparse
import json
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("length", nargs="?", type=int, default=4096)
parser.add_argument("heads", nargs="?", type=int, default=32)
parser.add_argument("seconds", nargs="?", type=float, default=1.0)
parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
parser.add_argument("--depths", nargs="+", type=int, default=[64, 128])
cases = ["full", "causal", "window", "documents_causal", "decode"]
parser.add_argument("--cases", nargs="+", choices=cases, default=cases)
parser.add_argument("--peers", nargs="+", choices=["SDPA", "FlexAttention"], default=["SDPA", "FlexAttention"])
given = parser.parse_args()
length, heads, seconds, device = given.length, given.heads, given.seconds, given.device
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


def off(got, q, k, v, seen):
    """The largest difference of the last head from double precision."""
    q, k, v = (each[0, -1].double() for each in (q, k, v))
    scores = q @ k.T / q.shape[-1] ** 0.5
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return (got[0, -1].double() - scores.softmax(-1) @ v).abs().max().item()


def run(name, depth, q, k, v, seen, calls, rate):
    """Times each peer's call; `rate` says what its seconds mean. Whether all computed the case's attention."""
    right = True
    for peer in given.peers:
        line = {"peer": peer, "case": name, "length": length, "heads": heads, "depth": depth}
        try:
            took, error = timed(calls[peer]), off(calls[peer](), q, k, v, seen)
        except Exception as problem:  # what a peer refuses is said, and the others are timed
            print(json.dumps(line | {"refused": next(iter(str(problem).splitlines()), type(problem).__name__)}), flush=True)
            continue
        right &= error < 1e-4
        print(json.dumps(line | {"milliseconds": took * 1e3} | rate(took) | {"error": float(f"{error:.1e}")}), flush=True)
    return right


attention = torch.nn.functional.scaled_dot_product_attention
right = True
for depth in given.depths:
    q, k, v = (torch.randn(1, heads, length, depth, device=device) for _ in range(3))
    i, j = torch.arange(length, device=device)[:, None], torch.arange(length, device=device)[None, :]
    for name in (each for each in given.cases if each in masks):
        mask = masks[name]
        seen = None if mask is None else mask(0, 0, i, j)
        pairs = length * length if seen is None else int(seen.sum())
        calls = {"SDPA": lambda: attention(q, k, v, attn_mask=None if name == "causal" else seen, is_causal=name == "causal")}
        if "FlexAttention" in given.peers:
            torch._dynamo.reset()  # cases count as one function, of which it compiles a few only
            compiled = torch.compile(flex_attention)
            blocks = None if mask is None else create_block_mask(mask, None, None, length, length, device=device)
            calls["FlexAttention"] = lambda: compiled(q, k, v, block_mask=blocks, kernel_options=precise)
        right &= run(name, depth, q, k, v, seen, calls, lambda took: {"useful_tflops": 4e-12 * heads * depth * pairs / took})

# One query over 16 times as many keys, four heads to a key head where they can be shared out so: what there is to do is to read keys and values.
for depth in given.depths if "decode" in given.cases else []:
    key_heads, keys = heads // 4 if heads % 4 == 0 else heads, 16 * length
    q = torch.randn(1, heads, 1, depth, device=device)
    k, v = (torch.randn(1, key_heads, keys, depth, device=device) for _ in range(2))
    calls = {"SDPA": lambda: attention(q, k, v, enable_gqa=True)}
    if "FlexAttention" in given.peers:
        torch._dynamo.reset()
        compiled = torch.compile(flex_attention)
        calls["FlexAttention"] = lambda: compiled(q, k, v, enable_gqa=True, kernel_options=precise)
    read = 4 * (q.numel() * 2 + k.numel() + v.numel())
    right &= run("decode", depth, q, k, v, None, calls, lambda took: {"terabytes_a_second": 1e-12 * read / took})
sys.exit(0 if right else 1)

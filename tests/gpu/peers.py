#!/usr/bin/env python3
"""peers.py [length] [heads] [seconds a case] [--dtype f32 bf16 f16] [--tokens N] [--device cuda] [--depths 64 128] [--cases full causal window documents_causal alibi softcap decode]
[--peers SDPA cuDNN FlexAttention]: what PyTorch reaches on a CUDA device with the cases of gpu_benchmark, in its terms: f32 without TF32, tensors on the device, useful TFLOP/s of the
pairs that the mask leaves, and the largest difference of the output from double precision. SDPA is what PyTorch chooses by itself, FlashAttention-2 where the case allows it; cuDNN is
SDPA told to use that. FlexAttention's compilation is not counted. Without PyTorch for CUDA it says so and does nothing; --device cpu shows that the cases run where there is no GPU, with
a length and heads to match. Exit status 1 if what a peer computes is not the case's attention.
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
parser.add_argument("--dtype", choices=["f32", "bf16", "f16"], default="f32")
parser.add_argument("--tokens", type=int, default=0, help="as many batches as have so many queries; else one")
cases = ["full", "causal", "window", "documents_causal", "alibi", "softcap", "decode"]
parser.add_argument("--cases", nargs="+", choices=cases, default=cases)
parser.add_argument("--peers", nargs="+", choices=["SDPA", "cuDNN", "FlexAttention"], default=["SDPA", "cuDNN", "FlexAttention"])
given = parser.parse_args()
length, heads, seconds, device = given.length, given.heads, given.seconds, given.device
batches = max(given.tokens // length, 1)
try:
    import torch
except ImportError:
    raise SystemExit(print("Left out: no PyTorch here to compare with"))
if device == "cuda" and not torch.cuda.is_available():
    raise SystemExit(print("Left out: this PyTorch has no CUDA device"))
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[given.dtype]
# What rounding an output between 2 and 4, and weights, may cost; 1e-4 for f32.
tolerance = {"f32": 1e-4, "bf16": 0.02, "f16": 0.0025}[given.dtype]

torch.backends.cuda.matmul.allow_tf32 = False
torch.set_float32_matmul_precision("highest")
ids = torch.arange(length, device=device) * 8 // length
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
precise = {"PRECISION": "'ieee'"} if device == "cuda" and given.dtype == "f32" else None
slopes = torch.exp2(-8 * torch.arange(1, heads + 1, device=device, dtype=torch.float32) / heads)
masks = {
    "full": None,
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i >= j) & (i - j < 256),
    "documents_causal": lambda b, h, i, j: (i >= j) & (ids[i] == ids[j]),
    "alibi": lambda b, h, i, j: i >= j,
    "softcap": lambda b, h, i, j: i >= j,
}
scores = {
    "alibi": lambda s, b, h, i, j: s + slopes[h] * (j - i),
    "softcap": lambda s, b, h, i, j: 30 * torch.tanh(s / 30),
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


def off(got, name, q, k, v):
    """The largest difference of three rows of the last head of the last batch from double precision."""
    q, k, v = (each[-1, -1].double() for each in (q, k, v))
    rows = torch.tensor([0, q.shape[0] // 3, q.shape[0] - 1], device=device)[:, None]
    keys = torch.arange(k.shape[0], device=device)[None, :]
    made = q[rows[:, 0]] @ k.T / q.shape[-1] ** 0.5
    if name in scores:
        made = scores[name](made, 0, heads - 1, rows, keys)
    if masks.get(name) is not None:
        made = made.masked_fill(~masks[name](0, 0, rows, keys), float("-inf"))
    return (got[-1, -1].double()[rows[:, 0]] - made.softmax(-1) @ v).abs().max().item()


def run(name, depth, q, k, v, calls, rate):
    """Times each peer's call; `rate` says what its seconds mean. Whether all computed the case's attention."""
    right = True
    for peer in calls:
        line = {"peer": peer, "case": name, "dtype": given.dtype, "batches": batches, "length": length, "heads": heads, "depth": depth}
        try:
            took, error = timed(calls[peer]), off(calls[peer](), name, q, k, v)
        except Exception as problem:  # what a peer refuses is said, and the others are timed
            print(json.dumps(line | {"refused": next(iter(str(problem).splitlines()), type(problem).__name__)}), flush=True)
            continue
        right &= error < tolerance
        print(json.dumps(line | {"milliseconds": took * 1e3} | rate(took) | {"error": float(f"{error:.1e}")}), flush=True)
    return right


def on_cudnn(call):
    def inside():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return call()
    return inside


def of_peers(calls):
    """Of those asked for; cuDNN's is SDPA's call, for types that it takes."""
    if "SDPA" in calls and given.dtype != "f32" and device == "cuda":
        calls = {"SDPA": calls["SDPA"], "cuDNN": on_cudnn(calls["SDPA"])} | calls
    return {peer: calls[peer] for peer in given.peers if peer in calls}


attention = torch.nn.functional.scaled_dot_product_attention
right = True
for depth in given.depths:
    q, k, v = (torch.randn(batches, heads, length, depth, device=device, dtype=dtype) for _ in range(3))
    i, j = torch.arange(length, device=device)[:, None], torch.arange(length, device=device)[None, :]
    for name in (each for each in given.cases if each in masks):
        mask = masks[name]
        pairs = length * length if mask is None else int(mask(0, 0, i, j).sum())
        calls = {}
        if name in ("full", "causal"):
            calls["SDPA"] = lambda: attention(q, k, v, is_causal=name == "causal")
        elif name not in scores:
            seen = mask(0, 0, i, j)
            calls["SDPA"] = lambda: attention(q, k, v, attn_mask=seen)
        if "FlexAttention" in given.peers:
            torch._dynamo.reset()  # cases count as one function, of which it compiles a few only
            compiled = torch.compile(flex_attention)
            blocks = None if mask is None else create_block_mask(mask, None, None, length, length, device=device)
            calls["FlexAttention"] = lambda: compiled(q, k, v, score_mod=scores.get(name), block_mask=blocks, kernel_options=precise)
        right &= run(name, depth, q, k, v, of_peers(calls), lambda took: {"useful_tflops": 4e-12 * batches * heads * depth * pairs / took})

# One query over 16 times as many keys, four heads to a key head where they can be shared out so: what there is to do is to read keys and values.
batches = 1
for depth in given.depths if "decode" in given.cases else []:
    key_heads, keys = heads // 4 if heads % 4 == 0 else heads, 16 * length
    q = torch.randn(1, heads, 1, depth, device=device, dtype=dtype)
    k, v = (torch.randn(1, key_heads, keys, depth, device=device, dtype=dtype) for _ in range(2))
    calls = {"SDPA": lambda: attention(q, k, v, enable_gqa=True)}
    if "FlexAttention" in given.peers:
        torch._dynamo.reset()
        compiled = torch.compile(flex_attention)
        calls["FlexAttention"] = lambda: compiled(q, k, v, enable_gqa=True, kernel_options=precise)
    read = q.element_size() * (q.numel() * 2 + k.numel() + v.numel())
    right &= run("decode", depth, q, k, v, of_peers(calls), lambda took: {"terabytes_a_second": 1e-12 * read / took})
sys.exit(0 if right else 1)

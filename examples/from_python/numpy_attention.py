"""Causal attention over NumPy arrays: python3 numpy_attention.py <folder>/libattune_common.so, with runtime/python in PYTHONPATH, or attune's wheel installed"""
import sys

import attune
import numpy as np

kernels = attune.load(sys.argv[1])
print("attune", kernels.version)

random = np.random.default_rng(1)
batches, heads, key_heads, length, depth = 2, 4, 2, 75, 64
q = random.standard_normal((batches, heads, length, depth), dtype=np.float32)
k, v = (random.standard_normal((batches, length, key_heads, depth), dtype=np.float32).transpose(0, 2, 1, 3) for _ in "kv")  # stored (b, l, h, d)
out = kernels.causal_attention(q, k, v)

keys, values = (np.repeat(x.astype(np.float64), heads // key_heads, axis=1) for x in (k, v))
scores = q.astype(np.float64) @ keys.swapaxes(2, 3) / np.sqrt(depth)
scores[..., np.triu(np.ones((length, length), dtype=bool), 1)] = -np.inf
weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
expected = weights / weights.sum(axis=-1, keepdims=True) @ values
error = np.abs(out - expected).max()
print(f"largest error {error:.1e}")
print(kernels.causal_attention.explain(q, k, v)["kernel"])
print(kernels.causal_attention.blocks(q, k, v))

windowed = kernels.window_attention(q, k, v, left=0, right=0)  # each query sees its own key
exact = np.abs(windowed - np.repeat(v, heads // key_heads, axis=1)).max()

try:
    kernels.causal_attention(q, k, v.astype(np.float16), out=out)
    refused = False
except attune.Error as problem:
    refused = "expected" in str(problem)
    print(problem)
sys.exit(0 if error < 1e-5 and exact < 1e-5 and refused else 1)

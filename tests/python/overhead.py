#!/usr/bin/env python3
"""What a call from Python costs beside attune's own: overhead.py LIBATTUNE_COMMON.so [LIBRARY OF attune_add_torch_library WITH THE SAME KERNELS]

One query of one head over 16 keys, depth 64, f32, one thread: next to nothing for a kernel. Microseconds, the least of many rounds, interleaved. PYTHONPATH=runtime/python."""
import contextlib
import ctypes
import sys
import time

import attune
import numpy as np
from attune import _c

ROUNDS, CALLS = 60, 300
kernels = attune.load(sys.argv[1])
kernels.set_threads(1)
variant = kernels.decode_attention
random = np.random.default_rng(1)
q = random.standard_normal((1, 1, 1, 64), dtype=np.float32)
k, v = random.standard_normal((2, 1, 1, 16, 64), dtype=np.float32)
out = np.empty_like(q)

# attune_run with arguments that are made already: what attune itself takes.
arguments = (_c.Argument * 4)()
size = ctypes.sizeof(_c.Argument)
alive = [variant._interface.put(name, tensor, ctypes.addressof(arguments) + i * size) for i, (name, tensor) in enumerate(((b"q", q), (b"k", k), (b"v", v), (b"out", out)))]
address, run, where = variant._address, variant._interface.run, ctypes.addressof(arguments)
ways = {"attune_run, arguments made": lambda: run(address, where, 4, None),
        "NumPy, out passed": lambda: variant(q, k, v, out=out),
        "NumPy, out allocated": lambda: variant(q, k, v)}
if len(sys.argv) > 2:
    import attune.torch
    import torch

    torch.set_num_threads(1)
    operator = attune.torch.load(sys.argv[2]).decode_attention
    tq, tk, tv, tout = map(torch.from_numpy, (q, k, v, out))
    ways |= {"torch.ops, out allocated": lambda: operator.default(tq, tk, tv),
             "torch.ops, out passed": lambda: operator.out(tq, tk, tv, out=tout),
             "NumPy's door, PyTorch's tensors": lambda: variant(tq, tk, tv, out=tout)}
least = dict.fromkeys(ways, float("inf"))
with contextlib.ExitStack() as stack:
    if len(sys.argv) > 2:
        stack.enter_context(torch.inference_mode())
    for _ in range(ROUNDS):
        for name, call in ways.items():
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            least[name] = min(least[name], (time.perf_counter() - began) / CALLS * 1e6)
base = least["attune_run, arguments made"]
for name, took in least.items():
    print(f"{name:34} {took:6.2f} us" + ("" if took == base else f"   {took - base:+6.2f}"))

"""Calls that store, from Python: steps.py LIBRARY. Token after token into a cache, each beside NumPy in double precision."""
import sys

import attune
import numpy as np

random = np.random.default_rng(4)
step = attune.load(sys.argv[1]).step
batches, heads, key_heads, room, depth = 2, 4, 2, 9, 64
# (batch, token, head, depth) in memory, as (batch, head, token, depth)
k, v = (np.full((batches, room, key_heads, depth), np.nan, np.float32).transpose(0, 2, 1, 3) for _ in "kv")

for tokens in range(1, room + 1):
    lengths = np.array([tokens, (tokens + 1) // 2], np.int32)
    q = random.standard_normal((batches, heads, 1, depth), np.float32)
    k_new, v_new = random.standard_normal((2, batches, key_heads, 1, depth), np.float32)
    out = step(q, k, v, k_new=k_new, v_new=v_new, kv_lengths=lengths)
    for b, used in enumerate(lengths):
        assert np.array_equal(k[b, :, used - 1], k_new[b, :, 0]) and np.array_equal(v[b, :, used - 1], v_new[b, :, 0])
        keys, values = (np.repeat(x[b, :, :used].astype(np.float64), heads // key_heads, axis=0) for x in (k, v))
        scores = q[b].astype(np.float64) @ keys.swapaxes(1, 2) / np.sqrt(depth)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        error = np.abs(out[b] - weights / weights.sum(axis=-1, keepdims=True) @ values).max()
        assert error < 1e-5, (tokens, b, error)
assert np.isnan(k[1, :, (room + 1) // 2:]).all()  # beyond what was stored
print("what is stored is read by the same call")

# Prepared once, for caches of several layers: other tensors in place of some, and outputs that it keeps.
lengths = np.array([room, room], np.int32)
call = step.prepare(q, k, v, k_new=k_new, v_new=v_new, kv_lengths=lengths)
for layer in range(3):
    other_k, other_v = (random.standard_normal(k.transpose(0, 2, 1, 3).shape, np.float32).transpose(0, 2, 1, 3) for _ in "kv")
    before_k, copies = k.copy(), (other_k.copy(order="K"), other_v.copy(order="K"))
    out = call(k=other_k, v=other_v).copy()
    assert np.array_equal(out, step(q, *copies, k_new=k_new, v_new=v_new, kv_lengths=lengths)) and np.array_equal(other_k, copies[0])
    assert np.array_equal(k, before_k, equal_nan=True)  # not that of the call
mine = np.full_like(out, np.nan)
assert call(k=other_k, v=other_v, out=mine) is mine and np.array_equal(mine, out)
k[:], v[:] = other_k, other_v
assert np.array_equal(call(), out) and call() is call()
for words, others in (("prepared with", {"k": k[:1]}), ("prepared with", {"lse": out}), ("a number or a tensor", {"k": "cache"})):
    try:
        call(**others)
    except attune.Error as problem:
        print("refused:", problem)
    else:
        raise AssertionError(f"expected a refusal of {others.keys()}, got none")
print("a prepared call takes other tensors")

assert "k: (batch, key_head, key, depth), f32, bf16 or f16, as compiled; read and written" in step.__doc__, step.__doc__
frozen, before = k.copy(), k.copy()
frozen.flags.writeable = False
for words, cache, lengths in (("a tensor that may be written for k", frozen, [1, 1]), ("a place in k for all that is stored", k, [0, 1])):
    try:
        step(q, cache, v, k_new=k_new, v_new=v_new, kv_lengths=np.array(lengths, np.int32))
    except attune.Error as problem:
        assert words in str(problem), problem
        print("refused:", problem)
    else:
        raise AssertionError(f"expected a refusal with {words}, got none")
    assert np.array_equal(cache, before, equal_nan=True)

"""Calls of ready-made kernels through the wheel, against NumPy in double precision."""
import inspect
import os
import threading
import xml.etree.ElementTree

import attune
import numpy as np

random = np.random.default_rng(1)


def draw(*shape):
    return random.standard_normal(shape, dtype=np.float32)


def reference(q, k, v, mask=None, bias=0):
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), groups, axis=1) for x in (k, v))
    scores = q.astype(np.float64) @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]) + bias
    scores = np.where(mask if mask is not None else True, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def close(got, expected, what):
    error = np.abs(got - expected).max()
    print(f"{what}: largest error {error:.1e}")
    assert error < 1e-5, what


def refused(words, call, *given, **named):
    try:
        call(*given, **named)
    except attune.Error as problem:
        assert str(problem).startswith("attune: expected ") and all(word in str(problem) for word in words), problem
        return print("refused:", problem)
    raise AssertionError(f"expected a refusal with {words}, got none")


common = attune.common
batches, heads, key_heads, length, depth = 2, 4, 2, 75, 64
q = draw(batches, heads, length, depth)
k, v = (draw(batches, length, key_heads, depth).transpose(0, 2, 1, 3) for _ in "kv")  # stored by position: strided, not copied
causal = np.tri(length, dtype=bool)

# Outputs allocated, or the caller's.
got = common.causal_attention(q, k, v)
assert got.dtype == np.float32 and got.shape == q.shape
close(got, reference(q, k, v, causal), "causal")
out = np.empty((batches, length, heads, depth), np.float32).transpose(0, 2, 1, 3)
assert common.causal_attention(q=q, k=k, v=v, out=out) is out
assert np.array_equal(out, got)

# Numbers, further inputs, key lengths, options.
positions = np.arange(length)
near = np.abs(positions[:, None] - positions) <= 3
close(common.window_attention(q, k, v, left=3, right=3), reference(q, k, v, near), "window")
slopes = 2.0 ** -np.arange(1, heads + 1, dtype=np.float32)
close(common.alibi_attention(q, k, v, slopes, options=attune.Options(threads=2, deterministic=True)),
      reference(q, k, v, causal, slopes[:, None, None] * (positions - positions[:, None])), "ALiBi")
lengths = np.array([30, length], np.int32)
got = common.plain_attention(q, k, v, kv_lengths=lengths)
close(got[0], reference(q[:1], k[:1], v[:1], positions < 30)[0], "key lengths")
packed = np.concatenate([q[:1, :, :5], q[1:, :, :1]], axis=2)  # five queries of the first sequence, one of the second
got = common.plain_attention(packed, k, v, cu_seqlens_q=np.array([0, 5, 6], np.int32))
close(got[:, :, :5], reference(q[:1, :, :5], k[:1], v[:1]), "packed queries")
close(got[:, :, 5:], reference(q[1:, :, :1], k[1:], v[1:]), "packed queries")
refused(["cu_seqlens_q", "got 4 at 2"], common.plain_attention, packed, k, v, cu_seqlens_q=np.array([0, 5, 4], np.int32))
close(common.decode_attention(q[:, :, -1:], k, v), reference(q[:, :, -1:], k, v), "decode")

# The evaluator in double precision, with the same arguments: far nearer to NumPy's than a kernel is, and refused as a call is.
few = q[:, :, :6]
exact = common.alibi_attention.reference(few, k, v, slopes=slopes, kv_lengths=lengths)
assert exact.dtype == np.float64 and exact.shape == few.shape
visible = (np.arange(6)[:, None] >= positions) & (positions < lengths[:, None, None, None])
assert np.abs(exact - reference(few, k, v, visible, slopes[:, None, None] * (positions - np.arange(6)[:, None]))).max() < 1e-13
close(common.alibi_attention(few, k, v, slopes, kv_lengths=lengths), exact, "ALiBi beside the evaluator")
got = common.plain_attention(packed, k, v, cu_seqlens_q=np.array([0, 5, 6], np.int32))
close(got, common.plain_attention.reference(packed, k, v, cu_seqlens_q=np.array([0, 5, 6], np.int32)), "packed queries beside the evaluator")
refused(["depth", "got"], common.plain_attention.reference, q, k[..., :32], v)
refused(["at most 3 arguments"], common.plain_attention.reference, q, k, v, q)
refused(["twice"], common.plain_attention.reference, q, k, v, q=q)

# Tensors without elements, whose strides are zeros in NumPy: no keys, no queries, no heads, no batch.
for batch, head, query, key in ((1, 8, 5, 0), (1, 8, 0, 5), (1, 0, 5, 5), (0, 8, 5, 5), (0, 0, 0, 0)):
    none, keys = np.zeros((batch, head, query, depth), np.float32), np.zeros((batch, head, key, depth), np.float32)
    for call, more in ((common.plain_attention, {}), (common.causal_attention, {}), (common.window_attention, {"left": 2, "right": 0}),
                       (common.alibi_attention, {"slopes": np.ones(head, np.float32)}), (common.decode_attention, {})):
        got = call(none, keys, keys, **more)
        assert got.shape == none.shape and not got.any(), call
        into = np.full_like(none.transpose(0, 2, 1, 3), 7).transpose(0, 2, 1, 3)
        assert call(none, keys, keys, out=into, **more) is into and not into.any(), call

# Memory that must not be written is read, and never written.
frozen = q.copy()
frozen.flags.writeable = False
close(common.plain_attention(frozen, k, v), reference(q, k, v), "read-only q")
still = np.zeros_like(q)
still.flags.writeable = False
refused(["out"], common.plain_attention, q, k, v, out=still)
assert not still.any()

# What is known before a call.
assert list(inspect.signature(common.alibi_attention).parameters) == ["q", "k", "v", "slopes", "kv_lengths", "cu_seqlens_q", "out", "options"]
assert "slopes: (head), f32" in common.alibi_attention.__doc__
assert {given["name"] for given in common.window_attention.describe()["inputs"]} == {"q", "k", "v", "left", "right", "kv_lengths", "cu_seqlens_q"}
long = draw(1, 1, 1024, depth)
said = common.causal_attention.explain(long, long, long)
blocks = common.causal_attention.blocks(long, long, long)
states = np.asarray(blocks)
assert states.shape == blocks.shape and states.dtype == np.uint8 and set(np.unique(states)) == {0, 1, 2}
assert np.count_nonzero(states) == said["blocks_visited"] < states.size == said["blocks"] and np.count_nonzero(states == 2) == said["blocks_unmasked"]
rows = np.arange(blocks.shape[2]) * blocks.query_block
for row, first in zip(states[0, 0], rows):  # a block is visited if its first key comes before the tile's last query
    assert np.array_equal(row > 0, np.arange(len(row)) * blocks.key_block <= min(first + blocks.query_block, 1024) - 1)
drawn = xml.etree.ElementTree.fromstring(blocks._repr_svg_())
assert drawn.tag.endswith("svg") and f"{np.count_nonzero(states)} of {states.size}" in "".join(drawn.itertext())
assert common.plain_attention.kernels()[0]["element_types"] == "f32"

got = common.window_attention(q, k, v, left=np.int64(3), right=np.uint8(3))
assert np.array_equal(got, common.window_attention(q, k, v, left=3, right=3))

# Several threads of the application at once, each with tensors of its own.
wrong = []


def many(seed):
    own = np.random.default_rng(seed).standard_normal((1, 2, 33, depth), dtype=np.float32)
    expected = reference(own, own, own)
    wrong.extend(seed for _ in range(50) if np.abs(common.plain_attention(own, own, own) - expected).max() > 1e-5)


threads = [threading.Thread(target=many, args=(seed,)) for seed in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert not wrong

# A forked child calls, too.
common.set_threads(2)
assert common.threads() == 2
expected = common.causal_attention(q, k, v)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(common.causal_attention(q, k, v), expected) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
common.set_threads(0)
print("all as expected")

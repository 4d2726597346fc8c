"""Variants as functions of JAX: functions.py READY CAPPED COMMON, libraries that CMakeLists.txt beside this file makes."""
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import attune
import attune.jax
import jax
import jax.numpy as jnp
import numpy as np
from jax import export

ready, capped = attune.jax.load(sys.argv[1]), attune.jax.load(sys.argv[2])
assert attune.jax.load(sys.argv[1]) is ready
print("JAX", jax.__version__)


def reference(q, k, v, mask=True, bias=0.0):
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, precision="highest") / q.shape[3] ** 0.5 + bias
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)), v, precision="highest")


def close(got, expected, what, most=1e-5):
    error = np.abs(np.asarray(got, np.float32) - np.asarray(expected, np.float32)).max()
    print(f"{what}: largest error {error:.1e}")
    assert error < most and got.shape == expected.shape, what


random = np.random.default_rng(1)
q = random.standard_normal((2, 4, 100, 64), dtype=np.float32)
k, v = random.standard_normal((2, 2, 2, 100, 64), dtype=np.float32)
slopes = 2.0 ** -np.arange(1, 5, dtype=np.float32)
positions = np.arange(100)
causal = positions[:, None] >= positions
bias = slopes[:, None, None] * (positions - positions[:, None])

# By itself, compiled, inside other code; NumPy's arrays and JAX's; numbers that are traced.
out = ready.causal_attention(q, k, v)
assert isinstance(out, jax.Array) and out.dtype == jnp.float32
close(out, reference(q, k, v, causal), "causal")
close(jax.jit(ready.alibi_attention)(jnp.asarray(q), k, v, slopes), reference(q, k, v, causal, bias), "ALiBi, compiled")


@jax.jit
def block(q, k, v, slopes, width):
    first = ready.window_attention(2 * q, k, v, width, right=width)
    return ready.alibi_attention(first, k, v, slopes=slopes) + 1


for width in (3, 7):
    near = np.abs(positions[:, None] - positions) <= width
    close(block(q, k, v, slopes, width), reference(reference(2 * q, k, v, near), k, v, causal, bias) + 1, f"a window of {width} and ALiBi, compiled once")
assert block._cache_size() == 1
lengths = np.array([30, 100], np.int32)
close(ready.plain_attention(q, k, v, kv_lengths=lengths)[0], reference(q[:1], k[:1, :, :30], v[:1, :, :30])[0], "key lengths")
shape = jax.eval_shape(ready.causal_attention, q, k, v)
assert shape.shape == q.shape and shape.dtype == jnp.float32

# Two outputs and numbers of both kinds, in two element types.
scores = 5 * jnp.tanh(jnp.einsum("bhqd,bhkd->bhqk", q, np.repeat(k, 2, 1), precision="highest") / 8 / 5)
scores = jnp.where(positions >= 7, scores, -jnp.inf)
expected = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), np.repeat(v, 2, 1), precision="highest")
got = jax.jit(capped.capped)(q, k, v, cap=5.0, first=7)
close(got.out, expected, "capped")
close(got.lse, jax.nn.logsumexp(scores, axis=-1), "its log-sum-exp")
half = capped.capped(*(jnp.asarray(x, jnp.bfloat16) for x in (q, k, v)), 5.0, 7)
assert half.out.dtype == jnp.bfloat16 and half.lse.dtype == jnp.float32
close(half.out, expected, "capped, bf16", 0.03)

# jax.vmap: the mapped axis joins the batch, wherever it lies; what has no batch is mapped one by one; twice.
many = random.standard_normal((3, *q.shape), dtype=np.float32)
by_hand = jnp.stack([ready.alibi_attention(each, k, v, slopes) for each in many])
text = str(jax.make_jaxpr(jax.vmap(ready.alibi_attention, (0, None, None, None)))(many, k, v, slopes))
assert text.count("ffi_call") == 1 and "scan" not in text, text
assert np.array_equal(jax.vmap(ready.alibi_attention, (0, None, None, None))(many, k, v, slopes), by_hand)
assert np.array_equal(jax.jit(jax.vmap(ready.alibi_attention, (2, None, None, None), 1))(np.moveaxis(many, 0, 2), k, v, slopes), jnp.moveaxis(by_hand, 0, 1))
mapped_lengths = np.array([[30, 100], [50, 60], [1, 99]], np.int32)
assert np.array_equal(jax.vmap(lambda q, n: ready.plain_attention(q, k, v, kv_lengths=n))(many, mapped_lengths),
                      jnp.stack([ready.plain_attention(each, k, v, kv_lengths=n) for each, n in zip(many, mapped_lengths)]))
more_slopes = np.stack([slopes, 2 * slopes, slopes / 2])
assert np.array_equal(jax.vmap(ready.alibi_attention, (None, None, None, 0))(q, k, v, more_slopes), jnp.stack([ready.alibi_attention(q, k, v, each) for each in more_slopes]))
widths = np.array([0, 3, 9], np.int32)
assert np.array_equal(jax.vmap(lambda w: ready.window_attention(q, k, v, w, w))(widths), jnp.stack([ready.window_attention(q, k, v, int(w), int(w)) for w in widths]))
twice = jax.vmap(jax.vmap(ready.causal_attention, (0, None, None)), (0, None, None))(np.stack([many, 2 * many]), k, v)
assert np.array_equal(twice[1, 2], ready.causal_attention(2 * many[2], k, v))
both = jax.vmap(lambda q: capped.capped(q, k, v, 5.0, 7))(many)
assert np.array_equal(both.lse[1], capped.capped(many[1], k, v, 5.0, 7).lse) and both.out.shape == many.shape

# The order of arguments, and the bits, are those of the same variants from NumPy, by this file too.
for functions, library in ((ready, attune.load(sys.argv[3])), (capped, attune.load(sys.argv[2]))):
    assert list(functions) == list(library)
    for name in library:
        given = [p for p in library[name].__signature__.parameters if p not in {"options", "cu_seqlens_q", *(o["name"] for o in library[name].describe()["outputs"])}]
        assert list(getattr(functions, name).__signature__.parameters) == given, name
assert np.array_equal(attune.load(sys.argv[1]).causal_attention(q, k, v), out)

# A program that is kept and loaded again calls the same functions.
exported = export.export(jax.jit(ready.causal_attention), disabled_checks=[export.DisabledSafetyCheck.custom_call(ready.causal_attention.target)])(q, k, v)
assert np.array_equal(export.deserialize(exported.serialize()).call(q, k, v), out)
print("all as expected")

"""What functions of JAX refuse: functions_refused.py READY CAPPED TRAINED COMMON."""
import os
import sys
from unittest import mock

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import attune
import attune.jax
import jax
import jax.numpy as jnp
import numpy as np

ready, capped, trained = (attune.jax.load(path) for path in sys.argv[1:4])
common = sys.argv[4]


def refused(words, call, *given, **named):
    try:
        jax.block_until_ready(call(*given, **named))
    except (attune.Error, jax.errors.JaxRuntimeError) as problem:
        assert "attune: expected " in str(problem) and all(word in str(problem) for word in words), problem
        return print("refused:", str(problem).splitlines()[0])
    raise AssertionError(f"expected a refusal with {words}, got none")


random = np.random.default_rng(1)
q = random.standard_normal((1, 2, 40, 64), dtype=np.float32)
k, v = random.standard_normal((2, 1, 2, 40, 64), dtype=np.float32)
slopes = np.array([0.5, 0.25], np.float32)

# Arguments, as they are and traced.
refused(["slopes", "3"], ready.alibi_attention, q, k, v, np.ones(3, np.float32))
refused(["slopes", "3"], jax.jit(ready.alibi_attention), q, k, v, np.ones(3, np.float32))
refused(["causal_attention", "slopes"], ready.causal_attention, q, k, v, slopes=slopes)
refused(["q", "i16", "f32"], ready.plain_attention, q.astype(np.int16), k, v)
refused(["q", "got U16", "float32"], ready.plain_attention, q.astype(np.uint16), k, v)
refused(["q", "float64", "jax_enable_x64"], ready.plain_attention, q.astype(np.float64), k, v)
refused(["kv_lengths", "int64", "jax_enable_x64"], ready.plain_attention, q, k, v, kv_lengths=np.array([2**32 + 30]))
pool, scale = np.ones((3, 2, 4, 64), np.int8), np.ones((3, 2, 4), np.float32)
refused(["block_table from 0 to 2", "got 99"], ready.paged_attention, q=q[:, :, :1], k_pages=pool, v_pages=pool, k_scale=scale, v_scale=scale, block_table=np.array([[0, 99]], np.int32))
# Arrays of JAX have no strides: extents alone may be too large.

# Numbers: to the last one that fits.
for value in (2**31, -2**31 - 1):
    refused(["left", "32 bits", f"got {value}"], ready.window_attention, q, k, v, value, 0)
for value in (2**31 - 1, -2**31):
    assert ready.window_attention(q, k, v, value, 0).shape == q.shape
refused(["left", "int32"], ready.window_attention, q, k, v, 2.5, 0)
refused(["left", "int32", "bool"], ready.window_attention, q, k, v, jnp.array(True), 0)
refused(["left", "shape (2,)"], ready.window_attention, q, k, v, jnp.array([1, 2]), 0)
bias = jnp.asarray(random.standard_normal((2, 40, 40)), jnp.bfloat16)
refused(["scale", "float32", "jax_enable_x64"], trained.dropped, q, k, v, scale=0.1, bias=bias)
for scale in (0.125, jnp.float32(0.1)):
    for call in (trained.dropped, jax.jit(trained.dropped)):  # traced, it has no value
        assert np.isfinite(call(q, k, v, scale=scale, bias=bias).out).all()
assert np.isfinite(capped.capped(q, k, v, cap=2**31, first=0).out).all()  # a whole number of f32

with mock.patch.object(attune.Variant, "_shape", lambda *given: None):  # as of an output whose axes are no input's
    refused(["the inputs of attune::common::plain_attention to say how large the output out is"], ready.plain_attention, q[:, :, :7], k, v)

# Gradients that are not there.
refused(["gradient of v", "wrt"], lambda: jax.grad(lambda v: trained.capped(q, k, v, 5.0, 7).out.sum())(v))
refused(["cap of test::capped to be a number without a gradient", "jax.lax.stop_gradient(cap)", 'cap = input<"cap", f32>(axis<"one">)'], lambda: jax.grad(lambda cap: trained.capped(q, k, v, cap, 7).out.sum())(5.0))
refused(["dlse", "of("], lambda: jax.grad(lambda q: trained.alibi(q, k, v, slopes).lse.sum())(q))
assert np.isfinite(jax.grad(lambda q: trained.capped(q, k, v, 5.0, 7).out.sum())(q)).all()
assert np.isfinite(jax.grad(lambda q: trained.alibi(q, k, v, slopes).out.sum())(q)).all()

# What a program of another version would pass.
like = jax.ShapeDtypeStruct(q.shape, q.dtype)


def raw(function, names, *given, results=(like,)):
    return jax.ffi.ffi_call(function.target, list(results))(*given, names=names)


plain, window = ready.plain_attention, ready.window_attention
assert np.array_equal(raw(plain, "q k v ", q, k, v)[0], plain(q, k, v))
refused(["the results of attune::common::plain_attention"], raw, plain, "q k v ", q, k, v, results=(like, like))
refused(["arguments that are parameters of"], raw, plain, "q k w ", q, k, v)
refused(["q", "none"], raw, plain, "k v ", k, v)
one = jnp.int32(1)
for wrong in (jnp.float32(1), jnp.ones(1, jnp.int32), jnp.int16(1)):
    refused(["a number of its type for left of"], raw, window, "q k v left right ", q, k, v, wrong, one)
for wrong in (jnp.int32(1), jnp.ones(1, jnp.float32)):
    refused(["a number of its type for cap of"], raw, capped.capped, "q k v cap first ", q, k, v, wrong, one, results=(like, jax.ShapeDtypeStruct(q.shape[:3], q.dtype)))

# Libraries and names.
refused(["no_such.so, which is not there"], attune.jax.load, "no_such.so")
refused(["no functions of XLA"], attune.jax.load, common)
version = attune.jax._xla_version()
with mock.patch.object(attune.jax, "_xla_version", lambda: version - 1):
    refused([f"{version // 1000}.{version % 1000}", "try building it with this jaxlib"], attune.jax.Functions, sys.argv[2])
try:
    ready.no_such_attention
    raise AssertionError("expected no such variant")
except AttributeError as problem:
    assert "causal_attention" in str(problem)
print("all as expected")

"""Gradients of JAX's functions: functions_gradients.py TRAINED, a library that CMakeLists.txt beside this file makes."""
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import attune
import attune.jax
import jax
import jax.numpy as jnp
import numpy as np

ops = attune.jax.load(sys.argv[1])
random = np.random.default_rng(1)
q, weights = (jnp.asarray(random.standard_normal((2, 4, 90, 64)), jnp.float32) for _ in "qw")
k, v = (jnp.asarray(random.standard_normal((2, 2, 90, 64)), jnp.float32) for _ in "kv")
slopes = 2.0 ** -jnp.arange(1.0, 5.0)
lengths = jnp.array([50, 90], jnp.int32)
positions = jnp.arange(90)


def close(got, expected, what, most=2e-5):
    error = np.abs(np.asarray(got) - np.asarray(expected)).max()
    print(f"{what}: largest error {error:.1e}")
    assert error < most and got.shape == expected.shape and got.dtype == expected.dtype, what


def alibi(q, k, v, slopes, kv_lengths=None):
    """The same in JAX's own operations."""
    k, v = (jnp.repeat(x, 2, axis=1) for x in (k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, precision="highest") / 8 + slopes[:, None, None] * (positions - positions[:, None])
    seen = (positions[:, None] >= positions)[None, None]
    if kv_lengths is not None:
        seen = seen & (positions < kv_lengths[:, None, None, None])
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)), v, precision="highest")


def ours(q, k, v, slopes, **given):
    return (ops.alibi(q, k, v, slopes, **given).out * weights).sum()


def theirs(q, k, v, slopes, **given):
    return (alibi(q, k, v, slopes, **given) * weights).sum()


every = (0, 1, 2, 3)
for what, given in (("ALiBi", {}), ("ALiBi, key lengths", {"kv_lengths": lengths})):
    for how, transform in (("", lambda f: f), (", compiled", jax.jit)):
        got = transform(jax.grad(ours, every))(q, k, v, slopes, **given)
        for name, a, b in zip(("q", "k", "v", "slopes"), got, jax.grad(theirs, every)(q, k, v, slopes, **given)):
            close(a, b, f"{what}{how}, d{name}", 5e-3 if name == "slopes" else 2e-5)

# Directional derivatives, by central differences of the forward pass in single precision.
found = jax.grad(ours, every)(q, k, v, slopes)
for i, name in enumerate(("q", "k", "v", "slopes")):
    point, step = [q, k, v, slopes], 1e-2 if name != "slopes" else 1e-4
    direction = jnp.asarray(random.standard_normal(point[i].shape), jnp.float32)
    ends = [(np.asarray(ops.alibi(*(x + sign * step * direction if j == i else x for j, x in enumerate(point))).out, np.float64) * np.asarray(weights)).sum() for sign in (1, -1)]
    expected, got = (ends[0] - ends[1]) / (2 * step), (np.asarray(found[i], np.float64) * np.asarray(direction)).sum()
    print(f"along a direction of {name}: {got:.4f}, by differences {expected:.4f}")
    assert abs(got - expected) < 5e-3 * max(1, abs(expected)), name


# Both outputs, with numbers, inside other code; each element of a batch for itself.
def block(w, q, k):
    out, lse = ops.capped(q @ w, k, v, 5.0, 7)
    return ((out * lse[..., None]) * weights).sum()


def reference(w, q, k):
    k, values = (jnp.repeat(x, 2, axis=1) for x in (k, v))
    scores = 5 * jnp.tanh(jnp.einsum("bhqd,bhkd->bhqk", q @ w, k, precision="highest") / 8 / 5)
    scores = jnp.where(positions >= 7, scores, -jnp.inf)
    return (jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), values, precision="highest") * jax.nn.logsumexp(scores, axis=-1)[..., None] * weights).sum()


w = jnp.asarray(random.standard_normal((64, 64)) / 8, jnp.float32)
for name, a, b in zip(("a weight", "q", "k"), jax.jit(jax.grad(block, (0, 1, 2)))(w, q, k), jax.grad(reference, (0, 1, 2))(w, q, k)):
    close(a, b, f"capped, by {name}", 2e-3 if name == "a weight" else 1e-4)
many = jnp.stack([q, 2 * q, q / 2])
each = jnp.stack([jax.grad(ours, 3)(one, k, v, slopes) for one in many])
close(jax.vmap(jax.grad(ours, 3), (0, None, None, None))(many, k, v, slopes), each, "mapped: the slopes' gradient of each", 1e-3)
all_of_them = jax.grad(lambda many: jax.vmap(ours, (0, None, None, None))(many, k, v, slopes).sum())(many)
close(all_of_them, jnp.stack([jax.grad(ours)(one, k, v, slopes) for one in many]), "mapped, then differentiated", 1e-5)

# What speaks of b as a number is mapped one by one, forwards and backwards: random numbers are those of each call by itself.
bias = jnp.asarray(random.standard_normal((1, 90, 90)), jnp.bfloat16)
assert not ops.dropped.variant.describe()["one_sequence_at_a_time"] and ops.alibi.variant.describe()["one_sequence_at_a_time"]


def dropped(q, k, v, bias):
    return (ops.dropped(q, k, v, scale=0.125, bias=bias).out * weights).sum()


assert np.array_equal(jax.vmap(lambda q: ops.dropped(q, k, v, scale=0.125, bias=bias).out)(many), jnp.stack([ops.dropped(one, k, v, scale=0.125, bias=bias).out for one in many]))
for a, b in zip(jax.vmap(jax.grad(dropped, (0, 1, 2, 3)), (0, None, None, None))(many, k, v, bias), zip(*(jax.grad(dropped, (0, 1, 2, 3))(one, k, v, bias) for one in many))):
    assert np.array_equal(a, jnp.stack(b)), "mapped: dropout's gradients are those of each"

# A gradient has the element type and the extents of its own input, broadcast or not.
ones = k[:1], v[:1]
given = (q, *ones, bias)
got = jax.grad(dropped, (0, 1, 2, 3))(*given)
assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in given]
whole = jax.grad(dropped, (0, 1, 2))(q, *(jnp.repeat(x, 2, axis=0) for x in ones), bias)
close(got[1], whole[1].sum(0, keepdims=True), "a key that broadcasts")

# Numbers of f64: as they are, where JAX has them.
jax.config.update("jax_enable_x64", True)
exact, whole = (ops.dropped(q, k, v, scale=scale, bias=bias).out for scale in (0.125, jnp.float64(0.125)))
assert np.array_equal(exact, whole) and np.isfinite(ops.dropped(q, k, v, scale=0.1, bias=bias).out).all()
print("all as expected")

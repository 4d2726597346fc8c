"""Gradients of PyTorch's operators: operators_gradients.py TRAINED, a library that CMakeLists.txt beside this file makes."""
import sys

import torch

import attune
import attune.torch

ops = attune.torch.load(sys.argv[1])
torch.manual_seed(1)


def close(got, expected, what, most=2e-5):
    error = (got - expected).abs().max().item()
    print(f"{what}: largest error {error:.1e}")
    assert error < most and got.shape == expected.shape and got.dtype == expected.dtype, what


def refused(words, call):
    try:
        call()
    except RuntimeError as problem:
        assert "attune: expected " in str(problem) and all(word in str(problem) for word in words), problem
        return print("refused:", str(problem).splitlines()[0])
    raise AssertionError(f"expected a refusal with {words}, got none")


def leaves(*tensors):
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


q, weights = torch.randn(2, 2, 4, 90, 64)
k, v = torch.randn(2, 2, 90, 2, 64).transpose(2, 3)  # two key heads, stored by position
slopes = 2.0 ** -torch.arange(1.0, 5.0)
positions = torch.arange(90)
lengths = torch.tensor([50, 90], dtype=torch.int32)


def alibi(q, k, v, slopes, lengths=None):
    """The same in PyTorch's own operations."""
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    scores = q @ k.mT / 8 + slopes[:, None, None] * (positions - positions[:, None])
    seen = (positions[:, None] >= positions)[None, None]
    if lengths is not None:
        seen = seen & (positions < lengths[:, None, None, None])
    return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v


for what, given in (("ALiBi", {}), ("ALiBi, key lengths", {"kv_lengths": lengths})):
    ours, theirs = leaves(q, k, v, slopes), leaves(q, k, v, slopes)
    (ops.alibi(*ours, **given)[0] * weights).sum().backward()
    (alibi(*theirs, *given.values()) * weights).sum().backward()
    for name, a, b in zip(("q", "k", "v", "slopes"), ours, theirs):
        close(a.grad, b.grad, f"{what}, d{name}", 5e-3 if name == "slopes" else 2e-5)  # slopes: a sum over 16 000 pairs a head, each by its distance
given = leaves(q, k, v, slopes)
ops.alibi(*given)[0].sum().backward()  # whose derivative is one number, expanded
own = leaves(q, k, v, slopes)
alibi(*own).sum().backward()
close(given[2].grad, own[2].grad, "of a sum, dv")
whole = given

# Without keys or queries, whatever the strides: rows of 0, and gradients of 0.
for queries, keys in ((90, 0), (0, 90), (0, 0)):
    given = leaves(q[:, :, :queries], k[:, :, :keys], v[:, :, :keys], slopes)
    out = ops.alibi(*given)[0]
    assert out.shape == (2, 4, queries, 64) and not out.any()
    out.sum().backward()
    assert all(x.grad.shape == x.shape and not x.grad.any() for x in given)

# Only what is asked for; nothing where nothing is.
only_q = q.clone().requires_grad_()
ops.alibi(only_q, k, v, slopes)[0].sum().backward()
assert torch.equal(only_q.grad, whole[0].grad)
with torch.no_grad():
    assert not ops.alibi(*whole)[0].requires_grad

# Directional derivatives, by central differences of the forward pass in single precision.
def loss(q, k, v, slopes):
    return (ops.alibi(q, k, v, slopes)[0].double() * weights).sum()


point = leaves(q, k, v, slopes)
loss(*point).backward()
for i, name in enumerate(("q", "k", "v", "slopes")):
    direction, step = torch.randn_like(point[i]), 1e-2 if name != "slopes" else 1e-4
    with torch.no_grad():
        ends = [loss(*(x + sign * step * direction if j == i else x for j, x in enumerate(point))) for sign in (1, -1)]
    expected, got = (ends[0] - ends[1]) / (2 * step), (point[i].grad.double() * direction).sum()
    print(f"along a direction of {name}: {got:.4f}, by differences {expected:.4f}")
    assert abs(got - expected) < 5e-3 * max(1, abs(expected)), name


# Both outputs, with numbers; and compiled.
def capped(q, k, v):
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    scores = (5 * torch.tanh(q @ k.mT / 8 / 5)).masked_fill(positions < 7, -torch.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(64, 64, bias=False)

    def forward(self, q, k, v, slopes):
        out, lse = ops.capped(self.project(q), k, v, 5.0, 7)
        return ops.alibi(out * lse[..., None], k, v, slopes)[0]


def reference(block, q, k, v, slopes):
    out, lse = capped(block.project(q), k, v)
    return alibi(out * lse[..., None], k, v, slopes)


block = Block()
fixed = v.detach()
theirs, slopes_of_theirs = leaves(q, k), leaves(slopes)
(reference(block, *theirs, fixed, *slopes_of_theirs) * weights).sum().backward()
expected = [*[x.grad for x in theirs], block.project.weight.grad.clone()]
for what, module in (("eager", block), ("compiled", torch.compile(block, fullgraph=True))):
    block.zero_grad()
    ours, slopes_of_ours = leaves(q, k), leaves(slopes)
    (module(*ours, fixed, *slopes_of_ours) * weights).sum().backward()
    for name, got, want in zip(("q", "k", "a weight"), [*[x.grad for x in ours], block.project.weight.grad], expected):
        close(got, want, f"{what}: through two variants, by {name}", 1e-3 if name == "a weight" else 2e-4)
print("capped", torch.library.opcheck(ops.capped.default, (*leaves(q, k), fixed, 5.0, 7)))

# A number that is learned is an input of one element; a scalar has no gradient, and says so.
learned, by_torch = leaves(torch.tensor([0.7]))[0], leaves(torch.tensor([0.7]))[0]
ours, theirs = leaves(q, k, v), leaves(q, k, v)
(ops.warmed(*ours, learned=learned, temperature=0.2)[0] * weights).sum().backward()
scores = theirs[0] @ theirs[1].repeat_interleave(2, 1).mT * (by_torch * 0.2)
((scores.masked_fill(positions[:, None] < positions, -torch.inf).softmax(-1) @ theirs[2].repeat_interleave(2, 1)) * weights).sum().backward()
close(learned.grad, by_torch.grad, "a learned temperature", 5e-3)
close(ours[0].grad, theirs[0].grad, "under a learned temperature, dq")
for needs in (torch.nn.Parameter(torch.tensor([0.2])), torch.tensor(0.2, requires_grad=True), torch.tensor(0.1, requires_grad=True) * 2):
    words = ["temperature of test::warmed to be a number, got a tensor that requires a gradient", 'try temperature.item(), or temperature = input<"temperature", f32>(axis<"one">)']
    refused(words, lambda: ops.warmed(q, k, v, learned=learned, temperature=needs))
    refused(words, lambda: ops.warmed(q, k, v, learned, needs))
    refused(words, lambda: torch.ops.attune_trained_ops.warmed(q, k, v, learned=learned, temperature=needs))
    with torch.no_grad():
        kept = ops.warmed(q, k, v, learned=learned, temperature=needs)[0]
    assert torch.equal(kept, ops.warmed(q, k, v, learned=learned, temperature=needs.item())[0])
    assert torch.equal(kept, ops.warmed(q, k, v, learned=learned, temperature=needs.detach())[0])
compiled = torch.compile(lambda *given: ops.warmed(*given, temperature=0.2)[0], fullgraph=True)
torch.testing.assert_close(compiled(q, k, v, learned), kept, atol=1e-5, rtol=1e-5)

# A gradient has the element type and the extents of its own input, broadcast or not.
given = leaves(q, k[:1], v[:1], torch.randn(1, 90, 90).bfloat16())
whole = leaves(q, k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1), given[3])
for tensors in (given, whole):
    named = dict(zip(("q", "k", "v", "bias"), tensors))
    (ops.dropped(scale=0.125, **named)[0] * weights).sum().backward()
    assert all(x.grad.shape == x.shape and x.grad.dtype == x.dtype for x in tensors)
close(given[1].grad, whole[1].grad.sum(0, keepdim=True), "a key that broadcasts")
library = attune.load(sys.argv[1])
tensors = [x.detach() for x in given]
kept = library.dropped(*tensors[:3], bias=tensors[3], scale=0.125)
said = {o["name"]: o.get("gradient_of") for o in library.dropped_gradient.describe()["outputs"]}
assert said == {name: name[1:] for name in said} and not any("gradient_of" in o for o in library.dropped.describe()["outputs"])
named = {name: x for name, x in {**dict(zip(("q", "k", "v", "bias"), tensors)), "out": kept.out, "lse": kept.lse, "dout": weights, "scale": 0.125}.items() if name in library.dropped_gradient._known}
found = library.dropped_gradient(**named)._asdict()
assert found["dk"].shape == (2, *k.shape[1:]) and found["dbias"].dtype == torch.float32 and found["dbias"].shape == (4, 90, 90)
close(found["dk"].sum(0, keepdim=True), given[1].grad, "by attune.load")
refused(["cu_seqlens_q"], lambda: library.dropped_gradient(**named, cu_seqlens_q=torch.tensor([0, 90], dtype=torch.int32)))


def megabytes():
    return int(open("/proc/self/statm").read().split()[0]) * 4096 >> 20  # of address space: nobody writes to an output of a refused call


# Refused: before anything is read, and nothing is kept.
wrong = torch.ones((1,) * 40)
refused(["slopes", "1 axes", "40"], lambda: ops.alibi_gradient(q, k, k, wrong, q, q[..., 0], q))
wide, before = torch.zeros(2, 4, 20000, 64), megabytes()
for _ in range(30):
    try:
        ops.alibi(wide, k, v, slopes[:3])
    except RuntimeError:
        pass
assert megabytes() - before < 200, "a refused call keeps its outputs"
print("all as expected")

"""Variants as operators of PyTorch: operators.py READY CAPPED RUN_PACKAGE COMMON, libraries and a program that CMakeLists.txt beside this file makes."""
import os
import subprocess
import sys
import tempfile

import torch

import attune
import attune.torch

ready, capped = attune.torch.load(sys.argv[1]), attune.torch.load(sys.argv[2])
assert attune.torch.load(sys.argv[1]) is ready
torch.manual_seed(1)
print("PyTorch", torch.__version__)


sdpa = torch.nn.functional.scaled_dot_product_attention
q = torch.randn(2, 4, 100, 64)
k, v = (torch.randn(2, 100, 4, 64).transpose(1, 2) for _ in "kv")  # strided views: not copied
slopes = 2.0 ** -torch.arange(1.0, 5.0)
torch.testing.assert_close(ready.causal_attention(q, k, v), sdpa(q, k, v, is_causal=True), atol=1e-5, rtol=0)
near = (torch.arange(100)[:, None] - torch.arange(100)).abs() <= 3
torch.testing.assert_close(ready.window_attention(q, k, v, 3, right=3), sdpa(q, k, v, attn_mask=near), atol=1e-5, rtol=0)
lengths = torch.tensor([30, 100], dtype=torch.int32)
torch.testing.assert_close(ready.plain_attention(q, k, v, kv_lengths=lengths)[0], sdpa(q, k[:, :, :30], v[:, :, :30])[0], atol=1e-5, rtol=0)
grouped = ready.causal_attention(q, k[:, ::2], v[:, ::2])
torch.testing.assert_close(grouped, sdpa(q, k[:, ::2], v[:, ::2], is_causal=True, enable_gqa=True), atol=1e-5, rtol=0)

# Into memory of the caller's, strided too.
out = torch.empty(2, 100, 4, 64).transpose(1, 2)
assert ready.alibi_attention.out(q, k, v, slopes, out=out) is None
torch.testing.assert_close(out, ready.alibi_attention(q, k, v, slopes), atol=0, rtol=0)

# Two outputs and numbers of both kinds, in two element types.
scores = 5 * torch.tanh(q @ k.mT / 8 / 5)
scores[..., :7] = -torch.inf
got, sums = capped.capped(q, k, v, cap=5.0, first=7)
assert got.shape == q.shape and sums.shape == q.shape[:3]
torch.testing.assert_close(got, scores.softmax(-1) @ v, atol=1e-5, rtol=0)
torch.testing.assert_close(sums, scores.logsumexp(-1), atol=1e-5, rtol=1e-5)
half = capped.capped(q.bfloat16(), k.bfloat16(), v.bfloat16(), cap=5.0, first=7)
assert half[0].dtype == torch.bfloat16 and half[1].dtype == torch.float32
torch.testing.assert_close(half[0].float(), got, atol=0.03, rtol=0.03)

# The order of arguments is that of the same variant from NumPy.
for operators, library in ((ready, attune.load(sys.argv[4])), (capped, attune.load(sys.argv[2]))):
    for name in library:
        order = [argument.name for argument in getattr(operators, name).default._schema.arguments]
        assert order == [p for p in library[name].__signature__.parameters if p in order] and set(order) | {"options", "cu_seqlens_q"} | {o["name"] for o in library[name].describe()["outputs"]} == \
            set(library[name].__signature__.parameters), (name, order)

# What PyTorch itself checks of an operator: schema, fake tensors, tracing with symbolic shapes.
cases = {
    "plain_attention": ((q, k, v), {}), "causal_attention": ((q, k, v), {"kv_lengths": lengths}), "window_attention": ((q, k, v, 3, 3), {}), "alibi_attention": ((q, k, v, slopes), {}),
    "decode_attention": ((q[:, :, -1:], k, v), {}), "decode_window_attention": ((q[:, :, -1:], k, v, 9, 0), {}), "decode_alibi_attention": ((q[:, :, -1:], k, v, slopes), {})}
for name, (given, named) in cases.items():
    print(name, torch.library.opcheck(getattr(ready, name).default, given, named))
    into = torch.empty_like(given[0])
    torch.library.opcheck(getattr(ready, name).out, given, {**named, "out": into})
print("capped", torch.library.opcheck(capped.capped.default, (q, k, v, 5.0, 7)))


class Block(torch.nn.Module):
    def forward(self, q, k, v, slopes):
        found = ready.alibi_attention(q * 2, k, v, slopes)
        again, sums = capped.capped(found, k, v, 5.0, 3)
        return again + sums[..., None]


block = Block()
expected = block(q, k, v, slopes)
compiled = torch.compile(block, fullgraph=True)
torch.testing.assert_close(compiled(q, k, v, slopes), expected, atol=1e-5, rtol=1e-5)


@torch.compile(fullgraph=True)
def into(q, k, v, slopes):
    out = torch.empty_like(q)
    ready.alibi_attention.out(q, k, v, slopes, out=out)
    return out * 2


torch.testing.assert_close(into(q, k, v, slopes), 2 * ready.alibi_attention(q, k, v, slopes), atol=1e-6, rtol=0)
length = torch.export.Dim("length", min=2, max=4096)
program = torch.export.export(block, (q, k, v, slopes), dynamic_shapes=({2: length}, {2: length}, {2: length}, None))
shorter = [x[:, :, :60] for x in (q, k, v)]
torch.testing.assert_close(program.module()(*shorter, slopes), block(*shorter, slopes), atol=1e-5, rtol=1e-5)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "block.pt2")
    torch.export.save(program, path)
    torch.testing.assert_close(torch.export.load(path).module()(*shorter, slopes), block(*shorter, slopes), atol=1e-5, rtol=1e-5)

# Compiled ahead of time, as C++ loads it.
with tempfile.TemporaryDirectory() as folder:
    package = torch._inductor.aoti_compile_and_package(torch.export.export(block, (q, k, v, slopes)), package_path=os.path.join(folder, "block.pt2"))
    torch.testing.assert_close(torch._inductor.aoti_load_package(package)(q, k, v, slopes), expected, atol=1e-5, rtol=1e-5)
    for name, tensor in (("q", q), ("k", k), ("v", v), ("slopes", slopes)):
        tensor.contiguous().numpy().tofile(os.path.join(folder, name + ".bin"))
    subprocess.run([sys.argv[3], os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), package, folder], check=True)
    torch.testing.assert_close(torch.from_file(os.path.join(folder, "out.bin"), size=q.numel()).view(q.shape), expected, atol=1e-5, rtol=1e-5)
    print("a package of AOTInductor: from Python and from C++")

# Threads are PyTorch's; the bits do not depend on them.
for count in (1, 2):
    torch.set_num_threads(count)
    assert torch.equal(ready.alibi_attention.default(q, k, v, slopes), out)

# Forked workers call, as DataLoader's do.
torch.set_num_threads(2)
expected = ready.causal_attention(q, k, v)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return ready.causal_attention(q, k, v)


for got in torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=2, multiprocessing_context="fork"):
    assert torch.equal(got, expected)

# A process of torch.multiprocessing writes into shared memory.
shared = torch.zeros_like(q).share_memory_()
process = torch.multiprocessing.get_context("fork").Process(target=lambda: ready.causal_attention.out(q, k, v, out=shared))
process.start(), process.join()
assert process.exitcode == 0 and torch.equal(shared, expected)
print("all as expected")

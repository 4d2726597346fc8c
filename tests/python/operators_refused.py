"""What operators of PyTorch refuse: operators_refused.py READY CAPPED TRAINED OLD COMMON. OLD defines no operators, since one of its variants cannot be one."""
import os
import shutil
import subprocess
import sys
import tempfile
from unittest import mock

import torch

import attune
import attune.torch

ready, capped, trained, old, common = sys.argv[1:]
layout = "attune: expected kernels of test::old built for layout "


def refused(words, call, *given, **named):
    try:
        call(*given, **named)
    except RuntimeError as problem:
        assert "attune: expected " in str(problem) and all(word in str(problem) for word in words), problem
        return print("refused:", str(problem).splitlines()[0])
    raise AssertionError(f"expected a refusal with {words}, got none")


# By attune's Python, the first time and again; another library still loads.
for _ in range(2):
    refused([layout, "; try building the variant again"], attune.torch.load, old)
assert not hasattr(torch.ops.attune_old_ops, "capped")
variants = attune.torch.load(capped)

# A second library with a namespace that is taken.
with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, "libcopy.so")
    shutil.copy(capped, copy)
    refused(["attune: expected PyTorch to take attune_capped as a namespace", "NAMESPACE"], attune.torch.load, copy)
q = torch.randn(1, 2, 30, 64)
assert variants.capped(q, q, q, cap=5.0, first=0)[0].isfinite().all()
for words, path in ((["libm.so.6", "not there"], "libm.so.6"), (["no operators"], common)):
    refused(words, attune.torch.load, path)

# A call: exceptions with attune's sentence; nothing is written.
ready = attune.torch.load(ready)
q, k, v = torch.randn(3, 2, 4, 100, 64)
slopes = 2.0 ** -torch.arange(1.0, 5.0)
out = torch.full_like(q, 7)
refused(["slopes", "3"], ready.alibi_attention, q, k, v, slopes[:3])
refused(["slopes", "1 axes, got 2"], ready.alibi_attention, q, k, v, slopes[None])
refused(["q", "got float64", "torch.float32"], ready.plain_attention, q.double(), k, v)
far = torch.zeros(1).expand(2, 4, 2**32, 64)  # by strides alone
refused(["extent from 0 to 2147483647 along key of k", "got 4294967296"], ready.plain_attention, q, far, far)
refused(["q", "got complex64"], ready.plain_attention, q.to(torch.complex64), k, v)
refused(["q", "i64", "f32"], ready.plain_attention, q.long(), k, v)
refused(["block_table from 0 to 2", "got 99"], ready.paged_attention, q=q[:, :, :1], k_pages=torch.ones(3, 2, 4, 64, dtype=torch.int8), v_pages=torch.ones(3, 2, 4, 64, dtype=torch.int8),
        k_scale=torch.ones(3, 2, 4), v_scale=torch.ones(3, 2, 4), block_table=torch.tensor([[0, 1], [2, 99]], dtype=torch.int32))
refused(["out"], ready.plain_attention.out, q, k, v, out=out[:, :, :50])
refused(["out"], ready.plain_attention.out, q, k, v, out=q)
assert (out == 7).all()
assert ready.plain_attention(q[:, :, :0], k, v).shape == (2, 4, 0, 64)  # which is no mistake

with torch._subclasses.fake_tensor.FakeTensorMode() as fake, mock.patch.object(attune.Variant, "_shape", lambda *given: None):  # as of an output whose axes are no input's
    refused(["the output out of attune::common::plain_attention to be passed", "plain_attention.out"], ready.plain_attention, *map(fake.from_tensor, (q, k, v)))

# Gradients that are not there.
refused(["plain_attention_gradient"], lambda: ready.plain_attention(q.clone().requires_grad_(), k, v).sum().backward())
trained = attune.torch.load(trained)
refused(["gradient of v", "wrt"], lambda: trained.capped(q, k, v.clone().requires_grad_(), 5.0, 7))
refused(["dlse", "of("], lambda: trained.alibi(q.clone().requires_grad_(), k, v, slopes)[1].sum().backward())
leaf = q.clone().requires_grad_()
trained.capped(leaf, k, v, 5.0, 7)[0].sum().backward()
assert leaf.grad.isfinite().all()

# By DLPack: what PyTorch does not share is refused by its name, with what helps.
shared = attune.load(common).plain_attention
for words, other in ((["require gradient", "try q.detach()"], q.clone().requires_grad_()), (["layout", "try q.to_dense()"], q.to_sparse()),
                     (["conjugate", "try q.real"], q.to(torch.complex64).conj()), (["meta", "try a tensor that has elements"], q.to("meta"))):
    refused(["q to be shared by DLPack, got a torch.Tensor of torch.", *words], shared, other, k, v)

# Without attune's Python: the process goes on, PyTorch has warned, and no operator is half there.
program = f"import torch; torch.ops.load_library({old!r}); print(hasattr(torch.ops.attune_old_ops, 'capped'), hasattr(torch.ops.attune_old_ops, 'old'))"
done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
assert done.returncode == 0 and done.stdout == "False False\n" and layout in done.stderr, done
print("all as expected")

"""PyTorch's tensors in attune's kernels, without a copy: python3 torch_attention.py <folder>/libattune_common.so, as numpy_attention.py. For torch.compile,
attune_add_torch_library makes operators of them (runtime/docs/python.md)."""
import sys

import attune
import torch

kernels = attune.load(sys.argv[1])
torch.manual_seed(1)
q = torch.randn(2, 8, 100, 64)
k, v = (torch.randn(2, 100, 8, 64).transpose(1, 2) for _ in "kv")  # stored (batch, key, head, depth)
worst = 0.0
for variant, causal in (("plain_attention", False), ("causal_attention", True)):
    out = kernels[variant](q, k, v)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    worst = max(worst, (out - expected).abs().max().item())
print(f"largest difference from scaled_dot_product_attention {worst:.1e}")
sys.exit(0 if worst < 1e-5 else 1)

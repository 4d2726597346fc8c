"""PyTorch's tensors in attune's kernels, without a copy: python3 torch_attention.py <folder>/libattune_common.so"""
import sys

import torch
from attune_ctypes import Kernels

kernels = Kernels(sys.argv[1])
torch.manual_seed(1)
q = torch.randn(2, 8, 100, 64)
k, v = (torch.randn(2, 100, 8, 64).transpose(1, 2) for _ in "kv")  # stored (batch, key, head, depth)
out = torch.empty_like(q)
worst = 0.0
for variant, causal in (("plain", False), ("causal", True)):
    kernels.run(f"attune_common_{variant}_attention", q=q, k=k, v=v, out=out)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    worst = max(worst, (out - expected).abs().max().item())
print(f"largest difference from scaled_dot_product_attention {worst:.1e}")
sys.exit(0 if worst < 1e-5 else 1)

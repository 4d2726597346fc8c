"""Libraries that define no operators, since one of theirs cannot be: operators_refused.py CAPPED OLD."""
import os
import shutil
import subprocess
import sys
import tempfile

import torch

import attune
import attune.torch

capped, old = sys.argv[1:]
layout = "attune: expected kernels of test::old built for layout "


def refused(words, path):
    try:
        attune.torch.load(path)
    except attune.Error as problem:
        assert all(word in str(problem) for word in words), problem
        return print("refused:", problem)
    raise AssertionError(f"expected a refusal with {words}, got none")


# Without attune's Python: the process goes on, PyTorch has warned, and no operator is half there.
program = f"import torch; torch.ops.load_library({old!r}); print(hasattr(torch.ops.attune_old_ops, 'capped'), hasattr(torch.ops.attune_old_ops, 'old'))"
done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
assert done.returncode == 0 and done.stdout == "False False\n" and layout in done.stderr, done

# By attune's Python, the first time and again; another library still loads.
for _ in range(2):
    refused([layout, "; try building the variant again"], old)
assert not hasattr(torch.ops.attune_old_ops, "capped")
ready = attune.torch.load(capped)

# A second library with a namespace that is taken.
with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, "libcopy.so")
    shutil.copy(capped, copy)
    refused(["attune: expected PyTorch to take attune_capped as a namespace", "NAMESPACE"], copy)
q = torch.randn(1, 2, 30, 64)
assert ready.capped(q, q, q, cap=5.0, first=0)[0].isfinite().all()

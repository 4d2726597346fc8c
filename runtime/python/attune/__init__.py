"""attune: attention variants as formulas, compiled ahead of time.

    import attune
    out = attune.common.causal_attention(q, k, v)           # ready-made kernels, no compiler
    kernels = attune.load("libmy_kernels.so")               # your own, from attune_add_variant(my_kernels SHARED ...)
    out = kernels.alibi(q, k, v, slopes)

Tensors are NumPy arrays, PyTorch tensors and whatever else has `__dlpack__`. Nothing is copied.
"""
from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

from ._c import Error, KernelFailure
from .blocks import Blocks
from .library import Library, Options, Variant, load
from .prepared import Prepared

if TYPE_CHECKING:  # found below when they are first asked for
    from .build import compile
    common: Library
    __version__: str

__all__ = ["Blocks", "Error", "KernelFailure", "Library", "Options", "Prepared", "Variant", "common", "compile", "load", "prefix"]


def prefix() -> pathlib.Path:
    """The folder that CMAKE_PREFIX_PATH names, where the environment of this package is not active."""
    return pathlib.Path(__file__).resolve().parent


def __getattr__(name: str) -> Any:
    if name == "common":
        found = load(next(prefix().glob("lib*/libattune_common.so"), prefix() / "lib/libattune_common.so"))
        globals()["common"] = found
        return found
    if name == "compile":
        from .build import compile
        return compile
    if name == "__version__":
        from importlib.metadata import version
        return version("attune-attention")
    raise AttributeError(f"module 'attune' has no attribute '{name}'")

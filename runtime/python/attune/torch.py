"""Libraries of attune_add_torch_library as operators of PyTorch.

    ops = attune.torch.load("libmy_ops.so")     # torch.ops.my_ops
    out = ops.alibi(q, k, v, slopes)            # strided views as they are; kv_lengths=... where keys end earlier
    ops.alibi.out(q, k, v, slopes, out=out)     # into memory of yours

torch.compile(fullgraph=True) and torch.export take them. Threads are those of torch.set_num_threads.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Callable

import torch

from ._c import Error
from .library import Library, Variant

__all__ = ["load"]


def load(path: str | os.PathLike[str]) -> Any:
    """Loads such a library and says what PyTorch asks of its operators; returns torch.ops.<namespace>."""
    where = os.path.abspath(path)
    if not os.path.exists(where):
        raise Error(f"attune: expected a library of attune_add_torch_library, got {path}, which is not there; try the path of lib<name>.so")
    torch.ops.load_library(where)
    library = Library(where)
    try:
        named = library._interface.library.attune_torch_namespace
    except AttributeError:
        raise Error(f"attune: expected a library of attune_add_torch_library, got {path}, which defines no operators; try attune.load") from None
    named.restype = ctypes.c_char_p
    space = named().decode()
    if where not in _loaded:
        for name in library:
            torch.library.register_fake(f"{space}::{name}")(_fake(library[name]))
            torch.library.register_fake(f"{space}::{name}.out")(lambda *given, **named: None)
        _loaded.add(where)
    return getattr(torch.ops, space)


_loaded: set[str] = set()


def _fake(variant: Variant) -> Callable[..., Any]:
    """The outputs of a call as tensors without values."""
    signature, described = variant.__signature__, variant.describe()

    def outputs(*given: torch.Tensor, **named: Any) -> Any:
        tensors = signature.bind(*given, **named).arguments
        q = tensors[variant._typed[0]] if variant._typed else next(value for value in tensors.values() if isinstance(value, torch.Tensor))
        made = []
        for output in described["outputs"]:
            shape = variant._shape(output["name"], tensors)
            if shape is None:
                raise Error(f"attune: expected the output {output['name']} of {variant.__qualname__} to be passed, for none of the inputs says how large it is; try {variant.__name__}.out")
            made.append(q.new_empty(shape, dtype=q.dtype if output["element"] == "any" and variant._typed else torch.float32))
        return made[0] if len(made) == 1 else tuple(made)

    return outputs

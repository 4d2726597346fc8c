"""Libraries of attune_add_torch_library as operators of PyTorch.

    ops = attune.torch.load("libmy_ops.so")     # torch.ops.my_ops
    out = ops.alibi(q, k, v, slopes)            # strided views as they are; kv_lengths=... where keys end earlier
    ops.alibi.out(q, k, v, slopes, out=out)     # into memory of yours

torch.compile(fullgraph=True) and torch.export take them. Where `alibi_gradient`, made by gradient(alibi), is in the library, autograd takes ops.alibi. Threads are those of torch.set_num_threads.
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
    said = getattr(ctypes.CDLL(where), "attune_torch_problem", None)
    if said is not None:
        said.restype = ctypes.c_char_p
        if problem := said():
            raise Error(problem.decode())
    library = Library(where)
    try:
        named = library._interface.library.attune_torch_namespace
    except AttributeError:
        raise Error(f"attune: expected a library of attune_add_torch_library, got {path}, which defines no operators; try attune.load") from None
    named.restype = ctypes.c_char_p
    space = named().decode()

    def operator_of(name: str) -> Any:
        return getattr(getattr(torch.ops, space), name).default

    def names_of(name: str) -> list[str]:
        return [argument.name for argument in operator_of(name)._schema.arguments]

    if where not in _loaded:
        for name in library:
            torch.library.register_fake(f"{space}::{name}")(_fake(library[name], names_of(name)))
            torch.library.register_fake(f"{space}::{name}.out")(lambda *given, **named: None)
        for name in library:
            gradient = library.gradient_of(name)
            backward, forward = _autograd(library[name], names_of(name), gradient, operator_of(gradient.__name__)) if gradient else (_no_gradient(library[name]), None)
            torch.library.register_autograd(f"{space}::{name}", backward, setup_context=forward)
            if any(given.get("scalar") for given in library[name].describe()["inputs"]):
                setattr(getattr(torch.ops, space), name, _of_numbers(getattr(getattr(torch.ops, space), name), library[name], names_of(name)))
        _loaded.add(where)
    return getattr(torch.ops, space)


_loaded: set[str] = set()


def _fake(variant: Variant, names: list[str]) -> Callable[..., Any]:
    """The outputs of a call as tensors without values."""
    described = variant.describe()

    def outputs(*given: torch.Tensor, **named: Any) -> Any:
        tensors = {**dict(zip(names, given)), **named}
        q = tensors[variant._typed[0]] if variant._typed else next(value for value in tensors.values() if isinstance(value, torch.Tensor))
        made = []
        for output in described["outputs"]:
            shape = variant._shape(output["name"], tensors)
            if shape is None:
                raise Error(f"attune: expected the output {output['name']} of {variant.__qualname__} to be passed, for none of the inputs says how large it is; try {variant.__name__}.out")
            like = variant._like(output, tensors)
            made.append(q.new_empty(shape, dtype=torch.float32 if like is None else like.dtype))
        return made[0] if len(made) == 1 else tuple(made)

    return outputs


class _OfNumbers(torch._ops.OpOverloadPacket):
    """An operator that takes numbers: PyTorch would make one of a tensor, and forget that it requires a gradient."""

    def __call__(self, /, *given: Any, **named: Any) -> Any:
        if torch.is_grad_enabled():
            self.__dict__["_look_at_numbers"]({**dict(zip(self.__dict__["_names"], given)), **named})
        return super().__call__(*given, **named)


def _of_numbers(operator: Any, variant: Variant, names: list[str]) -> Any:
    """The operator, which refuses tensors that require a gradient where the formula has a scalar: it makes none by these."""
    numbers = [given["name"] for given in variant.describe()["inputs"] if given.get("scalar")]

    def look(given: dict[str, Any]) -> None:
        for name in numbers:
            value = given.get(name)
            if isinstance(value, torch.Tensor) and value.requires_grad:
                raise Error(f"attune: expected {name} of {variant.__qualname__} to be a number, got a tensor that requires a gradient, and a scalar has none; "
                            f"try {name}.item(), or {name} = input<\"{name}\", f32>(axis<\"one\">), read at {name}(0) in the formula")

    made = object.__new__(_OfNumbers)
    made.__dict__.update(operator.__dict__, _names=names, _look_at_numbers=look)
    return made


def _no_gradient(variant: Variant) -> Callable[..., Any]:
    """PyTorch itself would only warn, and go on with no gradient."""
    name = variant.__qualname__

    def backward(ctx: Any, *grads: Any) -> Any:
        raise Error(f"attune: expected {name}_gradient among the kernels, for a backward pass through {name}, got none; try GRAPHS ... {name}_gradient, with {variant.__name__}_gradient = gradient({variant.__name__})")

    return backward


def _autograd(variant: Variant, names: list[str], gradient: Variant, operator: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What register_autograd takes: backwards by the kernels of gradient(variant), which read what the forward pass left."""
    outputs, wanted = [output["name"] for output in variant._outputs], gradient._known
    made = [output["name"] for output in gradient._outputs]


    def forward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        given = dict(zip(names, inputs))
        for name, value in given.items():
            if isinstance(value, torch.Tensor) and value.requires_grad and "d" + name not in made:
                raise Error(f"attune: expected {gradient.__qualname__} to make the gradient of {name}, got one of {', '.join(made)}; try {name}.detach(), or gradient(..., wrt(...)) with {name}")
        left = dict(zip(outputs, output if isinstance(output, tuple) else (output,)))
        kept = {name: value for name, value in {**given, **left}.items() if name in wanted and value is not None}
        tensors = {name: value for name, value in kept.items() if isinstance(value, torch.Tensor)}
        ctx.names, ctx.numbers = list(tensors), {name: value for name, value in kept.items() if name not in tensors}
        ctx.shapes = {name: (value.shape, value.dtype) for name, value in left.items()}
        ctx.save_for_backward(*tensors.values())
        ctx.set_materialize_grads(False)

    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        arguments = {**dict(zip(ctx.names, ctx.saved_tensors)), **ctx.numbers}
        for name, grad in zip(outputs, grads):
            if "d" + name in wanted:
                shape, dtype = ctx.shapes[name]
                if grad is None:
                    grad = torch.zeros(shape, dtype=dtype)
                arguments["d" + name] = grad if grad.stride(-1) == 1 else grad.contiguous()  # a sum's is one number, expanded
            elif grad is not None:
                raise Error(f"attune: expected {gradient.__qualname__} to take the derivative by {name}, got d{name}, which it does not read; try {name}.detach(), or gradient(..., of({', '.join(outputs)}))")
        found = operator(**arguments)
        gradients = dict(zip(made, found if isinstance(found, tuple) else (found,)))
        return tuple(gradients.get("d" + name) for name in names)

    return backward, forward

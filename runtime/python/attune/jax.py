"""Libraries of attune_add_jax_library as functions of JAX.

    ops = attune.jax.load("libmy_jax.so")
    out = jax.jit(ops.alibi)(q, k, v, slopes)       # on the CPU; kv_lengths=... where keys end earlier
    many = jax.vmap(ops.alibi, (0, 0, 0, None))     # one call where every mapped array has the batch among its axes

Numbers of a call may be traced. Threads are as many as XLA's own. Where `alibi_gradient`, made by gradient(alibi), is in the library, jax.grad takes ops.alibi.
attune.load takes the same file, for NumPy.
"""
from __future__ import annotations

import os
import re
from typing import Any, Callable, Iterator

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

from ._c import Error
from .library import TYPES, Library, Variant

__all__ = ["Function", "Functions", "load"]


class Function:
    """One compiled variant as a function of arrays and numbers, by name or in the order of `inspect.signature`. Several outputs are a named tuple.

    `target` is the name by which XLA knows it, for jax.export.
    """

    def __init__(self, target: str, variant: Variant) -> None:
        self.variant, self.target = variant, target
        self._gradient: Function | None = None
        self.__name__, self.__qualname__, self.__doc__ = variant.__name__, variant.__qualname__, variant.__doc__
        # Packed queries are divided by what is in a tensor; jax.vmap folds batches by shapes.
        made = {output["name"] for output in variant._outputs} | {"options"} | variant._packs
        self.__signature__ = variant.__signature__.replace(parameters=[p for p in variant.__signature__.parameters.values() if p.name not in made])
        self._names = [given["name"] for given in variant._inputs if given["name"] not in variant._packs]
        self._axes = {given["name"]: given["axes"] for given in variant._inputs}
        # Batches of several calls are those of one where the formula speaks of one sequence at a time.
        self._folds = variant._described["one_sequence_at_a_time"]
        self._calls: dict[tuple[str, ...], Callable[..., Any]] = {}

    def __call__(self, *given: Any, **named: Any) -> Any:
        try:
            arguments = {name: value for name, value in self.__signature__.bind(*given, **named).arguments.items() if value is not None}
        except TypeError as problem:
            raise Error(f"attune: expected the arguments {', '.join(self._names)} of {self.__qualname__}, got others: {problem}; try naming them") from None
        return self._of(tuple(arguments))(*(self._array(name, value) for name, value in arguments.items()))

    def __repr__(self) -> str:
        return f"<attune function {self.__qualname__}{self.__signature__}>"

    def _array(self, name: str, value: Any) -> jax.Array:
        given = self.variant._known[name]
        if not given["scalar"]:
            array = jnp.asarray(value)
            if (was := str(getattr(value, "dtype", array.dtype)).removeprefix("torch.")) != str(array.dtype):
                raise Error(f"attune: expected {name} of {self.__qualname__} to have elements that JAX keeps, got {was}, of which it would make {array.dtype}; try {name}.astype(...), or jax.config.update('jax_enable_x64', True)")
            return array
        wanted = np.dtype(TYPES[given["element"]])
        if wanted == np.float64 and not jax.config.jax_enable_x64:
            if isinstance(value, (int, float, np.number)) and float(np.float32(value)) != value:
                raise Error(f"attune: expected {name} of {self.__qualname__} to be a number that float32 holds, got {value}; try jax.config.update('jax_enable_x64', True), for float64")
            wanted = np.dtype(np.float32)
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if wanted.kind == "i" and not -2**31 <= value < 2**31:
                raise Error(f"attune: expected {name} of {self.__qualname__} to be an integer of 32 bits, got {value}; try a smaller one")
            value = wanted.type(value)
        elif isinstance(value, (float, np.floating)) and wanted.kind == "f":
            value = wanted.type(value)
        array = jnp.asarray(value)
        if array.ndim or not np.can_cast(array.dtype, wanted) or array.dtype == bool:
            raise Error(f"attune: expected {name} of {self.__qualname__} to be a number that {wanted} holds, got {array.dtype} of shape {array.shape}; try jax.numpy.{wanted}({name})")
        return array.astype(wanted)

    def _of(self, names: tuple[str, ...]) -> Callable[..., Any]:
        """The call with these arguments, as JAX transforms it: kv_lengths may be among them or not."""
        if names not in self._calls:
            call = self._mapped(names)
            self._calls[names] = _differentiated(self, self._gradient, names, call) if self._gradient else call
        return self._calls[names]

    def _results(self, arguments: dict[str, Any]) -> list[jax.ShapeDtypeStruct]:
        variant, made = self.variant, []
        for output in variant._outputs:
            shape = variant._shape(output["name"], arguments)
            if shape is None:
                raise Error(f"attune: expected the inputs of {self.__qualname__} to say how large the output {output['name']} is, got none that does; try attune.load, whose outputs may be passed")
            like = variant._like(output, arguments)
            made.append(jax.ShapeDtypeStruct(shape, "float32" if like is None else like.dtype))
        return made

    def _mapped(self, names: tuple[str, ...]) -> Callable[..., Any]:
        """The call, and what jax.vmap makes of it: the mapped axis and the batch become one axis."""
        variant, axes = self.variant, [self._axes[name] for name in names]

        @jax.custom_batching.custom_vmap
        def call(*arrays: jax.Array) -> Any:
            results = self._results(dict(zip(names, arrays)))
            found = jax.ffi.ffi_call(self.target, results)(*arrays, names="".join(name + " " for name in names))
            return found[0] if variant._returned is None else variant._returned(*found)

        @call.def_vmap
        def mapped(size: int, is_mapped: list[bool], *arrays: jax.Array) -> Any:
            several = variant._returned is not None
            if not self._folds or any(mapped and "batch" not in of for mapped, of in zip(is_mapped, axes)):
                found = jax.lax.map(lambda these: call(*(these.pop(0) if m else a for m, a in zip(is_mapped, arrays))), [a for m, a in zip(is_mapped, arrays) if m])
            else:
                one = {name: array[0] if m else array for name, m, array in zip(names, is_mapped, arrays)}
                batches = next(result.shape[output["axes"].index("batch")] for output, result in zip(variant._outputs, self._results(one)))
                folded = call(*(_folded(array, m, of.index("batch"), size, batches) if "batch" in of else array for array, m, of in zip(arrays, is_mapped, axes)))
                places = [output["axes"].index("batch") for output in variant._outputs]
                unfolded = [_unfolded(array, at, size) for array, at in zip(folded if several else [folded], places)]
                found = variant._returned(*unfolded) if several else unfolded[0]
            return found, variant._returned(*[True] * len(variant._outputs)) if several else True

        return call


def _folded(array: jax.Array, mapped: bool, at: int, size: int, batches: int) -> jax.Array:
    """An array whose batch, axis `at`, is the mapped axis and the batch that was."""
    whole = array if mapped else jnp.broadcast_to(array, (size, *array.shape))
    shape = list(whole.shape)
    shape[at + 1] = batches if shape[at + 1] == 1 else shape[at + 1]
    whole = jnp.moveaxis(jnp.broadcast_to(whole, shape), 0, at)
    return whole.reshape(*whole.shape[:at], size * whole.shape[at + 1], *whole.shape[at + 2:])


def _unfolded(array: jax.Array, at: int, size: int) -> jax.Array:
    return jnp.moveaxis(array.reshape(*array.shape[:at], size, array.shape[at] // size, *array.shape[at + 1:]), at, 0)


def _differentiated(forward: Function, gradient: Function, names: tuple[str, ...], call: Callable[..., Any]) -> Callable[..., Any]:
    """The call with jax.grad: backwards by the kernels of gradient(variant), which read what the forward pass left."""
    outputs = [output["name"] for output in forward.variant._outputs]
    wanted = set(gradient._names)
    made = [output["name"] for output in gradient.variant._outputs]
    numbers = {given["name"] for given in forward.variant._inputs if given.get("scalar")}

    @jax.custom_vjp
    def differentiable(*arrays: jax.Array) -> Any:
        return call(*arrays)

    def forwards(*primals: Any) -> Any:
        for name, primal in zip(names, primals):
            if primal.perturbed and name in numbers:
                raise Error(f"attune: expected {name} of {forward.variant.__qualname__} to be a number without a gradient, got one that is differentiated; "
                            f"try jax.lax.stop_gradient({name}), or {name} = input<\"{name}\", f32>(axis<\"one\">), read at {name}(0) in the formula")
            if primal.perturbed and "d" + name not in made:
                raise Error(f"attune: expected {gradient.__qualname__} to make the gradient of {name}, got one of {', '.join(made)}; try jax.lax.stop_gradient({name}), or gradient(..., wrt(...)) with {name}")
        arrays = [primal.value for primal in primals]
        found = call(*arrays)
        left = dict(zip(outputs, found if forward.variant._returned else [found]))
        kept = {name: value for name, value in {**dict(zip(names, arrays)), **left}.items() if name in wanted}
        like = {"d" + name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in left.items()}
        return found, (kept, like, [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays])

    def backwards(kept_of: Any, cotangents: Any) -> Any:
        kept, like, shapes = kept_of
        arguments = dict(kept)
        for name, value in zip(outputs, cotangents if forward.variant._returned else [cotangents]):
            absent = isinstance(value, jax.custom_derivatives.SymbolicZero)
            if "d" + name in wanted:
                arguments["d" + name] = jnp.zeros(like["d" + name].shape, like["d" + name].dtype) if absent else value
            elif not absent:
                raise Error(f"attune: expected {gradient.__qualname__} to take the derivative by {name}, got d{name}, which it does not read; try gradient(..., of({', '.join(outputs)}))")
        found = gradient(**arguments)
        gradients = dict(zip(made, found if gradient.variant._returned else [found]))
        return tuple(_summed(gradients["d" + name], shape) if "d" + name in gradients else np.zeros(shape.shape, jax.dtypes.float0) if not jnp.issubdtype(shape.dtype, jnp.inexact) else jnp.zeros(shape.shape, shape.dtype)
                     for name, shape in zip(names, shapes))

    differentiable.defvjp(forwards, backwards, symbolic_zeros=True)
    return differentiable


def _summed(gradient: jax.Array, of: jax.ShapeDtypeStruct) -> jax.Array:
    """The gradient of an input that the call broadcast: over its own axes, in its own type."""
    repeated = tuple(axis for axis, extent in enumerate(of.shape) if extent != gradient.shape[axis])
    return gradient.sum(repeated, keepdims=True).astype(of.dtype) if repeated else gradient.astype(of.dtype)


class Functions:
    """The variants of a library, as attributes: `functions.alibi(q, k, v, slopes)`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not os.path.exists(path):
            raise Error(f"attune: expected a library of attune_add_jax_library, got {path}, which is not there; try the path of lib<name>.so")
        self._library = library = Library(path)
        try:
            compiled = library._interface.library.attune_xla_version()
        except AttributeError:
            raise Error(f"attune: expected a library of attune_add_jax_library, got {path}, which has no functions of XLA; try attune.load") from None
        if compiled > _xla_version():
            raise Error(f"attune: expected functions for version {_said(_xla_version())} or earlier of XLA's foreign functions, got {path} of {_said(compiled)}; try building it with this jaxlib, {jaxlib.__version__}")
        stem = os.path.basename(library.path).partition(".")[0]
        self._functions: dict[str, Function] = {}
        for name in library:
            variant = library[name]
            handler = getattr(library._interface.library, variant.symbol + "_xla")
            target = f"{stem}.{variant.symbol}"
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler), platform="cpu")
            self._functions[name] = Function(target, variant)
        for name, function in self._functions.items():
            gradient = library.gradient_of(name)
            function._gradient = next((other for other in self._functions.values() if other.variant is gradient), None)

    def __getattr__(self, name: str) -> Function:
        if not name.startswith("__") and name in self.__dict__.get("_functions", ()):
            return self._functions[name]
        raise AttributeError(f"attune: expected a variant of {self._library.path} among {', '.join(self._library)}, got {name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._library)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]


def _said(version: int) -> str:
    return f"{version // 1000}.{version % 1000}"


def _xla_version() -> int:
    """What this jaxlib's headers say; a library of a later one would keep JAX from starting its CPU."""
    with open(os.path.join(jax.ffi.include_dir(), "xla/ffi/api/c_api.h")) as header:
        major, minor = re.findall(r"#define XLA_FFI_API_M(?:AJOR|INOR) (\d+)", header.read())
    return int(major) * 1000 + int(minor)


def load(path: str | os.PathLike[str]) -> Functions:
    """The variants of a library of attune_add_jax_library as functions of JAX."""
    where = os.path.realpath(path)
    if where not in _loaded:
        _loaded[where] = Functions(where)
    return _loaded[where]


_loaded: dict[str, Functions] = {}

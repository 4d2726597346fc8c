"""Compiled variants as Python functions."""
from __future__ import annotations

import ctypes
import inspect
import numbers
import os
import pathlib
import sys
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, Iterator

from . import _c
from .blocks import Blocks
from .prepared import Prepared

_NUMPY = {"f32": "float32", "f16": "float16", "f64": "float64", "i32": "int32", "i64": "int64", "i16": "int16", "u8": "uint8", "i8": "int8", "bool": "bool"}
TYPES = {**_NUMPY, "bf16": "bfloat16", "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2"}  # as PyTorch and JAX call them
_SHARED = {"batch", "head", "key_head", "query", "key", "position", "depth", "value_depth"}  # axes of the whole call; those of other names are an input's own


@dataclass(frozen=True)
class Options:
    """How a call is to run.

    threads        at most so many; 0: as attune.set_threads says
    deterministic  bits that do not depend on the batch either; on threads they never do
    target         the ISA level, such as "x86-64-v3", or "cuda", "opencl"; None: where the tensors lie, else the best level that is linked and runs here
    checked        looks at every index that is read from a tensor
    device         of kernels for a GPU: its index; None: where the tensors lie
    asynchronous   returns once the kernel is queued; do not change inputs in pinned host memory before it is done
    context        a CUcontext or cl_context, as a number
    stream         a CUstream or cl_command_queue, as a number
    """
    threads: int = 0
    deterministic: bool = False
    target: str | None = None
    checked: bool = False
    device: int | None = None
    asynchronous: bool = False
    context: int | None = None
    stream: int | None = None

    def __post_init__(self) -> None:
        for name in ("threads", "device"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 2**31 - 1:  # ctypes would keep its lowest bits
                raise _c.Error(f"attune: expected {name} from 0 to 2^31 - 2 in attune.Options, got {value}; try leaving it out")

    def _struct(self) -> _c.OptionsStruct:
        return _c.OptionsStruct(size=ctypes.sizeof(_c.OptionsStruct), threads=self.threads, deterministic=self.deterministic,
                                target=self.target.encode() if self.target else None, checked=self.checked,
                                device=0 if self.device is None else self.device + 1, asynchronous=self.asynchronous, context=self.context, stream=self.stream)


def places_of(axis: str, inputs: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """The inputs that say how long an axis is: name, position among the input's axes, and how many these are."""
    return [(given["name"], given["axes"].index(axis), len(given["axes"])) for given in inputs if axis in given["axes"]]


def _extent(places: list[tuple[str, int, int]], named: dict[str, Any]) -> Any:
    """How long an axis is that is at these places; None where no argument says so."""
    extent = None
    for name, axis, rank in places:
        given = getattr(named.get(name), "shape", ())
        if len(given) == rank:
            extent = given[axis]
            if extent != 1:  # else it may broadcast
                break
    return extent


class _Frame:
    """The arguments of one call at a time, in memory that is filled again by the next."""

    def __init__(self, names: list[bytes]) -> None:
        self.arguments = (_c.Argument * len(names))()
        start, size = ctypes.addressof(self.arguments), ctypes.sizeof(_c.Argument)
        self.at = [start + i * size for i in range(len(names))]


class Variant:
    """One compiled variant: a function of its tensors and numbers, by name or in the order of `inspect.signature`.

    Tensors are NumPy arrays, PyTorch tensors and whatever else has `__dlpack__`; nothing is copied. Outputs that are not passed are allocated, beside a PyTorch
    tensor as tensors, else as NumPy arrays. Several are returned as a named tuple.
    """

    def __init__(self, interface: _c.Interface, symbol: str) -> None:
        self._interface, self._variant = interface, ctypes.c_void_p(interface.variant(symbol))
        self._address = self._variant.value
        self._described = said = interface.answer("attune_describe", self._variant)
        self.symbol = symbol
        self.__name__ = said["variant"].rpartition("::")[2]
        self.__qualname__ = said["variant"]
        # q, k and v first, as everybody calls attention; the last ones, kv_lengths and cu_seqlens_q, may be left out.
        first = {"q": 0, "k": 1, "v": 2}
        self._inputs = sorted(said["inputs"], key=lambda given: (given["optional"], first.get(given["name"], 3)))
        self._outputs = said["outputs"]
        self._packs = {given["name"] for given in self._inputs if given["optional"]} & {"cu_seqlens_q"}  # a formula may have an input of that name
        self._known = {given["name"]: given for given in self._inputs + self._outputs}
        self._encoded = {name: name.encode() for name in self._known}
        self._required = [given["name"] for given in self._inputs if not given["optional"]]
        self._places = {output["name"]: [places_of(axis, self._inputs) for axis in output["axes"]] for output in self._outputs}
        self._typed = [given["name"] for given in self._inputs if given["element"] == "any"]
        self._frames: list[_Frame] = []
        self._returned: Any = namedtuple(self.__name__, [given["name"] for given in self._outputs]) if len(self._outputs) > 1 else None
        keyword, usual = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, usual) for name in self._required] +
            [inspect.Parameter(name, keyword, default=None) for name in self._known if name not in self._required] +
            [inspect.Parameter("options", keyword, default=None)])
        self.__doc__ = self._text()

    def __call__(self, *given: Any, options: Options | None = None, **named: Any) -> Any:
        outputs = self._complete(given, named)
        frame = self._frames.pop() if self._frames else self._frame()
        alive, count = self._views(frame, named) or self._fill(frame, named)
        how = options._struct() if options else None
        status = self._interface.run(self._address, frame.at[0], count, ctypes.addressof(how) if how else None)
        if status:
            self._interface.check(status)
        self._frames.append(frame)
        return outputs[0] if self._returned is None else self._returned(*outputs)

    def prepare(self, *given: Any, options: Options | None = None, **named: Any) -> Prepared:
        """The same call, to be made many times: names, shapes, types, strides and overlap are checked now. What is returned is called with nothing, or with other tensors
        and numbers in place of some, by name; a tensor has the shape, strides and type of the one that it stands for. The tensors of this call live as long as it does."""
        outputs = self._complete(given, named)
        frame = self._frame()
        alive, count = self._fill(frame, named)
        return Prepared(self, frame, count, options._struct() if options else None, dict(zip((one["name"] for one in self._outputs), outputs)), alive)

    def _frame(self) -> _Frame:
        return _Frame(list(self._encoded.values()))

    def _complete(self, given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Puts arguments without a name, and outputs that are not passed, into `named`. The outputs, in order."""
        if given:
            named.update(zip(self._required, given)) if not (repeated := named.keys() & self._required[:len(given)]) else self._refuse_repeated(repeated)
            if len(given) > len(self._required):
                raise _c.Error(f"attune: expected at most {len(self._required)} arguments without a name, got {len(given)}; try naming them: {', '.join(self._known)}")
        outputs = [named.get(output["name"]) for output in self._outputs]
        for i, output in enumerate(self._outputs):
            if outputs[i] is None:
                outputs[i] = named[output["name"]] = self._allocated(output, named)
        return outputs

    def describe(self) -> dict[str, Any]:
        """The formula, the inputs and the outputs: names, axes, element types."""
        return self._described

    def kernels(self) -> list[dict[str, Any]]:
        """The kernels that are linked for it; which of them this CPU runs, and which one is chosen."""
        return self._interface.answer("attune_kernels", self._variant)["kernels"]

    def explain(self, *given: Any, options: Options | None = None, **named: Any) -> dict[str, Any]:
        """What such a call would do: kernel, blocks, bytes, threads. Outputs may be left out."""
        return self._answer("attune_explain", given, named, options)

    def blocks(self, *given: Any, options: Options | None = None, **named: Any) -> Blocks:
        """Which blocks of (queries, keys) such a call visits."""
        return Blocks(self.__qualname__, self._answer("attune_blocks", given, named, options))

    def reference(self, *given: Any, **named: Any) -> Any:
        """What the formula says, in double precision: the same arguments, checked as a call's, and no kernel. One output is an array of float64, several are a named
        tuple, followed by the tensors that the formula stores to, whole. It is far slower than a kernel."""
        if repeated := named.keys() & self._required[:len(given)]:
            self._refuse_repeated(repeated)
        if len(given) > len(self._required):
            raise _c.Error(f"attune: expected at most {len(self._required)} arguments without a name, got {len(given)}; try naming them: {', '.join(self._known)}")
        frame = self._frame()
        alive, count = self._fill(frame, {**dict(zip(self._required, given)), **named})
        made = _c.evaluated(self._variant, frame.arguments, count)
        return next(iter(made.values())) if len(made) == 1 else namedtuple(self.__name__, made)(**made)

    def __repr__(self) -> str:
        return f"<attune variant {self.__qualname__}{self.__signature__}>"

    def _refuse_repeated(self, names: set[str]) -> None:
        raise _c.Error(f"attune: expected each argument once, got {', '.join(sorted(names))} twice; try naming all of them")

    def _views(self, frame: _Frame, named: dict[str, Any]) -> tuple[list[Any], int] | None:
        """_fill where every argument is a tensor that may be written, with as few steps as that takes; None where one is not."""
        view, pointer_in, encoded, alive = self._interface.view, _c.pointer_in, self._encoded, []
        try:
            for (name, value), at in zip(named.items(), frame.at):
                capsule = value.__dlpack__()
                alive.append(capsule)
                if view(encoded[name], pointer_in(capsule, b"dltensor"), 0, at):
                    return None
        except Exception:  # _fill says what it is
            return None
        return (alive, len(alive)) if len(alive) == len(named) else None

    def _fill(self, frame: _Frame, named: dict[str, Any]) -> tuple[list[Any], int]:
        interface, at, alive, count = self._interface, frame.at, [], 0
        for name, value in named.items():
            if value is None:
                continue
            encoded = self._encoded.get(name)
            if encoded is None:
                raise _c.Error(f"attune: expected arguments of {self.__qualname__} among {', '.join(self._known)}, got {name}; try one of those names")
            if hasattr(value, "__dlpack__"):
                alive.append(interface.put(encoded, value, at[count]))
            else:
                self._number(frame.arguments[count], encoded, value)
            count += 1
        return alive, count

    @staticmethod
    def _number(argument: _c.Argument, name: bytes, value: Any) -> None:
        argument.name = name
        if isinstance(value, bool):
            argument.kind, argument.integer = _c.BOOLEAN, value
        elif isinstance(value, numbers.Integral):  # NumPy's, too
            value = int(value)
            if not -2**63 <= value < 2**63:  # ctypes would keep its lowest bits
                raise _c.Error(f"attune: expected {name.decode()} to be an integer of 64 bits, got {value}; try a smaller one")
            argument.kind, argument.integer = _c.INTEGER, value
        elif isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):  # a fraction would be rounded
            argument.kind, argument.real = _c.REAL, float(value)
        else:
            cure = f"{name.decode()}.item()" if hasattr(value, "item") else "numpy.asarray"
            raise _c.Error(f"attune: expected {name.decode()} to be a number or a tensor with __dlpack__, got {type(value).__name__}; try {cure}")

    def _answer(self, question: str, given: tuple[Any, ...], named: dict[str, Any], options: Options | None) -> dict[str, Any]:
        frame = self._frame()
        alive, count = self._fill(frame, {**dict(zip(self._required, given)), **named})
        how = ctypes.byref(options._struct()) if options else None
        return self._interface.answer(question, self._variant, frame.arguments, ctypes.c_size_t(count), how)

    def _allocated(self, output: dict[str, Any], named: dict[str, Any]) -> Any:
        """Room for an output."""
        shape = self._shape(output["name"], named)
        if shape is None:  # of a computed axis only the runtime knows
            outputs = [one["name"] for one in self._outputs]
            inputs = {name: value for name, value in named.items() if name not in outputs}
            shape = next(found["shape"] for found in self.explain(**inputs)["outputs"] if found["name"] == output["name"])
        beside: Any = next((value for name in self._typed if (value := named.get(name)) is not None), None)
        like, any_type = self._like(output, named), output["element"] == "any"
        if hasattr(beside, "new_empty"):  # PyTorch
            return beside.new_empty(shape, dtype=like.dtype if any_type else getattr(sys.modules["torch"], TYPES[output["element"]]))
        import numpy
        return numpy.empty(shape, getattr(like, "dtype", numpy.float32) if any_type else _NUMPY[output["element"]])

    def _like(self, output: dict[str, Any], named: dict[str, Any]) -> Any:
        """The argument whose element type an output has: of a gradient, what it is the gradient of; None where the description says the type."""
        names = [] if output["element"] != "any" else [output["gradient_of"]] if "gradient_of" in output else self._typed
        return next((value for name in names if (value := named.get(name)) is not None), None)

    def _shape(self, output: str, named: dict[str, Any]) -> list[Any] | None:
        """The extents of an output: of a gradient, those of its input, which may broadcast; else those of the inputs' axes of the same name. None where no input has one
        of these."""
        axes, shape = self._known[output]["axes"], []
        own = getattr(named.get(self._known[output].get("gradient_of", "")), "shape", ())
        for at, (axis, places) in enumerate(zip(axes, self._places[output])):
            if len(own) == len(axes) and (own[at] != 1 or axis not in _SHARED):
                extent = own[at]
            elif len(own) == len(axes) and axis == "position":
                extent = max(_extent(places_of(one, self._inputs), named) or 1 for one in ("query", "key"))
            else:
                extent = _extent(places, named)
            if extent is None:
                return None
            shape.append(extent)
        if self._packs and named.get("cu_seqlens_q") is not None and "query" in axes and "batch" in axes:
            shape[axes.index("batch")] = 1  # the queries of all sequences one after another
        return shape

    def _text(self) -> str:
        lines = [self._described["formula"], ""]
        for given in self._inputs + self._outputs:
            element = "f32, bf16 or f16, as compiled" if given["element"] == "any" else given["element"]
            axes = "a number" if given.get("scalar") else f"({', '.join(given['axes'])})"
            lines.append(f"{given['name']}: {axes}, {element}" + (
                "; may be left out" if given.get("optional") else "; read and written" if given.get("stored") else
                "; an output: allocated where it is not passed" if given in self._outputs else ""))
        return "\n".join(lines)


class Library:
    """A shared library of kernels; its variants are attributes: `library.alibi(q, k, v, slopes)`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        where = os.fspath(path)
        self.path = str(pathlib.Path(where).resolve()) if os.path.exists(where) else where
        try:
            self._interface = _c.Interface(self.path)
        except OSError as problem:
            raise _c.Error(f"attune: expected a shared library of kernels, got {where}: {problem}; try the path of lib<target>.so that attune_add_variant(<target> ... SHARED) makes") from None
        except AttributeError:
            raise _c.Error(f"attune: expected a shared library of kernels, got {where}, which has no attune/c.h; try lib<target>.so that attune_add_variant(<target> ... SHARED) makes") from None
        found = [Variant(self._interface, symbol) for symbol in self._interface.variants()]
        names = [variant.__name__ for variant in found]
        # my::alibi is `alibi`, unless the library has another one in another namespace.
        self._variants = {variant.__name__ if names.count(variant.__name__) == 1 else variant.symbol: variant for variant in found}
        self.version: str = self._interface.library.attune_version().decode()

    def __getattr__(self, name: str) -> Variant:
        if not name.startswith("__") and name in self.__dict__.get("_variants", ()):
            return self._variants[name]
        raise AttributeError(f"attune: expected a variant of {self.__dict__.get('path')} among {', '.join(self.__dict__.get('_variants', ()))}, got {name}")

    def __getitem__(self, name: str) -> Variant:
        return self._variants[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variants)

    def __len__(self) -> int:
        return len(self._variants)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._variants]

    def __repr__(self) -> str:
        return f"<attune library {self.path}: {', '.join(self._variants)}>"

    def gradient_of(self, name: str) -> Variant | None:
        """The variant `<name>_gradient` beside a variant, if it reads what that takes and leaves, and makes gradients of what it takes."""
        variant = self[name]
        found = next((other for other in self._variants.values() if other.symbol == variant.symbol + "_gradient"), None)
        if found is None:
            return None
        takes, leaves = {given["name"] for given in variant._inputs}, {output["name"] for output in variant._outputs}
        reads, makes = {given["name"] for given in found._inputs}, {output["name"] for output in found._outputs}
        return found if reads <= takes | leaves | {"d" + one for one in leaves} and makes <= {"d" + one for one in takes} else None

    def set_threads(self, count: int) -> None:
        """Threads of later calls of this library; 0 returns to ATTUNE_THREADS, or else the CPUs that the process may use."""
        if not 0 <= count < 2**31:
            raise _c.Error(f"attune: expected a number of threads from 0 to 2^31 - 1, got {count}; try 0")
        self._interface.check(self._interface.library.attune_set_threads(ctypes.c_int32(count)))

    def threads(self) -> int:
        count = ctypes.c_int32()
        self._interface.check(self._interface.library.attune_threads(ctypes.byref(count)))
        return count.value


def load(path: str | os.PathLike[str]) -> Library:
    """The variants of a shared library that `attune_add_variant(<target> ... SHARED)` made."""
    return Library(path)

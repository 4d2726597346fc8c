"""The structs of attune/c.h, and what a call from Python does with them."""
from __future__ import annotations

import ctypes
import json
import pathlib
from ctypes import c_char_p, c_double, c_int16, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

TENSOR, INTEGER, REAL, BOOLEAN = range(4)
REFUSED, NO_MEMORY, FAILED = 1, 2, 3


class Error(RuntimeError):
    """A call that attune refuses: `attune: expected ..., got ...; try ...`. Nothing was written."""


class KernelFailure(Error):
    """A kernel that began and could not finish. Its outputs are undefined."""


class Tensor(ctypes.Structure):  # attune_tensor
    _fields_ = [("data", c_void_p), ("shape", c_void_p), ("strides", c_void_p), ("rank", c_int32), ("element", c_int32), ("read_only", c_int32),
                ("memory", c_int16), ("device", c_int16)]


class Argument(ctypes.Structure):  # attune_argument
    _fields_ = [("name", c_char_p), ("kind", c_int32), ("reserved", c_int32), ("integer", c_int64), ("real", c_double), ("tensor", Tensor)]


class OptionsStruct(ctypes.Structure):  # attune_options
    _fields_ = [("size", c_size_t), ("threads", c_int32), ("deterministic", c_int32), ("target", c_char_p), ("pool", c_void_p), ("pool_state", c_void_p),
                ("device", c_int32), ("asynchronous", c_int32), ("context", c_void_p), ("stream", c_void_p), ("checked", c_int32), ("reserved", c_int32 * 3)]


pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
pointer_in.restype, pointer_in.argtypes = c_void_p, (ctypes.py_object, c_char_p)


def _not_shared(name: str, value: Any, why: Exception) -> Error:
    """What a tensor's library says where it cannot share one, and what would help."""
    dtype = getattr(value, "dtype", None)
    if getattr(value, "requires_grad", False):
        cure = f"{name}.detach()"
    elif str(getattr(value, "layout", "torch.strided")) != "torch.strided":
        cure = f"{name}.to_dense()"
    elif str(getattr(value, "device", "cpu")) == "meta":
        cure = "a tensor that has elements"
    elif callable(is_conj := getattr(value, "is_conj", None)) and is_conj():
        cure = f"{name}.real"
    elif not getattr(dtype, "isnative", True):
        cure = f"{name}.astype({name}.dtype.newbyteorder('='))"
    else:
        cure = "a copy with elements of float32"
    kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
    return Error(f"attune: expected {name} to be shared by DLPack, got a {kind}{f' of {dtype}' if dtype is not None else ''}: {str(why).rstrip('.')}; try {cure}")


class Interface:
    """The C functions of one shared library."""

    def __init__(self, path: str) -> None:
        self.library = library = ctypes.CDLL(path)
        quick = ctypes.PyDLL(path)  # of functions that take no time: the interpreter's lock is kept
        for name in ("attune_error_text", "attune_version"):
            getattr(library, name).restype = c_char_p
        if library.attune_c_version() != 1:
            raise Error(f"attune: expected {path} to have version 1 of attune/c.h, got {library.attune_c_version()}; try the attune that built it")
        self.run = library.attune_run
        self.run.argtypes = (c_void_p, c_void_p, c_size_t, c_void_p)
        self.run_prepared = getattr(library, "attune_run_prepared", None)  # None: of a library that was built before there was one
        if self.run_prepared:
            self.run_prepared.argtypes = (c_void_p, c_void_p, c_size_t)
            library.attune_prepare.argtypes = (c_void_p, c_void_p, c_size_t, c_void_p, ctypes.POINTER(c_void_p))
            library.attune_free_call.argtypes, library.attune_free_call.restype = (c_void_p,), None
        self.view = quick.attune_argument_from_dlpack
        self.view.argtypes = (c_char_p, c_void_p, c_int32, c_void_p)

    def variants(self) -> list[str]:
        try:
            names = self.library.attune_variants
        except AttributeError:
            raise Error(f"attune: expected a library that attune_add_variant(... SHARED) of this version made, got {self.library._name}; try building it again") from None
        names.restype = ctypes.POINTER(c_char_p)
        found: list[str] = []
        for name in names():
            if name is None:
                return found
            found.append(name.decode())
        return found

    def variant(self, name: str) -> int:
        function = getattr(self.library, name + "_variant")
        function.restype = c_void_p
        return function()

    def check(self, status: int) -> None:
        if status:
            text = self.library.attune_error_text().decode()
            raise MemoryError(text) if status == NO_MEMORY else (KernelFailure if status == FAILED else Error)(text)

    def put(self, name: bytes, value: Any, into: int) -> Any:
        """Fills the argument at the address `into` by a tensor; what is returned has to outlive the call."""
        try:
            capsule, kind, versioned = value.__dlpack__(), b"dltensor", 0
        except BufferError:  # memory that must not be written has to say so, which DLPack before 1.0 cannot
            try:
                capsule, kind, versioned = value.__dlpack__(max_version=(1, 0)), b"dltensor_versioned", 1
            except TypeError:
                raise Error(f"attune: expected {name.decode()} to be shared by DLPack, got read-only memory, which its library cannot say of; try a copy") from None
            except Exception as why:
                raise _not_shared(name.decode(), value, why) from None
        except AttributeError:
            raise Error(f"attune: expected {name.decode()} to be a tensor with __dlpack__, got {type(value).__name__}; try numpy.asarray") from None
        except Exception as why:
            raise _not_shared(name.decode(), value, why) from None
        status = self.view(name, pointer_in(capsule, kind), versioned, into)
        if status:
            self.check(status)
        return capsule

    def answer(self, question: str, *arguments: Any) -> dict[str, Any]:
        """What one of the functions says that answer as JSON."""
        function, length = getattr(self.library, question), c_size_t()
        for _ in range(2):  # once more if it is long
            text = ctypes.create_string_buffer(max(length.value + 1, 16384))
            self.check(function(*arguments, text, c_size_t(len(text)), ctypes.byref(length)))
            if length.value < len(text):
                break
        return json.loads(text.value)


_RECEIVE = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_int32, ctypes.POINTER(c_int64), ctypes.POINTER(c_double))


def evaluated(variant: c_void_p, arguments: Any, count: int) -> dict[str, Any]:
    """The outputs of a variant as the reference evaluator of libattune_reference.so makes them, by name: arrays of float64."""
    import numpy
    here = pathlib.Path(__file__).resolve().parent
    path = next(here.glob("lib*/libattune_reference.so"), None)
    if path is None:
        raise Error(f"attune: expected libattune_reference.so in {here}/lib, got none; try an installed package of attune")
    made: dict[str, Any] = {}
    failed: list[BaseException] = []  # ctypes would print what a callback raises, and go on

    def receive(_: Any, name: bytes, rank: int, shape: Any, values: Any) -> None:
        try:
            extents = tuple(shape[:rank])
            size = int(numpy.prod(extents))
            made[name.decode()] = (numpy.ctypeslib.as_array(values, (size,)) if size else numpy.empty(0)).reshape(extents).copy()
        except BaseException as why:
            failed.append(why)

    function, said = ctypes.CDLL(str(path)).attune_reference_evaluate, ctypes.create_string_buffer(2048)
    function.argtypes = (c_void_p, c_void_p, c_size_t, _RECEIVE, c_void_p, c_char_p, c_size_t)
    status = function(variant, ctypes.addressof(arguments), count, _RECEIVE(receive), None, said, len(said))
    if status:
        raise MemoryError(said.value.decode()) if status == NO_MEMORY else Error(said.value.decode())
    if failed:
        raise failed[0]
    return made

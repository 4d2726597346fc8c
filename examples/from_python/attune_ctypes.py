"""A compiled variant called from Python: ctypes and the C functions of attune/c.h, nothing to build.

    kernels = Kernels("libattune_common.so")
    kernels.run("attune_common_causal_attention", q=q, k=k, v=v, out=out)

Tensors are anything with __dlpack__: NumPy arrays, PyTorch tensors, JAX arrays; on the CPU, or on a GPU that the library has kernels for. Nothing is copied.
"""
import ctypes
import json
from ctypes import byref, c_char_p, c_double, c_int16, c_int32, c_int64, c_size_t, c_void_p

TENSOR, INTEGER, REAL, BOOLEAN = range(4)


class Tensor(ctypes.Structure):  # attune_tensor
    _fields_ = [("data", c_void_p), ("shape", c_void_p), ("strides", c_void_p), ("rank", c_int32), ("element", c_int32), ("read_only", c_int32), ("memory", c_int16), ("device", c_int16)]


class Argument(ctypes.Structure):  # attune_argument
    _fields_ = [("name", c_char_p), ("kind", c_int32), ("reserved", c_int32), ("integer", c_int64), ("real", c_double), ("tensor", Tensor)]


class Options(ctypes.Structure):  # attune_options
    _fields_ = [("size", c_size_t), ("threads", c_int32), ("deterministic", c_int32), ("target", c_char_p), ("pool", c_void_p), ("pool_state", c_void_p),
                ("device", c_int32), ("asynchronous", c_int32), ("context", c_void_p), ("stream", c_void_p)]


pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
pointer_in.restype, pointer_in.argtypes = c_void_p, [ctypes.py_object, c_char_p]


class Kernels:
    """A shared library that attune_add_variant(... SHARED) made."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.attune_error_text.restype = c_char_p
        self.library.attune_version.restype = c_char_p
        if self.library.attune_c_version() != 1:
            raise RuntimeError("expected version 1 of attune/c.h, got " + str(self.library.attune_c_version()))

    def run(self, variant, threads=0, how=None, **given):
        """`how` is an Options: a target, or a device, context and stream for tensors of a GPU."""
        arguments = self._arguments(given, capsules := [])
        how = how or Options(threads=threads)
        how.size = ctypes.sizeof(Options)
        self._check(self.library.attune_run(self._variant(variant), arguments, c_size_t(len(arguments)), byref(how)))

    def explain(self, variant, **given):
        arguments = self._arguments(given, capsules := [])
        return self._text(self.library.attune_explain, self._variant(variant), arguments, c_size_t(len(arguments)), None)

    def describe(self, variant):
        return self._text(self.library.attune_describe, self._variant(variant))

    def _variant(self, name):
        function = getattr(self.library, name + "_variant")
        function.restype = c_void_p
        return c_void_p(function())

    def _arguments(self, given, capsules):
        """The array of a call; `capsules` keeps alive what it refers to."""
        arguments = (Argument * len(given))()
        for argument, (name, value) in zip(arguments, given.items()):
            argument.name = name.encode()
            if isinstance(value, bool):
                argument.kind, argument.integer = BOOLEAN, value
            elif isinstance(value, int):
                argument.kind, argument.integer = INTEGER, value
            elif isinstance(value, float):
                argument.kind, argument.real = REAL, value
            else:
                capsules.append(value.__dlpack__())
                managed = c_void_p(pointer_in(capsules[-1], b"dltensor"))
                self._check(self.library.attune_argument_from_dlpack(argument.name, managed, 0, byref(argument)))
        return arguments

    def _text(self, question, *arguments):
        length = c_size_t()
        self._check(question(*arguments, None, c_size_t(0), byref(length)))
        text = ctypes.create_string_buffer(length.value + 1)
        self._check(question(*arguments, text, c_size_t(len(text)), byref(length)))
        return json.loads(text.value)

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self.library.attune_error_text().decode())

"""What attune's Python refuses, in sentences, by ready-made kernels and without a compiler: refusals.py [COMMON], the library if it is not in the package."""
import contextlib
import ctypes
import fractions
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
from unittest import mock

import attune
import attune.__main__
import attune.build
import numpy as np
from attune import _c

common = attune.load(sys.argv[1]) if sys.argv[1:] else attune.common
random = np.random.default_rng(1)
q = random.standard_normal((2, 4, 75, 64), dtype=np.float32)
k, v = random.standard_normal((2, 2, 2, 75, 64), dtype=np.float32)
out = np.full_like(q, 7)


def refused(words, call, *given, **named):
    try:
        call(*given, **named)
    except attune.Error as problem:
        assert str(problem).startswith("attune: expected ") and all(word in str(problem) for word in words), problem
        print("refused:", problem)
        return str(problem)
    raise AssertionError(f"expected a refusal with {words}, got none")


def raised(kind, words, call, *given, **named):
    try:
        call(*given, **named)
    except kind as problem:
        assert type(problem) is kind and all(word in str(problem) for word in words), problem
        return print("refused:", problem)
    raise AssertionError(f"expected {kind} with {words}, got none")


# Arguments: which ones, and what they are.
refused(["q", "f64"], common.plain_attention, q.astype(np.float64), k, v)
refused(["slope", "slopes"], common.alibi_attention, q, k, v, slope=np.ones(4, np.float32))
refused(["left"], common.window_attention, q, k, v, right=1)
refused(["at most 3", "got 4"], common.plain_attention, q, k, v, out)
refused(["twice"], common.plain_attention, q, k, v, q=q)
refused(["depth"], common.plain_attention, q[..., :48], k[..., :48], v, out=out)
assert (out == 7).all()
refused(["depth"], common.plain_attention.explain, q[..., :48], k[..., :48], v)
refused(["x86-64-v0"], common.plain_attention, q, k, v, options=attune.Options(target="x86-64-v0"))
one = np.zeros(1, np.float32)  # tensors by strides alone: nothing beyond 2^31 elements is read
for words, shape, strides in ((["2147483647 elements from the first to the last along key of k", "33554433 steps of 64"], (1, 1, 2**25 + 1, 64), (0, 0, 256, 4)),
                              (["extent from 0 to 2147483647 along key of k", "got 4294967296"], (1, 1, 2**32, 64), (0, 0, 0, 4)),
                              (["stride of at most 2147483647 elements along key_head of k", "got 68719476736"], (1, 2, 2, 64), (0, 2**38, 256, 4))):
    far = np.lib.stride_tricks.as_strided(one, shape, strides)
    refused(words, common.plain_attention, np.zeros((1, shape[1], 1, 64), np.float32), far, far)

# Entries of a page table that are no page.
pools = np.ones((3, 2, 4, 64), np.int8), np.ones((3, 2, 4), np.float32)
paged = {"k_pages": pools[0], "v_pages": pools[0], "k_scale": pools[1], "v_scale": pools[1], "kv_lengths": np.array([8, 5], np.int32)}
written = np.full((2, 4, 1, 64), 7, np.float32)
refused(["block_table from 0 to 2", "got 99 at (batch 1, "], common.paged_attention, q[:, :, :1], block_table=np.array([[0, 1], [2, 99]], np.int32), out=written, **paged)
assert (written == 7).all()
common.paged_attention(q[:, :, :1], block_table=np.array([[0, 1], [2, 0]], np.int32), out=written, **paged)
assert (written != 7).all()

# Tensors that are not shared.
refused(["__dlpack__", "list"], common.plain_attention, q.tolist(), k, v)
for wrong, words in ((q.astype(object), ["object", "float32"]), (q.astype("U3"), ["<U3"]), (q.astype(">f4"), [">f4", "q.astype(q.dtype.newbyteorder('='))"])):
    refused(["q to be shared by DLPack, got a numpy.ndarray of ", *words], common.plain_attention, wrong, k, v)
    refused(["kv_lengths to be shared by DLPack", *words[:1]], common.plain_attention, q, k, v, kv_lengths=wrong)


class Shared:
    """A tensor of another library: what it says without a version of DLPack, and with one."""

    def __init__(self, plain, versioned=None):
        self.plain, self.versioned = plain, versioned

    def __dlpack__(self, **how):
        raise self.versioned if how else self.plain


refused(["q to be shared by DLPack, got read-only memory", "a copy"], common.plain_attention, Shared(BufferError(), TypeError()), k, v)
refused(["q to be shared by DLPack, got a __main__.Shared: no room"], common.plain_attention, Shared(BufferError(), ValueError("no room.")), k, v)
refused(["q to be shared by DLPack, got a __main__.Shared: no room"], common.plain_attention, Shared(ValueError("no room.")), k, v)
refused(["q to be a tensor with __dlpack__, got Shared"], common.plain_attention, Shared(AttributeError()), k, v)

# Numbers: to the last one that fits.
integer = "left to be an integer of 64 bits"
refused([integer, f"got {2**63}"], common.window_attention, q, k, v, left=2**63, right=0)
refused([integer, f"got {-2**63 - 1}"], common.window_attention, q, k, v, left=-2**63 - 1, right=0)
for fits in (2**63 - 1, -2**63):  # the variant refuses it
    assert integer not in refused(["left", str(fits)], common.window_attention, q, k, v, left=fits, right=0)
refused(["left", "got 2.0"], common.window_attention, q, k, v, left=np.float32(2), right=0)
refused(["left", "bool", "left.item()"], common.window_attention, q, k, v, left=np.bool_(True), right=0)
refused(["left", "Fraction"], common.window_attention, q, k, v, left=fractions.Fraction(1, 3), right=0)

# Options and threads.
for name in ("threads", "device"):
    for value in (-1, 2**31 - 1, 2**32 + 2):
        refused([name, "2^31 - 2", f"got {value};"], attune.Options, **{name: value})
    for value in (0, 2**31 - 2):
        assert getattr(attune.Options(**{name: value}), name) == value
ours = "threads from 0 to 2^31 - 1, got "
for count in (-1, 2**31, 2**32 + 2):
    refused([ours + str(count)], common.set_threads, count)
common.set_threads(0)
assert ours not in refused(["got 2147483647"], common.set_threads, 2**31 - 1)
program = f"import attune; attune.load({common.path!r}).threads()"
done = subprocess.run([sys.executable, "-B", "-c", program], env={**os.environ, "ATTUNE_THREADS": "many"}, capture_output=True, text=True)
assert done.returncode == 1 and "attune._c.Error: attune: expected a number of threads" in done.stderr, done

# Libraries and names.
refused(["no_such.so"], attune.load, "no_such.so")
refused(["attune/c.h"], attune.load, "libm.so.6")
raised(AttributeError, ["causal_attention", "got no_such_attention"], getattr, common, "no_such_attention")
raised(AttributeError, ["no attribute 'no_such'"], getattr, attune, "no_such")


def library_with(version, **more):
    functions = {name: types.SimpleNamespace() for name in ("attune_error_text", "attune_version", "attune_run", "attune_argument_from_dlpack")}
    loaded = types.SimpleNamespace(attune_c_version=lambda: version, _name="other.so", **functions, **more)
    return mock.patch.multiple(ctypes, CDLL=lambda path: loaded, PyDLL=lambda path: loaded)


with library_with(2):
    refused(["version 1 of attune/c.h, got 2"], attune.load, "other.so")
with library_with(1):
    refused(["attune_add_variant(... SHARED) of this version made, got other.so"], attune.load, "other.so")

# A status of the library is an exception of its kind.
interface = common._interface
assert interface.check(0) is None
for status, kind in ((_c.REFUSED, attune.Error), (_c.NO_MEMORY, MemoryError), (_c.FAILED, attune.KernelFailure)):
    raised(kind, ["attune: "], interface.check, status)

# Pictures of blocks that are there.
blocks = common.plain_attention.blocks(q, k, v)
for batch, head in ((0, 0), (1, 3)):
    assert blocks.picture(batch, head).startswith("<svg")
for batch, head in ((-1, 0), (2, 0), (0, -1), (0, 4)):
    raised(IndexError, ["a batch below 2 and a head below 4", f"got {batch} and {head}"], blocks.picture, batch, head)

# attune.compile, before anything is compiled.
text = "#pragma once\n#include <attune/dsl.hpp>\n"
asked = {"graphs": ["my::alibi"], "depths": [64], "dtypes": ["f32"], "targets": ["x86-64-v3"], "shapes": ["prefill"]}
temporary = tempfile.TemporaryDirectory(prefix="attune-")
folder = pathlib.Path(temporary.name)
os.chdir(folder)


def compiles(programs, **changed):
    """attune.compile where these programs are all that there are."""
    with mock.patch("shutil.which", lambda name, path=None: programs.get(name)):
        return attune.compile(changed.pop("source", text), **{**asked, **changed}, progress=False)


def environment(**changed):
    kept = {name: value for name, value in os.environ.items() if name not in ("CXX", "ATTUNE_PYTHON_CACHE", "XDG_CACHE_HOME")}
    return mock.patch.dict(os.environ, {**kept, **changed}, clear=True)


cmake = {"cmake": "/bin/false"}
with environment(ATTUNE_PYTHON_CACHE=str(folder)):
    for name in asked:
        if name != "targets":  # without them it is the best level
            refused([f"{name} of letters", "got []"], compiles, cmake, **{name: []})
        refused([f"{name} of letters", "message(1)"], compiles, cmake, **{name: ["my; message(1)"]})
    refused(["the path of one", "no_such_header.hpp"], compiles, cmake, source="no_such_header.hpp")
    refused(["CMake 3.28 or later, to compile a variant, got none"], compiles, {})
    refused(["a C++20 compiler, to compile a variant, got none"], compiles, cmake)
    refused(["my::alibi to compile, got"], compiles, {**cmake, "clang++": "/usr/bin/clang++"})
with environment(ATTUNE_PYTHON_CACHE="some/cache"):
    refused(['ATTUNE_PYTHON_CACHE as an absolute path, got "some/cache"; try "/'], compiles, cmake)
with environment(XDG_CACHE_HOME=str(folder), CXX="g++"):
    refused(["my::alibi to compile, got"], compiles, cmake)
assert {path.name for path in folder.iterdir()} == {"attune"} and not list((folder / "attune").iterdir()), "what failed leaves nothing"
compiled = object.__new__(attune.build.Compiled)
compiled._generator = pathlib.Path(sys.executable)  # which has no file `draw`
raised(attune.Error, ["draw"], compiled.draw, "my::alibi")

# python -m attune new.
os.mkdir("taken")
for name, words in (("Mine", "a name of small letters, digits and `_`, got Mine"), ("taken", "a folder that is not there yet, got taken")):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert attune.__main__.main(["new", name]) == 1
    assert "attune: expected " + words in said.getvalue(), said.getvalue()
assert {path.name for path in folder.iterdir()} == {"attune", "taken"}
print("all as expected")

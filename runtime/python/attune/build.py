"""attune.compile: from the text of a variant header to functions, where CMake and a C++ compiler are."""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, Iterable, Sequence

from . import prefix
from ._c import Error
from .library import Library, Variant

_PROJECT = """cmake_minimum_required(VERSION 3.28)
project(attune_compiled LANGUAGES CXX)
find_package(attune REQUIRED COMPONENTS dsl runtime generators)
attune_add_variant(attune_compiled SHARED HEADER "{header}" GRAPHS {graphs} DTYPES {dtypes} DEPTHS {depths} TARGETS {targets} SHAPES {shapes})
set_target_properties(attune_compiled_generator attune_compiled_shared PROPERTIES BUILD_RPATH_USE_ORIGIN OFF)
"""
_LIBRARY, _GENERATOR, _SUMS = "libattune_compiled.so", "attune_compiled_generator", "sums.json"


class Compiled(Library):
    """A library that attune.compile made. It can draw its masks, too."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder / _LIBRARY)
        self._generator = folder / _GENERATOR

    def draw(self, variant: str | Variant, **how: Any) -> "Picture":
        """The mask, the scores and the blocks of a variant, from its formula alone.

        how: queries, keys, heads, key_heads, head, batch: numbers; inputs: a list such as ["slopes=0.5"]; scalars: ["left=64"]; product: q . k at which scores are drawn.
        """
        name = variant.__qualname__ if isinstance(variant, Variant) else variant
        command = [str(self._generator), "draw", "--variant", name]
        for option, value in how.items():
            plain = {"inputs": "input", "scalars": "scalar"}.get(option, option)
            if value != []:
                command += [f"--{plain.replace('_', '-')}", *(map(str, value) if isinstance(value, (list, tuple)) else [str(value)])]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Error(done.stderr.strip() or done.stdout.strip())
        return Picture(done.stdout)


class Picture(str):
    """An SVG, which a notebook shows."""

    def _repr_svg_(self) -> str:
        return str(self)


def compile(source: str | os.PathLike[str], graphs: str | Sequence[str], depths: Iterable[int | str] = (64, 128), dtypes: Iterable[str] = ("f32",), *,
            targets: Iterable[str] | None = None, shapes: Iterable[str] = ("prefill", "decode"), progress: bool = True) -> Compiled:
    """Compiles variants and returns them as functions: `attune.compile(text, "my::alibi", depths=[64]).alibi(q, k, v, slopes)`.

    source    the text of a variant header, or its path; of other headers those beside it are looked at, those elsewhere are taken not to change
    graphs    the graphs as C++ names them, "my::alibi"
    depths    of q and k, or "64x32": depth x depth of v
    dtypes    among f32, bf16, f16
    targets   ISA levels; the best one of this machine unless they are named
    shapes    "prefill" for any number of queries, "decode" for 1 to 16

    Needs CMake, ninja or make, and a C++20 compiler (CXX names another one). What was compiled is kept, by its content, in the folder that ATTUNE_PYTHON_CACHE
    names, else ~/.cache/attune: a second call with the same takes no time. Errors are the compiler's sentences.
    """
    graphs = [graphs] if isinstance(graphs, str) else list(graphs)
    asked = {"graphs": graphs, "depths": [str(depth) for depth in depths], "dtypes": list(dtypes), "targets": list(targets or [_best_level()]), "shapes": list(shapes)}
    for name, words in asked.items():
        if not words or not all(re.fullmatch(r"[A-Za-z0-9_:.-]+", word) for word in words):
            raise Error(f"attune: expected {name} of letters, digits, `_`, `:`, `.` and `-`, got {words}; try for graphs \"my::alibi\"")
    path = _path_of(source)
    text = path.read_text() if path else str(source)
    folder = _cache() / _key(asked, text, path)
    if folder.exists() and not _is_whole(folder):
        print(f"attune: {folder} is damaged: compiling {', '.join(graphs)} anew", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="damaged-", dir=folder.parent) as away:  # moved at once, so that no process finds a part of it
            with contextlib.suppress(OSError):
                os.rename(folder, pathlib.Path(away) / "folder")
    if not folder.exists():
        _build(folder, asked, text, path, progress)
    return Compiled(folder)


def _path_of(source: str | os.PathLike[str]) -> pathlib.Path | None:
    """The file that is meant, None for a text."""
    if isinstance(source, str) and ("\n" in source or "#" in source):
        return None
    path = pathlib.Path(source).expanduser().resolve()
    if not path.is_file():
        raise Error(f"attune: expected the text of a variant header or the path of one, got {source!r}; try a text that begins with #pragma once")
    return path


def _cache() -> pathlib.Path:
    named = os.environ.get("ATTUNE_PYTHON_CACHE")
    if named and not os.path.isabs(named):
        raise Error(f'attune: expected ATTUNE_PYTHON_CACHE as an absolute path, got "{named}"; try "{os.path.abspath(named)}"')
    return pathlib.Path(named) if named else pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "attune"


def _sums(folder: pathlib.Path) -> dict[str, list[int | str]]:
    """Length and sha256 of what was compiled."""
    return {name: [(folder / name).stat().st_size, hashlib.sha256((folder / name).read_bytes()).hexdigest()] for name in (_LIBRARY, _GENERATOR)}


def _is_whole(folder: pathlib.Path) -> bool:
    """Whether all is as it was compiled: what was cut short would end the interpreter."""
    try:
        return bool(json.loads((folder / _SUMS).read_text()) == _sums(folder))
    except (OSError, ValueError):
        return False


def _key(asked: dict[str, list[str]], text: str, path: pathlib.Path | None) -> str:
    """By what is compiled: the header and those beside it, what is asked for, and the attune that compiles it."""
    seen = hashlib.sha256(json.dumps([asked, text], sort_keys=True).encode())
    beside = sorted(other for other in path.parent.iterdir() if other.suffix in (".h", ".hpp")) if path else []
    for other in beside:
        seen.update(other.name.encode() + other.read_bytes())
    for library in sorted(prefix().glob("lib*/*")):
        seen.update(f"{library.name} {library.stat().st_size} {library.stat().st_mtime_ns}".encode())
    name = re.sub(r"[^A-Za-z0-9]+", "_", asked["graphs"][0])
    return f"{name}-{seen.hexdigest()[:20]}"


def _best_level() -> str:
    from . import common
    return next(kernel["target"] for kernel in common.plain_attention.kernels() if kernel["chosen"])


def _program(name: str) -> str | None:
    """A program of this Python's environment, else of PATH."""
    return shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)


def _build(folder: pathlib.Path, asked: dict[str, list[str]], text: str, path: pathlib.Path | None, progress: bool) -> None:
    cmake, ninja = _program("cmake"), _program("ninja")
    if not cmake:
        raise Error("attune: expected CMake 3.28 or later, to compile a variant, got none; try pip install cmake ninja")
    if not (os.environ.get("CXX") or any(map(shutil.which, ("c++", "g++", "clang++")))):
        raise Error("attune: expected a C++20 compiler, to compile a variant, got none; try apt-get install g++, or CXX=<compiler>")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder.parent) as made:
        work = pathlib.Path(made)
        header = path or work / "variant.hpp"
        if not path:
            header.write_text(text)
        (work / "CMakeLists.txt").write_text(_PROJECT.format(header=header.as_posix(), **{name: " ".join(words) for name, words in asked.items()}))
        show = _Progress(asked["graphs"], progress)
        configure = [cmake, "-S", made, "-B", str(work / "build"), "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix()}", *(["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else [])]
        show.run(configure)
        show.run([cmake, "--build", str(work / "build"), "--target", "attune_compiled_shared", "--parallel"])
        show.end()
        done = work / "done"
        done.mkdir()
        os.replace(work / "build" / _LIBRARY, done / _LIBRARY)
        os.replace(work / "build/bin" / _GENERATOR, done / _GENERATOR)
        (done / _SUMS).write_text(json.dumps(_sums(done)))
        with contextlib.suppress(OSError):  # another process was quicker, with the same
            os.rename(done, folder)


class _Progress:
    """Runs commands, and shows one line of how far they are."""

    def __init__(self, graphs: list[str], wanted: bool) -> None:
        self._what, self._began = ", ".join(graphs), time.monotonic()
        self._wanted, self._moves = wanted, wanted and (sys.stderr.isatty() or "ipykernel" in sys.modules)

    def run(self, command: list[str]) -> None:
        said: list[str] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            for line in process.stdout or ():
                said.append(line)
                step = re.match(r"\[\s*(\d+)(?:/(\d+)|%)\]", line)
                if self._moves and step:
                    print(f"\rattune: compiling {self._what}: {step[1]}{' of ' + step[2] if step[2] else ' %'} ", end="", file=sys.stderr, flush=True)
        if process.returncode:
            if self._moves:
                print(file=sys.stderr)
            raise Error(f"attune: expected {self._what} to compile, got\n{_complaint(said)}")

    def end(self) -> None:
        if self._wanted:
            print(("\r" if self._moves else "") + f"attune: compiled {self._what} in {time.monotonic() - self._began:.1f} s", file=sys.stderr)


def _complaint(said: list[str]) -> str:
    """The compiler's and the generator's sentences; where none is known as such, the end of what was said."""
    found = [line.rstrip() for line in said if re.search(r"\berror: |^attune|expected .*, got |^CMake Error", line)]
    return "\n".join(dict.fromkeys(found)) if found else "".join(said[-30:])

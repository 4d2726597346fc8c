#!/usr/bin/env python3
"""Makes the wheel of what a build folder has, installs it into an empty environment, and uses it there as its page (runtime/docs/python.md) says.

Nothing is downloaded: what pip would bring beside it, NumPy and Halide, is lent from the environment that has them. Everything happens in --work, which is emptied first."""
import argparse
import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent

# What a package index refuses: fields that are not as the standard has them, and classifiers that it does not know.
METADATA = """
import sys
from packaging.metadata import Metadata
from trove_classifiers import classifiers
said = Metadata.from_email(sys.stdin.buffer.read(), validate=True)
unknown = set(said.classifiers) - classifiers
assert not unknown, f"expected classifiers that an index knows, got {unknown}"
"""


def run(*command, **settings):
    print("$", *command, flush=True)
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
    print(f"  {time.monotonic() - began:.1f} s", flush=True)
    if done.returncode != 0:
        print(done.stdout)
        raise SystemExit(f"FAILED  {command[0]} ended with {done.returncode}")
    return done.stdout


def expect(holds, what):
    if not holds:
        raise SystemExit(f"FAILED  {what}")


def made(options):
    """The wheel, as `pip install .` makes it, but of libraries that are built already."""
    folder = options.work / "wheels"
    run(options.builder, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", folder,
        "--config-settings", f"build-dir={options.work / 'build'}", "--config-settings", f"cmake.define.ATTUNE_BUILT={options.build}", options.source,
        env={**os.environ, "PATH": os.pathsep.join([str(options.cmake.parent), str(options.make_program.parent), os.environ["PATH"]]), "CXX": options.compiler})
    wheel, = folder.iterdir()
    expect(wheel.name.startswith("attune_attention-") and "-py3-none-linux_" in wheel.name, f"expected a wheel for every Python 3 of this platform, got {wheel.name}")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        for file in ("py.typed", "include/attune/c.h", "share/attune/hana/boost/hana.hpp", "share/attune/attune.spdx.json", "share/attune/torch/operators.hpp", "share/attune/jax/calls.hpp", "share/attune/tvm_ffi/functions.hpp", "transformers.hpp", "vllm.hpp", "lib/cmake/attune/attune_add_jax_library.cmake"):
            expect(f"attune/{file}" in names, f"expected {file} in {wheel.name}")
        for licence in ("LICENSE", "NOTICES.md"):
            expect(any("licenses" in name and name.endswith(licence) for name in names), f"expected {licence} among the licenses of {wheel.name}")
        notices = opened.read(next(name for name in names if "licenses" in name and name.endswith("NOTICES.md"))).decode()
        for project in ("Halide", "Boost.Hana", "DLPack", "fmt", "JSON for Modern C++", "CLI11"):
            expect(f"| {project}" in notices, f"expected {project} among the notices of {wheel.name}")
        said = opened.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        expect("Requires-Dist: halide==21.0.0" in said, f"expected the wheel to bring Halide, got\n{said}")
        run(options.builder, "-c", METADATA, input=said)
        links = [link for link in re.findall(r"\]\(([^)\s]+)", said.partition("\n\n")[2]) if not link.startswith("https://")]
        expect("Description-Content-Type: text/markdown" in said and not links, f"expected a page of which an index can follow every link, got {links}")
        points = opened.read(next(name for name in names if name.endswith("/entry_points.txt"))).decode()
        expect("[vllm.general_plugins]\nattune = attune.vllm:register" in points.replace("=", " = ").replace("  ", " "), f"expected the entry point that vLLM looks for, got\n{points}")
        oldest = tuple(map(int, re.search(r"^Requires-Python: >=(\d+)[.](\d+)$", said, re.M).groups()))
        for name in names:  # which a newer Python would not notice
            if name.endswith(".py"):
                ast.parse(opened.read(name), name, feature_version=oldest)
    return wheel


def repaired(options, wheel):
    """The same wheel under the name that says which systems it runs on: what it needs of the C library, and that it needs nothing else."""
    folder = options.work / "repaired"
    run(options.builder, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, env={**os.environ, "PATH": os.pathsep.join([str(options.builder.parent), os.environ["PATH"]])})
    found, = folder.iterdir()
    expect("-py3-none-manylinux_" in found.name, f"expected a wheel for every Linux with a C library of some age, got {found.name}")
    with zipfile.ZipFile(found) as opened:
        expect(not any(".libs/" in name for name in opened.namelist()), f"expected {found.name} to need no library of the system it was built on")
    print(f"  {found.name}: {found.stat().st_size / 1e6:.1f} MB")
    return found


def installed(options, wheel):
    """An environment that has the wheel and nothing else; its Python."""
    folder = options.work / "environment"
    run(options.python, "-m", "venv", "--without-pip", folder)
    python = folder / "bin/python3"
    run(options.builder, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    return python


def other_pythons(options, wheel):
    """The wheel serves every CPython from the oldest that it names: it is loaded by those that are here beside --python."""
    for minor in range(10, 15):
        found = shutil.which(f"python3.{minor}")
        if found is None or subprocess.run([found, "-c", "import venv"], capture_output=True).returncode:
            continue
        folder = options.work / f"python3.{minor}"
        run(found, "-m", "venv", "--without-pip", folder)
        run(options.builder, "-m", "pip", "--python", folder / "bin/python3", "install", "--quiet", "--no-index", "--no-deps", wheel)
        print(f"  Python 3.{minor}:", run(folder / "bin/python3", "-I", "-c", "import attune; print(*attune.common, attune.common.plain_attention.kernels()[0]['target'])", cwd=options.work).strip())


def lend(options, python):
    """NumPy and Halide, as pip would have brought them."""
    to = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip())
    numpy = pathlib.Path(run(options.python, "-c", "import numpy; print(numpy.__file__)").strip()).parent
    halide = options.halide.parents[2]  # <package>/lib64/cmake/Halide
    for package in (numpy, numpy.with_name("numpy.libs"), halide):
        if package.exists():
            (to / package.name).symlink_to(package)


def refuses(options, project, settings):
    """What the functions for PyTorch, JAX and TVM-FFI say to other targets, and where none of them is installed."""
    text = (project / "CMakeLists.txt").read_text()
    kernels = re.search(r"attune_add_variant\((\w+)", text)[1]
    for function, package in (("attune_add_torch_library", "PyTorch 2.10"), ("attune_add_jax_library", "jaxlib 0.6"), ("attune_add_tvm_ffi_library", "apache-tvm-ffi 0.1.15")):
        for target, words in (("no_such_kernels", "got `no_such_kernels`"), (kernels, f"expected a Python with {package} or later, got none")):
            folder = options.work / f"{function}_of_{target}"
            shutil.copytree(project, folder, ignore=shutil.ignore_patterns("build"))
            (folder / "CMakeLists.txt").write_text(f"{text}\n{function}(operators KERNELS {target})\n")
            done = subprocess.run([options.cmake, "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={options.make_program}"], capture_output=True, text=True, **settings)
            said = " ".join(done.stderr.split())
            expect(done.returncode != 0 and words in said, f"expected {function} of {target} to be refused with `{words}`, got {done.stderr}")
    old = options.work / "old_torch"
    for name, text in (("torch/__init__.py", ""), ("torch/include/torch/csrc/stable/library.h", ""), ("torch-2.9.1+cpu.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1+cpu\n")):
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_text(text)
    folder = options.work / f"attune_add_torch_library_of_{kernels}"
    found = {**settings, "env": {**settings["env"], "PYTHONPATH": str(old)}}
    done = subprocess.run([options.cmake, "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={options.make_program}"], capture_output=True, text=True, **found)
    words = "expected a Python with PyTorch 2.10 or later, got torch 2.9.1+cpu"
    expect(done.returncode != 0 and words in " ".join(done.stderr.split()), f"expected an old PyTorch to be refused with `{words}`, got {done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "build", "work", "python", "builder", "cmake", "make-program", "halide"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    parser.add_argument("--compiler", required=True)
    options = parser.parse_args()
    if subprocess.run([options.builder, "-c", "import scikit_build_core, auditwheel, trove_classifiers"], capture_output=True).returncode:
        print("skipped: no scikit-build-core, auditwheel and trove-classifiers here, which make wheels and look at them")
        return 77
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    wheel = repaired(options, made(options))
    other_pythons(options, wheel)
    python = installed(options, wheel)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ATTUNE_", "CMAKE_"))}
    in_environment = {**clean, "VIRTUAL_ENV": str(python.parents[1]), "CXX": options.compiler, "ATTUNE_PYTHON_CACHE": str(options.work / "cache"),
                      "PATH": os.pathsep.join([str(python.parent), str(options.cmake.parent), str(options.make_program.parent), clean["PATH"]])}
    settings = {"env": in_environment, "cwd": options.work}
    print(run(python, "-c", "import attune; print(attune.__version__, *attune.common)", **settings))  # with neither NumPy nor a compiler
    lend(options, python)
    page = (options.source / "runtime/python/README.md").read_text()
    run(python, "-c", "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)) + "\nassert out.shape == q.shape and np.isfinite(out).all()", **settings)
    for script in ("calls.py", "refusals.py"):
        print(run(python, "-B", HERE / script, **settings))

    library = run(python, "-c", "import attune; print(attune.common.path)", **settings).strip()
    expect(library.startswith(run(python, "-m", "attune", "prefix", **settings).strip()), f"expected the ready-made kernels in the package, got {library}")
    stubs = ast.parse(run(python, "-m", "attune", "stub", library, **settings))
    expect("_alibi_attention" in {stub.name for stub in stubs.body if isinstance(stub, ast.ClassDef)}, "expected stubs of the ready-made kernels")
    run(python, "-m", "attune", "new", "my_variant", **settings)
    again = subprocess.run([python, "-m", "attune", "new", "my_variant"], capture_output=True, text=True, **settings)
    expect(again.returncode == 1 and "attune: expected a folder that is not there yet" in again.stderr, f"expected a project to be left as it is, got {again.stderr}")
    project, build = options.work / "my_variant", options.work / "my_variant/build"
    level = run(python, "-c", "import attune; print(next(k['target'] for k in attune.common.plain_attention.kernels() if k['chosen']))", **settings).strip()
    run(options.cmake, "-S", project, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={options.make_program}", "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=TRUE",
        f"-DATTUNE_TARGETS={level}", **settings)
    run(options.cmake, "--build", build, **settings)
    print(run(build / "app", **settings))
    cache = (build / "CMakeCache.txt").read_text()
    expect(f"attune_DIR:PATH={python.parents[1]}/share/cmake/attune\n" in cache, "expected attune from the environment, got another one")

    refuses(options, project, settings)
    print(run(python, "-B", HERE / "compiles.py", **settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())

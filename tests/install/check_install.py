#!/usr/bin/env python3
"""Uses attune as other projects do.

    package        installs into a prefix, moves it, builds a copy of examples/00_skeleton against it with find_package, runs it,
                   and links its kernels into a project that has neither Halide nor attune's generators
    subdirectory   builds the skeleton's variant in a project that adds attune's sources with add_subdirectory

Everything happens in --work, which is emptied first; nothing is downloaded.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

ALLOWED = re.compile(r"(ld-linux|libc\.|libm\.|libstdc\+\+\.|libgcc_s\.|libpthread\.|libdl\.)")


def run(*command):
    print("$", *command, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout)
        raise SystemExit(f"FAILED  {command[0]} ended with {done.returncode}")
    return done.stdout


def expect(truth, sentence):
    if not truth:
        raise SystemExit("FAILED  " + sentence)


class Consumer:
    """Projects built as a user would, with the compiler and the Halide of the build under test."""

    def __init__(self, options):
        self.options = options
        self.common = ["-G", options.generator, f"-DCMAKE_MAKE_PROGRAM={options.make_program}",
                       f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_PREFIX_PATH={options.prefix_path}"]

    def build(self, source, build, *settings):
        cmake = self.options.cmake
        run(cmake, "-S", source, "-B", build, *self.common, *settings)
        run(cmake, "--build", build)

    def run_app(self, build):
        app = os.path.join(build, "app")
        print(run(app))
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", app))
        others = [library for library in needed if not ALLOWED.match(library)]
        expect(needed and not others, f"the application needs {others or 'nothing'}")


def package(options):
    consumer = Consumer(options)
    first, moved = os.path.join(options.work, "first"), os.path.join(options.work, "moved", "elsewhere")
    run(options.cmake, "--install", options.build, "--prefix", first)
    os.makedirs(os.path.dirname(moved))
    os.rename(first, moved)
    for where, _, names in os.walk(moved):
        for name in names:
            if name.endswith((".cmake", ".in", ".hpp")):
                with open(os.path.join(where, name), encoding="utf-8") as file:
                    text = file.read()
                for path in (first, options.source, options.build):
                    expect(path not in text, f"{os.path.join(where, name)} mentions {path}")

    # The skeleton, copied as a user would, outside the sources.
    skeleton = os.path.join(options.work, "skeleton")
    shutil.copytree(os.path.join(options.source, "examples", "00_skeleton"), skeleton)
    build = os.path.join(options.work, "skeleton_build")
    found = f"-DCMAKE_PREFIX_PATH={moved};{options.prefix_path}"
    consumer.build(skeleton, build, found, f"-DHalide_DIR={options.halide}")
    consumer.run_app(build)
    print(run(os.path.join(build, "bin", "my_kernels_generator"), "--help"))

    # Its kernels, in a project that can find no Halide.
    build_ready = os.path.join(options.work, "ready_made_build")
    consumer.build(os.path.join(options.source, "tests", "install", "ready_made"), build_ready, found, "-DCMAKE_BUILD_TYPE=Release",
                   "-DCMAKE_DISABLE_FIND_PACKAGE_Halide=TRUE", f"-DSKELETON={skeleton}", f"-DMY_KERNELS={build}/libmy_kernels.a")
    consumer.run_app(build_ready)


def subdirectory(options):
    build = os.path.join(options.work, "build")
    consumer = Consumer(options)
    # Without optimisation: this is about CMake, not about speed.
    consumer.build(os.path.join(options.source, "tests", "install", "as_subdirectory"), build, f"-DHalide_DIR={options.halide}",
                   "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_DISABLE_FIND_PACKAGE_Catch2=TRUE", f"-DATTUNE_SOURCE={options.source}",
                   f"-DSKELETON={options.source}/examples/00_skeleton")
    consumer.run_app(build)


def main():
    ways = {way.__name__: way for way in (package, subdirectory)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=ways)
    for name in ("source", "build", "work", "cmake", "generator", "make-program", "compiler", "halide"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--prefix-path", default="")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    os.environ["CMAKE_BUILD_PARALLEL_LEVEL"] = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2")
    ways[options.way](options)
    shutil.rmtree(options.work)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Follows examples/TUTORIAL.md letter by letter.

    ```cmake file=x, ```cpp file=x    a file of the project, written as it stands
    ```cmake                          one line, in the place of the line of the same command
    ```cpp namespace=my               before the last brace of the header
    ```cpp call                       in the place of what main.cpp calls; its includes go to the others
    ```sh                             run, in the clone; any command that fails ends the test
Then the commands of runtime/docs/wrong_numbers.md, which go on from there. The project's folder is the one that the tutorial names. Every app that is run has to print outputs of 1, and errors below 1e-5.

Without --build it is done in a fresh clone of --source, as a reader does: with set-up, and minutes of building. With --build the clone's build folder is this
one: the block with set-up is left out, and CMake is told of the compiler, the Halide and one level of this build.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
CALL = re.compile(r"(        using namespace my;\n)(.*?)(    } catch)", re.S)


def run(command, folder, environment):
    began = time.monotonic()
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"$ {command.strip()}\n  {time.monotonic() - began:.1f} s", flush=True)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}\nFAILED  the tutorial's command ended with {done.returncode}")
    return done.stdout


def expect(holds, what):
    if not holds:
        raise SystemExit(f"FAILED  {what}")


class Project:
    """The files that the tutorial has its reader write."""

    def __init__(self, folder):
        self.folder = folder

    def change(self, name, change):
        path = os.path.join(self.folder, name)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        after = change(before)
        expect(after != before, f"expected a place in {name} for what the tutorial changes there")
        with open(path, "w", encoding="utf-8") as file:
            file.write(after)

    def take(self, info, code):
        if info.startswith("file="):
            with open(os.path.join(self.folder, info[5:]), "w", encoding="utf-8") as file:
                file.write(code)
        elif info.startswith("namespace="):
            self.change("my_attention.hpp", lambda text: text.replace(f"\n}}  // {info.replace('=', ' ')}", f"\n{code}}}  // {info.replace('=', ' ')}"))
        elif info == "call":
            included = "".join(re.findall(r"^#include .*\n", code, re.M))
            body = re.sub(r"^#include .*\n", "", code, flags=re.M)
            self.change("main.cpp", lambda text: CALL.sub(lambda found: found[1] + body + found[3], text).replace("#include <attune/runtime.hpp>\n", included + "#include <attune/runtime.hpp>\n"))
        else:
            command = re.match(r"\w+\(", code)[0]
            self.change("CMakeLists.txt", lambda text: re.sub(rf"^{re.escape(command)}.*\n", lambda _: code, text, flags=re.M))


def clone(options):
    """A folder with the sources in which the commands run, and their environment."""
    folder, environment = os.path.join(options.work, "attune"), {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "CMAKE_PREFIX_PATH")}
    if not options.build:
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", options.source, folder], check=True)
        # A reader's PATH has nothing of another clone: with its CMake and Halide, set-up would find nothing missing and make no environment to activate.
        others = os.path.realpath(options.source) + os.sep
        kept = [each for each in environment["PATH"].split(os.pathsep) if not os.path.realpath(each).startswith(others)]
        return folder, {**environment, "PATH": os.pathsep.join(kept)}
    os.makedirs(os.path.join(folder, "build"))
    os.symlink(options.build, os.path.join(folder, "build", "default"))
    told = [f"-DCMAKE_MAKE_PROGRAM={options.make_program}", f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DHalide_DIR={options.halide}", f"-DBoost_DIR={options.boost}",
            f"-DATTUNE_TARGETS={options.level}", "-G", options.generator]
    programs = os.path.join(options.work, "bin")
    os.makedirs(programs)
    with open(os.path.join(programs, "cmake"), "w", encoding="utf-8") as file:  # the tutorial's command, and what it is told beside
        file.write(f'#!/bin/sh\n[ "$1" = -S ] && exec {shlex.quote(options.cmake)} "$@" {shlex.join(told)}\nexec {shlex.quote(options.cmake)} "$@"\n')
    os.chmod(os.path.join(programs, "cmake"), 0o755)
    return folder, {**environment, "PATH": programs + os.pathsep + environment["PATH"], "CMAKE_PREFIX_PATH": options.prefix_path.replace(";", os.pathsep)}


def check_output(said):
    found = re.search(r"outputs from ([\d.]+) to ([\d.]+)", said)
    expect(found and abs(float(found[1]) - 1) < 1e-4 and abs(float(found[2]) - 1) < 1e-4, f"expected outputs of 1, got {said}")
    for error in re.findall(r"(?:error|of lse) (\S+?)(?:,|\n)", said):
        expect(float(error) < 1e-5, f"expected an error below 1e-5, got {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "work"):
        parser.add_argument("--" + name, required=True)
    for name in ("build", "cmake", "generator", "make-program", "compiler", "halide", "boost", "prefix-path", "level"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    folder, environment = clone(options)
    with open(os.path.join(options.source, "examples", "TUTORIAL.md"), encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    project, apps, errors, activate = Project(os.path.join(options.work, "my_attention")), 0, 0, ""
    for kind, info, code in blocks:
        if kind != "sh":
            project.take(info.strip(), code)
            continue
        if "examples/run" in code:
            activate = "" if options.build else "\n".join(line for line in code.splitlines() if line.startswith(". ")) + "\n"
            if options.build:
                continue
            run(code, folder, environment)
        else:
            said = run(activate + code, folder, environment)  # one shell of the reader's, one a block here
            if "my_attention/app" in code:
                apps += 1
                errors += "largest error" in said
                print(said[said.index("outputs") if "largest" not in said else said.index("largest"):], end="")
                check_output(said)
            if " explain" in code:
                expect("my::causal_attention" in said and "kernel" in said, f"expected an explanation of the variant, got {said}")
    with open(os.path.join(options.source, "runtime", "docs", "wrong_numbers.md"), encoding="utf-8") as file:
        for kind, _, code in BLOCK.findall(file.read()):
            if kind == "sh":
                run(activate + code, folder, environment)
    with open(os.path.join(folder, "build", "mine.svg"), encoding="utf-8") as picture:
        expect("<svg" in picture.read(), "expected a picture of the mask")
    dumped = [name for _, _, names in os.walk(os.path.join(folder, "build", "passes")) for name in names]
    expect(len(dumped) > 3, f"expected a file for each pass, got {dumped}")
    expect(apps >= 3 and errors == 1, f"expected three runs of the app at least, one of them with an error, got {apps} and {errors}")
    shutil.rmtree(options.work)


if __name__ == "__main__":
    sys.exit(main())

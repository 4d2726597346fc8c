#!/usr/bin/env python3
"""The worked examples of CONTRIBUTING.md: the patches of its ```diff blocks, applied to a copy of the sources.

    patches   each example's patches apply to what is there, and every file that they change compiles as the build compiles it;
              an operation that is named and not defined everywhere does not compile
    build     generators and runtime are built with all of them, and a variant that uses what they add is compiled and called

An example is a section `## Add ...`. Everything happens in --work, which is emptied first."""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support")]
from compile_commands import rows_of  # noqa: E402

FOLDERS = ("dsl", "generators", "runtime")


def run(*command, **settings):
    print("$", *command, flush=True)
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)


def must(*command, **settings):
    done = run(*command, **settings)
    expect(done.returncode == 0, f"{command[0]} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def expect(truth, sentence):
    if not truth:
        sys.exit("FAILED  " + sentence)


def examples(source):
    """Of each section that has some, the patches in order."""
    with open(os.path.join(source, ".github", "CONTRIBUTING.md"), encoding="utf-8") as page:
        sections = re.findall(r"^## (Add .*?)\n(.*?)(?=^## |\Z)", page.read(), re.M | re.S)
    found = {title: re.findall(r"^```diff\n(.*?)^```$", text, re.M | re.S) for title, text in sections}
    return {title: patches for title, patches in found.items() if patches}


class Copy:
    """The sources in a folder of their own."""

    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        for name in FOLDERS:
            shutil.copytree(os.path.join(source, name), os.path.join(folder, name))
        shutil.copy(os.path.join(source, "CMakeLists.txt"), folder)

    def apply(self, patch):
        """Returns the files that it changes."""
        outside = {**os.environ, "GIT_CEILING_DIRECTORIES": os.path.dirname(self.folder)}  # no repository: its index is not asked
        must("git", "apply", "-", input=patch, cwd=self.folder, env=outside)
        return re.findall(r"^\+\+\+ b/(.*)$", patch, re.M)

    def compile(self, file, build):
        """As the build compiles it, without an object."""
        command = next(shlex.split(row["command"]) for row in rows_of(build) if row["file"] == os.path.join(self.source, file))
        command = [re.sub(rf"{re.escape(self.source)}/({'|'.join(FOLDERS)})/", rf"{self.folder}/\1/", word + "/").rstrip("/") for word in command]
        del command[command.index("-o"):command.index("-o") + 2]
        return run(*command, "-fsyntax-only", cwd=build)


def check_patches(options):
    found = examples(options.source)
    expect(len(found) == 3, f"expected three worked examples with patches, got {', '.join(found)}")
    for title, patches in found.items():
        copy = Copy(options.source, os.path.join(options.work, title.replace(" ", "_")))
        changed = copy.apply(patches[0])
        if title == "Add an operation":
            # Only named so far.
            for file in ("generators/src/expr/functions.cpp", "generators/src/block_mask/function_ranges.cpp", "generators/reference/src/pointwise.cpp"):
                done = copy.compile(file, options.build)
                expect(done.returncode != 0 and "an operation is left out" in done.stdout, f"expected {file} not to compile without the new operation\n{done.stdout}")
        for patch in patches[1:]:
            changed += copy.apply(patch)
        for file in sorted(set(changed)):
            if file.endswith(".cpp"):
                done = copy.compile(file, options.build)
                expect(done.returncode == 0, f"{title}: {file} does not compile\n{done.stdout}")


def check_build(options):
    copy, build = Copy(options.source, os.path.join(options.work, "attune")), os.path.join(options.work, "build")
    for patches in examples(options.source).values():
        for patch in patches:
            copy.apply(patch)
    shutil.copytree(os.path.join(options.source, "tests", "docs", "worked_examples"), os.path.join(options.work, "worked_examples"))
    # Without optimisation: this is about what is compiled, not about speed.
    must(options.cmake, "-S", os.path.join(options.work, "worked_examples"), "-B", build, "-G", options.generator, f"-DCMAKE_MAKE_PROGRAM={options.make_program}",
         f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_PREFIX_PATH={options.prefix_path}", f"-DHalide_DIR={options.halide}", f"-DBoost_DIR={options.boost}",
         "-DCMAKE_BUILD_TYPE=None", f"-DATTUNE_SOURCE={copy.folder}", f"-DLEVEL={options.level}", f"-DNEW_LEVEL={options.new_level}")
    must(options.cmake, "--build", build, "--target", "app")

    said = must(os.path.join(build, "app"))  # which compares its results
    print(said)
    expect(f"{options.new_level}: " in said, f"expected a kernel for {options.new_level}")

    generator = os.path.join(build, "bin", "worked_generator")
    expect('"sub_blocks":8' in must(generator, "explain"), "expected explain to say sub_blocks")
    refused = run(generator, "explain", "--schedule", '{"sub_blocks": 9}')
    expect(refused.returncode != 0 and "sub_blocks" in refused.stdout, f"expected 9 sub-blocks to be refused\n{refused.stdout}")
    objects = {}
    for count in (1, 8):
        file = os.path.join(options.work, f"{count}.o")
        must(generator, "emit", "--target", options.level, "--depths", "16", "--schedule", f'{{"sub_blocks": {count}}}', "--object", file)
        with open(file, "rb") as object_file:
            objects[count] = object_file.read()
    expect(objects[1] != objects[8], "expected sub_blocks to change the kernel")
    # Compared with the double-precision reference, then timed.
    print(must(generator, "tune", "--only", '{"sub_blocks": 1}', "--targets", options.level, "--depths", "16", "--buckets", "prefill", "--shape", "1x1x64x64"))
    with open(os.path.join(copy.folder, "generators", "schedules", "amd-25-1.json"), encoding="utf-8") as measured:
        expect("sub_blocks" not in measured.read(), "expected schedules that were measured before the parameter")
    must(generator, "explain", "--targets", "x86-64-v3", "--tuned-for", "amd-25-1")  # and are read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("patches", "build"))
    for name in ("source", "build", "work"):
        parser.add_argument("--" + name, required=True)
    for name in ("cmake", "generator", "make-program", "compiler", "halide", "boost", "prefix-path", "level", "new-level"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    (check_patches if options.what == "patches" else check_build)(options)
    shutil.rmtree(options.work)


if __name__ == "__main__":
    main()

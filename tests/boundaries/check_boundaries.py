#!/usr/bin/env python3
"""The walls between the rooms, each checked where it would be broken.

    headers   a room's public headers compile alone and reach no header of Halide or of a room that they must not know
    binaries  programs that call kernels need the C and C++ libraries only
    archive   the runtime's library refers to nothing of Halide's compiler and holds no GPU support
    link      a kernel library older than its header, or none at all, is a link error that names the variant
    rooms     includes lead down, as rooms.txt has the rooms; every file stands in a room
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, **options)


def headers(options):
    """--compile, --folder <include folder>, --never <regular expression of included paths>"""
    wrong = []
    found = [os.path.join(where, name) for where, _, names in os.walk(options.folder) for name in names if name.endswith(".hpp")]
    if not found:
        wrong.append(f"expected headers in {options.folder}, got none")
    for header in sorted(found):
        included = run(shlex.split(options.compile) + ["-M", "-x", "c++", header])
        if included.returncode != 0:
            wrong.append(f"{header} does not compile alone:\n{included.stderr}")
            continue
        paths = included.stdout.split(":", 1)[1].replace("\\\n", " ").split()
        for path in paths:
            if re.search(options.never, path):
                wrong.append(f"{header} reaches {path}")
        alone = run(shlex.split(options.compile) + ["-fsyntax-only", "-x", "c++", header])
        if alone.returncode != 0:
            wrong.append(f"{header} does not compile alone:\n{alone.stderr}")
    print(f"{len(found)} headers")
    return wrong


def binaries(options):
    """FILE..."""
    allowed = re.compile(r"(ld-linux|libc\.|libm\.|libstdc\+\+\.|libgcc_s\.|libpthread\.|libdl\.|librt\.|lib(a|l|t|ub)san\.)")
    wrong = []
    for file in options.files:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run(["readelf", "-d", file]).stdout)
        if not needed:
            wrong.append(f"{file}: expected a program with shared libraries, got none")
        wrong += [f"{file} needs {library}" for library in needed if not allowed.match(library)]
        print(os.path.basename(file), *needed)
    return wrong


def archive(options):
    """FILE"""
    symbols = run(["nm", options.files[0]]).stdout.split()
    wrong = [f"{s} of Halide's compiler" for s in symbols if "6Halide" in s and "6Halide7Runtime" not in s]
    wrong += [f"{s} of a GPU" for s in symbols if re.match(r"halide_(cuda|opencl|vulkan|metal|webgpu|d3d12)", s)]
    if "halide_error" not in symbols:
        wrong.append("expected Halide's support library in it, got none")
    return wrong


def link(options):
    """--compile, --folder <this folder>, FILE... <libraries and link options>"""
    wrong = []
    compiler = shlex.split(options.compile)
    application = os.path.join(options.folder, "app.cpp")
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "app")

        def build(version, *defines):
            return run(compiler + [*defines, "-I", os.path.join(options.folder, version), application, "-o", program, *options.files])

        built = build("built")
        if built.returncode != 0:
            wrong.append("the application does not link with the kernels of its own header:\n" + built.stderr)
        elif run([program]).returncode != 0:
            wrong.append("the application linked, but its result is wrong")
        for what, variant, linked in (
            ("a changed header", "test::changing", build("changed")),
            ("a variant never built", "test::never_built", build("built", "-DNEVER_BUILT")),
        ):
            expected = rf"undefined (reference to|symbol).*kernels_of<{variant}"
            print(linked.stderr.strip())
            if linked.returncode == 0:
                wrong.append(f"{what}: expected a link error, got a program")
            elif not re.search(expected, linked.stderr):
                wrong.append(f"{what}: expected the linker to say `{expected}`, got:\n{linked.stderr}")
    return wrong


def read_rooms(file):
    """{folder: [room...]}, from the ground up."""
    found, folder = {}, None
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#") or not line.strip():
                continue
            if line[0] != " ":
                folder = line.strip()
                found[folder] = []
            else:
                found[folder].append(line.split()[0])
    return found


def rooms(options):
    """--folder <the sources>, FILE with the rooms"""
    wrong, arrows = [], 0
    for folder, order in read_rooms(options.files[0]).items():
        top = os.path.join(options.folder, folder)
        at = "attune/" if top.endswith("/attune") else ""
        room_of = lambda path: path.split("/")[0].split(".")[0]
        used = set()
        for where, _, names in os.walk(top):
            for name in names:
                path = os.path.relpath(os.path.join(where, name), top)
                room = room_of(path)
                if room not in order and name != "CMakeLists.txt":
                    # What gathers a room's headers may stand beside it.
                    wrong.append(f"{folder}/{path}: expected it in one of {', '.join(order)}")
                    continue
                used.add(room)
                with open(os.path.join(where, name), encoding="utf-8") as file:
                    text = file.read()
                for included in re.findall(r'#include ["<]' + at + r'([\w/]+)\.hpp[">]', text):
                    to = room_of(included)
                    if to in order and (at or "/" in included or os.path.exists(os.path.join(top, included + ".hpp"))):
                        arrows += 1
                        if order.index(to) > order.index(room):
                            wrong.append(f"{folder}/{path} includes {included}.hpp: {to} stands above {room}")
        wrong += [f"{folder}: expected files in {room}, found none" for room in order if room not in used]
    print(f"{arrows} includes")
    return wrong if arrows else ["expected includes, found none"]


def main():
    checks = {check.__name__: check for check in (headers, binaries, archive, link, rooms)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=checks)
    parser.add_argument("--compile", help="the compiler and its options, as a shell would take them")
    parser.add_argument("--folder")
    parser.add_argument("--never")
    parser.add_argument("files", nargs="*")
    options = parser.parse_intermixed_args()
    wrong = checks[options.check](options)
    for sentence in wrong:
        print("FAILED  " + sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

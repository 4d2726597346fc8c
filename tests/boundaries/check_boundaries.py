#!/usr/bin/env python3
"""The walls between the rooms, each checked where it would be broken.

    headers   a room's public headers compile alone and reach no header of Halide or of a room that they must not know
    binaries  programs that call kernels need the C and C++ libraries only
    archive   the runtime's library refers to nothing of Halide's compiler and holds no GPU support
    link      a kernel library older than its header, or none at all, is a link error that names the variant
    rooms     includes lead down, as rooms.txt has the rooms; every file stands in a room; a room's library links what its files include
    namespaces      a room's files stand in its namespace, as rooms.txt says, and its headers declare no name of a room that it sees
    rooms_refused   each of these is refused where it does not hold
    readmes   each room says what enters, what leaves and what to read first
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
                folder = line.split()[0]
                found[folder] = []
            else:
                found[folder].append(line.split()[0])
    return found


def read_namespaces(file):
    """{folder: the namespace in which each of its rooms has one}, of the folders that say so."""
    with open(file, encoding="utf-8") as lines:
        words = [line.split() for line in lines if line[0] not in "# \n"]
    return {line[0]: line[1] for line in words if len(line) > 1}


def libraries(file):
    """{room: (its sources, the rooms that it links)} of the calls of attune_add_room in a CMakeLists.txt; nothing where there is no such file."""
    if not os.path.exists(file):
        return {}
    with open(file, encoding="utf-8") as opened:
        calls = re.findall(r"^attune_add_room\((\w+)([^)]*)\)", opened.read(), re.M)
    found = {}
    for name, text in calls:
        lists, words = {"NEEDS": [], "SOURCES": [], "LIBRARIES": []}, None
        for word in text.split():
            words = lists[word] if word in lists else words
            if word not in lists:
                words.append(word)
        found[name] = (lists["SOURCES"], lists["NEEDS"])
    return found


def reached_from(room, made):
    """The rooms that a library's NEEDS lead to."""
    reached, waiting = set(), list(made[room][1])
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += made.get(each, ([], []))[1]
    return reached


def check_libraries(folder, made, included):
    """What is wrong with the NEEDS of a folder's libraries: `included`, {room: {another: a file that includes it}}, is to lie within what they lead to, and each is
    there for an include."""
    wrong = []
    for room, (sources, needs) in made.items():
        reached = reached_from(room, made)
        for to, file in sorted(included.get(room, {}).items()):
            if to not in reached:
                wrong.append(f"{folder}/{file} includes a header of {to}: expected {to} among what attune_add_room({room} NEEDS ...) leads to, got {', '.join(needs) or 'none'}")
        wrong += [f"{folder}: expected an include of {each} in {room}, which NEEDS it, found none" for each in needs if each not in included.get(room, {})]
        wrong += [f"{folder}: {file} is a source of the library {room}: expected it in that room" for file in sources if room_of(file) != room]
    return wrong


def room_of(path):
    return path.split("/")[0].split(".")[0]


def room_included(top, order, name):
    """The room in which an included file lies, named from the folder of the rooms or from a room; None for a file of others."""
    if room_of(name) in order and ("/" in name or os.path.exists(os.path.join(top, name))):
        return room_of(name)
    return next((room for room in order if os.path.exists(os.path.join(top, room, name))), None)


def named_from(top, outer, name):
    """An included file as it is named from the folder of the rooms; None for a file of the folder of rooms around it, which has its own check."""
    for where in [outer, *(os.path.join(outer, room) for room in os.listdir(outer))] if outer else ():
        if os.path.exists(os.path.join(where, name)):
            within = os.path.relpath(os.path.join(where, name), top)
            return None if within.startswith("..") else within
    return name


def outer_of(top, folders):
    """The innermost other folder of rooms around one; None where there is none."""
    return max((each for each in folders if top.startswith(each + "/")), key=len, default=None)


def rooms(options):
    """--folder <the sources>, FILE with the rooms"""
    wrong, arrows = [], 0
    tops = [os.path.join(options.folder, folder) for folder in read_rooms(options.files[0])]
    for folder, order in read_rooms(options.files[0]).items():
        top = os.path.join(options.folder, folder)
        outer = outer_of(top, tops)
        at = "attune/" if top.endswith("/attune") else ""
        used, included = set(), {}
        for where, _, names in os.walk(top):
            for name in names:
                path = os.path.relpath(os.path.join(where, name), top)
                room = room_of(path)
                if room not in order and name not in ("CMakeLists.txt", "README.md"):
                    # What gathers a room's headers may stand beside it.
                    wrong.append(f"{folder}/{path}: expected it in one of {', '.join(order)}")
                    continue
                used.add(room)
                if not name.endswith((".hpp", ".cpp", ".h", ".c")):
                    continue
                with open(os.path.join(where, name), encoding="utf-8") as file:
                    text = file.read()
                for mark, name_included in re.findall(r'^\s*#\s*include\s*(["<])([^">]+)[">]', text, re.M):
                    name_here = named_from(top, outer, name_included)
                    if name_here is None:
                        continue
                    to = room_included(top, order, name_here.removeprefix(at)) if name_here.startswith(at) else None
                    if "../" in name_included or name_included.startswith("./") or (mark == '"' and to is None):
                        wrong.append(f"{folder}/{path} includes {name_included}: expected a file as it is named from the folder of its rooms")
                    elif to is not None:
                        arrows += 1
                        if to != room:
                            included.setdefault(room, {}).setdefault(to, path)
                        if order.index(to) > order.index(room):
                            wrong.append(f"{folder}/{path} includes {name_included}: {to} stands above {room}")
        wrong += [f"{folder}: expected files in {room}, found none" for room in order if room not in used]
        wrong += check_libraries(folder, libraries(os.path.join(top, "..", "CMakeLists.txt")), included)
    print(f"{arrows} includes")
    return wrong if arrows else ["expected includes, found none"]


def readmes(options):
    """--folder <the sources>, FILE with the rooms"""
    wrong, pages = [], 0
    for folder, order in read_rooms(options.files[0]).items():
        for room in order if folder != "runtime" else ():  # bindings have pages of documentation
            path = os.path.join(options.folder, folder, room)
            if not os.path.isdir(path):
                continue
            page = os.path.join(path, "README.md")
            text = open(page, encoding="utf-8").read() if os.path.exists(page) else ""
            missing = [what for what in ("**Enters:**", "**Leaves:**", "**Read first:**") if what not in text]
            pages += 1
            if missing or len(text.splitlines()) > 16:
                wrong.append(f"{folder}/{room}: expected a README.md of at most 16 lines with {', '.join(missing) or 'less in it'}")
    print(f"{pages} rooms")
    return wrong if pages else ["expected rooms, found none"]


UNNAMED = re.compile(r"^namespace \{$.*?^\}  // namespace$", re.S | re.M)
DECLARED = re.compile(
    r"^(?:template <[^;{]*> )?(?:class|struct|union|enum class|enum|using|concept) (\w+)\b(?! *;)"  # a type; what is only named in advance is another's
    r"|^(?:inline |constexpr |const |extern )+[\w:<>, ]*?[ &*](\w+)(?: =|\{|\[)"                  # a constant
    r"|^(?!return|using|namespace|#|//)(?:\[\[\w+\]\] )?(?:template <[^;{]*> )?[\w:][\w:<>,&* ]*[ &*](\w+)\(", re.M)  # a function


def declared_in(text):
    """The names that a header declares in its room's namespace, by lines that begin there."""
    return {name for found in DECLARED.findall(UNNAMED.sub("", text)) for name in found if name}


def namespaces(options):
    """--folder <the sources>, FILE with the rooms"""
    wrong, count, names_in_all, order_of = [], 0, 0, read_rooms(options.files[0])
    for folder, outer in read_namespaces(options.files[0]).items():
        order, top = order_of[folder], os.path.join(options.folder, folder)
        made, declared = libraries(os.path.join(top, "..", "CMakeLists.txt")), {}
        for where, _, names in os.walk(top):
            for name in names:
                path = os.path.relpath(os.path.join(where, name), top)
                if not name.endswith((".hpp", ".cpp")) or room_of(path) not in order:
                    continue
                with open(os.path.join(where, name), encoding="utf-8") as file:
                    text = file.read()
                expected = f"{outer}::inline {room_of(path)}" if "/" in path else outer
                for opened in re.findall(rf"^(?:inline )?namespace ({outer.split('::', maxsplit=1)[0]}\b[^{{;=]*?) *\{{", text, re.M):
                    count += 1
                    if opened != expected:
                        wrong.append(f"{folder}/{path} opens namespace {opened}: expected {expected}")
                if name.endswith(".hpp") and "/" in path:
                    for each in declared_in(text):
                        declared.setdefault(each, {}).setdefault(room_of(path), path)
        names_in_all += len(declared)
        for name, by_room in sorted(declared.items()):
            for room, path in by_room.items():
                wrong += [f"{folder}/{path} declares {name}, as {other} does: expected another name, since {room} sees {of_other}"
                          for of_other, other in by_room.items() if made and of_other in reached_from(room, made)]
        if count and not declared:
            wrong.append(f"{folder}: expected names in its headers, found none")
    print(f"{count} files in a namespace of their room, {names_in_all} names in their headers")
    return wrong if count else ["expected files in a namespace of their room, found none"]


def rooms_refused(options):
    """One folder of rooms with each thing that `rooms` and `namespaces` refuse, and one without."""
    good = {
        "rooms.txt": "made/src  made\n    low\n    middle\n    high\nbound\n    src\n    python\n    nested\nbound/nested\n    one\n    two\n",
        "made/CMakeLists.txt": "attune_add_room(low SOURCES low/a.cpp)\nattune_add_room(middle NEEDS low SOURCES\n    middle/b.cpp)\nattune_add_room(high NEEDS middle SOURCES high/c.cpp)\n",
        "made/src/low/a.hpp": "namespace made::inline low {\nstruct first {};\nint second(int);\ninline constexpr int third = 3;\n}\n", "made/src/low/a.cpp": '#include "low/a.hpp"\n#include <string>\n',
        "made/src/middle/b.hpp": '#include "low/a.hpp"\n', "made/src/middle/b.cpp": '#include "middle/b.hpp"\n',
        "made/src/high/c.cpp": '#include "low/a.hpp"\n#include "middle/b.hpp"\n',
        "bound/src/call/d.hpp": "", "bound/src/call/d.cpp": '#include "call/d.hpp"\n', "bound/python/module.hpp": '#include "call/d.hpp"\n',
        "bound/nested/one/f.cpp": '#include "call/d.hpp"\n', "bound/nested/two/g.hpp": '#include "nested/one/h.hpp"\n', "bound/nested/one/h.hpp": "",
    }
    cmake = good["made/CMakeLists.txt"]
    cases = {
        "": {},
        "low/a.cpp includes middle/b.hpp: middle stands above low": {"made/src/low/a.cpp": '#include "middle/b.hpp"\n'},
        "high/c.cpp includes a header of low: expected low among": {"made/CMakeLists.txt": cmake.replace("middle NEEDS low", "middle"), "made/src/middle/b.hpp": ""},
        "expected an include of low in high, which NEEDS it": {"made/CMakeLists.txt": cmake.replace("NEEDS middle", "NEEDS middle low"), "made/src/high/c.cpp": '#include "middle/b.hpp"\n'},
        "low/a.cpp is a source of the library middle": {"made/CMakeLists.txt": cmake.replace("middle/b.cpp", "middle/b.cpp low/a.cpp")},
        "high/c.cpp includes ../middle/b.hpp: expected a file as": {"made/src/high/c.cpp": '#include "../middle/b.hpp"\n#include "middle/b.hpp"\n'},
        "high/c.cpp includes e.hpp: expected a file as": {"made/src/high/c.cpp": '#include "e.hpp"\n#include "middle/b.hpp"\n'},
        "src/call/d.cpp includes module.hpp: python stands above src": {"bound/src/call/d.cpp": '#include "module.hpp"\n'},
        "src/call/d.cpp includes python/module.hpp: python stands above src": {"bound/src/call/d.cpp": "#include <python/module.hpp>\n"},
        "bound/nested/one/f.cpp includes nested/two/g.hpp: two stands above one": {"bound/nested/one/f.cpp": '#include "nested/two/g.hpp"\n'},
        "made/src/other/f.hpp: expected it in one of low, middle, high": {"made/src/other/f.hpp": ""},
        "low/e.cpp opens namespace made: expected made::inline low": {"made/src/low/e.cpp": "namespace made {\n"},
        "middle/e.cpp opens namespace made::inline low: expected made::inline middle": {"made/src/middle/e.cpp": "namespace made::inline low {\n"},
        **{f"high/e.hpp declares {name}, as low/a.hpp does": {"made/src/high/e.hpp": f"namespace made::inline high {{\n{text}\n}}\n"}
           for name, text in (("first", "class first {"), ("first", "using first = int;"), ("second", "template <class T> const T* second(T);"), ("third", "extern const int third[];"))},
        "expected files in top, found none": {"rooms.txt": good["rooms.txt"].replace("bound", "    top\nbound")},
    }
    wrong = []
    for expected, changed in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (good | changed).items():
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            asked = argparse.Namespace(folder=folder, files=[os.path.join(folder, "rooms.txt")])
            said = rooms(asked) + namespaces(asked)
        if not (any(expected in sentence for sentence in said) if expected else said == []):
            wrong.append(f"expected {expected or 'nothing'}, got {said}")
    return wrong


def main():
    checks = {check.__name__: check for check in (headers, binaries, archive, link, rooms, namespaces, rooms_refused, readmes)}
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

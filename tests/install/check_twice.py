#!/usr/bin/env python3
"""Two libraries with kernels of one graph, of different types: check_twice.py COMPILER RUNTIME SOURCES HEADER GRAPH --static LIBRARY LIBRARY --shared LIBRARY LIBRARY. A program
that links both as CMake and pkg-config link them is refused with both names: two static ones by the linker, others by the first call. One that links either is not, and
neither is one that opens both."""
import argparse
import itertools
import pathlib
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("compiler")
parser.add_argument("runtime")
parser.add_argument("sources")
parser.add_argument("header")
parser.add_argument("graph")
parser.add_argument("--static", nargs=2)
parser.add_argument("--shared", nargs=2)
asked = parser.parse_args()
function = asked.graph.replace("::", "_") + "_variant"
programs = {
    "linked": f"""#include "{asked.header}"
#include <attune/runtime.hpp>
#include <cstdio>
int main() try {{ return static_cast<int>(attune::kernels<{asked.graph}>().entries.size()) - 1; }} catch (const attune::error& e) {{ std::puts(e.what()); return 3; }}
""",
    "linked_by_c": f"""#include <attune/c.h>
#include <cstdio>
extern "C" const attune_variant* {function}();
int main() {{ return attune_kernels({function}(), nullptr, 0, nullptr) == ATTUNE_OK ? 0 : (std::puts(attune_error_text()), 3); }}
""",
    "opens": f"""#include <attune/c.h>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
int main(int, char** argv) {{
    for (int i = 2; i < 4; ++i) {{
        void* const library = dlopen(argv[i], RTLD_NOW | (std::atoi(argv[1]) ? RTLD_GLOBAL : RTLD_LOCAL));
        const auto variant = reinterpret_cast<const attune_variant* (*)()>(dlsym(library, "{function}"));
        const auto kernels = reinterpret_cast<decltype(&attune_kernels)>(dlsym(library, "attune_kernels"));
        static char text[1 << 16];
        if (kernels(variant(), text, sizeof text, nullptr) != ATTUNE_OK) return 3;
        std::puts(text);
    }}
}}
""",
}
with tempfile.TemporaryDirectory() as folder:
    for name, text in programs.items():
        source = pathlib.Path(folder, name + ".cpp")
        source.write_text(text)
        subprocess.run([asked.compiler, "-std=c++20", *[f"-I{asked.sources}/{each}/include" for each in ("runtime", "dsl")], "-c", source, "-o", source.with_suffix(".o")], check=True)
    app = pathlib.Path(folder, "app")

    def linked(program, *these):
        undefined = [f"-Wl,--undefined=attune_library_{pathlib.Path(each).stem.removeprefix('lib')}" for each in these if each in asked.static]
        shared = [each for each in these if each in asked.shared]
        paths = [f"-Wl,-rpath,{pathlib.Path(each).parent}" for each in shared]
        needed = [f"-Wl,--push-state,--no-as-needed,{each},--pop-state" for each in shared]
        return subprocess.run([asked.compiler, *undefined, *needed, pathlib.Path(folder, program + ".o"), *these, asked.runtime, *paths, "-pthread", "-ldl", "-o", app], capture_output=True, text=True,
                              env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})

    def names_of(these):
        return ["app" if each in asked.static else pathlib.Path(each).name for each in these]

    for program, kind in itertools.product(("linked", "linked_by_c"), (asked.static, asked.shared)):
        for each in kind:
            done = linked(program, each)
            assert done.returncode == 0, done.stderr
            ran = subprocess.run([app], capture_output=True, text=True)
            assert ran.returncode == 0, ran  # one kernel
    for these in (asked.static, asked.static[::-1]):
        done = linked("linked", *these)
        names = [pathlib.Path(each).name for each in asked.static]
        assert done.returncode != 0 and "multiple definition" in done.stderr and "kernels_of<" in done.stderr and all(name in done.stderr for name in names), done.stderr
    for program in ("linked", "linked_by_c"):
        for these in ((asked.static[0], asked.shared[1]), (asked.shared[0], asked.static[1]), asked.shared, asked.shared[::-1]):
            done = linked(program, *these)
            assert done.returncode == 0, done.stderr
            ran = subprocess.run([app], capture_output=True, text=True)
            sentence = f"attune: expected kernels of {asked.graph} in one library of the program, got them in "
            assert ran.returncode == 3 and ran.stdout.startswith(sentence) and all(name in ran.stdout for name in names_of(these)), (program, these, ran)
        # The same library twice is no mistake.
        done = linked(program, asked.static[0], asked.shared[0])
        assert done.returncode == 0 and subprocess.run([app]).returncode == 0, (program, done.stderr)
    # Libraries that are opened serve their own types each, whatever else they show.
    subprocess.run([asked.compiler, pathlib.Path(folder, "opens.o"), "-ldl", "-o", app], check=True)
    for everywhere in "01":
        ran = subprocess.run([app, everywhere, *asked.shared], capture_output=True, text=True)
        assert ran.returncode == 0 and ["bf16" in line for line in ran.stdout.splitlines()] == [False, True], (everywhere, ran)
print("one graph in two libraries is refused with both names, however it is linked; opened, each serves:", *names_of(asked.shared))

#!/usr/bin/env python3
"""Two libraries with kernels of one graph: check_twice.py COMPILER RUNTIME SOURCES HEADER GRAPH LIBRARY LIBRARY. A program that links both as CMake and pkg-config link
them is refused with both names; one that links either is not, and neither is silently left out."""
import pathlib
import subprocess
import sys
import tempfile

compiler, runtime, sources, header, graph, *libraries = sys.argv[1:]
program = f"""#include "{header}"
#include <attune/runtime.hpp>
int main() {{ return static_cast<int>(attune::detail::table_of<{graph}>().kernels.size()) - 1; }}
"""
with tempfile.TemporaryDirectory() as folder:
    source, app = pathlib.Path(folder, "main.cpp"), pathlib.Path(folder, "app")
    source.write_text(program)
    compiled = pathlib.Path(folder, "main.o")
    subprocess.run([compiler, "-std=c++20", *[f"-I{sources}/{each}/include" for each in ("runtime", "dsl")], "-c", source, "-o", compiled], check=True)

    def linked(*these):
        asked = [f"-Wl,--undefined=attune_library_{pathlib.Path(each).stem.removeprefix('lib')}" for each in these]
        return subprocess.run([compiler, *asked, compiled, *these, runtime, "-pthread", "-ldl", "-o", app], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})

    for each in libraries:
        done = linked(each)
        assert done.returncode == 0, done.stderr
        assert subprocess.run([app]).returncode == 0  # one kernel
    for these in (libraries, libraries[::-1]):
        done = linked(*these)
        names = [pathlib.Path(each).name for each in libraries]
        assert done.returncode != 0 and "multiple definition" in done.stderr and "kernels_of<" in done.stderr and all(name in done.stderr for name in names), done.stderr
print("one graph in two libraries is refused with both names:", *names)

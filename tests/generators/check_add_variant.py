#!/usr/bin/env python3
"""check_add_variant.py CMAKE MODULE WORK: what attune_add_variant says of its arguments, and what it makes of the levels. Projects here have no languages and end before
anything is generated, so that each takes a moment."""
import os
import re
import shutil
import subprocess
import sys

cmake, generator, make_program, module, work = sys.argv[1:]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
for name in ("my.hpp", "coded.hpp", "my_generator"):
    with open(os.path.join(work, name), "w", encoding="utf-8") as file:
        file.write("queries(quantized<i8>(q))" if name == "coded.hpp" else "")


def said(arguments, targets):
    """In one line: what a project says that makes such a library, and which objects that has."""
    with open(os.path.join(work, "CMakeLists.txt"), "w", encoding="utf-8") as file:
        file.write(f"""cmake_minimum_required(VERSION 3.28)
project(says LANGUAGES NONE)
add_library(attune::runtime INTERFACE IMPORTED)
set_property(GLOBAL PROPERTY ATTUNE_SCHEDULES "{work}")
set(ATTUNE_TARGETS {targets})
include("{module}")
attune_add_variant({arguments})
get_target_property(sources my SOURCES)
message(FATAL_ERROR "made of ${{sources}}")
""")
    build = os.path.join(work, "build")
    shutil.rmtree(build, ignore_errors=True)
    done = subprocess.run([cmake, "-G", generator, f"-DCMAKE_MAKE_PROGRAM={make_program}", "-S", work, "-B", build, f"-DATTUNE_HOST_GENERATORS={work}", "-DATTUNE_PTXAS="], capture_output=True, text=True)
    return " ".join(done.stderr.split())


def expect(arguments, *sentences, targets="x86-64-v3 x86-64-v4 x86-64-v4-bf16 x86-64-v4-amx", without=()):
    got = said(arguments, targets)
    for sentence in sentences:
        if sentence not in got:
            sys.exit(f"FAILED  attune_add_variant({arguments}): expected `{sentence}`, got `{got}`")
    for sentence in without:
        if sentence in got:
            sys.exit(f"FAILED  attune_add_variant({arguments}): expected no `{sentence}`, got `{got}`")


plain = "my HEADER my.hpp GRAPHS my::graph"
dropped = "attune_add_variant(my): expected bf16 among DTYPES for x86-64-v4-bf16 of TARGETS, got `f32`, of which x86-64-v4 has the kernels; try TARGETS without it"
second = "my_graph_x86-64-v4-bf16"

# A level that is left out is named where it was chosen: not by default, nor where the default is passed on.
expect(f"{plain} TARGETS x86-64-v4 x86-64-v4-bf16", dropped, "my_graph_x86-64-v4", without=[second])
expect(f"{plain} TARGETS x86-64-v4 x86-64-v4-bf16", dropped, targets="x86-64-v4", without=[second])
expect(f"{plain} TARGETS x86-64-v4 x86-64-v4-amx", dropped.replace("v4-bf16", "v4-amx"), "my_graph_x86-64-v4", targets="x86-64-v4", without=["my_graph_x86-64-v4-amx"])
expect(f"{plain} DTYPES f32 f16 TARGETS x86-64-v4 x86-64-v4-bf16", dropped.replace("`f32`", "`f32;f16`"), without=[second])
expect(plain, "my_graph_x86-64-v3", "my_graph_x86-64-v4", without=[second, "my_graph_x86-64-v4-amx", "expected"])
expect(f"{plain} TARGETS ${{ATTUNE_TARGETS}}", "my_graph_x86-64-v4", without=[second, "expected"])
expect(f"{plain} TARGETS x86-64-v2 ${{ATTUNE_TARGETS}}", "my_graph_x86-64-v2", without=[second, "expected"])
# It holds kernels where there is bf16, or no x86-64-v4 that has the others.
expect(f"{plain} DTYPES f32 bf16 TARGETS x86-64-v4 x86-64-v4-bf16", second, without=["expected"])
expect(f"{plain} DTYPES f32 bf16", second, "my_graph_x86-64-v4-amx", without=["expected"])
expect(f"{plain} DTYPES q:f32,k:bf16,v:bf16 TARGETS x86-64-v4 x86-64-v4-bf16", second, without=["expected"])
expect(f"{plain} TARGETS x86-64-v4-bf16", second, without=["expected"])

# Or where decode multiplies integers, which need no bf16.
coded = plain.replace("my.hpp", "coded.hpp")
expect(coded, second, "my_graph_x86-64-v4-amx", without=["expected"])
expect(f"{coded} TARGETS x86-64-v4 x86-64-v4-bf16", second, "my_graph_x86-64-v4", without=["expected", "my_graph_x86-64-v4-amx"])
expect(f"{coded} TARGETS x86-64-v4", "my_graph_x86-64-v4", without=[second, "expected"])

expect("my DTYPE bf16 HEADER my.hpp GRAPHS my::graph", "expected HEADER, GRAPHS, OF, DTYPES, DEPTHS, TARGETS, SHAPES, SCHEDULES, TUNED_FOR, CUBINS, F32_PRODUCTS, FINITE or SHARED, got `DTYPE;bf16`", without=["made of"])
expect("my HEADER my.hpp", "expected HEADER <variant header> and GRAPHS <my::graph>..., got one of them at most", without=["made of"])
expect("my HEADER absent.hpp GRAPHS my::graph", "expected HEADER to name a file, got `absent.hpp`; looked for", without=["made of"])
expect("my OF nobody", "expected OF to name a library made by attune_add_variant, got `nobody`", without=["made of"])
expect(f"{plain} SHAPES prefill decode:my::other", "expected SHAPES for one of GRAPHS, got `decode:my::other`; try one of `my::graph`", without=["made of"])
expect(f"{plain} SCHEDULES absent", "expected SCHEDULES to name a folder, got", "/absent`, which is none; my_tune makes it", "made of")
expect(f"{plain} SCHEDULES my.hpp", "expected SCHEDULES to name a folder, got", "made of")
expect(f"{plain} SCHEDULES .", "made of", without=["expected"])
expect("absent HEADER my.hpp GRAPHS my::graph", "expected absent_generator in ATTUNE_HOST_GENERATORS, got none; looked for", without=["made of"])

# Machine code of CUDA kernels needs a ptxas where it is asked for, and none by default.
expect(f"{plain} TARGETS cuda", "my_graph_cuda", without=["expected"])
expect(f"{plain} TARGETS cuda CUBINS none", "my_graph_cuda", without=["expected"])
expect(f"{plain} TARGETS cuda CUBINS sm_80", "expected a ptxas with fatbinary beside it for CUBINS, got none; try `pip install nvidia-cuda-nvcc`, -DATTUNE_PTXAS=<file>, or CUBINS none", without=["made of"])
expect(f"{plain} TARGETS cuda CUBINS sm_80 sm80", "expected CUBINS as all, none, or cards such as sm_80 sm_90a, got `sm_80;sm80`", without=["made of"])
expect(f"{plain} TARGETS x86-64-v3 CUBINS all", "expected cuda among TARGETS with CUBINS, got `x86-64-v3`", without=["made of"])

# Products of f32 by tensor cores.
expect(f"{plain} TARGETS cuda F32_PRODUCTS 3xtf32", "my_graph_cuda", without=["expected"])
expect(f"{plain} TARGETS cuda F32_PRODUCTS bf16", "expected F32_PRODUCTS f32, tf32 or 3xtf32, got `bf16`", without=["made of"])
expect(f"{plain} TARGETS x86-64-v3 F32_PRODUCTS tf32", "expected cuda among TARGETS and f32 among DTYPES with F32_PRODUCTS, got `x86-64-v3` and `f32`", without=["made of"])
shutil.rmtree(work)

# The page has a row for each option that the function takes.
with open(module, encoding="utf-8") as file:
    taken = re.search(r'cmake_parse_arguments\(PARSE_ARGV 1 arg "([^"]*)" "([^"]*)" "([^"]*)"\)', file.read())
with open(os.path.join(os.path.dirname(module), "..", "docs", "add_variant.md"), encoding="utf-8") as file:
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \|", file.read(), re.M)
if sorted(rows) != sorted(";".join(taken.groups()).split(";")):
    sys.exit(f"expected a row of add_variant.md for each of {taken.groups()}, got {rows}")

#!/usr/bin/env python3
"""The binary interface of a header for C is what tests/c/abi has a description of: functions, their types, the layout of every struct behind them; and the library
has those functions. Needs libabigail (abidw, abidiff).

    check_abi.py COMPILER FOLDERS HEADER NAMES LIBRARY DESCRIPTION [--write]

FOLDERS of headers are parted by colons. NAMES is a file that names the functions: exports.map.in, or the header. A change that older programs survive, such as a function more or a field where zeros were, is described anew by
--write; for another ATTUNE_C_VERSION counts. An older description stays as it is: what a released version has is never taken away."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

compiler, folders, header, names, library, description, *options = sys.argv[1:]
if not shutil.which("abidw") or not shutil.which("abidiff"):
    print("skipped: no abidw and abidiff here, which compare binary interfaces")
    sys.exit(77)


def run(*command, may_fail=False, **settings):
    done = subprocess.run(command, capture_output=True, text=True, **settings)
    if done.returncode != 0 and not may_fail:
        sys.exit(f"FAILED  {' '.join(command)}: {done.stdout}{done.stderr}")
    return done


with open(names, encoding="utf-8") as file:
    functions = set(re.findall(r"\b(attune_[a-z_]+);" if names.endswith(".in") else r"(?m)^\w+ (attune_[a-z_]+)\(", file.read()))
is_shared = [] if library.endswith(".a") else ["-D"]
shown = set(re.findall(r" T (attune_\w+)", run("nm", *is_shared, "--defined-only", library).stdout))
# attune_next_definition is no part of attune/c.h: the runtime calls it (runtime/src/call/bind/definitions.cpp).
shown = {name for name in shown if not name.endswith("_variant")} - {"attune_next_definition"}
if shown != functions:
    sys.exit(f"FAILED  expected {library} to show {sorted(functions)}, got {sorted(shown)}")

with tempfile.TemporaryDirectory() as work:
    source, made, described = (os.path.join(work, name) for name in ("abi.c", "abi.so", "abi"))
    with open(source, "w", encoding="utf-8") as file:
        file.write(f"#include <{header}>\n")
        file.writelines(f"extern __typeof__({name})* of_{name};\n__typeof__({name})* of_{name} = 0;\n" for name in sorted(functions))
    run(compiler, "-std=gnu99", "-g", "-gdwarf-4", "-shared", "-fPIC", *(f"-I{os.path.abspath(folder)}" for folder in folders.split(":")), "-o", made, "abi.c", cwd=work)
    run("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", described, made)
    if options == ["--write"]:
        os.makedirs(os.path.dirname(description), exist_ok=True)
        shutil.copyfile(described, description)
    compared = run("abidiff", description, described, may_fail=True)
    if compared.returncode != 0:
        sys.exit(f"FAILED  expected the interface that {description} describes, got\n{compared.stdout}{compared.stderr}")
print(f"{len(functions)} functions and what they take: as described")

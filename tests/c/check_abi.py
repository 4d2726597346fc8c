#!/usr/bin/env python3
"""The binary interface of attune/c.h is what tests/c/abi has a description of: functions, their types, the layout of every struct behind them; and the shared library
shows those functions. Needs libabigail (abidw, abidiff).

    check_abi.py COMPILER HEADERS EXPORTS LIBRARY DESCRIPTION [--write]

EXPORTS is exports.map.in, which names the functions. A change that older programs survive, such as a function more or a field where zeros were, is described anew by
--write; for another ATTUNE_C_VERSION counts. An older description stays as it is: what a released version has is never taken away."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

compiler, headers, exports, library, description, *options = sys.argv[1:]
if not shutil.which("abidw") or not shutil.which("abidiff"):
    print("skipped: no abidw and abidiff here, which compare binary interfaces")
    sys.exit(77)


def run(*command, may_fail=False, **settings):
    done = subprocess.run(command, capture_output=True, text=True, **settings)
    if done.returncode != 0 and not may_fail:
        sys.exit(f"FAILED  {' '.join(command)}: {done.stdout}{done.stderr}")
    return done


with open(exports, encoding="utf-8") as file:
    functions = set(re.findall(r"\b(attune_[a-z_]+);", file.read()))
shown = set(re.findall(r" T (attune_\w+)", run("nm", "-D", "--defined-only", library).stdout))
shown = {name for name in shown if not name.endswith("_variant")}
if shown != functions:
    sys.exit(f"FAILED  expected {library} to show {sorted(functions)}, got {sorted(shown)}")

with tempfile.TemporaryDirectory() as folder:
    source, made, described = (os.path.join(folder, name) for name in ("abi.c", "abi.so", "abi"))
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <attune/c.h>\n")
        file.writelines(f"extern __typeof__({name})* of_{name};\n__typeof__({name})* of_{name} = 0;\n" for name in sorted(functions))
    run(compiler, "-std=gnu99", "-g", "-gdwarf-4", "-shared", "-fPIC", f"-I{os.path.abspath(headers)}", "-o", made, "abi.c", cwd=folder)
    run("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", described, made)
    if options == ["--write"]:
        os.makedirs(os.path.dirname(description), exist_ok=True)
        shutil.copyfile(described, description)
    compared = run("abidiff", description, described, may_fail=True)
    if compared.returncode != 0:
        sys.exit(f"FAILED  expected the interface that {description} describes, got\n{compared.stdout}{compared.stderr}")
print(f"{len(functions)} functions and what they take: as described")

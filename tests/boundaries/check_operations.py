#!/usr/bin/env python3
"""An operation that is not described whole does not compile.

    check_operations.py --compile COMPILER --sources FOLDER

The headers of the graph are copied and an operation is added to them: to the enumeration alone, with a row that leaves something
out, and with a whole row, where every file that computes something for each operation of its family has to ask for it.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

WHOLE = '{doubled, arithmetic, "doubled", 0, 1, 1, {numbers}, numbers, all, none, cheap, regular, bounded, rule},'
# Files that have something for each operation of arithmetic, and need no Halide to be read.
USERS = ["generators/src/analysis/mask_formula.cpp", "generators/src/inspect/input_roles.cpp", "generators/reference/src/pointwise.cpp",
         "runtime/src/call/shape/lengths.cpp", "dsl/include/attune/ir/derivatives.hpp"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", required=True, help="the compiler and its options, as a shell would take them")
    parser.add_argument("--sources", required=True)
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = os.path.join(scratch, "include")
        shutil.copytree(os.path.join(options.sources, "dsl/include"), copy)
        graph, table = (os.path.join(copy, "attune/ir", name) for name in ("graph_ir.hpp", "operations.hpp"))
        originals = {}
        for file in (graph, table):
            with open(file, encoding="utf-8") as opened:
                originals[file] = opened.read()

        def compiled(file):
            rooms = ["-I" + os.path.join(options.sources, room) for room in ("generators/src", "generators/reference/src", "runtime/src")]
            return subprocess.run(shlex.split(options.compile.replace(os.path.join(options.sources, "dsl/include"), copy)) +
                                  ["-I", copy, *rooms, "-fsyntax-only", "-x", "c++", file], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})

        def expect(what, file, sentence, enumerator="", row=""):
            text = re.sub(r"(\n    tokens,[^\n]*\n)", lambda m: m[1] + f"    {enumerator},\n", originals[graph]) if enumerator else originals[graph]
            rows = re.sub(r"(\n    \{tokens, [^\n]*\n)", lambda m: m[1] + f"    {row}\n", originals[table]) if row else originals[table]
            if (enumerator and text == originals[graph]) or (row and rows == originals[table]):
                return wrong.append(f"{what}: expected operation tokens as the last one, got another")
            for path, said in ((graph, text), (table, rows)):
                with open(path, "w", encoding="utf-8") as opened:
                    opened.write(said)
            done = compiled(file)
            if sentence is None and done.returncode != 0:
                wrong.append(f"{what}: expected it to compile, got\n{done.stderr}")
            elif sentence is not None and (done.returncode == 0 or not re.search(sentence, done.stderr)):
                wrong.append(f"{what}: expected an error like `{sentence}`, got\n{done.stderr or 'none'}")

        users = [os.path.join(options.sources, file) for file in USERS]
        expect("as it is", table, None)
        for file in users:
            expect(f"{file} as it is", file, None)
        expect("an operation without a row", table, "has a row for each operation", enumerator="doubled")
        values = re.split(r",\s*(?![^{]*\})", WHOLE.strip("{},"))
        expect("a whole row", table, None, enumerator="doubled", row=WHOLE)
        for i, value in enumerate(values):
            less = "{" + ", ".join(values[:i] + values[i + 1:]) + "},"
            expect(f"a row without {value}", table, "no matching|could not convert|no suitable|conver|initializ", enumerator="doubled", row=less)
        for file in users:
            expect(f"{file} without the operation", file, "an operation is left out", enumerator="doubled", row=WHOLE)
    print(f"{len(values)} values of a row, {len(users)} files")
    for sentence in wrong:
        print("FAILED  " + sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that the text of a graph, compiled as C++, is the graph: the same fingerprint.

    check_texts.py --compile "c++ -std=c++20 -fsyntax-only -I..." --header variants.hpp --namespace variants FILE

In FILE a line `=== <graph>` comes before the text of <namespace>::<graph>. Its lines are definitions: inputs, indices and parts, then the
outputs by name. All texts become one program, compiled with warnings as errors. Texts of gradients are left out: gradient(graph) alone
writes a deposit.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

DEFINITION = re.compile(r'(part_\d+) = |(\w+) = (input|scalar|bound_index)<"')


def program(header, namespace, texts):
    yield f'#include "{header}"\n'
    for graph, text in texts.items():
        lines = text.splitlines()
        definitions = [line for line in lines if DEFINITION.match(line)]
        outputs = [re.sub(r"^(\w+) = ", r'output<"\1"> = ', line) for line in lines if not DEFINITION.match(line)]
        yield f"namespace of_{graph} {{\nusing namespace attune::dsl;\n"
        yield from (f"inline constexpr auto {line};\n" for line in definitions)
        yield "inline constexpr auto graph = outputs(" + ",\n    ".join(outputs) + ");\n"
        yield f'static_assert(fingerprint<graph> == fingerprint<::{namespace}::{graph}>, "the text of {graph} is another graph");\n}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", required=True, help="the compiler and its options, as a shell would take them")
    parser.add_argument("--header", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    texts = [each.split("\n", 1) for each in re.split("^=== ", options.file.read_text(encoding="utf-8"), flags=re.M)[1:]]
    all_texts = len(texts)
    texts = {graph: text.strip() for graph, text in texts if " = deposit<" not in text}
    if not texts:
        print(f"expected texts, each after a line `=== <graph>`, got none in {options.file}")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "texts.cpp")
        source.write_text("".join(program(options.header, options.namespace, texts)), encoding="utf-8")
        done = subprocess.run([*shlex.split(options.compile), "-Wall", "-Wextra", "-Wpedantic", "-Werror", source], capture_output=True, text=True)
    if done.returncode != 0:
        print("the texts are not the graphs:\n" + "\n".join(line[:400] for line in done.stderr.splitlines()[:60]))
        return 1
    print(f"{len(texts)} of {all_texts} texts compile to the graphs that they describe; the others are of gradients")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes flexattention.md from flex_attention.hpp and attention_gym.hpp.

    page.py             writes it
    page.py --check     says whether it is what the headers say, and whether torch_numbers.safetensors has numbers for every entry and for nothing else
    page.py --sources <pytorch/test/inductor> <attention-gym>    names the functions of a score or of four indices in these sources that no entry names
"""
import argparse
import ast
import json
import pathlib
import re
import struct
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[1] / "dsl/docs"))
sys.dont_write_bytecode = True
from cpp_lines import lines_of

ENTRY = re.compile(r"^inline constexpr auto (\w+) = (?:flex|cos)\((.*)\);$")
SUITES = {"A": "test_flex_attention.py", "D": "test_flex_decoding.py", "G": "attn_gym", "X": "attention-gym, examples and tests", "N": "attention-gym, notebook"}


def entries(header):
    """(name, what it is called there, the word it needs or nothing, the line here) of each entry."""
    comment, shared = None, {}
    for line in lines_of(here / header, "-"):
        found = ENTRY.match(line)
        mod = re.match(r"^inline constexpr auto (\w+) = ((?:score|mask)_mod\(.*\));$", line)
        if line.startswith("// ") and re.match(r"// [ADGXN]\b", line):
            comment = line[3:]
        elif mod:
            shared[mod[1]] = mod[2]
        elif found:
            if comment is None:
                sys.exit(f"{header}: {found[1]} has no comment that says what it is called there")
            there, _, word = comment.partition("; word: ")
            written = line.split(" = ", 1)[1].rstrip(";")
            yield found[1], there, word, re.sub(r"(?:peers::)?\b(\w+)\b", lambda m: shared.get(m[1], m[0]), written)
            comment = None


def cell(text):
    return text.replace("|", "\\|")


def page():
    literally, worded, rows = 0, 0, []
    for header in ("flex_attention.hpp", "attention_gym.hpp"):
        for _, there, word, line in entries(header):
            literally, worded = literally + (not word), worded + bool(word)
            rows.append(f"| {cell(there)} | `{cell(line)}` | {cell(word) or 'literally'} |")
    total = literally + worded
    yield f"""# The functions of FlexAttention's tests and of attention-gym

The functions that PyTorch's `test_flex_attention.py` (A) and `test_flex_decoding.py` (D) and attention-gym's package (G), examples and tests (X) and
notebook (N) give FlexAttention, by their names there, and the line here that is the same. {total} different ones: {literally} work literally, which is
`floor_div(x, y)` for `x // y`, `[i][j]` for `[i, j]`, and `f(x)` for `torch.f(x)` and `x.f()`; {worded} need a word; none cannot be said. A captured
tensor is an `input`, a captured number a `scalar`.

Numbers of PyTorch, in double precision, lie in [torch_numbers.safetensors](torch_numbers.safetensors): the test `peers` compares what each line means with
them, and `peers_kernels` (label `full`) what their kernels compute. `torch_numbers.py` makes them. Written by `page.py` from the headers.

| there | here | how |
| --- | --- | --- |"""
    yield from rows


def check():
    wrong = []
    if (here / "flexattention.md").read_text(encoding="utf-8") != "\n".join(page()) + "\n":
        wrong.append("flexattention.md is not what the headers say: run tests/peers/page.py")
    data = (here / "torch_numbers.safetensors").read_bytes()
    header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
    measured = {name for name in header if "." in name and not name.endswith(".lse")}
    said = {f"{space}.{name}" for space, file in (("peers", "flex_attention.hpp"), ("gym", "attention_gym.hpp")) for name, *_ in entries(file)}
    wrong += [f"torch_numbers.safetensors has nothing for {name}" for name in sorted(said - measured)]
    wrong += [f"{name} has numbers, but no line here" for name in sorted(measured - said)]
    return wrong


def functions(file):
    """Names of the functions that take a score and four indices, or four indices, with what they are nested in."""
    def within(node, path):
        for child in ast.iter_child_nodes(node):
            at = path
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                at = [*path, child.name]
            if isinstance(child, (ast.FunctionDef, ast.Lambda)):
                names = [a.arg for a in child.args.args if a.arg != "self"]
                score, rest = (names[:1], names[1:]) if names[:1] and names[0] in ("score", "s", "qk") else ([], names)
                if len(rest) >= 4 and rest[0][0] == "b" and rest[1][0] == "h":
                    yield ".".join(at if isinstance(child, ast.FunctionDef) else [*at, "lambda"])
            yield from within(child, at)
    return within(ast.parse(file.read_text(encoding="utf-8")), [])


def unnamed(tests, gym):
    said = " ".join(there for header in ("flex_attention.hpp", "attention_gym.hpp") for _, there, *_ in entries(header))
    files = [*(pathlib.Path(tests) / name for name in ("test_flex_attention.py", "test_flex_decoding.py")), *sorted(pathlib.Path(gym).glob("attn_gym/m*/*.py")),
             *sorted(pathlib.Path(gym).glob("examples/**/*.py"))]
    for file in files:
        for name in functions(file) if file.exists() else []:
            if not any(part in said for part in name.split(".")):
                yield f"{file.name}: {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sources", nargs=2)
    options = parser.parse_args()
    if options.sources:
        found = list(unnamed(*options.sources))
        print("\n".join(found) or "every function is named")
        return bool(found)
    if options.check:
        wrong = check()
        print("\n".join(wrong) or "flexattention.md is what the headers say, and every line has numbers")
        return bool(wrong)
    (here / "flexattention.md").write_text("\n".join(page()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

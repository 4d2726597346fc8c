#!/usr/bin/env python3
"""Writes what a generator program prints of one formula into generators/docs/architecture.md, and draws it as one picture:

    cmake --build --preset default --target attune_common_generator
    generators/docs/architecture/page.py build/default/bin/attune_common_generator
    generators/docs/architecture/page.py build/default/bin/attune_common_generator --check     says whether the page is what the program prints; writes nothing
"""
import argparse
import html
import json
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
page, picture = here.parent / "architecture.md", here / "one_formula.svg"

GRAPH = "alibi_attention"
KERNEL = ["--targets", "x86-64-v4", "--depths", "64", "--shapes", "prefill", "--tuned-for", "generic"]

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", help="a generator program that has the graph " + GRAPH)
parser.add_argument("--check", action="store_true", help="compare, and write nothing")
options = parser.parse_args()


def said(*arguments):
    return subprocess.run([options.program, *arguments], capture_output=True, text=True, check=True, timeout=300).stdout


def facts():
    """Of `explain`, what follows from the formula alone."""
    lines = said("explain", "--variant", GRAPH, *KERNEL).splitlines()
    return lines[[i for i, line in enumerate(lines) if line == "inputs"][0]:[i for i, line in enumerate(lines) if line.startswith("cost of a call")][0]]


def symbols():
    (variant,) = json.loads(said("explain", "--json", "--variant", GRAPH, *KERNEL))
    (kernel,) = variant["kernels"]
    return [kernel["symbol"], kernel["symbol"] + "_blocks"]


forms = {
    "formula": said("describe", "--variant", GRAPH).splitlines(),
    "facts": facts(),
    "plan": said("plan", "--graph", GRAPH, *KERNEL).splitlines(),
    "loops": said("loops", "--graph", GRAPH, *KERNEL).splitlines(),
    "symbols": symbols(),
}
for lines in forms.values():
    while lines and not lines[-1]:
        lines.pop()


def filled(text):
    for name, lines in forms.items():
        begin, end = f"<!-- {name}: printed -->\n", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = before + begin + "\n```text\n" + "\n".join(lines) + "\n```\n\n" + end + rest.split(end, 1)[1]
    return text


# The picture: a box for each form, with its first lines, and above each arrow the rooms that make the next one.
MADE_BY = {"facts": "dsl, analysis", "plan": "plans", "loops": "stages, cpu, gpu", "symbols": "passes, codegen, emit"}
TITLES = {"formula": "formula: text", "facts": "facts", "plan": "plan", "loops": "loops", "symbols": "symbols"}
WIDE, LINE, SHOWN, LONGEST = 940, 15, 9, 132


def drawn():
    parts, top = [], 10
    for name, lines in forms.items():
        if name in MADE_BY:
            parts.append(f'<path d="M 40 {top} v 26" marker-end="url(#tip)"/><text x="54" y="{top + 18}" class="room">{MADE_BY[name]}</text>')
            top += 34
        shown = lines if len(lines) <= SHOWN else [*lines[:SHOWN - 1], f"... {len(lines) - SHOWN + 1} lines more"]
        height = 26 + LINE * len(shown) + 6
        parts.append(f'<rect x="10" y="{top}" width="{WIDE - 20}" height="{height}" rx="4"/><text x="20" y="{top + 17}" class="title">{TITLES[name]}</text>')
        for i, line in enumerate(shown):
            cut = line if len(line) <= LONGEST else line[:LONGEST - 3] + "..."
            parts.append(f'<text x="20" y="{top + 36 + LINE * i}" xml:space="preserve">{html.escape(cut)}</text>')
        top += height
    style = ("rect{fill:#f6f6f2;stroke:#888}path{stroke:#888;fill:none}text{font:11px monospace;fill:#222}"
             ".title{font:bold 12px sans-serif}.room{font:italic 12px sans-serif;fill:#555}")
    tip = '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8"/></marker></defs>'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {top + 10}" role="img"><title>One formula as text, facts, plan, loops and symbols</title>'
            f"<style>{style}</style>{tip}\n" + "\n".join(parts) + "\n</svg>\n")


text = page.read_text()
if options.check:
    wrong = [str(path.name) for path, made in ((page, filled(text)), (picture, drawn())) if path.read_text() != made]
    print(f"FAILED  {', '.join(wrong)}: expected what the program prints; run generators/docs/architecture/page.py" if wrong else "architecture.md is what the program prints")
    sys.exit(bool(wrong))
page.write_text(filled(text))
picture.write_text(drawn())

#!/usr/bin/env python3
"""Writes what generator programs print of a formula into generators/docs/architecture.md and the pages of generators/docs/kernels, and draws the formula's forms as one
picture. --check says whether the pages are what the programs print, and writes nothing.

    cmake --build --preset default --target attune_common_generator golden_gradients_depths_generator
    generators/docs/architecture/page.py build/default/bin/attune_common_generator build/default/bin/golden_gradients_depths_generator [--check]
"""
import argparse
import html
import json
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
docs, picture = here.parent, here / "one_formula.svg"

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("common", help="a generator program that has the graphs alibi_attention and decode_attention")
parser.add_argument("gradients", help="a generator program that has the graph causal_gradient")
parser.add_argument("--check", action="store_true", help="compare, and write nothing")
options = parser.parse_args()


class Kernel:
    """One kernel of a program, and what the program prints of it: lines."""

    def __init__(self, program, graph, shapes, depth):
        self.program, self.graph = program, graph
        self.which = ["--targets", "x86-64-v4", "--depths", depth, "--shapes", shapes, "--tuned-for", "generic"]

    def said(self, command, *arguments):
        run = subprocess.run([self.program, command, *arguments], capture_output=True, text=True, check=True, timeout=300)
        return run.stdout.rstrip().splitlines()

    def formula(self):
        return self.said("describe", "--variant", self.graph)

    def facts(self):
        """Of `explain`, what follows from the formula alone."""
        lines = self.said("explain", "--variant", self.graph, *self.which)
        return lines[lines.index("inputs"):[i for i, line in enumerate(lines) if line.startswith("cost of a call")][0]]

    def plan(self):
        return self.said("plan", "--graph", self.graph, *self.which)

    def loops(self):
        return self.said("loops", "--graph", self.graph, *self.which)

    def symbols(self):
        (variant,) = json.loads("\n".join(self.said("explain", "--json", "--variant", self.graph, *self.which)))
        (kernel,) = variant["kernels"]
        return [kernel["symbol"], kernel["symbol"] + "_blocks"]


alibi = Kernel(options.common, "alibi_attention", "prefill", "64")
pages = {
    "architecture.md": (alibi, ["formula", "facts", "plan", "loops", "symbols"]),
    "kernels/prefill.md": (alibi, ["plan", "loops"]),
    "kernels/decode.md": (Kernel(options.common, "decode_attention", "decode", "128"), ["plan", "loops"]),
    "kernels/gradient.md": (Kernel(options.gradients, "causal_gradient", "prefill", "64"), ["plan", "loops"]),
}
forms_of = {name: {form: getattr(kernel, form)() for form in forms} for name, (kernel, forms) in pages.items()}
forms = forms_of["architecture.md"]


def filled(text, forms):
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


made = {docs / name: filled((docs / name).read_text(), its) for name, its in forms_of.items()} | {picture: drawn()}
if options.check:
    wrong = [str(path.relative_to(docs)) for path, text in made.items() if not path.exists() or path.read_text() != text]
    print(f"FAILED  {', '.join(wrong)}: expected what the programs print; run generators/docs/architecture/page.py" if wrong else f"{len(made)} files are what the programs print")
    sys.exit(bool(wrong))
for path, text in made.items():
    path.write_text(text)

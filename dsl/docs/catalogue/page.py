#!/usr/bin/env python3
"""Writes dsl/docs/catalogue.md from the comments of the catalogue's headers, and draws its pictures:

    cmake --build --preset default --target catalogue_generator && dsl/docs/catalogue/page.py
    dsl/docs/catalogue/page.py --check     says whether the page is what the headers say; draws nothing
"""
import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
root = here.parents[2]
page = here.parent / "catalogue.md"

families = [
    ("causal", "Causal masks"), ("windows", "Distances"), ("prefixes", "Prefixes"), ("documents", "Several sequences in one"),
    ("block_diffusion", "Block diffusion"), ("vision", "Text that looks at images"), ("natten", "Neighbourhoods"), ("sliding_tiles", "Sliding tiles"),
    ("jetspec", "Speculative decoding"), ("sparse_video", "Video, by space and time"), ("sparse_tiles", "Video, by chosen tiles"), ("alibi", "ALiBi"),
    ("relative", "Relative positions"), ("biases", "Learned biases and masks"), ("softcap", "Softcap"), ("graphormer", "Graphs"),
    ("activations", "Weights other than softmax"), ("sinks", "Other denominators, further outputs"), ("rotary", "Queries and keys before their product"), ("quantized", "Queries, keys and values in eight bits"),
    ("selected", "Keys of two tensors"), ("selectors", "Keys that the call chooses"), ("recurrent", "Recurrences"),
]

# What pictures.hpp leaves open. Inputs that are not named are chosen by `draw`.
documents = ["doc=0*60,1*36,2*90,3*70", "offsets=0,60,96,186,256"]
sequences = ["cu_q=0,60,60,130,256", "cu_k=0,40,90,200,256"]
drawn = {
    "causal_bottom_right": ["--queries", "128", "--keys", "256"],
    "causal_up_to": ["--queries", "160", "--keys", "256", "kv_lengths=220"],
    "global_window": ["is_global=1*6,0*100,1*2,0*148"],
    "window_per_head": ["windows=20,40,60,80,100,120,140,160", "--head", "3"],
    "key_threshold": ["threshold=300*60,0*80,256*40,150*76"],
    "key_range": ["from=0*80,60*100,150*76", "to=80*80,120*100,256*76"],
    "same_document": documents[:1], "document": documents, "packed_causal": documents,
    "shared_prefix": documents + ["prefix=0,0,0,2"],
    "same_sequence": sequences, "varlen": sequences, "varlen_causal": sequences,
    "varlen_row_window": sequences + ["windows=12*100,60*156"],
    "varlen_document": sequences + ["doc_q=0*30,1*80,2*146", "doc_k=0*20,1*120,2*116"],
    "draft_blocks": ["--queries", "192", "--keys", "256"],
    "tree_causal": ["--queries", "24", "--keys", "64"],
    "draft_tree": ["--queries", "24", "--keys", "88"],
    "real_tokens": ["sizes=32,20,8,32,28,4,16,32"],
    "clamped_distance_bias": ["--queries", "128"], "checkerboard": ["--queries", "24"], "xor_pattern": ["--queries", "128"],
}


def ancestors(i):
    """Of draft i in a binary tree, itself included."""
    return {i} | (ancestors((i - 1) // 2) if i > 0 else set())


# Tables of more than one axis: name, element type, values.
tables = {
    "vision_cross_attention": ("intervals", "I32", [[0, 40], [30, 90], [100, 256], [60, 140], [140, 200], [0, 256], [200, 256], [220, 256]]),
    "tree_causal": ("ancestor", "U8", [[j in ancestors(i) for j in range(24)] for i in range(24)]),
    "draft_tree": ("ancestor", "U8", [[j in ancestors(i) for j in range(24)] for i in range(24)]),
    "tile_map": ("map", "U8", [[[[i == j or (i * 5 + j * 3) % 7 < 2 for j in range(8)] for i in range(8)]]]),
    "chosen_tiles": ("topk", "I32", [[[[i, (i + 3) % 8, i * i % 8] for i in range(8)]]]),
}

entry = re.compile(r"((?:^/// .*\n)+)(?:template <.*>\s)?(?:inline )?constexpr auto (\w+)(?:\(([^()]*)\))?", re.M)


own = [
    ("causal", "`causal`", "q >= k: the first query meets the first key", ""),
    ("causal_bottom_right", "`causal_bottom_right`", "k <= q + Lk - Lq: the last query meets the last key in use. `bottom_right(condition)` of any condition", "FlashAttention 2, FlashInfer, MLX"),
    ("window", "`window(left, right)`", "q - k <= left and k - q <= right, both inclusive; a side below 0 has no limit", "FlashAttention, ONNX Attention"),
    ("softcap", "`softcap(c, s)`", "c tanh(s / c); c = 0 caps nothing", "Gemma 2; attention-gym generate_tanh_softcap"),
]


def entries(family):
    """(name, parameters, formula, source) of every entry of a header, and the header's own remark."""
    text = (root / "dsl/include/attune/catalogue" / f"{family}.hpp").read_text()
    text = re.sub(r"^namespace detail \{.*?^\}  // namespace detail$", "", text, flags=re.M | re.S)
    remark = re.search(r"^/// ((?:.*\n///)*.*)\nnamespace", text, re.M)
    found = []
    for comment, name, parameters in entry.findall(text):
        words = " ".join(line[4:] for line in comment.splitlines())
        said = re.fullmatch(r"(.*?)(?: \(([^()]*(?:\([^()]*\)[^()]*)*)\))?", words)
        given = re.findall(r"(\w+)(?:,|$)", parameters or "")
        found.append((name, given, said[1].rstrip("."), said[2] or ""))
    return remark[1].replace("\n///", "") if remark else "", found


def safetensors(path, name, element, values):
    """One table as a file that `draw` reads."""
    shape, flat = [], values
    while isinstance(flat[0], list):
        shape.append(len(flat))
        flat = [x for row in flat for x in row]
    shape = [n if i == 0 else n // shape[i - 1] for i, n in enumerate(shape)] + [len(flat) // (shape[-1] if shape else 1)]
    data = struct.pack(f"<{len(flat)}{'i' if element == 'I32' else 'B'}", *flat)
    header = json.dumps({name: {"dtype": element, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def cell(text):
    """A formula in a table: neither its bars nor a lambda's brackets mean anything to Markdown."""
    return text.replace("|", "\\|").replace("](", "\\](")


def picture(name):
    return f'<a href="catalogue/{name}.svg"><img src="catalogue/{name}.svg" width="180" alt="{name}"></a>' if (here / f"{name}.svg").exists() else ""


def markdown():
    lines = ["# The catalogue", "",
             "Published masks and score modifications, each a few lines of the language. Each family has a header; `#include <attune/catalogue.hpp>` includes all but the last, of recurrences.",
             "An entry is a condition for `mask(scores, ...)`, or takes scores `s` and returns scores. Arguments are literals, run-time scalars (`scalar<\"w\", i32>`), inputs, or functions that are",
             "called like inputs. In the formulas q is a query's position, k a key's, h the head, b the batch element; Lq and Lk are the lengths, H the number of heads, V the values. `//` rounds down,",
             "`%` has the sign of the divisor.", "",
             "```cpp", "#include <attune/catalogue/natten.hpp>",
             "inline constexpr auto neighbours = softmax(mask(q * t(k) * rsqrt(depth), attune::catalogue::natten(64, 48, 7, 7))) * v;", "```", "",
             "In the pictures blue pairs are visible: dark in blocks that need no mask, light in blocks that are masked pair by pair. Grey blocks are skipped. The code that makes kernels draws them;",
             "`catalogue/page.py` makes them and this page.", ""]
    lines += ["## The language's own", "", "`attune/dsl.hpp`.", "", "| entry | formula | source | picture |", "| --- | --- | --- | --- |"]
    lines += [f"| {call} | {formula} | {source} | {picture(name)} |" for name, call, formula, source in own] + [""]
    for family, title in families:
        remark, found = entries(family)
        lines += [f"## {title}", "", f"`attune/catalogue/{family}.hpp`" + (f". {remark}" if remark else ""), "", "| entry | formula | source | picture |", "| --- | --- | --- | --- |"]
        for name, given, formula, source in found:
            call = f"`{name}({', '.join(given)})`" if given else f"`{name}`"
            lines.append(f"| {call} | {cell(formula)} | {cell(source)} | {picture(name)} |")
        lines.append("")
    return "\n".join(lines)


def draw(generator, only, folder):
    names = re.findall(r"^inline constexpr auto (\w+) = (?:masked|attention)\(", (here / "pictures.hpp").read_text(), re.M)
    unknown = (set(drawn) | set(tables) | set(only)) - set(names)
    if unknown:
        sys.exit(f"pictures.hpp has no {', '.join(sorted(unknown))}")
    for name in only or names:
        options = []
        for option in drawn.get(name, []):
            options += ["--input", option] if "=" in option else [option]
        if name in tables:
            safetensors(folder / f"{name}.safetensors", *tables[name])
            options += ["--input", folder / f"{name}.safetensors"]
        subprocess.run([generator, "draw", "--variant", f"pictures::{name}", "--target", "x86-64-v3", "--depth", "64", *options, "--output", here / f"{name}.svg"], check=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--generator", default=root / "build/default/bin/catalogue_generator")
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("only", nargs="*", help="pictures to draw; all unless named")
    given = arguments.parse_args()
    if given.check:
        missing = [f for f in (root / "dsl/include/attune/catalogue").glob("*.hpp") if f.stem not in dict(families)]
        if missing:
            sys.exit(f"no family of page.py is {', '.join(f.name for f in missing)}")
        if page.read_text() != markdown():
            sys.exit(f"{page.relative_to(root)} is not what the catalogue's headers say; run {pathlib.Path(__file__).relative_to(root)}")
        return
    with tempfile.TemporaryDirectory() as folder:
        draw(given.generator, given.only, pathlib.Path(folder))
    page.write_text(markdown())


if __name__ == "__main__":
    main()

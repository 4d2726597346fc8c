#!/usr/bin/env python3
"""tensor_loops.py --generator PROGRAM[:DEPTHS]... [--graphs NAME...] [--dtype bf16] [--arch sm_80 sm_90] [--most RATIO] [--json] [--fetch]: what the main loops of kernels by tensor cores
issue beside their products. Nothing is run; the instructions are ptxas' own.

A scheduler of an SM issues one instruction a cycle, and a product (HMMA, `mma.sync`) keeps the tensor core busy for some cycles more: how many other instructions stand beside each product
says whether the tensor core waits for them. Each kernel is compiled, assembled and taken apart again. Its main loop is the innermost one with most of its products: a visit to a block of keys.
What the loop jumps over is not issued at every visit. A part that is jumped over and has no products and no copies is what a block costs whose pairs have to be masked, or the longer of
two ways of a function: `others an mma` counts none of these parts, `at most` all of them. Copies of the next block are counted, though the last visit has none.

FlashAttention-2's forward kernels without a mask, compiled by nvcc for sm_80 and counted likewise, have 2.54 at depth 128 and 3.46 at 64: printed where a depth is one of these.
--most: fail where a kernel has more others an mma than so many times FlashAttention-2's. --json: a list of objects.
PROGRAM is a generator of graphs, as tensor_loops_cuda_generator, which `cmake --build --preset default --target tensor_loops_cuda_generator` makes; DEPTHS are 64,128 unless told otherwise.
ptxas and nvdisasm are looked for as cuda/ptx.py does; --fetch gets PyPI's. Without them: exit status 77.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda"))
import ptx

FLASH_ATTENTION_2 = {64: 3.46, 128: 2.54}

# By the beginning of an operation's name; the first that fits.
GROUPS = {
    "mma": r"HMMA|HGMMA",
    "ldmatrix": r"LDSM",
    "copies": r"LDGSTS|LDGDEPBAR|DEPBAR",
    "shared": r"LDS|STS",
    "global": r"LDG|STG",
    "local": r"LDL|STL",
    "exp2": r"MUFU",
    "fma": r"FFMA|FMUL|FADD|HFMA2|HMUL2|HADD2",
    "maximum": r"FMNMX",
    "convert": r"F2F|I2F|F2I",
    "shuffle": r"SHFL",
    "choose": r"FSEL|SEL|FSETP|ISETP|PLOP|UISETP|USEL",
    "move": r"IMAD\.MOV|MOV|UMOV|R2UR|CS2R|S2R|S2UR",
    "integer": r"IMAD|IADD|SHF|LEA|IMNMX|VIADD|VIMNMX|UIADD|UIMAD|ULEA|USHF|IABS|LOP3|ULOP|PRMT|UPRMT|I2I|R2P|P2R",
    "branch": r"BRA|BSSY|BSYNC|BREAK|EXIT|WARPSYNC|CALL|RET|VOTE|NANOSLEEP|YIELD",
    "barrier": r"BAR|MEMBAR|FENCE|ERRBAR",
}


def group_of(operation):
    return next((name for name, pattern in GROUPS.items() if re.match(pattern, operation)), "other")


def entries_in(text):
    """nvdisasm's text: of each entry its instructions (guard, operation, operands) in order, and where labels stand."""
    entries, found, labels = {}, None, None
    for line in text.splitlines():
        if section := re.match(r"//-+ (\S+)", line):
            found = None
            if section[1].startswith(".text."):
                found, labels = [], {}
                entries[section[1][len(".text.") :]] = (found, labels)
        elif found is None:
            continue
        elif label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(found)
        elif it := re.match(r"\s+/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*?);", line):
            found.append(((it[1] or "").strip(), it[2], it[3]))
    return entries


def target_of(instruction, labels):
    """Where a branch leads, or None."""
    _, operation, operands = instruction
    label = re.search(r"\((\.L_x_\d+)\)", operands) if operation.startswith("BRA") else None
    return labels.get(label[1]) if label else None


def main_loop(found, labels):
    """The first and the last instruction of the innermost loop with most products; None where there is none."""
    products = lambda loop: sum(group_of(operation) == "mma" for _, operation, _ in found[loop[0] : loop[1] + 1])
    loops = []
    for at, each in enumerate(found):
        to = target_of(each, labels)
        if to is not None and to <= at and products((to, at)):
            loops.append((to, at))
    if not loops:
        return None
    most = max(map(products, loops))
    return min((loop for loop in loops if products(loop) > 0.6 * most), key=lambda loop: loop[1] - loop[0])


def jumped_over(found, labels, loop):
    """Instructions of a loop that a branch may jump over, among which are no products and no copies."""
    skipped = set()
    for at in range(loop[0], loop[1] + 1):
        to = target_of(found[at], labels)
        if not found[at][0] or to is None or not at < to <= loop[1]:
            continue
        inside = range(at + 1, to)
        if not {group_of(found[i][1]) for i in inside} & {"mma", "copies"}:
            skipped |= set(inside)
    return skipped


def counted(found, labels):
    """What the main loop issues, by group; None where an entry has no products in a loop."""
    loop = main_loop(found, labels)
    if loop is None:
        return None
    skipped = jumped_over(found, labels, loop)
    issued = [at for at in range(loop[0], loop[1] + 1) if found[at][0] not in ("@!PT", "@!UPT") and found[at][1] != "NOP"]
    groups = {}
    for at in issued:
        if at not in skipped:
            group = group_of(found[at][1])
            groups[group] = groups.get(group, 0) + 1
    products = groups["mma"]
    over = sum(at in skipped for at in issued)
    others = sum(groups.values()) - products
    return {"mma": products, "others": others, "jumped_over": over, "others_an_mma": others / products, "at_most": (others + over) / products, "groups": dict(sorted(groups.items(), key=lambda each: -each[1]))}


def kernels_of(generator, graphs, given, tools, folder):
    """One object a kernel of tensor cores and architecture."""
    ptxas, nvdisasm = tools
    path, kernels = ptx.compile_graphs(generator, folder, dtypes=[given.dtype], options=["--finite"])
    for text, kernel in zip(ptx.modules_in(path), kernels, strict=True):
        name = kernel["graph"].split("::")[-1]
        if "tiles" not in kernel["schedule"] or (graphs and name not in graphs):
            continue
        for arch in given.arch:
            cubin = os.path.join(folder, "module.cubin")
            taken = {each["entry"]: each for each in ptx.assemble(ptxas, text, arch, cubin)}
            disassembled = subprocess.run([nvdisasm, "-c", cubin], check=True, stdout=subprocess.PIPE, text=True).stdout
            for entry, (found, labels) in entries_in(disassembled).items():
                if counts := counted(found, labels):
                    depths = {what: kernel[what] for what in ("depth", "value_depth")}
                    limits = {what: taken[entry][what] for what in ("registers", "spilled_bytes")}
                    yield {"graph": name, **depths, "arch": arch, "schedule": kernel["schedule"], **limits, **counts}


def print_table(all_kernels):
    print("| graph | depth | arch | registers | bytes spilled | mma a visit | others | others an mma | at most | FlashAttention-2 | most of the others |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for each in all_kernels:
        depth = each["depth"] if each["depth"] == each["value_depth"] else f"{each['depth']}x{each['value_depth']}"
        bar = FLASH_ATTENTION_2.get(depth)
        most = ", ".join(f"{name} {number}" for name, number in list(each["groups"].items())[:7] if name != "mma")
        print(f"| {each['graph']} | {depth} | {each['arch']} | {each['registers']} | {each['spilled_bytes']} | {each['mma']} | {each['others']} | {each['others_an_mma']:.2f} | {each['at_most']:.2f} | "
              f"{bar if bar else '-'} | {most} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator", nargs="+", required=True)
    parser.add_argument("--graphs", nargs="+", help="the last parts of names; without it all")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--arch", nargs="+", default=["sm_80", "sm_90"])
    parser.add_argument("--most", type=float)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fetch", action="store_true")
    given = parser.parse_args()
    tools = [ptx.find_tool(name, given.fetch) for name in ("ptxas", "nvdisasm")]
    if not all(tools):
        print(f"skipped: no {'nvdisasm' if tools[0] else 'ptxas'} here; --fetch brings one")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        found = [each for generator in given.generator for each in kernels_of(generator, given.graphs, given, tools, folder)]
    if not found:
        raise SystemExit(f"expected kernels by tensor cores of {' '.join(given.graphs or given.generator)}, got none; try --dtype bf16 or f16, and depths that are multiples of 16")
    if given.json:
        print(json.dumps(found, indent=1))
    else:
        print_table(found)
    wrong = [each for each in found if given.most and each["others_an_mma"] > given.most * FLASH_ATTENTION_2.get(each["depth"], float("inf"))]
    for each in wrong:
        limit = given.most * FLASH_ATTENTION_2[each["depth"]]
        print(f"{each['graph']} d{each['depth']} {each['arch']}: expected at most {limit:.2f} other instructions an mma, got {each['others_an_mma']:.2f}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

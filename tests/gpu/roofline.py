#!/usr/bin/env python3
"""roofline.py --generator PROGRAM[:DEPTHS] [--graphs NAME...] [--length 4096] [--schedule JSON] [--decode], or --counted PROGRAM: what the instructions of kernels for CUDA let a GPU reach at
most. An estimate: nothing is run on a GPU.

Each kernel is compiled, assembled for sm_90 and taken apart again. Of the instructions of one visit to a block of keys those are useful that multiply and add for
q * t(k) or for the product with v; as each instruction takes a scheduler one cycle, their share of the peak is the most that the kernel can reach. Three more bounds
stand beside it: shared memory serves one instruction a cycle to the whole SM (bank conflicts are not counted: --counted does), memory brings keys and values anew to each
block of queries (as if no cache held them), and of the pairs in visited blocks the mask may need fewer. What waiting costs is not in it: warps and what is
known to hide it are printed, and the last column is a mere 60 % of the bound, as an expectation.

--decode: kernels for few queries, which read each key and value once for query_tile rows. Their bounds are rates of reading: what the instructions of a visit leave time for; what
all threads of an SM have asked for at a time, of the keys or of the values, whichever is less, over the time that memory takes to answer (--nanoseconds, an assumption); and the memory itself.

--counted PROGRAM: gpu_benchmark_cuda runs on CUDA's device in software (cuda/device/README.md), which counts exactly what each case issues, of loops and of all else, with bank conflicts and
with the sectors that are asked for. Each unit of an SM bounds the rate by what it serves a cycle. Instructions are PTX's, of which ptxas joins some: issue is a little better than it says.

Peak and bandwidth are those of an H200 SXM (--tflops, --terabytes). ptxas and nvdisasm are looked for as ptx.py does (NVDISASM names another).
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda"))
import ptx


def instructions_in(nvdisasm, cubin, entry):
    """(operation, operands) of an entry in order, and where labels stand."""
    text = subprocess.run([nvdisasm, "-c", cubin], check=True, stdout=subprocess.PIPE, text=True).stdout
    found, labels, here = [], {}, False
    for line in text.splitlines():
        if section := re.match(r"//-+ (\S+)", line):
            here = section[1] == f".text.{entry}"
        if not here:
            continue
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(found)
        elif it := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*?);", line):
            found.append((it[1], it[2]))
    return found, labels


def loops_in(found, labels):
    """(first, last) of each loop, inner ones first."""
    loops = []
    for at, (operation, operands) in enumerate(found):
        target = re.search(r"\((\.L_x_\d+)\)", operands)
        if operation.startswith("BRA") and target and labels[target[1]] < at:
            loops.append((labels[target[1]], at))
    return sorted(loops, key=lambda loop: loop[1] - loop[0])


class visit:
    """What one thread does at one visit to a block of keys."""

    def __init__(self, found, labels, cut, depth, value_depth):
        across, down = ptx.threads_of(cut, value_depth)
        self.threads = across * down
        pairs = cut["query_block"] * cut["key_block"]
        self.useful = pairs * (depth + value_depth) / self.threads
        loops = loops_in(found, labels)
        inner = [loop for loop in loops if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1] for other in loops)]
        of = lambda loop, what: sum(1 for operation, _ in found[loop[0] : loop[1] + 1] if operation.startswith(what))
        products = [loop for loop in sorted(inner) if of(loop, "FFMA") > 0.6 * (loop[1] + 1 - loop[0])]
        if len(products) != 2:
            raise SystemExit(f"expected two loops of products in a kernel, got {len(products)}; this program knows kernels of softmax(q * t(k)) * v with a mask at most")
        whole = min((loop for loop in loops if all(loop[0] <= each[0] and each[1] < loop[1] for each in products)), key=lambda loop: loop[1] - loop[0])
        times = {
            products[0]: cut["query_tile"] * cut["key_tile"] * depth / of(products[0], "FFMA"),
            products[1]: cut["query_tile"] * cut["chunk"] * cut["key_block"] / of(products[1], "FFMA"),
        }
        for loop in inner:
            if loop in times or loop[0] < whole[0] or loop[1] > whole[1]:
                continue
            stores = of(loop, "STS")
            if of(loop, "LDG"):
                made = cut["key_block"] * max(depth, value_depth) / self.threads
            elif of(loop, "FFMA"):  # an exponential for each pair
                made = pairs / self.threads
            else:  # the maximum or the sum of a row
                made = cut["key_block"]
            if not stores:
                raise SystemExit("expected each loop of a visit to store what it makes, got one that does not")
            times[loop] = made / stores
        self.slots, self.shared = 0, 0
        for at in range(whole[0], whole[1] + 1):
            repeated = next((times[loop] for loop in times if loop[0] <= at <= loop[1]), 1)
            self.slots += repeated
            self.shared += repeated * found[at][0].startswith(("LDS", "STS"))
        self.products = [of(loop, "FFMA") / (loop[1] + 1 - loop[0]) for loop in products]


SMS, SCHEDULERS, F32_OF_SCHEDULER = 132, 4, 32


class few_visit:
    """The same of few queries: a block of threads reads key_block keys and values for query_tile rows."""

    def __init__(self, found, labels, cut, depth, value_depth):
        across, down = ptx.threads_of(cut, value_depth)
        self.threads = across * down
        self.bytes = 4 * cut["key_block"] * (depth + value_depth)
        of_keys, of_values = (cut["query_tile"] * cut["key_block"] * channels / self.threads for channels in (depth, value_depth))
        ffma = lambda loop: sum(1 for operation, _ in found[loop[0] : loop[1] + 1] if operation.startswith("FFMA"))
        loops = loops_in(found, labels)
        visits = next((loop for loop in loops if ffma(loop) and any(operation.startswith("BAR") for operation, _ in found[loop[0] : loop[1] + 1])), None)
        inner = sorted(loop for loop in loops if visits and visits[0] < loop[0] and loop[1] < visits[1])
        if not visits or len(inner) > 2 or not all(ffma(loop) for loop in inner):
            raise SystemExit(f"expected a loop over blocks of keys with at most two loops of products in it, got {len(inner)}")
        # Of two loops the first has the keys. One is alone where the other is written out.
        outside = ffma(visits) - sum(ffma(loop) for loop in inner)
        wanted = [of_keys, of_values] if len(inner) == 2 else [of_values if outside >= of_keys else of_keys]
        times = {loop: products / ffma(loop) for loop, products in zip(inner, wanted)}
        self.slots = sum(next((times[loop] for loop in times if loop[0] <= at <= loop[1]), 1) for at in range(visits[0], visits[1] + 1))
        written_out = math.gcd(cut["depth_unroll"], max(depth // 8, 1))
        self.asked_for = 4 * min(cut["key_tile"] * written_out, cut["value_tile"] * cut["chunk"])  # bytes of a thread


def few_row(kernel, entry, one, given):
    cut = kernel["schedule"]
    warps, limit = ptx.warps_at_once(entry["registers"], one.threads, kernel["shared_bytes"], entry["arch"])
    issued = given.tflops / 2 / F32_OF_SCHEDULER  # 10^12 instructions of a warp a second, of all SMs
    asked_for = 32 * warps * one.asked_for
    issue, waiting = issued * one.bytes / (one.slots * -(-one.threads // 32)), SMS * asked_for / given.nanoseconds * 1e-3
    bound = min(issue, waiting, given.terabytes)
    print(f"| {kernel['graph'].split('::')[-1]} D={kernel['depth']} | {cut['query_tile']} x {cut['key_block']} | {one.threads} | {entry['registers']} | {kernel['shared_bytes'] / 1024:.0f} KB | {warps} ({limit}) | "
          f"{one.slots:.0f} | {asked_for / 1024:.0f} KB | {issue:.1f} | {waiting:.1f} | {given.terabytes:.1f} | {bound:.1f} |")


# What an SM serves a cycle: instructions of warps by unit, and wavefronts of shared memory.
SERVED = {"fma": 4, "alu": 2, "transcendental": 0.5, "doubles": 2, "tensor": 1, "memory": 1}
CALLS = 7  # of a case of gpu_benchmark that is given no time: one that compiles, one, five that are timed


def counted(program, software, length, heads):
    """(case, counts of one call) in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "counts.jsonl")
        environment = os.environ | {"LD_LIBRARY_PATH": software, "PTX_COUNT": path}
        done = subprocess.run([program, str(length), str(heads), "0"], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"expected {program} to run on the device in software, got {done.stderr}")
        launches = [json.loads(line) for line in open(path, encoding="utf-8")]
    for case in map(json.loads, done.stdout.splitlines()):
        entries = [each["entry"] for each in launches]
        kernels = entries.index(entries[0], 1)
        yield case, launches[:kernels]
        del launches[: kernels * CALLS]


def counted_row(case, launches, given):
    instructions = sum(each["warp_instructions"] - each["units"]["moves"] for each in launches)
    units = {unit: sum(each["units"][unit] for each in launches) for unit in SERVED}
    requests, wavefronts = (sum(sum(each[what].values()) for each in launches) for what in ("shared_requests", "shared_wavefronts"))
    sectors = sum(sum(each["global_sectors"].values()) for each in launches)
    clock = given.tflops * 1e12 / (2 * SMS * SCHEDULERS * F32_OF_SCHEDULER)
    of_sm = SMS * clock
    seconds = {"issue": instructions / SCHEDULERS / of_sm, "shared": wavefronts / of_sm, "memory": 32 * sectors / (given.terabytes * 1e12)}
    seconds |= {unit: units[unit] / SERVED[unit] / of_sm for unit in ("fma", "alu", "transcendental")}
    flops = case["useful_flops"]
    bound = max(seconds, key=seconds.get)
    rate = lambda what: f"{flops / seconds[what] * 1e-12:.1f}" if seconds[what] else "-"
    print(f"| {case['case']} D={case['depth']} | {instructions:.3g} | {units['fma'] / instructions:.0%} | {wavefronts / max(requests, 1):.2f} | {32 * sectors:.3g} | "
          f"{' | '.join(map(rate, ('issue', 'fma', 'alu', 'transcendental', 'shared', 'memory')))} | {rate(bound)} ({bound}) |")


def print_counted(given):
    print(f"Counted on the device in software, nothing was run on a GPU: {given.length} queries and keys (decode one query over 16 times as many), bounds of a device of {given.tflops:g} TFLOP/s f32, {given.terabytes:g} TB/s.")
    print("| case | warp instructions | fma | wavefronts a shared request | bytes asked for | bound, useful TFLOP/s: issue | fma | alu | transcendental | shared memory | memory, nothing cached | bound |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for case, launches in counted(given.counted, given.software, given.length, given.heads):
        counted_row(case, launches, given)
    return 0


def visited_share(cut, length, causal):
    """Useful pairs among those of the visited blocks."""
    if not causal:
        return 1
    queries, keys = cut["query_block"], cut["key_block"]
    visited = sum(-(-min(length, first + queries) // keys) * keys * queries for first in range(0, length, queries))
    return length * (length + 1) / 2 / visited


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator")
    parser.add_argument("--counted", metavar="PROGRAM")
    parser.add_argument("--software", help="the folder of the driver of CUDA's device in software; default: beside PROGRAM's, as the build has it")
    parser.add_argument("--heads", type=int, default=2, help="of --counted")
    parser.add_argument("--graphs", nargs="+", help="the last parts of names; those with `causal` in theirs hide the keys after the query")
    parser.add_argument("--schedule", default="", help="another than the default one, as `emit --schedule` takes it")
    parser.add_argument("--length", type=int, help="4096; of --counted 512")
    parser.add_argument("--tflops", type=float, default=67)
    parser.add_argument("--terabytes", type=float, default=4.8)
    parser.add_argument("--nanoseconds", type=float, default=700, help="that memory takes to answer when it is busy")
    parser.add_argument("--decode", action="store_true")
    parser.add_argument("--fetch", action="store_true")
    given = parser.parse_args()
    if bool(given.generator) == bool(given.counted):
        parser.error("expected --generator or --counted, got both or neither")
    given.length = given.length or (512 if given.counted else 4096)
    if given.counted:
        given.software = os.path.abspath(given.software or os.path.join(os.path.dirname(given.counted), "../tests/gpu/cuda/stand_in"))
        return print_counted(given)
    ptxas, nvdisasm = ptx.find_tool("ptxas", given.fetch), ptx.find_tool("nvdisasm", given.fetch)
    if not ptxas or not nvdisasm:
        print(f"skipped: no {'ptxas' if not ptxas else 'nvdisasm'} here; --fetch brings one")
        return 77
    arch = "sm_90"
    peak = f"An estimate from the instructions for {arch}, nothing was run: peak {given.tflops:g} TFLOP/s f32, {given.terabytes:g} TB/s"
    if given.decode:
        print(f"{peak}, which answers after {given.nanoseconds:g} ns.")
        print("| graph | rows x keys | threads | registers | shared | warps an SM | instructions a visit | asked for at a time, an SM | bound, TB/s: issue | waiting | memory | bound |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    else:
        print(f"{peak}; {given.length} queries and keys.")
        print("| graph | block | threads | registers | shared | warps an SM | FFMA in q t(k), in w v | useful of a visit | bound: issue | shared memory | memory | bound, useful TFLOP/s | 60 % of it |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        path, kernels = ptx.compile_graphs(given.generator, folder, given.schedule, ["decode" if given.decode else "prefill"])
        for text, kernel in zip(ptx.modules_in(path), kernels):
            name = kernel["graph"].split("::")[-1]
            if given.graphs and name not in given.graphs:
                continue
            cubin = os.path.join(folder, "module.cubin")
            cut, depth, value_depth = kernel["schedule"], kernel["depth"], kernel["value_depth"]
            entry = next(e for e in ptx.assemble(ptxas, text, arch, cubin) if e["entry"].startswith(ptx.main_entry(cut)))
            instructions = instructions_in(nvdisasm, cubin, entry["entry"])
            if given.decode:
                few_row(kernel, entry, few_visit(*instructions, cut, depth, value_depth), given)
                continue
            one = visit(*instructions, cut, depth, value_depth)
            warps, limit = ptx.warps_at_once(entry["registers"], one.threads, kernel["shared_bytes"], arch)
            needed = visited_share(cut, given.length, "causal" in name)
            issue, shared = given.tflops * one.useful / one.slots, given.tflops * one.useful / (4 * one.shared)
            memory = given.terabytes * cut["query_block"] / 2  # 4 operations a query and channel for 8 bytes a channel
            bound = min(issue, shared, memory) * needed
            print(f"| {name} D={depth} | {cut['query_block']} x {cut['key_block']} | {one.threads} | {entry['registers']} | {kernel['shared_bytes'] / 1024:.0f} KB | {warps} ({limit}) | "
                  f"{one.products[0]:.0%}, {one.products[1]:.0%} | {one.useful / one.slots:.0%} | {issue:.0f} | {shared:.0f} | {memory:.0f} | {bound:.0f} | {0.6 * bound:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The inner loops of attune's kernels on CPUs that are not at hand, as llvm-mca sees them.

    python3 tests/benchmarks/inner_loops.py [--levels ...] [--cpus ...] [--depths 64 128] [--json FILE]

A generator program compiles a kernel for each ISA level. Of the loops that hold no other loop and no exponential, those with most multiply-adds are the products: queries with
keys, and weights with values. llvm-mca runs some hundred rounds of each on its model of a CPU, whose caches never miss, and as many rounds of the loop's multiply-adds alone, each on registers of
its own: that is the bound. The share is bound / loop, 100 % where nothing but multiply-adds takes time. It does not see that a sum on the stack has to come back before it
is added to: so the instructions that touch the stack are counted. Of tiles LLVM 19 knows nothing but a latency of 100 cycles: so x86-64-v4-amx is left out. Needs llvm-mca and llvm-objdump 16 or later (Debian: llvm-19) and
build/default/bin/benchmark_full_generator.
"""
import argparse, collections, json, pathlib, re, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What each level is asked of: CPUs by LLVM's names.
CPUS = {"x86-64-v3": ["haswell", "znver3"],
        "x86-64-v4": ["cascadelake", "sapphirerapids", "znver4"],
        "x86-64-v4-bf16": ["znver4"],
        "aarch64": ["neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "apple-m1"]}
TRIPLES = {"aarch64": "aarch64-linux-gnu"}
PRODUCT = re.compile(r"^(vfn?m(add|sub)\d*ps|vdpbf16ps|fml[as]|bfdot|bfmmla)\b")
JUMP = re.compile(r"^(j[a-z]+|b(\.[a-z]+)?|cbn?z|tbn?z)$")
POWER = re.compile(r"^(vpslld|shl\s+v).*[$#]0x17\b")  # an exponent moved to its place
ROUNDS = 400


def tool(name):
    """The newest one that this machine has."""
    for found in (f"{name}-{version}" for version in range(25, 15, -1)):
        if shutil.which(found):
            return found
    sys.exit(f"expected {name} of LLVM 16 or later, found none; try Debian's package llvm-19")


def output(*command, given=None):
    done = subprocess.run(list(map(str, command)), input=given, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return done.stdout


def functions(objdump, file):
    """{function: [(address, instruction)]} of an object."""
    found, name = {}, None
    for line in output(objdump, "-d", "--no-show-raw-insn", file).splitlines():
        head, code = re.match(r"^[0-9a-f]+ <(.*)>:$", line), re.match(r"^\s*([0-9a-f]+):\s+(\S.*)$", line)
        if head:
            name = head[1]
            found[name] = []
        elif code and name:
            found[name].append((int(code[1], 16), re.sub(r"\s*(<.*>|# .*|// .*)$", "", code[2]).replace("\t", " ").strip()))
    return found


def is_product(instruction):
    return bool(PRODUCT.match(instruction)) and not re.match(r"^fml[as]\s+[sd]\d", instruction)


def touches_stack(instruction):
    return bool(re.search(r"\(%r[sb]p|\[sp\b", instruction))


def loops(code):
    """The instructions of each loop that holds no other."""
    spans, at = [], {address: number for number, (address, _) in enumerate(code)}
    for number, (address, instruction) in enumerate(code):
        words = instruction.split()
        if JUMP.match(words[0]):
            target = int(words[-1], 16) if re.fullmatch("(0x)?[0-9a-f]+", words[-1]) else None
            if target in at and at[target] <= number:
                spans.append((at[target], number))
    return [[text for _, text in code[first:last + 1]] for first, last in spans
            if not any((a, b) != (first, last) and first <= a and b <= last for a, b in spans)]


def alone(product):
    """Products like this one, each on registers of its own."""
    name, operands = product.split(None, 1)
    register = re.search(r"%([xyz])mm\d+", operands)
    if register:
        mm = f"%{register[1]}mm"
        return [f"{name} {mm}0, {mm}1, {mm}{n}" for n in range(2, 16 if register[1] != "z" else 32)]
    kind, last = re.match(r"[vz]\d+\.(\w+)", operands)[1], operands.rsplit(",", 1)[1]
    source = re.search(r"\.(\w+(?:\[\d+\])?)\s*$", last)
    first = re.split(r",\s*", operands)[1].split(".")[1]
    return [f"{name} v{n}.{kind}, v0.{first}, v1.{source[1]}" for n in range(2, 32)]


def cycles(mca, level, cpu, instructions):
    """Of one round, in the middle of many."""
    made = output(mca, f"-mtriple={TRIPLES.get(level, 'x86_64-linux-gnu')}", f"-mcpu={cpu}", f"--iterations={ROUNDS}", "--json", "-", given="\n".join(instructions) + "\n")
    return json.loads(made)["CodeRegions"][0]["SummaryView"]["TotalCycles"] / ROUNDS


def kernels(options):
    """(level, element type, depth, kind, the loops with most products)"""
    objdump = tool("llvm-objdump")
    with tempfile.TemporaryDirectory() as folder:
        for level in options.levels:
            for dtype in ("bf16",) if level.endswith("bf16") else options.dtypes:
                for depth in options.depths:
                    for kind in options.kinds:
                        file = pathlib.Path(folder) / "kernel.o"
                        output(options.program, "emit", "--target", level, "--object", file, "--dtypes", dtype, "--depths", depth, "--shapes", kind, "--tuned-for", "generic", *options.schedule)
                        yield level, dtype, depth, kind, [loop for code in functions(objdump, file).values() for loop in loops(code)]


def heaviest(found, count=2):
    """Those with most multiply-adds, less those that take powers of two: softmax, and what rescales sums once a block of keys. Of as many, the shorter: the longer
    one is for values that are not finite."""
    ranked = sorted((loop for loop in found if not any(map(POWER.match, loop))), key=lambda loop: (-sum(map(is_product, loop)), len(loop)))
    most = sum(map(is_product, ranked[0]))
    return [loop for loop in ranked[:count] if sum(map(is_product, loop)) * 4 >= most]


def rows(options):
    mca = tool("llvm-mca")
    for level, dtype, depth, kind, found in kernels(options):
        for number, loop in enumerate(heaviest(found), 1):
            products = [text for text in loop if is_product(text)]
            forms = collections.Counter(tuple(alone(text)) for text in products)
            for cpu in CPUS[level]:
                if options.cpus and cpu not in options.cpus:
                    continue
                bound = sum(cycles(mca, level, cpu, form) / len(form) * count for form, count in forms.items())
                took = cycles(mca, level, cpu, loop)
                yield {"level": level, "dtype": dtype, "depth": depth, "kind": kind, "loop": number, "cpu": cpu, "product": products[0].split()[0], "instructions": len(loop),
                       "on_stack": sum(map(touches_stack, loop)), "products": len(products), "cycles": round(took, 2), "bound": round(bound, 2), "share": round(bound / took, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", nargs="+", default=list(CPUS), choices=list(CPUS))
    parser.add_argument("--cpus", nargs="+", metavar="CPU", help="LLVM's names; default: " + "; ".join(f"{level} {' '.join(cpus)}" for level, cpus in CPUS.items()))
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--depths", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--schedule", metavar="JSON", type=lambda text: ["--schedule", text], default=[], help="another schedule than the default, as emit takes it")
    parser.add_argument("--kinds", nargs="+", choices=["prefill", "decode"], default=["prefill", "decode"])
    parser.add_argument("--json", metavar="FILE", help="write the rows there as a list")
    parser.add_argument("--program", default=ROOT / "build/default/bin/benchmark_full_generator", type=pathlib.Path, help="a generator program of one graph")
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"{options.program} is not there; try cmake --build --preset default --target benchmark_full_generator")
    print(f"{'level':<15} {'type':<5} {'depth':>5} {'kind':<8} {'loop':>4} {'product':<12} {'of':>4} {'stack':>5} {'CPU':<15} {'cycles':>7} {'bound':>7} {'share':>6}")
    found = []
    for r in rows(options):
        found.append(r)
        print(f"{r['level']:<15} {r['dtype']:<5} {r['depth']:>5} {r['kind']:<8} {r['loop']:>4} {r['products']:>4} {r['product']:<12} {r['instructions']:>4} {r['on_stack']:>5} {r['cpu']:<15} "
              f"{r['cycles']:7.1f} {r['bound']:7.1f} {100 * r['share']:5.0f}%", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

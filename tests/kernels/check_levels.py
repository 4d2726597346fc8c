#!/usr/bin/env python3
"""check_levels.py <build folder> <runtime/src/base/cpu.cpp> [--most N] [--json]: no kernel has an instruction that a CPU of its level may lack.

The objects of the kernels that a build made are disassembled, and what is found is assembled again, by an assembler that is told of the features that the
runtime asks for before it runs kernels of that level (the table in cpu.cpp) and of no others. It refuses any other instruction."""
import argparse, collections, concurrent.futures, hashlib, json, os, re, shutil, subprocess, sys

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx")
ASSEMBLER = {"lahf": None, "bmi1": "bmi", "avx512_ifma": "avx512ifma", "avx512_vbmi": "avx512vbmi"}  # as GNU as calls a feature; None: in all that it knows
LEGACY = re.compile(r"^(cs |data16 |ds |addr32 )*(nop[wl]?|xchg +%ax,%ax)\b")  # what fills gaps
# On CPUs without BMI these bytes are bsf, whose result is the same but for 0: LLVM asks for it where a number is not 0.
ALIKE = {"x86-64-v2": re.compile(r"^tzcnt ")}


def features(source):
    """By level, the features that the runtime asks for: those of the levels below, too."""
    with open(source, encoding="utf-8") as file:
        rows = re.findall(r'\{"([\w.]+)", (\d), leaf_\w+, \d+(?:, (\d))?\}', file.read())
    assert len(rows) > 20, f"expected the table of CPU features in {source}, got {len(rows)} rows"
    of_level = lambda at: [ASSEMBLER.get(name, name) for name, needed, last in rows if int(needed) <= at <= int(last or at) and ASSEMBLER.get(name, name)]
    return {level: "generic64" + "".join(f"+{name}" for name in of_level(at)) for at, level in enumerate(LEVELS, 2)} | {"aarch64": "armv8-a"}


def tool(name, level):
    """The program for objects of a level, if it is there."""
    machine = "aarch64" if level == "aarch64" else "x86_64"
    return shutil.which(name if machine == os.uname().machine else f"{machine}-linux-gnu-{name}")


def objects(folder, most):
    """By level, the kernels' objects: all, or so many of each, chosen by their names."""
    found = collections.defaultdict(list)
    for base, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in ("CMakeFiles", "Testing")]
        for name in files:
            match = re.fullmatch(r".+_(x86-64-v2|x86-64-v3|x86-64-v4|x86-64-v4-bf16|x86-64-v4-amx|aarch64)\.o", name)
            if match and base.endswith("_kernels"):
                found[match[1]].append(os.path.join(base, name))
    chosen = lambda path: hashlib.sha1(os.path.basename(path).encode()).digest()
    return {level: sorted(paths, key=chosen)[:most or None] for level, paths in found.items()}


def shape_of(line):
    """Instructions of one shape need the same features: registers beyond the sixteenth are another shape."""
    if "%" not in line:  # of aarch64: numbers alone do not matter
        return re.sub(r"(?<=[a-z#,.])-?(0x[0-9a-f]+|\d+)\b", "0", line)
    line = re.sub(r"%([xyz]mm)(1[6-9]|2\d|3[01])\b", r"%\1_high", line)
    line = re.sub(r"%([xyz]mm)\d+\b", r"%\1", line)
    line = re.sub(r"%k[0-7]\b", "%k", line)
    line = re.sub(r"%(r\d+[dwb]?|[re]?[abcd]x|[abcd][lh]|[re]?[sd]i|[re]?[sb]p|[sd]il|[sb]pl)\b", lambda m: "%g" + size_of(m[1]), line)
    return re.sub(r"-?0x[0-9a-f]+", "0", line)


def size_of(register):
    """Of a general register, in letters."""
    if register[-1] in "dwb" and register[1].isdigit() or register.startswith("e"):
        return "d" if register[0] == "e" or register[-1] == "d" else register[-1]
    return "q" if register[0] == "r" else "b" if register[-1] in "lh" else "w"


def instructions(path, level):
    """Shapes of instructions, each with one of its kind, and how many instructions there are."""
    text = subprocess.run([tool("objdump", level), "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    shapes, count = {}, 0
    for line in text.splitlines():
        parts = line.split("\t", 1)
        if len(parts) < 2 or not parts[0].endswith(":"):
            continue
        count += 1
        line = re.sub(r" *(//.*|# .*)", "", parts[1])
        line = re.sub(r"\s+", " ", re.sub(r"\b[0-9a-f]+ <.*", ".", line)).strip()  # a place in the code
        if LEGACY.match(line) or not line or level in ALIKE and ALIKE[level].match(line):
            continue
        shapes.setdefault(shape_of(line), line)
    return path, shapes, count


def beyond(lines, march, level):
    """What an assembler for these features refuses: (line, why)."""
    r = subprocess.run([tool("as", level), f"-march={march}", "-o", os.devnull, "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    errors = re.findall(r"^\{standard input\}:(\d+): Error: (.*)$", r.stderr, re.MULTILINE)
    if r.returncode and not errors:
        sys.exit(f"expected an assembler for {march}, got {r.stderr}")
    return [(lines[int(number) - 1], why) for number, why in errors]


def check_assembler(known):
    """The check is one: an instruction of each level is refused below it."""
    for level, below, line in (("x86-64-v3", "x86-64-v2", "vfmadd231ps %ymm1,%ymm2,%ymm3"), ("x86-64-v4", "x86-64-v3", "vaddps %zmm1,%zmm2,%zmm3"),
                               ("x86-64-v4", "x86-64-v3", "vaddps %ymm1,%ymm2,%ymm17"), ("x86-64-v4-bf16", "x86-64-v4", "vdpbf16ps %zmm1,%zmm2,%zmm3"),
                               ("x86-64-v4-amx", "x86-64-v4-bf16", "tdpbf16ps %tmm1,%tmm2,%tmm3"), ("x86-64-v4-bf16", "x86-64-v4-amx", "extrq %xmm1,%xmm2")):
        assert not beyond([line], known[level], level) and beyond([line], known[below], level), f"expected {line} to be of {level} and not of {below}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("cpu")
    parser.add_argument("--most", type=int, default=0, help="objects of each level; 0: all")
    parser.add_argument("--json", action="store_true")
    how = parser.parse_args()
    known, failures, report = features(how.cpu), [], {}
    if not all(map(shutil.which, ("objdump", "as"))):
        print("skipped: no objdump and as here (binutils)")
        return 77
    if os.uname().machine == "x86_64":  # others have one level
        check_assembler(known)
    of_levels = objects(how.build, how.most)
    if not of_levels:
        sys.exit(f"expected objects of kernels in {how.build}, got none")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for level, paths in sorted(of_levels.items()):
            if not all(tool(name, level) for name in ("objdump", "as")):
                print(f"{level:<15} {len(paths):4} objects, left out: no binutils for it here")
                continue
            shapes, where, count = {}, {}, 0
            for path, found, instructions_here in pool.map(lambda path: instructions(path, level), paths):
                count += instructions_here
                for shape, line in found.items():
                    shapes.setdefault(shape, line), where.setdefault(line, path)
            bad = beyond(list(shapes.values()), known[level], level)
            report[level] = {"objects": len(paths), "instructions": count, "shapes": len(shapes), "beyond": [line for line, _ in bad]}
            failures += [f"{level}: {line} in {where[line]}: {why}" for line, why in bad]
    if how.json:
        print(json.dumps(report, indent=2))
    else:
        for level, row in report.items():
            print(f"{level:<15} {row['objects']:4} objects, {row['instructions']} instructions of {row['shapes']} shapes, {len(row['beyond'])} beyond the level")
    print("\n".join(failures), end="\n" if failures else "")
    return 1 if failures else 0


sys.exit(main())

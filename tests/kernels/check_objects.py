#!/usr/bin/env python3
"""check_objects.py <generator program>: what the objects of each x86 ISA level are made of, by disassembling them.

A level has the instructions that it is for, and none that its CPUs lack; decode fetches keys and values into the second-level
cache, as other hints draw half as much from memory. Objects are compiled here, as no machine runs every level."""
import os, re, shutil, subprocess, sys, tempfile

PROGRAM = sys.argv[1]
# Registers and instructions, as regular expressions over `mnemonic operands`: those that must occur, those that must not.
ZMM, YMM, VEX = r"%zmm", r"%ymm", r"^v[a-z]+[a-z0-9]* "
MASKED = r"%k[1-7]|%[xyz]mm(1[6-9]|2\d|3[01])"
LEVELS = {
    "x86-64-v2": {"f32": ([r"^mulps "], [ZMM, YMM, VEX]), "f16": ([r"^mulps "], [ZMM, YMM, VEX])},
    "x86-64-v3": {"f32": ([r"^vfmadd\d+ps .*%ymm"], [ZMM, MASKED]), "bf16": ([r"^vfmadd\d+ps .*%ymm"], [ZMM, MASKED, r"^vdpbf16ps"]), "f16": ([r"^vcvtph2ps "], [ZMM, MASKED])},
    "x86-64-v4": {"f32": ([r"^vfmadd\d+ps .*%zmm"], [r"^vdpbf16ps"]), "bf16": ([r"^vfmadd\d+ps .*%zmm"], [r"^vdpbf16ps", r"^vcvtne2?ps2bf16"])},
    "x86-64-v4-bf16": {"f32": ([r"^vfmadd\d+ps .*%zmm"], []), "bf16": ([r"^vdpbf16ps .*%zmm"], []), "q:f32,k:bf16,v:bf16": ([r"^vfmadd\d+ps .*%zmm"], [r"^vdpbf16ps"])},
    "x86-64-v4-amx": {"bf16": ([r"^tdpbf16ps .*%tmm", r"^tilerelease"], [r"^vdpbf16ps"]), "q:f32,k:bf16,v:bf16": ([r"^vfmadd\d+ps .*%zmm"], [r"^tdpbf16ps"])},
}


FETCH = ("f32", ["--depths", "128", "--shapes", "decode", "--graph", "under_test::mixed"], [r"^prefetcht1 "], [r"^prefetch(nta|t0|t2|w)"])


def instructions(file):
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", file], capture_output=True, text=True, check=True).stdout
    return [re.sub(r"\s+", " ", line.split("\t", 1)[1]).strip() for line in text.splitlines() if re.match(r"\s*[0-9a-f]+:\t", line)]


def main():
    if not shutil.which("objdump"):
        print("skipped: no objdump here (binutils)")
        return 77
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for level, types in LEVELS.items():
            cases = [(dtype, ["--depths", "32"], *patterns) for dtype, patterns in types.items()]
            for dtype, options, needed, forbidden in [*cases, FETCH]:
                file = os.path.join(folder, "kernels.o")
                r = subprocess.run([PROGRAM, "emit", "--target", level, "--dtypes", dtype, *options, "--object", file], capture_output=True, text=True)
                if r.returncode:
                    failures.append(f"{level} {dtype}: not compiled: {r.stderr}")
                    continue
                if "emulated" in r.stderr:
                    failures.append(f"{level} {dtype}: expected no warnings while compiling, got {r.stderr}")
                found = instructions(file)
                counts = {pattern: sum(1 for line in found if re.search(pattern, line)) for pattern in needed + forbidden}
                print(f"{level:<15} {dtype:<20} {len(found):6} instructions  " + "  ".join(f"{pattern}: {count}" for pattern, count in counts.items()))
                if len(found) < 100:
                    failures.append(f"{level} {dtype}: expected a disassembly, got {len(found)} instructions")
                failures += [f"{level} {dtype}: expected {pattern}, found none" for pattern in needed if not counts[pattern]]
                for pattern in forbidden:
                    if counts[pattern]:
                        failures.append(f"{level} {dtype}: expected no {pattern}, got " + next(line for line in found if re.search(pattern, line)))
    print("\n".join(failures))
    return 1 if failures else 0


sys.exit(main())

#!/usr/bin/env python3
"""check_passes.py <generator program> <level> <graph>: `emit --dump-passes` writes what each pass makes of a kernel, be it refused in the end."""
import glob
import os
import re
import subprocess
import sys
import tempfile

PROGRAM, LEVEL, GRAPH = sys.argv[1:]
failures = []


def check(condition, what, got=""):
    if not condition:
        failures.append(f"{what}\n    got: {got}")


def emit(*arguments, level=LEVEL):
    environment = {k: v for k, v in os.environ.items() if k != "ATTUNE_KERNEL_CACHE"}
    return subprocess.run([PROGRAM, "emit", "--target", level, "--graph", GRAPH, "--depths", "64", *arguments], capture_output=True, text=True, timeout=300, env=environment)


with tempfile.TemporaryDirectory() as scratch:
    folder, one, other = (os.path.join(scratch, name) for name in ("passes", "one.o", "other.o"))
    done = emit("--object", one, "--dump-passes", folder)
    check(done.returncode == 0, "emit --dump-passes ends well", done.stderr)
    plain = emit("--object", other)
    check(plain.returncode == 0, "and so it does without", plain.stderr)
    with open(one, "rb") as first, open(other, "rb") as second:
        check(first.read() == second.read(), "objects are the same with the option and without", "others")
    symbols = os.listdir(folder)
    check(len(symbols) == 1 and re.fullmatch(r"attune_[a-z0-9_]+", symbols[0]), "a folder a kernel, by its symbol", symbols)
    files = sorted(os.listdir(os.path.join(folder, symbols[0])))
    names = [re.fullmatch(r"\d\d_(\w+)\.stmt", file)[1] for file in files]
    check([int(file[:2]) for file in files] == list(range(len(files))), "files are numbered in the order of the passes", files)
    check(names[0] == "halide" and names[-1] == "module" and "skip_blocks" in names and "allow_empty_inputs" in names, "files are named by their passes", files)
    texts = {}
    for file, name in zip(files, names):
        with open(os.path.join(folder, symbols[0], file), encoding="utf-8") as opened:
            texts[name] = opened.read()
    check(all(" produce " in " " + text or "for " in text for text in texts.values()), "each is a statement", {k: t[:80] for k, t in texts.items()})
    before = texts[names[names.index("skip_blocks") - 1]]
    check(texts["skip_blocks"] != before, "skip_blocks is seen to change the statement", "the same text before and after it")
    # More shared memory than a device has is found after the passes.
    refused, seen = os.path.join(scratch, "refused.o"), os.path.join(scratch, "seen")
    large = emit("--object", refused, "--dump-passes", seen, "--schedule", '{"query_block": 64, "query_tile": 8, "key_block": 256, "key_tile": 8}', level="opencl")
    check(large.returncode == 1 and "bytes of a GPU's shared memory" in large.stderr and not os.path.exists(refused), "a kernel that a device has no room for is refused", large.stderr)
    files = sorted(os.path.basename(file) for file in glob.glob(os.path.join(seen, "*", "*")))
    check(files and files[0] == "00_halide.stmt" and any("skip_blocks" in file for file in files) and "module" not in files[-1], "and what was seen of it before is written", files)
    broken = emit("--object", one, "--dump-passes", os.path.join(one, "below"))
    check(broken.returncode == 1 and "expected a file that can be written" in broken.stderr, "a folder that cannot be is refused", broken.stderr)

for failure in failures:
    print("FAILED  " + failure)
sys.exit(1 if failures else 0)

#!/usr/bin/env python3
"""check_generator.py <generator program>: what a generator program says about itself, and how it refuses what it cannot do."""
import json, os, re, subprocess, sys, tempfile

PROGRAM = sys.argv[1]
failures = []


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300)


def check(condition, what, got=""):
    if not condition:
        failures.append(f"{what}\n    got: {got}")


def helps():
    for arguments in (["--help"], ["emit", "--help"], ["explain", "--help"]):
        r = run(*arguments)
        check(r.returncode == 0 and "Usage" in r.stdout, f"{' '.join(arguments)} explains and ends well", r.stdout + r.stderr)


def explains():
    text = run("explain", "--depths", "64", "64x32", "--targets", "x86-64-v3")
    check(text.returncode == 0 and "formula" not in text.stderr and "kernels" in text.stdout, "explain prints text", text.stdout + text.stderr)
    variants = json.loads(run("explain", "--json", "--depths", "64", "64x32", "--targets", "x86-64-v3", "x86-64-v4").stdout)
    for v in variants:
        check({"q", "k", "v", "kv_lengths"} <= {i["name"] for i in v["inputs"]}, "explain --json lists the inputs", v)
        check(v["outputs"] and v["formula"], "explain --json lists outputs and the formula", v)
        check(len(v["kernels"]) == 4, "explain --json has a kernel a depth and level", v["kernels"])
        check([k["target"] for k in v["kernels"]] == ["x86-64-v4"] * 2 + ["x86-64-v3"] * 2, "the most demanding level comes first", v["kernels"])
        for k in v["kernels"]:
            check(re.fullmatch(r"attune_[a-z0-9_]+_f32_d64x(64|32)_x86_64_v[34]_[0-9a-f]{16}", k["symbol"]), "symbols follow their grammar", k["symbol"])
            check(0 < k["scratch_bytes_per_thread"] < 1 << 20 and "query_block" in k["schedule"], "scratch and schedule are stated", k)


def refuses():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "kernels.o")
        for arguments, sentence in [
            (["emit"], "expected either --object"),
            (["emit", "--object", file], "expected --target"),
            (["emit", "--object", file, "--target", "x86-64-v9"], 'expected a target among x86-64-v4-bf16, x86-64-v4, x86-64-v3, x86-64-v2, got "x86-64-v9"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--depths", "64y"], 'expected depths as "64" or "64x32"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--depths", "0"], 'expected depths as "64" or "64x32"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--dtypes", "f31"], "expected an element type among f32, bf16, f16"),
            (["emit", "--registry", file, "--targets", "x86-64-v3"], "expected --targets and --header"),
        ]:
            r = run(*arguments)
            check(r.returncode != 0 and sentence in r.stderr, f"{' '.join(arguments)} is refused with `{sentence}`", r.stderr)
            check(not os.path.exists(file), "nothing is written by a refused command")
        nowhere = os.path.join(folder, "no", "such", "folder")
        for arguments in (["--registry", nowhere, "--targets", "x86-64-v3", "--header", "x.hpp"], ["--object", nowhere, "--target", "x86-64-v3", "--depths", "4"]):
            r = run("emit", *arguments)
            check(r.returncode == 1 and "expected a file that can be written" in r.stderr, "a file that cannot be written is refused", r.stderr)


helps()
explains()
refuses()
for failure in failures:
    print("FAILED:", failure)
print("generator program:", "failed" if failures else "all checks passed")
sys.exit(bool(failures))

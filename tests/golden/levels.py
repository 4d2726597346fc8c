#!/usr/bin/env python3
"""tests/golden/levels.py [--levels NAME...] [--part build|run] [--json] [--host FOLDER] [--build FOLDER] [--jobs N]

The golden files on every ISA level, with a NaN among their inputs too: kernels for each are built by the generators of build/default, those for aarch64 run in an emulator. Printed are, for
each level, the largest difference from what the files say, as a part of what they allow, and the largest difference from the first level that ran: of f32, of gradients,
and of bf16 (some groups, whose inputs are rounded: what is allowed is what generators/docs/element_types.md states of a reference on the same numbers). A level that
this machine lacks is left out, and said. `--part build` makes the programs of all levels and runs none; `--part run` runs what was made, on another machine of the same
system with this checkout: no compiler and no generator is needed there. An output that is further off than allowed is a failure, and so is an instruction in a kernel that is beyond its level."""
import argparse, array, json, os, re, shutil, subprocess, sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx", "aarch64"]
CROSS = "aarch64-linux-gnu-"
LACKS_LEVEL = "this CPU lacks instructions of it"


def cached(host):
    """What build/default found."""
    with open(os.path.join(os.path.dirname(host), "CMakeCache.txt"), encoding="utf-8") as file:
        return dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))


def missing(level, how, cache):
    """Why nothing is done for a level here; empty if something can be."""
    native = "aarch64" if os.uname().machine == "aarch64" else "x86-64"
    if level.startswith(native):  # a part alone may be for another CPU: the program knows whether it runs
        return "" if native == "aarch64" or how.part or level in cache.get("ATTUNE_LEVELS_HERE", "").split(";") else LACKS_LEVEL
    if level != "aarch64":
        return "no emulator of that CPU has its instructions"
    lacks = [name for name, part in ((CROSS + "g++", "build"), ("qemu-aarch64", "run")) if how.part in (part, None) and not shutil.which(name)]
    return f"needs {' and '.join(lacks)}" if lacks else ""


def build(level, cache, how):
    folder = os.path.join(how.build, level)
    cross = []
    if level == "aarch64" and os.uname().machine != "aarch64":
        cross = ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={CROSS}g++", f"-DCMAKE_C_COMPILER={CROSS}gcc"]
        cross += [f"-D{name}={cache[name]}" for name in ("Halide_DIR", "HalideHelpers_DIR", "Boost_DIR", "Catch2_DIR", "fmt_DIR", "nlohmann_json_DIR", "CLI11_DIR", "ATTUNE_DLPACK_INCLUDE") if name in cache]
    configure = ["cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DATTUNE_TUNED_FOR=generic", f"-DATTUNE_TARGETS={level}",
                 f"-DATTUNE_HOST_GENERATORS={how.host}", "-DATTUNE_BUILD_EXAMPLES=OFF", *cross]
    configure.append(f"-DATTUNE_GOLDEN_BF16_GROUPS={';'.join(how.bf16)}")
    if how.groups:
        configure.append(f"-DATTUNE_GOLDEN_GROUPS={';'.join(how.groups)}")
    for command in (configure, ["cmake", "--build", folder, "--parallel", str(how.jobs), "--target", "golden_differences"]):
        r = subprocess.run(command, capture_output=True, text=True)
        if r.returncode:
            sys.exit(f"{level}: {' '.join(command)}\n{(r.stdout + r.stderr)[-4000:]}")


def run(level, how):
    """What the program of a level computed; nothing where this CPU lacks the level."""
    program = os.path.join(how.build, level, "bin", "golden_differences")
    if not os.access(program, os.X_OK):
        sys.exit(f"{level}: expected {program}, got none; try --part build")
    values = os.path.join(how.build, f"{level}.f32")
    emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"] if level == "aarch64" and os.uname().machine != "aarch64" else []
    r = subprocess.run([*emulator, program, values], stdout=subprocess.PIPE, text=True)
    if r.returncode == 77:
        return []
    if r.returncode:
        sys.exit(f"{level}: expected {program} to end with 0, got {r.returncode}")
    rows, numbers = [json.loads(line) for line in r.stdout.splitlines()], array.array("f")
    with open(values, "rb") as file:
        numbers.frombytes(file.read())
    at = 0
    for row in rows:
        row["values"] = numbers[at:at + row["count"]]
        at += row["count"]
    return rows


def difference(one, other):
    """The largest of two lists of numbers; equal infinities differ by nothing."""
    return max((abs(a - b) if abs(a - b) == abs(a - b) else float("inf") for a, b in zip(one, other) if a != b and not (a != a and b != b)), default=0.0)


def summary(level, kind, rows, first):
    far = max(rows, key=lambda r: part(r))
    result = {"level": level, "kind": kind, "outputs": len(rows), "failing": [f"{r['file']}: {r['output']}" for r in rows if r["error"] > r["tolerance"]],
              "largest_part_of_tolerance": part(far), "of": f"{far['file']}: {far['output']}", "error": far["error"]}
    if first is not rows:
        apart = max(((difference(a["values"], b["values"]), b) for a, b in zip(first, rows)), key=lambda pair: pair[0])
        result |= {"largest_difference_from_first": apart[0], "there": f"{apart[1]['file']}: {apart[1]['output']}"}
    return result


def part(row):
    return row["error"] / row["tolerance"] if row["tolerance"] else float(row["error"] > 0) * 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", nargs="+", default=LEVELS, choices=LEVELS, metavar="NAME", help=", ".join(LEVELS))
    parser.add_argument("--groups", nargs="+", metavar="GROUP", help="of golden files, as tests/golden/CMakeLists.txt names them; all unless given")
    parser.add_argument("--bf16", nargs="*", default=["plain", "causal", "windows"], metavar="GROUP", help="of those, in bf16 too: plain causal windows unless given")
    parser.add_argument("--part", choices=["build", "run"], help="build makes the programs, run runs those that were made, maybe on another machine; both unless given")
    parser.add_argument("--host", default=os.path.join(SOURCE, "build/default/bin"), help="the folder of the generators")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build/levels"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    how = parser.parse_args()
    cache, report, first = {} if how.part == "run" else cached(how.host), [], None
    os.makedirs(how.build, exist_ok=True)
    for level in how.levels:
        why = missing(level, how, cache)
        if not why:
            print(f"{level} ...", file=sys.stderr, flush=True)
            if how.part != "run":
                build(level, cache, how)
            if how.part == "build":
                continue
            rows = run(level, how)
            why = "" if rows else LACKS_LEVEL
        if why:
            report.append({"level": level, "left_out": why})
        else:
            first = first or rows
            for kind in dict.fromkeys(row["kind"] for row in rows):
                of = [row for row in rows if row["kind"] == kind]
                report.append(summary(level, kind, of, of if first is rows else [row for row in first if row["kind"] == kind]))
        if not how.json:
            print("\n".join(line_of(row) for row in report if row["level"] == level), flush=True)
    if how.part == "build":
        sys.exit(1 if len(report) == len(how.levels) or beyond(how) else 0)
    if how.json:
        print(json.dumps(report, indent=2))
    ran = [row for row in report if "left_out" not in row]
    sys.exit(1 if not ran or any(row["failing"] for row in ran) or (not how.part and beyond(how)) else 0)


def beyond(how):
    """Whether one of the kernels has an instruction beyond its level."""
    check = [sys.executable, os.path.join(SOURCE, "tests/kernels/check_levels.py"), how.build, os.path.join(SOURCE, "runtime/src/base/cpu.cpp")]
    return subprocess.run(check, stdout=sys.stderr if how.json else None).returncode not in (0, 77)


def line_of(row):
    if "left_out" in row:
        return f"{row['level']:<15} left out: {row['left_out']}"
    text = f"{row['level']:<15} {row['kind']:<9} {row['outputs']} outputs, {len(row['failing'])} beyond what is allowed; the furthest {row['largest_part_of_tolerance']:.2f} of it, {row['error']:.2e} ({row['of']})"
    if "there" in row:
        text += f"; from the first level {row['largest_difference_from_first']:.2e} ({row['there']})"
    return "\n    ".join([text, *row["failing"]])


main()

#!/usr/bin/env python3
"""find_faults.py --source FOLDER --build FOLDER [--seed N] [--minutes N] [--only NAME]
What the fuzzer of formulas is worth: kinds of wrong results that attune had, each put back in turn, have to be found from a fixed seed. A fault takes out of the sources what
mends it (tests/mutants/put_back.py). Prints a row for each fault, with the seed that found it and the seconds."""
import argparse, json, os, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../mutants"))
from put_back import Build, Fault  # noqa: E402

# What is found: a name, the kind as it was reported, and (file, what mends it, what was there without).
FAULTS = [
    ("infinity", "-infinity in a tensor of f16 or f8_e5m2 does not mask",
     [("generators/src/expr/loads.cpp", "const Expr masked = lies_as_negative_infinity(declared.element, element, value);", "const Expr masked = is_negative_infinity(value);")]),
    ("nan", "a NaN in a table that a condition reads decides other pairs",
     [("generators/src/block_mask/tile_extrema.cpp", "const auto [least, most] = bounding(x.value, low);", "const auto [least, most] = std::pair(x.value, x.value);")]),
    ("limit", "terms are moved across a comparison with a number near 2^31",
     [("generators/src/analysis/magnitudes.cpp", "const bool wraps = node.kind == kind::integer && is_value[n]", "const bool wraps = false && is_value[n]"),
      ("generators/src/expr/pointwise.cpp", "if (is_passed(is(i)) || (!fits && size[i] > far)) side->value", "if (is_passed(is(i)) || (false && !fits)) side->value")]),
    ("empty", "a tensor without elements is refused for its strides",
     [("runtime/src/call/shape/shape.cpp", "    if (t.empty())\n        return;  // where nothing lies, no stride leads", "    if (t.rank() == 0)\n        return;  // where nothing lies, no stride leads")]),
]


def report(program, *arguments):
    done = subprocess.run([program, "--only", "extreme", "--shrink-minutes", "0", "--json", *arguments], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"expected {program} {' '.join(arguments)} to end with 0 or 1, got {done.returncode} and {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--ninja", default="ninja")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10, help="for each fault, at most")
    parser.add_argument("--only", default="", help="one fault: " + ", ".join(name for name, *_ in FAULTS))
    how = parser.parse_args()
    build, missed = Build(how.source, how.build, how.ninja), []
    for name, kind, changes in FAULTS:
        if how.only not in ("", name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            program, began = Fault(build, folder, changes).program("fuzz_formulas"), time.monotonic()
            got = report(program, "--seed", str(how.seed), "--minutes", str(how.minutes), "--headers", folder, "--first")
            seconds = time.monotonic() - began
            if not got["findings"]:
                missed.append(name)
                print(f"{name:10} {kind}: not found in {got['cases']} cases, {seconds:.0f} s", flush=True)
                continue
            found = got["findings"][0]
            print(f"{name:10} {kind}: seed {found['seed']}, case {got['cases']}, {seconds:.0f} s: {found['kind']}, {found['what'].splitlines()[0][:160]}", flush=True)
            mended = report(os.path.join(how.build, "bin", "fuzz_formulas"), "--seed", str(found["seed"]), "--cases", "1", "--headers", folder)
            if mended["findings"]:
                sys.exit(f"expected seed {found['seed']} to agree without the fault, got {mended['findings'][0]['what']}")
    if missed:
        sys.exit(f"expected every fault to be found, got none for {', '.join(missed)}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What attune costs a user's compiler: seconds for a variant header and a typed call, for forty variants in one file, and for a long formula.

Prints a table, or JSON with --json. Each figure is the best of some runs of `$CXX -std=c++20 -O1 -c`; compare figures of one run only."""
import argparse, json, os, pathlib, subprocess, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDES = ["-I" + str(ROOT / "dsl/include"), "-I" + str(ROOT / "runtime/include")]

CALL = """#include <attune/runtime.hpp>
void call(attune::tensor x) {{
    using namespace my;
{calls}
}}
"""
VARIANT = """    inline constexpr auto variant_{n} = softmax(mask(scores + slopes(h) * (kv_idx - q_idx) * {n}.5, causal && window({n}, kv_idx % {m}))) * v;
"""


def header(variants):
    return "#include <attune/dsl.hpp>\nnamespace my {\nusing namespace attune::dsl;\n" \
           'inline constexpr auto slopes = input<"slopes", f32>(head);\ninline constexpr auto scores = q * t(k) * rsqrt(depth);\n' + variants + "}\n"


def cases():
    run = "    attune::run<variant_{n}>(q = x, k = x, v = x, slopes = x, out = x);\n"
    yield "one variant and its typed call", header(VARIANT.format(n=1, m=7)) + CALL.format(calls=run.format(n=1))
    many = range(1, 41)
    yield "40 variants and their typed calls", header("".join(VARIANT.format(n=n, m=n + 6) for n in many)) + CALL.format(calls="".join(run.format(n=n) for n in many))
    terms = " + ".join(f"slopes(h) * (kv_idx - {n})" for n in range(60))
    yield "a formula of 60 terms and its typed call", header(f"inline constexpr auto variant_1 = softmax(scores + {terms}) * v;\n") + CALL.format(calls=run.format(n=1))
    yield "the headers alone", "#include <attune/runtime.hpp>\n"
    yield "an empty file", "\n"


def seconds(compiler, source, repeats):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "case.cpp")
        file.write_text(source)
        best = float("inf")
        for _ in range(repeats):
            start = time.perf_counter()
            subprocess.run([compiler, "-std=c++20", "-O1", "-c", file, "-o", os.devnull, *INCLUDES], check=True)
            best = min(best, time.perf_counter() - start)
        return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    version = subprocess.run([options.compiler, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    rows = [{"case": name, "seconds": seconds(options.compiler, source, options.repeats)} for name, source in cases()]
    if options.json:
        print(json.dumps({"compiler": version, "cases": rows}, indent=1))
        return
    print(version)
    for row in rows:
        print(f"{row['seconds']:7.2f} s  {row['case']}")


if __name__ == "__main__":
    main()

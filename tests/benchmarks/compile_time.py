#!/usr/bin/env python3
"""What attune costs a user's compiler: seconds for a variant header and a typed call, for a gradient, for forty variants in one file, and for a long formula.

Prints a table, or JSON with --json. Each figure is the least CPU time (user) of some runs of `$CXX -std=c++20 -O1 -c`; compare figures of one run only.
Specialisations of templates are counted by g++ -fstats, instantiations by clang++ -ftime-trace: the same count on every machine.
With --check the command fails where a figure is over its budget, which is meant for g++ 12 on a machine with nothing else to do."""
import argparse, json, os, pathlib, re, resource, subprocess, sys, tempfile

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
    """Name, budget in seconds or None, source."""
    run = "    attune::run<variant_{n}>(q = x, k = x, v = x, slopes = x, out = x);\n"
    yield "one variant and its typed call", 1.0, header(VARIANT.format(n=1, m=7)) + CALL.format(calls=run.format(n=1))
    gradient = header("inline constexpr auto seen = mask(scores + slopes(h) * (kv_idx - q_idx), causal);\n"
                      "inline constexpr auto variant = outputs(out = softmax(seen) * v, lse = log_sum_exp(seen));\n"
                      "inline constexpr auto variant_gradient = gradient(variant);\n")
    call = "    attune::run<variant_gradient>(q = x, k = x, v = x, slopes = x, out = x, lse = x, d(out) = x, d(q) = x, d(k) = x, d(v) = x, d(slopes) = x);\n"
    yield "one gradient and its typed call", 1.3, gradient + CALL.format(calls=call)
    many = range(1, 41)
    yield "40 variants and their typed calls", 4.0, header("".join(VARIANT.format(n=n, m=n + 6) for n in many)) + CALL.format(calls="".join(run.format(n=n) for n in many))
    terms = " + ".join(f"slopes(h) * (kv_idx - {n})" for n in range(60))
    yield "a formula of 60 terms and its typed call", 2.0, header(f"inline constexpr auto variant_1 = softmax(scores + {terms}) * v;\n") + CALL.format(calls=run.format(n=1))
    yield "the headers alone", None, "#include <attune/runtime.hpp>\n"
    yield "an empty file", None, "\n"


def user_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def templates(compile_command, is_clang, folder):
    """How many template specialisations (g++) or instantiations (clang++) the compiler makes."""
    if is_clang:
        subprocess.run([*compile_command, "-o", str(folder / "case.o"), "-ftime-trace", "-ftime-trace-granularity=0"], check=True)
        trace = json.loads((folder / "case.json").read_text())
        return sum(event["name"] in ("InstantiateClass", "InstantiateFunction") for event in trace["traceEvents"])
    said = subprocess.run([*compile_command, "-o", os.devnull, "-fstats"], check=True, capture_output=True, text=True).stderr
    return sum(int(count) for count in re.findall(r"_specializations: size \d+, (\d+) elements", said))


def measure(compiler, is_clang, source, repeats):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "case.cpp").write_text(source)
        command = [compiler, "-std=c++20", "-O1", "-c", str(folder / "case.cpp"), *INCLUDES]
        return {"seconds": min(user_seconds([*command, "-o", os.devnull]) for _ in range(repeats)), "templates": templates(command, is_clang, folder)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="fail where a budget is exceeded")
    options = parser.parse_args()
    version = subprocess.run([options.compiler, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    is_clang = "clang" in version
    rows = [{"case": name, "budget": budget, **measure(options.compiler, is_clang, source, options.repeats)} for name, budget, source in cases()]
    if options.json:
        print(json.dumps({"compiler": version, "cases": rows}, indent=1))
    else:
        print(version)
        for row in rows:
            budget = f"of {row['budget']:.1f} s" if row["budget"] else ""
            print(f"{row['seconds']:7.2f} s {budget:9} {row['templates']:7} templates  {row['case']}")
    return options.check and any(row["budget"] and row["seconds"] > row["budget"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())

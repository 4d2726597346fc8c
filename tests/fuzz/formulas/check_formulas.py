#!/usr/bin/env python3
"""check_formulas.py <fuzz_formulas> agree --seed N (--cases N | --minutes N) [--only KIND]   no finding, and few refusals; a kind that does not exist is refused; headers of findings stay in the folder where it runs
check_formulas.py <fuzz_formulas> find --compile COMMAND --seed N [--shrink-minutes N --most-nodes N]
    a mistake that is put into the kernels is found, and its header compiles"""
import argparse, json, os, re, shlex, subprocess, sys, tempfile


def run(arguments, folder, expected):
    r = subprocess.run([*arguments, "--json", "--headers", folder], stdout=subprocess.PIPE, text=True)
    if r.returncode != expected:
        sys.exit(f"expected {' '.join(arguments)} to end with {expected}, got {r.returncode}")
    return json.loads(r.stdout)


def refuse(program):
    """Of a kind that is never drawn, a fuzzer would look for a case for ever."""
    r = subprocess.run([program, "--cases", "1", "--only", "chosing"], capture_output=True, text=True, timeout=60)
    if r.returncode != 2 or not re.fullmatch(r'expected a kind among graph, choosing, .*, got "chosing"\n', r.stderr):
        sys.exit(f"expected a kind that does not exist to be refused, got {r.returncode} and {r.stderr}")


def agree(program, how, folder):
    refuse(program)
    limit = ["--minutes", how.minutes] if how.minutes else ["--cases", how.cases]
    got = run([program, "--seed", how.seed, "--only", how.only, *limit], folder, 0)
    refused = sum(got["refused"].values())
    print(json.dumps(got, indent=2))
    if got["agreed"] + refused != got["cases"] or refused > got["cases"] / 10:
        sys.exit(f"expected at most a tenth of {got['cases']} cases to be refused by the generators, got {refused}")
    absent = {"graph", "choosing graph", "storing graph", "packed graph", "gradient", "packed gradient", "shard"} - set(got["kinds"])
    if not how.only and got["cases"] >= 100 and absent:
        sys.exit(f"expected cases of every kind, got none of {', '.join(sorted(absent))}")


def find(program, how, folder):
    """A seed whose graph takes a minimum that counts is not far."""
    for seed in range(int(how.seed), int(how.seed) + 40):
        case = [program, "--seed", str(seed), "--cases", "1", "--mistaken"]
        r = subprocess.run([*case, "--json", "--headers", folder, "--shrink-minutes", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if r.returncode == 1 and json.loads(r.stdout)["findings"][0]["kind"] == "wrong":
            break
    else:
        sys.exit("expected a mistake in the kernels to be found in 40 cases, got none")
    got = run([*case, "--shrink-minutes", how.shrink_minutes], folder, 1)["findings"][0]
    with open(got["header"]) as file:
        header = file.read()
    print(header)
    nodes = len(re.findall(r"^inline constexpr auto n\d+ = ", header, re.MULTILINE))
    if how.most_nodes and nodes > int(how.most_nodes):
        sys.exit(f"expected the case to be made smaller, to {how.most_nodes} nodes at most, got {nodes}")
    if not re.search(r"= min\(n\d+, n\d+\)", header):
        sys.exit("expected the mistaken operation in the header, got the above")
    again = [program, *shlex.split(got["again"])[1:], "--mistaken", "--shrink-minutes", "0"]
    if run(again, folder, 1)["findings"][0]["kind"] != got["kind"]:
        sys.exit(f"expected {' '.join(again)} to fail likewise")
    graph = re.search(r"inline constexpr auto (graph_\d+) =", header)[1]
    source = f'#include "{os.path.abspath(got["header"])}"\n#include <attune/dsl/describe.hpp>\nstatic_assert(!attune::dsl::ir_of<fuzzed::{graph}>.nodes.empty());\n'
    compiled = subprocess.run([*shlex.split(how.compile), "-"], input=source, capture_output=True, text=True)
    if compiled.returncode:
        sys.exit(f"expected a header that compiles, got {compiled.stderr[:4000]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("what", choices=["agree", "find"])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--cases", default="4")
    parser.add_argument("--minutes")
    parser.add_argument("--only", default="")
    parser.add_argument("--compile")
    parser.add_argument("--shrink-minutes", default="0")
    parser.add_argument("--most-nodes")
    how = parser.parse_args()
    if how.what == "agree":
        return agree(how.program, how, os.getcwd())
    with tempfile.TemporaryDirectory() as folder:
        find(how.program, how, folder)


main()

#!/usr/bin/env python3
"""mends.py --source FOLDER --build FOLDER [--ninja PROGRAM] [--ctest PROGRAM] [--only NAME], or mends.py --source FOLDER --texts

What the tests of mended faults are worth: kinds of wrong results and silent calls that attune had, each put back in turn (put_back.py), have to fail the test that is
named beside it, which passes without. Prints a row for each, with what the test said first. What needs a package that this build lacks is left out, and says so.
--texts needs no build: what mends each fault has to stand once in its file, and the test cases that are asked have to be there."""
import argparse
import collections
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../fuzz/formulas")]
from find_faults import FAULTS  # noqa: E402
from put_back import Build, Fault, read  # noqa: E402

# The kind as it was reported; what mends it, as in put_back.py; the entry of ctest, what it is asked for beside, and sources of the test that read a changed header.
Mend = collections.namedtuple("Mend", "name kind changes test arguments also", defaults=((),))
ALIASES, CATALOGUE = "dsl/include/attune/dsl/aliases.hpp", "tests/reference/catalogue.tests.cpp"
INDICES, VALUES = "runtime/src/call/indices/indices.cpp", "runtime/src/call/indices/index_values.cpp"
# Of what the fuzzer of formulas has to find, the test that asks for it by name.
ASKED = {"infinity": ("infinities", ["[infinities][types]"]), "nan": ("infinities", ["[infinities][conditions]"]), "limit": ("infinities", ["[infinities][integers]"]),
         "empty": ("runtime", ["strides of a tensor without elements*"])}
# Of a gradient's masked pairs the test of every float type alone finds what is read at each pair.
OF_GRADIENTS = {"infinity": ["*in a tensor of any float type masks a gradient*"]}
MENDS = [
    Mend("index_overflow", "an index leaves 32 bits at a call's lengths and is read elsewhere",
         [(INDICES, "if (may_overflow()) check_overflows();", "if (false && may_overflow()) check_overflows();")],
         "runtime", ["a flat index that leaves 32 bits*"]),
    Mend("flat_tensor", "options::checked takes a flat tensor that is one element too short",
         [(INDICES, "if (all_ ? !find_guards(use) : of_pairs || !is_always(load)) return;", "if (of_pairs || !is_always(load)) return;")],
         "runtime", ["a flat tensor that is one element too short*"]),
    Mend("slots_on_gpu", "a short table over position is taken beside kv_lengths that the host cannot read",
         [("runtime/src/call/shape/shape.cpp", "if (!kv_lengths || kv_lengths->view.where() != memory::host)", "if (!kv_lengths)")],
         "runtime", ["a table over position has an entry for each slot*"]),
    Mend("scalar_gradient", "a scalar that requires a gradient has none, without a word",
         [("runtime/python/attune/torch.py", 'if any(given.get("scalar") for given in library[name].describe()["inputs"]):', "if False:")],
         "python.torch_gradients", []),
    Mend("capped_mask", "the cap of a mask compiles, and masked keys return",
         [("dsl/include/attune/dsl/build.hpp", "constexpr bool returns = list.sound() && masked_pairs_return(list.instructions());",
           "constexpr bool returns = false && masked_pairs_return(list.instructions());")],
         "reject.functions", ["--only", "softcap_of_a_mask"]),
    Mend("lowest_scores", "scores below the lowest number tie with masked pairs",
         [("generators/src/stages/score_tile.cpp", "real = may_leave_f32(f_, f_.core.scores) ?", "real = false && may_leave_f32(f_, f_.core.scores) ?")],
         "infinities", ["[infinities][scores]"]),
    Mend("made_infinity", "-infinity that a formula makes does not mask",
         [("generators/src/analysis/infinities.cpp", "all[n] = counts[n] && may_make_infinity(graph, known, n);",
           "all[n] = false && counts[n] && may_make_infinity(graph, known, n);")],
         "infinities", ["[infinities][scores]"]),
    Mend("least_quotient", "a tile whose integers reach INT_MIN bounds their quotients too low, and its blocks are skipped",
         [("generators/src/expr/interval.cpp", "const Expr lowest = a.lo.type().bits() == 32 ? max(a.lo, -std::numeric_limits<std::int32_t>::max()) : a.lo,",
           "const Expr lowest = a.lo,")],
         "infinities", ["[infinities][integers]"]),
    Mend("infinite_product", "-infinity that a product makes does not mask",
         [("generators/src/analysis/infinities.cpp", "known.terms[number] && known.least[number] < 0 && known.infinite[number];",
           "false && known.terms[number] && known.least[number] < 0 && known.infinite[number];")],
         "infinities", ["[infinities][scores]"]),
    Mend("even_neighbourhood", "an even kernel of natten sees a row and a column too many",
         [("dsl/include/attune/catalogue/natten.hpp", "const auto after = window / 2 + (window % 2 - 1);", "const auto after = window / 2;")],
         "reference", ["a query sees as many neighbours*"], [CATALOGUE]),
    Mend("window_without_limit", "window(-1, -1) hides everything",
         [(ALIASES, "detail::limit_unless(left < 0 || left > farther, left, farther)", "detail::limit_unless(left > farther, left, farther)")],
         "reference", ["a side of a window below 0*"], [CATALOGUE]),
    Mend("cap_of_0", "softcap(0, s) is the mean of the values",
         [(ALIASES, "const auto cap = detail::limit_unless(c == 0, c, 1e30);", "const auto cap = c;")],
         "reference", ["a cap of 0 caps nothing*"], [CATALOGUE]),
    Mend("all_dropped", "dropout(w, 1, seed) is NaN",
         [(ALIASES, "return max(1.0 - as_real(p), 1e-8);", "return 1.0 - as_real(p);"),
          (ALIASES, "return 1.0 - as_real(lift(p < 1 ? p : P{0}));", "return 1.0 - as_real(lift(p));")],
         "reference", ["dropout with probability 1*"], [CATALOGUE]),
    Mend("skipped_place", "a call refuses the place -1 of a store that its condition skips",
         [(VALUES, "if (written.has_condition() && readers(use.load) == 1", "if (false && written.has_condition() && readers(use.load) == 1")],
         "runtime", ["a store's place is looked at*"]),
    Mend("skipped_store", "a kernel stores where the condition does not hold",
         [("generators/src/stages/stored_tensor.cpp", "rows.where(of(written.condition).value);", "")],
         "stores", ["stores to random places of random layouts"]),
    Mend("masked_factor", "a NaN that the weight of a masked pair is multiplied by spreads over rows",
         [("generators/src/stages/score_tile.cpp", "return node == f_.core.statistic_node || f_.request.finite ? made", "return true || f_.request.finite ? made")], "infinities", ["[infinities][factors]"]),
    Mend("lost_maximum", "the largest score of a row beside unnormalized weights loses a NaN",
         [("generators/src/stages/softmax_state.cpp", "return is_softmax(core) ? max(a, b)", "return has_weights(core) ? max(a, b)")],
         "generators", ["a NaN that a row sees is its maximum*"]),
    *(Mend(name, kind, changes, *ASKED[name]) for name, kind, changes in FAULTS),
    *(Mend(f"gradient_{name}", kind, changes, "infinities", OF_GRADIENTS.get(name, ["[gradients]"])) for name, kind, changes in FAULTS if name != "empty"),
]


def tests_of(ctest, build):
    """Of each entry its command and its environment."""
    said = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
    found = {}
    for each in json.loads(said)["tests"]:
        properties = {one["name"]: one["value"] for one in each.get("properties", [])}
        skipped = "SKIP_REGULAR_EXPRESSION" in properties and "skipped: " in " ".join(each.get("command", []))  # for want of a package
        found[each["name"]] = [] if skipped else each.get("command", []), dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
    return found


def run(command, environment):
    try:
        done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=900)
    except subprocess.TimeoutExpired:
        sys.exit(f"expected an end of {' '.join(command)} within 900 s, got none, which says nothing of the fault; try a machine that does less beside")
    return done.returncode, done.stdout


def check_texts(source):
    """Ends where a fault could not be put back, or where the test case that is asked is not there."""
    wrong, cases = [], []
    for folder, _, names in os.walk(os.path.join(source, "tests")):
        for name in names:
            if os.path.basename(folder) == "reject" and name.endswith(".cpp"):
                cases += [(case, "") for case in re.findall(r"^// --- (\w+)$", read(os.path.join(folder, name)), re.M)]
            elif name.endswith(".tests.cpp"):
                cases += re.findall(r'TEST_CASE\(\s*"([^"]*)"(?:\s*"[^"]*")*(?:,\s*"([^"]*)")?\)', read(os.path.join(folder, name)))
    for mend in MENDS:
        for name, mended, _ in mend.changes:
            if (count := read(os.path.join(source, name)).count(mended)) != 1:
                wrong.append(f"{mend.name}: expected {mended!r} once in {name}, got it {count} times")
        for asked in mend.arguments[-1:]:
            tags = re.findall(r"\[[^]]*\]", asked)
            found = [1 for called, tagged in cases if (all(tag in tagged for tag in tags) if tags else fnmatch.fnmatchcase(called, asked))]
            if not found:
                wrong.append(f"{mend.name}: expected a test case {asked} in tests, got none")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(MENDS)} faults can be put back")


def first_failure(said):
    """The first line of a test's output that says what is wrong."""
    lines = [line.strip() for line in said.splitlines()]
    wrong = [line for line in lines if re.search(r"FAILED|Error|expected|CHECK", line)]
    return next((line for line in wrong if not line.endswith("FAILED:")), (wrong or lines or [""])[-1])[:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", default="")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--ninja", default="ninja")
    parser.add_argument("--ctest", default="ctest")
    parser.add_argument("--only", default="", help="one of " + ", ".join(each.name for each in MENDS))
    how = parser.parse_args()
    if how.texts:
        return check_texts(how.source)
    if not how.build:
        parser.error("expected --build with a build folder, got none; try --texts, which needs none")
    how.source, how.build = os.path.abspath(how.source), os.path.abspath(how.build)  # as ctest and compile commands name them
    build, tests, missed = Build(how.source, how.build, how.ninja), tests_of(how.ctest, how.build), []
    for mend in MENDS:
        if how.only not in ("", mend.name):
            continue
        command, environment = tests.get(mend.test, ([], {}))
        if not command:
            print(f"{mend.name:22}{mend.kind}: left out, this build has no test {mend.test}", flush=True)
            continue
        if "--headers" in command:  # what was compiled before the fault
            at = command.index("--headers")
            command = command[:at] + command[at + 2:]
        began = time.monotonic()
        status, said = run(command + mend.arguments, environment)
        if status != 0:
            sys.exit(f"expected {mend.test} to pass without the fault {mend.name}, got {status}:\n{said}")
        with tempfile.TemporaryDirectory() as work:
            fault = Fault(build, work, mend.changes)
            program = os.path.basename(command[0])
            if os.path.join(how.build, "bin", program) == command[0]:
                command = [fault.program(program, mend.also), *command[1:]]
            status, said = run([fault.redirected(word) for word in command] + mend.arguments, environment)
        if status == 0:
            missed.append(mend.name)
        print(f"{mend.name:22}{mend.kind}: {mend.test} {'PASSES with the fault' if status == 0 else 'fails'}, {time.monotonic() - began:.0f} s: {first_failure(said)}", flush=True)
    if missed:
        sys.exit(f"expected a test to fail for every fault, got none for {', '.join(missed)}")


if __name__ == "__main__":
    main()

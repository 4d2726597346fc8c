#!/usr/bin/env python3
"""What ./tests/run says in the end: the minutes that each room took, and in CI (--strict) which tests were skipped, or are not there, for want of what set-up
installs; then the exit status is 1.

usage: report.py RESULTS.xml TESTS.json [--ninja-log FILE --since SECONDS] [--minutes "NAME SECONDS ..."] [--strict]
RESULTS.xml is ctest's own (--output-junit), TESTS.json what it knows of every test (--show-only=json-v1). A room is a folder of the sources; building is counted
from ninja's log, of what was built at SECONDS (since 1970) or later.
"""
import argparse
import collections
import json
import os
import re
import sys
import xml.etree.ElementTree

import skips

# What a test that passed says of a part that it left out: a script's line, Catch2's summary.
LEFT_OUT = re.compile(r"^(skipped: .*|test cases: .*\b[1-9]\d* skipped\b.*)$", re.MULTILINE)


def results_of(file):
    """Of each test that ctest chose: its seconds, and why it was skipped in whole or in part, if it was."""
    found = {}
    for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
        said = case.findtext("system-out") or ""
        part, skipped = LEFT_OUT.search(said), case.find("skipped")
        why = None
        if skipped is not None or case.get("status") in ("notrun", "disabled"):
            why = part.group(1) if part else said.strip().split("\n")[-1] or case.get("status")
        elif case.get("status") == "run" and part:
            why = part.group(1)
        found[case.get("name")] = (float(case.get("time") or 0), why)
    return found


def complaints(results, there, cured=None, allowed=None):
    """A sentence each: the tests that were skipped or are not there, and the packages that they want."""
    cured, allowed = skips.CURED if cured is None else cured, skips.ALLOWED if allowed is None else allowed
    sentences, told = [], set(allowed)
    for packages, tests in cured.items():
        skipped = [name for name in tests if name in results and results[name][1]]
        absent = [name for name in tests if name not in there]
        told.update(tests)
        if skipped:
            sentences.append(f"skipped for want of {packages}, which set-up installs: {', '.join(skipped)} ({results[skipped[0]][1]})")
        if absent:
            sentences.append(f"not registered for want of {packages}, which set-up installs: {', '.join(absent)}")
    for name, (_, why) in results.items():
        if why and name not in told:
            sentences.append(f"skipped for a reason that tests/support/skips.py does not know: {name} ({why})")
    return sentences


def room_of(path):
    """The folder of the sources that something below the build folder belongs to, two levels deep at most."""
    parts = []
    for part in path.split("/")[:-1]:
        if part == "CMakeFiles" or part.endswith("_kernels") or part == "..":
            break
        parts.append(part)
    return "/".join(parts[:2]) or "the root"


def seconds_built(log, since):
    """Of each room, from ninja's log: a line an output, with its start and end in milliseconds, the time in nanoseconds and the command's hash."""
    build, steps = os.path.dirname(os.path.abspath(log)) + "/", {}
    with open(log, encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if len(fields) == 5 and int(fields[2]) >= since * 1_000_000_000:
                steps[fields[0], fields[1], fields[4]] = fields[3].removeprefix(build)  # once, whatever its outputs
    rooms = collections.Counter()
    for (start, end, _), output in steps.items():
        rooms["linking" if output.startswith("bin/") else room_of(output)] += (int(end) - int(start)) / 1000
    return rooms


def seconds_tested(results, tests):
    folders = {}
    for test in tests:
        folders[test["name"]] = next((each["value"] for each in test.get("properties", []) if each["name"] == "WORKING_DIRECTORY"), "")
    build = os.path.commonpath([folder for folder in folders.values() if folder] or [""])
    rooms = collections.Counter()
    for name, (seconds, _) in results.items():
        rooms[room_of(os.path.relpath(folders.get(name) or build, build or ".") + "/")] += seconds
    return rooms


def table(built, tested):
    """A line a room, those that took longest first; what took less than six seconds is summed."""
    lines, rest = [f"{'minutes of one core':<28}{'building':>9}{'tests':>9}"], [0.0, 0.0]
    for room in sorted(built.keys() | tested.keys(), key=lambda room: -built[room] - tested[room]):
        if built[room] + tested[room] < 6:
            rest = [rest[0] + built[room], rest[1] + tested[room]]
        else:
            lines.append(f"{room:<28}{built[room] / 60:9.1f}{tested[room] / 60:9.1f}")
    if sum(rest):
        lines.append(f"{'others':<28}{rest[0] / 60:9.1f}{rest[1] / 60:9.1f}")
    return lines


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("tests")
    parser.add_argument("--ninja-log")
    parser.add_argument("--since", type=int, default=0)
    parser.add_argument("--minutes", default="")
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args(arguments)
    if not os.path.exists(given.results):
        if not given.strict:  # as with -N
            return 0
        print(f"expected ctest's results in {given.results}, got none", file=sys.stderr)
        return 1
    results = results_of(given.results)
    with open(given.tests, encoding="utf-8") as file:
        tests = json.load(file)["tests"]

    built = seconds_built(given.ninja_log, given.since) if given.ninja_log and os.path.exists(given.ninja_log) else collections.Counter()
    print("\n" + "\n".join(table(built, seconds_tested(results, tests))))
    words = given.minutes.split()
    print("by the clock: " + ", ".join(f"{name} {int(seconds) / 60:.1f}" for name, seconds in zip(words[::2], words[1::2])))
    if not given.strict:
        return 0
    wrong = complaints(results, {test["name"] for test in tests})
    for sentence in wrong:
        print("FAILED  " + sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

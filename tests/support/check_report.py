#!/usr/bin/env python3
"""check_report.py SOURCE [--ctest PROGRAM --build FOLDER]: report.py on results of ctest that are written here; and, with a build of everything, that skips.py knows
every test that can be skipped and no other, and that set-up names every package of its."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import report
import skips

wrong = []


def check(condition, sentence):
    if not condition:
        wrong.append(sentence)


def case(name, seconds, status="run", skipped="", said=""):
    inner = f'<skipped message="{skipped}"/>' if skipped else ""
    return f'<testcase name="{name}" time="{seconds}" status="{status}">{inner}<system-out>{said}</system-out></testcase>'


def said_of(cases, log="", strict=True, absent=()):
    """Exit status and output of report.py, where these tests were run and all but `absent` are registered."""
    with tempfile.TemporaryDirectory() as folder:
        results, tests, ninja = (os.path.join(folder, name) for name in ("results.xml", "tests.json", "log"))
        pathlib.Path(results).write_text(f'<?xml version="1.0"?><testsuite>{"".join(cases)}</testsuite>', encoding="utf-8")
        known = {name: "tests/elsewhere" for names in skips.CURED.values() for name in names} | {"long": "tests/golden", "short": "tests/golden", "plain": "examples", "python.torch": "tests/c"}
        there = [{"name": name, "properties": [{"name": "WORKING_DIRECTORY", "value": f"{folder}/{at}"}]} for name, at in known.items() if name not in absent]
        pathlib.Path(tests).write_text(json.dumps({"tests": there}), encoding="utf-8")
        pathlib.Path(ninja).write_text(log.replace("FOLDER", folder), encoding="utf-8")
        done = subprocess.run([sys.executable, report.__file__, results, tests, "--ninja-log", ninja, "--since", "1000", "--minutes", "set-up 30 tests 90", *["--strict"] * strict],
                              capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr


def expect(what, status, cases, *sentences, **how):
    got, out, err = said_of(cases, **how)
    check(got == status, f"{what}: expected exit status {status}, got {got}: {out}{err}")
    for sentence in sentences:
        check(sentence in err, f"{what}: expected `{sentence}`, got {err}")
    check(bool(err) == bool(sentences), f"{what}: expected {len(sentences)} sentences, got {err}")


def minutes():
    log = "# ninja log v5\n" + "".join(f"{line}\n" for line in (
        "0\t60000\t1000000000001\tgenerators/CMakeFiles/a.dir/src/a.cpp.o\t1",
        "0\t60000\t999999999999\tgenerators/CMakeFiles/a.dir/src/old.cpp.o\t2",
        "0\t90000\t1000000000001\ttests/golden/some_kernels/some.o\t3",  # a step of two names is counted once
        "0\t90000\t1000000000001\tFOLDER/tests/golden/some_kernels/some.o\t3",
        "5\t12005\t1000000000001\tbin/program\t4",
        "5\t1005\t1000000000001\tdsl/little.o\t5"))
    status, out, _ = said_of([case("long", 100), case("short", 20), case("plain", 30)], log)
    check(status == 0, f"expected exit status 0, got {status}")
    rows = {line[:28].strip(): line[28:].split() for line in out.strip().split("\n")}
    for room, expected in {"tests/golden": ["1.5", "2.0"], "generators": ["1.0", "0.0"], "examples": ["0.0", "0.5"], "linking": ["0.2", "0.0"], "others": ["0.0", "0.0"]}.items():
        check(rows.get(room) == expected, f"expected {room} {expected}, got {out}")
    check(out.rstrip().endswith("by the clock: set-up 0.5, tests 1.5"), f"expected the minutes by the clock, got {out}")


def complaints():
    passed = case("long", 1)
    skipped = case("opencl", 0, "notrun", "SKIP_RETURN_CODE=4", "no OpenCL device here")
    expect("nothing skipped", 0, [passed])
    expect("skipped, outside CI", 0, [passed, skipped], strict=False)
    expect("skipped", 1, [passed, skipped], "skipped for want of ocl-icd-libopencl1 and pocl-opencl-icd, which set-up installs: opencl (no OpenCL device here)")
    expect("two skipped for want of the same", 1, [skipped, case("tune_opencl", 0, "notrun", "SKIP_RETURN_CODE=77")], "which set-up installs: opencl, tune_opencl (")
    expect("skipped in part, by Catch2", 1, [case("short_calls", 1, said="test cases: 4 | 3 passed | 1 skipped\nassertions: 20 | 20 passed\n")], "installs: short_calls (test cases")
    expect("nothing skipped, by Catch2", 0, [case("short_calls", 1, said="test cases: 4 | 4 passed\nassertions: 20 | 20 passed\n")])
    expect("skipped in part, by a script", 1, [case("install.kernels", 1, said="$ cmake\nskipped: no pkg-config here\nran\n")], "want of pkg-config, which set-up installs: install.kernels (skipped: no")
    expect("a part of a line", 0, [case("long", 1, said="2 blocks were skipped: causal\n")])
    expect("allowed", 0, [case("python.torch", 0, "notrun", "SKIP_REGULAR_EXPRESSION_MATCHED", "skipped: needs PyTorch")])
    expect("unknown", 1, [case("short", 0, "notrun", "SKIP_RETURN_CODE=4", "no such device")], "a reason that tests/support/skips.py does not know: short (no such device)")
    expect("not run", 1, [case("opencl", 0, "notrun")], "which set-up installs: opencl (notrun)")
    expect("disabled", 1, [case("short", 0, "disabled")], "does not know: short (")
    expect("not registered", 1, [passed], "not registered for want of g++-aarch64-linux-gnu and qemu-user, which set-up installs: install.cross", absent=["install.cross"])
    expect("two wants", 1, [skipped], "pocl-opencl-icd", "not registered", absent=["cuda"])
    with tempfile.TemporaryDirectory() as folder:
        nothing = os.path.join(folder, "nothing")
        check(report.main([nothing, nothing]) == 0 and report.main([nothing, nothing, "--strict"]) == 1, "expected no results to be a failure in CI alone")


def table_of_skips(source, ctest, build):
    names = {name for tests in skips.CURED.values() for name in tests}
    check(not names & skips.ALLOWED.keys(), f"expected each test in one of the tables, got {names & skips.ALLOWED.keys()} in both")
    setup = (pathlib.Path(source) / ".setup/setup.sh").read_text(encoding="utf-8")
    for packages in skips.CURED:
        for package in packages.removesuffix(" (Python)").split(" and "):
            check(package in setup or package in ("binutils", "dpkg"), f"expected .setup/setup.sh to install {package}")  # those come with the compiler and with apt
    if not ctest:
        return
    shown = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    tests = {test["name"]: {each["name"] for each in test["properties"]} for test in json.loads(shown.stdout)["tests"]}
    can = {name for name, properties in tests.items() if properties & {"SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION", "DISABLED"}}
    check(can <= names | skips.ALLOWED.keys(), f"expected tests/support/skips.py to know all tests that can be skipped, got none of {sorted(can - names - skips.ALLOWED.keys())}")
    check(names | skips.ALLOWED.keys() <= tests.keys(), f"expected tests/support/skips.py to name tests, got {sorted((names | skips.ALLOWED.keys()) - tests.keys())}")


def weekly(source):
    """What runs once a week is every slice."""
    there = re.search(r'^slices="(.*?)"', (pathlib.Path(source) / "tests/slices.sh").read_text(encoding="utf-8"), re.MULTILINE)[1].split()
    run = re.search(r"slice: \[(.*?)\]", (pathlib.Path(source) / ".github/workflows/weekly.yml").read_text(encoding="utf-8"))[1].split(", ")
    check(run == there, f"expected weekly.yml to run the slices of tests/slices.sh, {there}, got {run}")


parser = argparse.ArgumentParser()
parser.add_argument("source")
parser.add_argument("--ctest")
parser.add_argument("--build")
given = parser.parse_args()
minutes()
complaints()
table_of_skips(given.source, given.ctest, given.build)
weekly(given.source)
print("\n".join(wrong) or "as expected")
sys.exit(1 if wrong else 0)

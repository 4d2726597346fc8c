#!/usr/bin/env python3
"""tests/mutants/run.py [--list] [--only TEXT] [--json FILE] [--build FOLDER] [--jobs N]

What the tests of the runtime's refusals are worth: each refusal is removed or made weaker in turn, and a test has to fail. All mutants are compiled
at once into a copy of the sources (rewrite.py), and the environment says which one lives, so that one costs only the test cases that meet it.

A mutant that lives is written down in survivors.txt with the reason why it may. One that is not there, or a line there that is not needed, is a failure."""
import argparse, concurrent.futures, json, os, re, shutil, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
SURVIVORS = os.path.join(HERE, "survivors.txt")
LEAST_KILLED = 0.95
# Tests that call the runtime with what it refuses, by ctest's names, and the targets that they need.
TESTS = {"runtime": "runtime_tests", "runtime.unknown_limit": "runtime_tests", "kernels": "kernels_tests", "c_api_common": "c_api_common", "c_caches": "c_caches",
         "opencl": "opencl_tests", "opencl_c_api": "opencl_c_api", "cuda_calls.driver": "cuda_calls_tests", "cuda_calls.none": "cuda_calls_tests"}
LONGEST = 10  # seconds of a test case, and twenty times what it takes where no mutant lives


sys.path.insert(0, HERE)
from rewrite import rewrite


def mutated_files(folder):
    """The copy of the sources, what is unchanged untouched in time, so that only that is compiled anew."""
    tracked = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, capture_output=True, check=True).stdout.decode().split("\0")
    mutants, wanted = [], {os.path.join(folder, "runtime/src/mutants.hpp")}
    write(os.path.join(folder, "runtime/src/mutants.hpp"), read(os.path.join(HERE, "mutants.hpp")))
    for name in sorted(filter(None, tracked)):
        path = os.path.join(SOURCE, name)
        if not os.path.isfile(path):
            continue
        to = os.path.join(folder, name)
        wanted.add(to)
        if re.match(r"runtime/src/.*\.(cpp|hpp)$", name) and name != "runtime/src/base/text.cpp":
            text, made = rewrite(name, read(path), len(mutants))
            mutants += made
            write(to, text)
        else:
            os.makedirs(os.path.dirname(to), exist_ok=True)
            if not os.path.exists(to) or os.path.getmtime(to) != os.path.getmtime(path):
                shutil.copy2(path, to)
    for base, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in ("build", ".git")]
        for file in files:
            if os.path.join(base, file) not in wanted:
                os.remove(os.path.join(base, file))
    return mutants


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path) or read(path) != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def build(folder, how):
    venv = os.path.join(folder, "build/venv")  # what set-up installed
    os.makedirs(os.path.dirname(venv), exist_ok=True)
    if not os.path.lexists(venv) and os.path.exists(os.path.join(SOURCE, "build/venv")):
        os.symlink(os.path.realpath(os.path.join(SOURCE, "build/venv")), venv)
    binary = os.path.join(folder, "build/default")  # as it lies in a clone, which a compiler cache knows
    subprocess.run(["cmake", "-S", folder, "-B", binary, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DATTUNE_TUNED_FOR=generic", "-DATTUNE_BUILD_EXAMPLES=OFF"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", binary, "--parallel", str(how.jobs), "--target", *sorted(set(TESTS.values()))], check=True, stdout=None if how.verbose else subprocess.DEVNULL)
    return binary


class test_case:
    def __init__(self, name, command, environment):
        self.name, self.command, self.environment, self.surveyed, self.reached = name, command, environment, 0, set()

    def run(self, **more):
        """How it ended; None if it took too long."""
        try:
            r = subprocess.run(self.command, env={**os.environ, **self.environment, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LONGEST + 20 * self.surveyed if self.surveyed else 600)
        except subprocess.TimeoutExpired:
            return None
        return r.returncode


def environment_of(test):
    made = {}
    for p in test.get("properties", []):
        if p["name"] == "ENVIRONMENT":
            made.update(dict(v.split("=", 1) for v in p["value"]))
        if p["name"] == "ENVIRONMENT_MODIFICATION":
            for v in p["value"]:
                name, rest = v.split("=", 1)
                made[name] = rest.split(":", 1)[1] + ":" + os.environ.get(name, "")
    return made


def test_cases(binary):
    """One a Catch2 test case; programs without them whole."""
    listed = json.loads(subprocess.run(["ctest", "--test-dir", binary, "--show-only=json-v1"], capture_output=True, check=True).stdout)["tests"]
    cases = []
    for test in listed:
        if test["name"] not in TESTS:
            continue
        command, environment = test["command"], environment_of(test)
        if not command[0].endswith("_tests"):
            cases.append(test_case(test["name"], command, environment))
            continue
        filters = [a for a in command[1:] if a.startswith("[")]
        names = subprocess.run([command[0], "--list-tests", "--verbosity", "quiet", *filters], env={**os.environ, **environment}, capture_output=True, text=True, check=True).stdout
        for name in filter(None, map(str.strip, names.splitlines())):
            escaped = re.sub(r"([,\[\]\\])", r"\\\1", name)
            cases.append(test_case(f"{test['name']}: {name}", [command[0], escaped], environment))
    return cases


def survey(cases, folder):
    """Which mutants each test case meets, and how long it takes."""
    path = os.path.join(folder, "build/reached")
    for case in list(cases):
        if os.path.exists(path):
            os.remove(path)
        began = time.monotonic()
        ended = case.run(ATTUNE_MUTANTS_REACHED=path)
        case.surveyed = time.monotonic() - began
        if ended == 4:  # Catch2: skipped, for want of a device
            cases.remove(case)
            continue
        if ended != 0:
            sys.exit(f"expected {case.name} to pass where no mutant lives, got {ended}")
        if os.path.exists(path):
            case.reached = {int(line) for line in read(path).split()}


def killer(mutant, cases, budget):
    """The name of a test case that fails where the mutant lives. The shortest are asked first, until their time is used up: what takes long judges numbers."""
    for case in sorted((c for c in cases if mutant["number"] in c.reached), key=lambda c: c.surveyed):
        budget -= case.surveyed
        if budget < 0:
            return None
        if case.run(ATTUNE_MUTANT=str(mutant["number"])) != 0:
            return case.name
    return None


def identity(mutant):
    """What a mutant is called from one commit to the next: no line, no number."""
    return f"{mutant['file']} | {mutant['of']} | {mutant['what']}"


def known_survivors():
    known = {}
    for line in read(SURVIVORS).splitlines():
        if line and not line.startswith("#"):
            reason, _, name = line.partition(" :: ")
            known[name] = reason
    return known


def progress(done, of, killed, began):
    end = "\r" if sys.stderr.isatty() else "\n"
    if end == "\r" or done % 50 == 0 or done == of:
        print(f"{done} of {of} mutants, {killed} killed, {time.monotonic() - began:.0f} s", end=end, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="say what the mutants are, and run nothing")
    parser.add_argument("--only", default="", help="those whose file or condition has this text")
    parser.add_argument("--json", help="write what became of each")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build/mutants"), help="where the copy and its build lie")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=20, help="seconds of test cases that a mutant costs at most")
    parser.add_argument("--verbose", action="store_true", help="show the build")
    how = parser.parse_args()
    mutants = mutated_files(how.build)
    if how.list:
        for m in mutants:
            print(f"{m['number']:4} {m['file']}:{m['line']}  {m['what']}  of  {m['of']}")
        return
    binary = build(how.build, how)
    cases = test_cases(binary)
    survey(cases, how.build)
    wanted = [m for m in mutants if how.only in identity(m)]
    began, killed = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(how.jobs) as pool:
        for done, (m, by) in enumerate(zip(wanted, pool.map(lambda m: killer(m, cases, how.budget), wanted)), 1):
            m["met_by"] = sum(m["number"] in c.reached for c in cases)
            m["killed_by"] = by
            killed += by is not None
            progress(done, len(wanted), killed, began)
    if how.json:
        write(how.json, json.dumps(wanted, indent=1))
    sys.exit(verdict(wanted, killed, len(cases), partial=bool(how.only)))


def verdict(mutants, killed, cases, partial):
    known, alive = known_survivors(), [m for m in mutants if m["killed_by"] is None]
    names = {identity(m) for m in alive}
    failed = 0
    for m in alive:
        reason = known.get(identity(m))
        if reason is None:
            failed = 1
            print(f"lives: {m['file']}:{m['line']}, met by {m['met_by']} test cases\n    {identity(m)}")
    for name in ([] if partial else sorted(set(known) - names)):
        failed = 1
        print(f"expected in survivors.txt what lives, got one that is killed or gone: {name}")
    part = killed / max(len(mutants), 1)
    print(f"{killed} of {len(mutants)} mutants killed ({100 * part:.1f} %) by {cases} test cases; {len(alive)} live, {sum(identity(m) in known for m in alive)} of them with a reason")
    if part < LEAST_KILLED and not partial:
        failed = 1
        print(f"expected at least {100 * LEAST_KILLED:.0f} % to be killed")
    return failed


if __name__ == "__main__":
    main()

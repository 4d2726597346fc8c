#!/usr/bin/env python3
"""tests/mutants/run.py [--list] [--only TEXT] [--json FILE] [--build FOLDER] [--jobs N] [--budget SECONDS] [--torch PYTHON] [--jax PYTHON] [--verbose]

What the tests of the runtime's refusals are worth, of calls over ranks, and of its doors' to Python, PyTorch and JAX: each refusal is removed or made weaker in turn, and
a test has to fail. All mutants are compiled at once into a copy of the sources (rewrite.py, rewrite_python.py), and the environment says which one lives, so that one costs only
the test cases that meet it. What is found is written down at once: a run that was interrupted goes on, and one of other sources asks first who killed a mutant before.

A mutant that lives is written down in survivors.txt with the reason why it may. One that is not there, or a line there that is not needed, is a failure."""
import argparse, concurrent.futures, fcntl, hashlib, json, os, re, shutil, signal, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
SURVIVORS = os.path.join(HERE, "survivors.txt")
LEAST_KILLED = 0.95
# Tests that call the runtime with what it refuses, by ctest's names, and the targets that they need.
TESTS = {"runtime": "runtime_tests", "runtime.unknown_limit": "runtime_tests", "runtime.unknown_model": "runtime_tests", "kernels": "kernels_tests", "c_api_common": "c_api_common", "c_caches": "c_caches",
         "opencl": "opencl_tests", "opencl_c_api": "opencl_c_api", "cuda_calls.driver": "cuda_calls_tests", "cuda_calls.none": "cuda_calls_tests",
         "gradients": "gradients_tests", "python.refusals": "attune_common_shared", "ranks": "ranks_tests", "exchange": "exchange_tests"}
# Doors that not every machine has: their files, and their tests in the same way.
DOORS = {"torch": (r"runtime/(torch/|python/attune/torch\.py)", {"python.torch_refusals": "attune_torch_tests"}),
         "jax": (r"runtime/(jax/|python/attune/jax\.py)", {"python.jax_refusals": "attune_jax_tests"}),
         "mpi": (r"runtime/mpi/src/c(_arguments)?\.", {"mpi.c": "c_ranks"})}
LONGEST = 10  # seconds of a test case, and twenty times what it takes where no mutant lives: the machine may be busy


sys.path.insert(0, HERE)
import rewrite, rewrite_python

# What is mutated, in this order, and what the mutants ask.
MUTATED = [(r"runtime/src/(?!base/text\.cpp).*\.(cpp|hpp)$", rewrite), (r"runtime/mpi/src/(?!mpi_transport).*\.(cpp|hpp)$", rewrite), (r"runtime/(mpi/)?include/.*\.hpp$", rewrite), (r"runtime/(torch|jax)/.*\.hpp$", rewrite), (r"runtime/python/attune/.*\.py$", rewrite_python)]
ASKED = {"mutants.hpp": rewrite.HEADER, "mutants.py": "runtime/python/attune/_mutants.py"}


def kind_of(name):
    return next((i for i, (pattern, _) in enumerate(MUTATED) if re.match(pattern, name)), len(MUTATED))


def mutated_files(folder):
    """The copy of the sources, what is unchanged untouched in time, so that only that is compiled anew; and what distinguishes it from others."""
    tracked = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, capture_output=True, check=True).stdout.decode().split("\0")
    mutants, wanted, seen = [], {os.path.join(folder, to) for to in ASKED.values()}, hashlib.sha256()
    for name, to in ASKED.items():
        write(os.path.join(folder, to), read(os.path.join(HERE, name)))
    for name in sorted(filter(None, tracked), key=lambda name: (kind_of(name), name)):
        path = os.path.join(SOURCE, name)
        if not os.path.isfile(path):
            continue
        to = os.path.join(folder, name)
        wanted.add(to)
        if name != os.path.relpath(SURVIVORS, SOURCE):
            with open(path, "rb") as file:
                seen.update(f"{name} {hashlib.sha256(file.read()).hexdigest()} ".encode())
        if (kind := kind_of(name)) < len(MUTATED):
            text, made = MUTATED[kind][1].rewrite(name, read(path), len(mutants))
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
    return mutants, seen.hexdigest()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def doors_of(how):
    """The Pythons, and the compiler for MPI, by which doors open here."""
    return {door: python for door in DOORS if os.path.exists(python := getattr(how, door))}


def tests_of(how):
    tests = dict(TESTS)
    for door in doors_of(how):
        tests |= DOORS[door][1]
    return tests


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
    subprocess.run(["cmake", "-S", folder, "-B", binary, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DATTUNE_TUNED_FOR=generic", "-DATTUNE_BUILD_EXAMPLES=OFF",
                    *(f"-DATTUNE_{door.upper()}_PYTHON={python}" for door, python in doors_of(how).items() if door != "mpi")], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", binary, "--parallel", str(how.jobs), "--target", *sorted(set(tests_of(how).values()))], check=True, stdout=None if how.verbose else subprocess.DEVNULL)
    return binary


class test_case:
    def __init__(self, name, command, environment):
        self.name, self.command, self.environment, self.reached = name, command, environment, set()
        self.surveyed, self.work = 0, 0  # seconds where no mutant lives, and those of a CPU, which a busy machine does not make more

    def run(self, **more):
        """How it ended; None if it took too long."""
        with subprocess.Popen(self.command, env={**os.environ, **self.environment, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                return process.wait(LONGEST + 20 * self.surveyed if self.surveyed else 600)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # and what it started
                return None


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


def test_cases(binary, tests):
    """One a Catch2 test case; programs without them whole."""
    listed = json.loads(subprocess.run(["ctest", "--test-dir", binary, "--show-only=json-v1"], capture_output=True, check=True).stdout)["tests"]
    cases = []
    for test in listed:
        if test["name"] not in tests:
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


def work_of_children():
    used = os.times()
    return used.children_user + used.children_system


def survey(cases, folder):
    """Which mutants each test case meets, and how long it takes."""
    path = os.path.join(folder, "build/reached")
    for case in list(cases):
        if os.path.exists(path):
            os.remove(path)
        began, worked = time.monotonic(), work_of_children()
        ended = case.run(ATTUNE_MUTANTS_REACHED=path)
        case.surveyed, case.work = time.monotonic() - began, work_of_children() - worked
        if ended == 4:  # Catch2: skipped, for want of a device
            cases.remove(case)
            continue
        if ended != 0:
            sys.exit(f"expected {case.name} to pass where no mutant lives, got {ended}")
        if os.path.exists(path):
            case.reached = {int(line) for line in read(path).split()}


def killer(mutant, cases, budget, before):
    """The name of a test case that fails where the mutant lives. Who killed it before is asked first, then the shortest, until their time is used up: what takes long
    judges numbers. One of them is asked however long it takes."""
    for at, case in enumerate(sorted((c for c in cases if mutant["number"] in c.reached), key=lambda c: (c.name != before, c.work))):
        budget -= case.work
        if at and budget < 0:
            return None
        living = {"ATTUNE_MUTANT": str(mutant["number"])}
        ended = case.run(**living)
        if ended is None:
            ended = case.run(**living)  # the machine may have been busy
        if ended != 0:
            return case.name
    return None


def identity(mutant):
    """What a mutant is called from one commit to the next: no line, no number."""
    return f"{mutant['file']} | {mutant['of']} | {mutant['what']}"


class findings:
    """What became of mutants, line by line in a file: of these sources, which holds, and of others, as a hint."""

    def __init__(self, path, sources):
        self.path, self.sources, self.found, self.before = path, sources, {}, {}
        for line in read(path).splitlines() if os.path.exists(path) else ():
            one = json.loads(line)
            self.before[one["mutant"]] = one["killed_by"]
            if one["sources"] == sources:
                self.found[one["number"]] = one["killed_by"]

    def of(self, mutant, cases, budget):
        number, name = mutant["number"], identity(mutant)
        if number not in self.found:
            self.found[number] = killer(mutant, cases, budget, self.before.get(name))
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"sources": self.sources, "number": number, "mutant": name, "killed_by": self.found[number]}) + "\n")
        return self.found[number]


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


def alone_in(folder):
    """The file that a run holds: what tests meet is noted in one place, which another run in the same folder would take for its own."""
    os.makedirs(os.path.join(folder, "build"), exist_ok=True)
    held = open(os.path.join(folder, "build/lock"), "w", encoding="utf-8")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"expected one run at a time in {folder}, got another; try --build FOLDER, or wait for it")
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="say what the mutants are, and run nothing")
    parser.add_argument("--only", default="", help="those whose file or condition has this text")
    parser.add_argument("--json", help="write what became of each")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build/mutants"), help="where the copy and its build lie")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=20, help="seconds of a CPU in test cases that a mutant costs at most")
    parser.add_argument("--torch", default=os.path.join(SOURCE, "build/torch/bin/python"), help="a Python with PyTorch; without it PyTorch's mutants are not run")
    parser.add_argument("--jax", default=os.path.join(SOURCE, "build/jax/bin/python"), help="a Python with JAX, in the same way")
    parser.add_argument("--mpi", default=shutil.which("mpicxx") or "mpicxx", help="a compiler for MPI, which CMake finds by itself; without it the mutants of attune/mpi.h are not run")
    parser.add_argument("--verbose", action="store_true", help="show the build")
    how = parser.parse_args()
    held = alone_in(how.build)
    mutants, sources = mutated_files(how.build)
    if how.list:
        for m in mutants:
            print(f"{m['number']:4} {m['file']}:{m['line']}  {m['what']}  of  {m['of']}")
        return
    binary = build(how.build, how)
    cases = test_cases(binary, tests_of(how))
    survey(cases, how.build)
    doors = doors_of(how)
    closed = {door: [m for m in mutants if re.match(DOORS[door][0], m["file"])] for door in DOORS if door not in doors}
    not_run = {m["number"] for those in closed.values() for m in those}
    wanted = [m for m in mutants if how.only in identity(m) and m["number"] not in not_run]
    found = findings(os.path.join(how.build, "build/found.jsonl"), f"{sources} {sorted(doors)} {how.torch} {how.jax} {sorted(c.name for c in cases)} {how.budget}")
    began, killed = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(how.jobs) as pool:
        for done, (m, by) in enumerate(zip(wanted, pool.map(lambda m: found.of(m, cases, how.budget), wanted)), 1):
            m["met_by"] = sum(m["number"] in c.reached for c in cases)
            m["killed_by"] = by
            killed += by is not None
            progress(done, len(wanted), killed, began)
    if how.json:
        write(how.json, json.dumps(wanted, indent=1))
    for door, those in closed.items():
        print(f"not run: {len(those)} mutants of what needs {door}, for want of {getattr(how, door)}; try ./tests/run full:{door} before, or --{door}")
    known = {name: reason for name, reason in known_survivors().items() if not any(re.match(DOORS[door][0], name) for door in closed)}
    sys.exit(verdict(wanted, killed, len(cases), known, partial=bool(how.only)))


def verdict(mutants, killed, cases, known, partial):
    alive = [m for m in mutants if m["killed_by"] is None]
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

"""Contenders whose timings are interleaved in one run: what all benchmark scripts do alike."""
import importlib.util, json, os, pathlib, platform, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build/torch"
PACKAGES = ("torch", "numpy", "onnxruntime", "onnx", "openvino")
PINNED = ROOT / "tests/benchmarks/peers.txt"
os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"  # else the arrays of some contenders, and of no others, lie in pages of 2 MB
REST = 0.05  # seconds between turns, in which the other side's idle threads stop spinning


def with_torch(arguments, packages=("torch", "numpy")):
    """Goes on in a Python that has these packages."""
    if all(importlib.util.find_spec(name) for name in packages):
        return
    python = ENVIRONMENT / "bin/python"
    if pathlib.Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        sys.exit(f"{ENVIRONMENT} has no usable {', '.join(packages)}; remove it and run this again")
    if not python.exists() or subprocess.run([python, "-c", "import " + ", ".join(packages)], capture_output=True).returncode:
        print(f"installing {', '.join(PACKAGES)} into {ENVIRONMENT.relative_to(ROOT)} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", PINNED], check=True)
    os.execv(python, [str(python), sys.argv[0], *arguments])


class program:
    """A program that answers each line by one of JSON."""

    def __init__(self, path, folder, threads, *options):
        environment = {**os.environ, "ATTUNE_THREADS": str(threads)}
        self.name = pathlib.Path(path).name
        self.process = subprocess.Popen([path, *options, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "it ended"}
        if "error" in answer:
            sys.exit(f"{self.name}: {words[0]}: {answer['error']}")
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def cpu_name():
    try:
        return next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown CPU"


def seconds_of(call, repeats, clock=time.perf_counter):
    """Of each of `repeats` calls after one that is not timed. time.process_time as the clock: CPU seconds, of all threads."""
    call()
    result = []
    for _ in range(repeats):
        start = clock()
        call()
        result.append(clock() - start)
    return result


def by_turns(turns, rounds, repeats):
    """The seconds of every call of every contender. `turns`: a name and a function of how many calls are timed; `repeats`: of all, or by name."""
    seconds = {who: [] for who in turns}
    for _ in range(rounds):
        for who, turn in turns.items():
            time.sleep(REST)
            seconds[who] += turn(repeats[who] if isinstance(repeats, dict) else repeats)
    return seconds

#!/usr/bin/env python3
"""attune against PyTorch's scaled_dot_product_attention on this machine, by turns in one run and on equally many threads.

./tests/benchmarks/run builds what it needs first (or cmake --build --preset default --target attune_benchmark). PyTorch is taken from the Python that runs this,
else from an environment of its own, build/torch, which is made at the first run (a large download).

Before anything is timed, both outputs are compared. A ratio above 1 says how many times faster attune is; compare numbers of one run only.
"""
import argparse, fnmatch, json, os, pathlib, platform, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build/torch"
TOLERANCE = 1e-4          # of outputs, absolute; the inputs are normally distributed
REST = 0.05               # seconds between turns, in which the other side's idle threads stop spinning
WINDOW, CAP = 256, 30.0   # as in variants.hpp


def cases():
    """name, variant, (batch, heads, length, depth); `peer` is what PyTorch runs"""
    for depth in (64, 128):
        yield f"full_d{depth}", "full", (1, 8, 2048, depth)
        yield f"causal_d{depth}", "causal", (1, 8, 2048, depth)
        yield f"window{WINDOW}_d{depth}", "window", (1, 8, 4096, depth)
        yield f"alibi_d{depth}", "alibi", (1, 8, 2048, depth)
        yield f"softcap_d{depth}", "softcap", (1, 8, 2048, depth)


def with_torch(arguments):
    """Goes on in a Python that has PyTorch."""
    try:
        import numpy, torch  # noqa: F401
        return
    except ImportError:
        pass
    python = ENVIRONMENT / "bin/python"
    if pathlib.Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        sys.exit(f"{ENVIRONMENT} has no usable torch; remove it and run this again")
    if not python.exists() or subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode:
        print(f"installing torch and numpy into {ENVIRONMENT.relative_to(ROOT)} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "torch", "numpy"]
        # The CPU build is a tenth of the size; where its index is out of reach, the usual one does.
        if subprocess.run([*pip, "--index-url", "https://download.pytorch.org/whl/cpu", "--retries", "0", "--timeout", "10"], capture_output=True).returncode:
            subprocess.run(pip, check=True)
    os.execv(python, [str(python), sys.argv[0], *arguments])


class program:
    """attune_benchmark, which answers each line by one of JSON."""

    def __init__(self, path, folder, threads):
        environment = {**os.environ, "ATTUNE_THREADS": str(threads)}
        self.process = subprocess.Popen([path, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "attune_benchmark ended"}
        if "error" in answer:
            sys.exit(f"attune_benchmark: {words[0]}: {answer['error']}")
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure_peak(options, folder):
    """In a program of its own, as it measures once only. A busy machine makes it too low, never too high."""
    attune = program(options.program, folder, options.threads)
    found = attune("peak")
    attune.end()
    return found


def peer(torch, variant, q, k, v, slopes):
    """What a PyTorch user would call, its masks and biases made beforehand; a name for it; and the pairs that are visible."""
    attention = torch.nn.functional.scaled_dot_product_attention
    length = q.shape[2]
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    past = i >= j
    if variant == "full":
        return lambda: attention(q, k, v), "SDPA", length * length
    if variant == "causal":
        return lambda: attention(q, k, v, is_causal=True), "SDPA, is_causal", int(past.sum())
    if variant == "window":
        seen = past & (i - j < WINDOW)
        return lambda: attention(q, k, v, attn_mask=seen), "SDPA, bool mask", int(seen.sum())
    if variant == "alibi":
        bias = (slopes[:, None, None] * (j - i)).masked_fill(~past, float("-inf"))[None]
        return lambda: attention(q, k, v, attn_mask=bias), "SDPA, float bias", int(past.sum())
    hidden = torch.zeros(length, length).masked_fill(~past, float("-inf"))

    def softcap():
        scores = CAP * torch.tanh(q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 / CAP))
        return torch.softmax(scores + hidden, -1) @ v
    return softcap, "eager: SDPA has no softcap", int(past.sum())


def seconds_of(call, repeats):
    call()
    result = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        result.append(time.perf_counter() - start)
    return result


def measure(torch, attune, folder, name, variant, shape, options):
    batch, heads, length, depth = shape
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(shape, generator=generator) for _ in range(3))
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)])
    for tensor, file in ((q, "q"), (k, "k"), (v, "v"), (slopes, "slopes")):
        tensor.numpy().tofile(folder / f"{file}.bin")
    attune("load", *shape)
    call, label, pairs = peer(torch, variant, q, k, v, slopes)

    # Equal results on equally many threads, or no comparison.
    made = attune("run", variant)
    if not made["threads"] == torch.get_num_threads() == options.threads:
        sys.exit(f"{name}: expected {options.threads} threads, attune uses {made['threads']}, PyTorch {torch.get_num_threads()}")
    out = torch.from_file(str(folder / "out.bin"), size=q.numel()).reshape(shape)
    difference = float((out - call()).abs().max())
    if not difference <= TOLERANCE:
        sys.exit(f"{name}: the outputs differ by {difference:.2e}, more than {TOLERANCE:.0e}")

    turns = {"attune": lambda n: attune("time", variant, n)["seconds"], label: lambda n: seconds_of(call, n)}
    if variant in ("alibi", "softcap"):
        turns["attune, causal only"] = lambda n: attune("time", "causal", n)["seconds"]
    seconds = {who: [] for who in turns}
    for _ in range(options.rounds):
        for who, turn in turns.items():
            time.sleep(REST)
            seconds[who] += turn(options.repeats)

    flops = 4.0 * batch * heads * depth * pairs
    rows = {who: {"median": statistics.median(s), "best": min(s), "gigaflops": flops / statistics.median(s) * 1e-9} for who, s in seconds.items()}
    median = {who: row["median"] for who, row in rows.items()}
    result = {"case": name, "shape": list(shape), "difference": difference, "peer": label, "kernel": made["kernel"], "target": made["target"],
              "schedule": made["schedule"], "visited": made["visited"], "times": rows, "ratio": median[label] / median["attune"]}
    if "attune, causal only" in median:
        result["over_causal"] = median["attune"] / median["attune, causal only"]
    return result


def cpu_name():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def show(result, peak):
    print(f"{result['case']}  {tuple(result['shape'])}  {result['ratio']:.2f}x {result['peer']}", end="")
    print(f", {100 * (result['over_causal'] - 1):+.1f} % over causal" if "over_causal" in result else "")
    for who, row in result["times"].items():
        print(f"    {who:<28} {row['median'] * 1e3:8.2f} ms   best {row['best'] * 1e3:8.2f}   {row['gigaflops']:6.1f} GFLOP/s {100 * row['gigaflops'] / peak:5.1f} %")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="cases: " + " ".join(name for name, *_ in cases()))
    parser.add_argument("--cases", default="*", metavar="PATTERN", help="only cases whose name matches, e.g. 'causal*'")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="turns a contender takes (default 7)")
    parser.add_argument("--repeats", type=int, default=3, help="timed calls a turn (default 3)")
    parser.add_argument("--json", metavar="FILE", help="write everything there as well")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_benchmark", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [case for case in cases() if fnmatch.fnmatch(case[0], options.cases)]
    if not chosen:
        parser.error(f"no case matches {options.cases}; there are {' '.join(name for name, *_ in cases())}")
    if min(options.threads, options.rounds, options.repeats) < 1:
        parser.error("--threads, --rounds and --repeats are at least 1")
    if not options.program.exists():
        sys.exit(f"{options.program} is not there; try cmake --preset default && cmake --build --preset default --target attune_benchmark")
    with_torch(sys.argv[1:])
    import torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        attune = program(options.program, folder, options.threads)
        peak = max((measure_peak(options, folder) for _ in range(3)), key=lambda found: found["gigaflops"])
        head = {"cpu": cpu_name(), "python": platform.python_version(), "torch": torch.__version__, "system": platform.platform(),
                "threads": options.threads, "target": peak["target"], "peak_gigaflops": peak["gigaflops"], "rounds": options.rounds, "repeats": options.repeats}
        print(f"{head['cpu']}, {options.threads} threads; {peak['target']} multiply-add peak {peak['gigaflops']:.0f} GFLOP/s; PyTorch {torch.__version__}")
        print("medians; GFLOP/s of visible pairs only, and their share of the peak\n")
        results = []
        for case in chosen:
            results.append(measure(torch, attune, folder, *case, options))
            head["peak_gigaflops"] = max(head["peak_gigaflops"], measure_peak(options, folder)["gigaflops"])
            show(results[-1], head["peak_gigaflops"])
        attune.end()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({**head, "cases": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()

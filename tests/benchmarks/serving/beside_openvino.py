#!/usr/bin/env python3
"""Decode over a cache of bytes, attune's u8 and i8 rows beside OpenVINO's: a stateful ScaledDotProductAttention with KV_CACHE_PRECISION u8 (or f32, bf16), which its
CPU plug-in fuses with the cache. In turns, on as many threads; needs the PyPI packages openvino and numpy in the Python that runs it, and attune_serving built.

    python3 tests/benchmarks/serving/beside_openvino.py [--program build/default/bin/attune_serving] [--sequences 4] [--keys 4096]"""
import argparse, json, pathlib, statistics, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from turns import ROOT, cpu_name

OURS = {"u8": ["u8", "i8"], "bf16": ["bf16"], "f32": ["f32"]}  # caches of attune_serving that a precision is compared with


def stateful(numpy, openvino, shape, precision, threads):
    """A call of one query over a filled cache, and what it says of a cache of known numbers."""
    from openvino import opset13 as ops
    sequences, heads, key_heads, keys, depth = shape
    kind = openvino.Type.f32
    q = ops.parameter([sequences, heads, -1, depth], kind, name="q")
    rows = {name: ops.parameter([sequences, key_heads, -1, depth], kind, name=name) for name in "kv"}
    beam = ops.parameter([sequences], openvino.Type.i32, name="beam_idx")
    assigned, whole = [], []
    for name, new in rows.items():
        variable = openvino.op.util.Variable(openvino.op.util.VariableInfo())
        info = variable.info
        info.data_shape, info.data_type, info.variable_id = openvino.PartialShape([sequences, key_heads, -1, depth]), kind, name + "_cache"
        variable.update(info)
        empty = ops.constant(numpy.zeros((sequences, key_heads, 0, depth), numpy.float32))
        past = ops.read_value(empty, variable)
        cached = ops.concat([ops.gather(past, beam, ops.constant(numpy.int32(0))), new], 2)
        assigned.append(ops.assign(cached, variable))
        ones = ops.constant(numpy.ones((1, 1, heads // key_heads, 1, 1), numpy.float32))  # a form of grouped heads that the plug-in knows
        group = ops.multiply(ops.unsqueeze(cached, ops.constant(numpy.int32(2))), ones)
        whole.append(ops.reshape(group, ops.constant(numpy.array([sequences, heads, -1, depth], numpy.int64)), False) if heads > key_heads else cached)
    attended = ops.scaled_dot_product_attention(q, *whole)
    model = openvino.Model([ops.result(attended)], assigned, [q, *rows.values(), beam])
    core = openvino.Core()
    compiled = core.compile_model(model, "CPU", {"KV_CACHE_PRECISION": precision, "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
    fused = [op.get_rt_info()["layerType"].astype(str) for op in compiled.get_runtime_model().get_ops()]
    if not any("ScaledDotProductAttention" in name or "sdpa" in name.lower() for name in fused):
        sys.exit(f"expected OpenVINO to fuse the attention with its cache, got {sorted(set(fused))}")
    request, random = compiled.create_infer_request(), numpy.random.default_rng(1)
    beams = numpy.arange(sequences, dtype=numpy.int32)
    draw = lambda count, length: random.standard_normal((sequences, count, length, depth), dtype=numpy.float32)
    for first in range(0, keys - 1, 256):  # fills the cache; keys and queries of a call have to be as many
        count = min(256, keys - 1 - first)
        request.infer({"q": draw(heads, count), "k": draw(key_heads, count), "v": draw(key_heads, count), "beam_idx": beams})

    def call():
        feeds = {"q": draw(heads, 1), "k": draw(key_heads, 1), "v": draw(key_heads, 1), "beam_idx": beams}
        start = time.perf_counter()
        request.infer(feeds, share_inputs=True)
        return time.perf_counter() - start
    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/default/bin/attune_serving"))
    for name, value in (("sequences", 4), ("heads", 32), ("key-heads", 8), ("keys", 4096), ("depth", 128), ("threads", 2), ("rounds", 5), ("repeats", 15)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true", help="one object a line")
    options = parser.parse_args()
    import numpy, openvino
    shape = (options.sequences, options.heads, options.key_heads, options.keys, options.depth)
    if not options.json:
        print(f"{cpu_name()}, {options.threads} threads; OpenVINO {openvino.__version__}; {options.sequences} x {options.keys} keys, heads {options.heads} over {options.key_heads}, depth {options.depth}")
        print(f"{'cache':<8} {'OpenVINO ms':>12} {'attune ms':>10} {'ratio':>7}")
    for precision, caches in OURS.items():
        call = stateful(numpy, openvino, shape, precision, options.threads)
        theirs, ours = [], {name: [] for name in caches}
        for _ in range(options.rounds):
            call()
            theirs += [call() for _ in range(options.repeats)]
            command = [options.program, "--json", "--caches", *caches, "--repeats", str(options.repeats), "--threads", str(options.threads)]
            for name in ("sequences", "keys", "heads", "key-heads", "depth"):
                command += [f"--{name}", str(getattr(options, name.replace("-", "_")))]
            for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
                answer = json.loads(line)
                ours[answer["cache"]].append(answer["ms"] * 1e-3)
        for name, seconds in ours.items():
            their, our = statistics.median(theirs), statistics.median(seconds)
            if options.json:
                print(json.dumps({"cache": name, "openvino_cache": precision, "openvino_s": their, "attune_s": our, "ratio": their / our}))
            else:
                print(f"{name:<8} {their * 1e3:12.3f} {our * 1e3:10.3f} {their / our:6.2f}x")


if __name__ == "__main__":
    main()

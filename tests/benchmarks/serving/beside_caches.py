#!/usr/bin/env python3
"""Attention over quantised caches beside its peers, in turns and on as many threads: attune's i8 and 4-bit caches, ggml's q8_0 and q4_0, ONNX Runtime's
GroupQueryAttention with caches of int8 and int4, OpenVINO's with KV_CACHE_PRECISION u8. A causal prompt, or one query over a filled cache.

    cmake --build build/default --target attune_prompts attune_serving && build/venv/bin/python3 tests/benchmarks/ggml_peer.py
    python3 tests/benchmarks/serving/beside_caches.py [--decode] [--depth 64] [--peers 'ggml*']

Needs the PyPI packages numpy, onnx, onnxruntime and openvino in the Python that runs it. Every peer quantises the same tensors itself and is compared with double
precision first: the table has the root of the mean square of its errors. attune's programs draw tensors of the same shape and print errors of their own. ONNX Runtime's
prompts also write the cache, OpenVINO's too: neither has an operator that only reads a cache of many keys for many queries."""
import argparse, ctypes, fnmatch, json, math, pathlib, statistics, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from turns import REST, ROOT, cpu_name

GGML_TYPES = {"q8_0": 8, "q4_0": 2}
GGML_F32, GGML_F16 = 0, 1


def exact(numpy, case, q, k, v, query, head):
    """A query's output in double precision."""
    group, seen = case.heads // case.key_heads, case.keys - case.queries + query + 1
    scores = k[0, head // group, :seen].astype(numpy.float64) @ q[0, head, query] / math.sqrt(case.depth)
    weights = numpy.exp(scores - scores.max())
    return weights @ v[0, head // group, :seen] / weights.sum()


def ggml(numpy, case, q, k, v, kind):
    """ggml_flash_attn_ext over blocks that ggml_quantize_chunk makes."""
    import ggml_peer
    functions = ggml_peer.library()
    base = ctypes.CDLL(str(ggml_peer.LIBRARY.with_name("libggml-base.so")), mode=ctypes.RTLD_GLOBAL)
    base.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    base.ggml_quantize_chunk.restype = ctypes.c_size_t
    context = functions.ggml_init(ggml_peer.memory(4 * (q.nbytes + k.nbytes + v.nbytes) + 2 * case.queries * case.keys + (1 << 22), None, False))

    def tensor(x, of):
        made = functions.ggml_new_tensor_4d(context, of, *reversed(x.shape))
        at = functions.ggml_get_data(made)
        if of in GGML_TYPES.values():
            base.ggml_quantize_chunk(of, x.ctypes.data, at, 0, x.size // x.shape[-1], x.shape[-1], None)
        else:
            ctypes.memmove(at, x.ctypes.data, x.nbytes)
        return made
    inputs = [tensor(q, GGML_F32), tensor(k, GGML_TYPES[kind]), tensor(v, GGML_TYPES[kind])]
    mask = numpy.triu(numpy.full((case.queries, case.keys), -numpy.inf, numpy.float16), 1 + case.keys - case.queries)[None, None]
    inputs.append(tensor(numpy.ascontiguousarray(mask), GGML_F16) if case.queries > 1 else None)
    attended = functions.ggml_flash_attn_ext(context, *inputs, case.depth ** -0.5, 0.0, 0.0)
    graph, backend = functions.ggml_new_graph(context), functions.ggml_backend_cpu_init()
    functions.ggml_build_forward_expand(graph, attended)
    functions.ggml_backend_cpu_set_n_threads(backend, case.threads)
    out = numpy.ctypeslib.as_array(ctypes.cast(functions.ggml_get_data(attended), ctypes.POINTER(ctypes.c_float)), (1, case.queries, case.heads, case.depth))

    def call():
        if functions.ggml_backend_graph_compute(backend, graph):
            raise RuntimeError("ggml_backend_graph_compute failed")
        return out.transpose(0, 2, 1, 3)
    return call


def onnx_runtime(numpy, case, q, k, v, bits):
    """GroupQueryAttention whose cache, with one scale for a tensor, is updated in place. A prompt writes all of it, one query its newest key."""
    import onnxruntime
    from onnx import TensorProto, helper
    past, kind = case.keys - case.queries, {8: (numpy.int8, TensorProto.INT8), 4: (numpy.uint8, TensorProto.UINT8)}[bits]
    most = {8: 127, 4: 7}[bits]
    flat = lambda x: numpy.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(1, case.queries, -1))
    feeds = {"q": flat(q), "k": flat(k[:, :, past:]), "v": flat(v[:, :, past:]), "last": numpy.array([case.keys - 1], numpy.int32), "total": numpy.array(case.keys, numpy.int32)}
    caches = {}
    for name, x in (("k", k), ("v", v)):
        scale = numpy.abs(x).max() / most
        codes = numpy.clip(numpy.rint(x / scale), -most, most).astype(numpy.int8)
        caches[name] = codes if bits == 8 else ((codes[..., 0::2] + 8) | (codes[..., 1::2] + 8) << 4).astype(numpy.uint8)
        feeds[name + "_scale"] = numpy.array([scale], numpy.float32)
    names = ["q", "k", "v", "past_k", "past_v", "last", "total", *[""] * 5, "k_scale", "v_scale"]
    node = helper.make_node("GroupQueryAttention", names, ["out", "now_k", "now_v"], domain="com.microsoft", num_heads=case.heads, kv_num_heads=case.key_heads,
                            kv_cache_bit_width=bits, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR")
    of = {numpy.dtype("float32"): TensorProto.FLOAT, numpy.dtype("int32"): TensorProto.INT32}
    inputs = [helper.make_tensor_value_info(name, of[x.dtype], x.shape) for name, x in feeds.items()]
    inputs += [helper.make_tensor_value_info(f"past_{name}", kind[1], x.shape) for name, x in caches.items()]
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, feeds["q"].shape)]
    outputs += [helper.make_tensor_value_info(f"now_{name}", kind[1], x.shape) for name, x in caches.items()]
    model = helper.make_model(helper.make_graph([node], "attention", inputs, outputs), opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    how = onnxruntime.SessionOptions()
    how.intra_op_num_threads, how.log_severity_level = case.threads, 4
    how.add_session_config_entry("session.force_spinning_stop", "1")  # between calls, so that the others have the cores
    run = onnxruntime.InferenceSession(model.SerializeToString(), how, providers=["CPUExecutionProvider"])
    binding, out = run.io_binding(), numpy.zeros(feeds["q"].shape, numpy.float32)
    for name, x in feeds.items():
        binding.bind_cpu_input(name, x)
    for name, x in caches.items():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
        binding.bind_ortvalue_input(f"past_{name}", value), binding.bind_ortvalue_output(f"now_{name}", value)
    binding.bind_output("out", "cpu", 0, numpy.float32, list(out.shape), out.ctypes.data)

    def call(keep=(feeds, caches)):
        run.run_with_iobinding(binding)
        return out.reshape(1, case.queries, case.heads, case.depth).transpose(0, 2, 1, 3)
    return call


def openvino(numpy, case, q, k, v, precision):
    """A stateful ScaledDotProductAttention, which the plug-in fuses with its cache. A prompt begins with an empty one each time; one query adds a key each time."""
    import openvino as ov
    from openvino import opset13 as ops
    kind, shape = ov.Type.f32, lambda heads: [1, heads, -1, case.depth]
    inputs = {name: ops.parameter(shape(heads), kind, name=name) for name, heads in (("q", case.heads), ("k", case.key_heads), ("v", case.key_heads))}
    beam = ops.parameter([1], ov.Type.i32, name="beam_idx")
    assigned, whole = [], []
    for name in "kv":
        variable = ov.op.util.Variable(ov.op.util.VariableInfo())
        info = variable.info
        info.data_shape, info.data_type, info.variable_id = ov.PartialShape(shape(case.key_heads)), kind, name + "_cache"
        variable.update(info)
        past = ops.read_value(ops.constant(numpy.zeros((1, case.key_heads, 0, case.depth), numpy.float32)), variable)
        cached = ops.concat([ops.gather(past, beam, ops.constant(numpy.int32(0))), inputs[name]], 2)
        assigned.append(ops.assign(cached, variable))
        ones = ops.constant(numpy.ones((1, 1, case.heads // case.key_heads, 1, 1), numpy.float32))
        grouped = ops.multiply(ops.unsqueeze(cached, ops.constant(numpy.int32(2))), ones)
        whole.append(ops.reshape(grouped, ops.constant(numpy.array([1, case.heads, -1, case.depth], numpy.int64)), False) if case.heads > case.key_heads else cached)
    attended = ops.scaled_dot_product_attention(inputs["q"], *whole, causal=case.queries > 1)
    compiled = ov.Core().compile_model(ov.Model([ops.result(attended)], assigned, [*inputs.values(), beam]), "CPU", {
        "KV_CACHE_PRECISION": precision, "INFERENCE_NUM_THREADS": case.threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1})
    request, past = compiled.create_infer_request(), case.keys - case.queries
    infer = lambda queries, first, count: request.infer({"q": queries, "k": k[:, :, first:first + count], "v": v[:, :, first:first + count], "beam_idx": numpy.zeros(1, numpy.int32)}, share_inputs=True)
    for first in range(0, past, 256):
        infer(numpy.zeros((1, case.heads, min(256, past - first), case.depth), numpy.float32), first, min(256, past - first))

    def call():
        if past == 0:
            request.reset_state()
        return next(iter(infer(q, past, case.queries).values()))
    return call


def ours(options, case):
    """Names and milliseconds of attune's programs."""
    common = ["--json", "--heads", case.heads, "--depth", case.depth, "--threads", case.threads]
    command = [options.folder / "attune_serving", "--caches", "i8", "--sequences", 1, "--keys", case.keys, "--key-heads", case.key_heads, "--repeats", options.repeats] if options.decode \
        else [options.folder / "attune_prompts", "--queries", case.queries, "--rounds", options.repeats]
    lines = subprocess.run([str(x) for x in (*command, *common)], check=True, capture_output=True, text=True).stdout.splitlines()
    return {f"attune, {answer.get('kernel', answer.get('cache'))}": answer["ms"] for answer in map(json.loads, lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decode", action="store_true", help="one query of 32 heads over 8, and not a prompt of 8 heads")
    parser.add_argument("--peers", default="*", metavar="PATTERN", help="only those whose name matches")
    parser.add_argument("--folder", default=ROOT / "build/default/bin", type=pathlib.Path, help="of attune's programs")
    for name, value in (("keys", 0), ("depth", 128), ("threads", 2), ("rounds", 3), ("repeats", 7)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    import numpy, onnxruntime, openvino as ov, ggml_peer
    case = argparse.Namespace(depth=options.depth, threads=options.threads, keys=options.keys or (16384 if options.decode else 2048))
    case.heads, case.key_heads, case.queries = (32, 8, 1) if options.decode else (8, 8, case.keys)
    random = numpy.random.default_rng(1)
    q, k, v = (random.standard_normal((1, heads, length, case.depth), dtype=numpy.float32) for heads, length in ((case.heads, case.queries), (case.key_heads, case.keys), (case.key_heads, case.keys)))
    print(f"{cpu_name()}, {case.threads} threads; ONNX Runtime {onnxruntime.__version__}, OpenVINO {ov.__version__.split('-')[0]}, ggml {ggml_peer.version() or 'not built'}; "
          f"{case.queries} queries, {case.keys} keys, heads {case.heads} over {case.key_heads}, depth {case.depth}")
    peers = {**{f"ggml {kind}": lambda kind=kind: ggml(numpy, case, q, k, v, kind) for kind in GGML_TYPES},
             **{f"ONNX Runtime int{bits}": lambda bits=bits: onnx_runtime(numpy, case, q, k, v, bits) for bits in (8, 4)},
             "OpenVINO u8": lambda: openvino(numpy, case, q, k, v, "u8")}
    calls, milliseconds, errors = {}, {}, {}
    for name, make in peers.items():
        if not fnmatch.fnmatch(name.lower(), options.peers.lower()):
            continue
        try:
            calls[name] = make()
            out = calls[name]()
        except Exception as problem:  # whatever the peer throws is its answer
            calls.pop(name, None)
            print(f"{name}: {type(problem).__name__}: {str(problem).splitlines()[0][:160]}", file=sys.stderr)
            continue
        difference = [out[0, head, query] - exact(numpy, case, q, k, v, query, head) for head in (0, case.heads - 1) for query in range(0, case.queries, 97)]
        errors[name] = math.sqrt(numpy.mean(numpy.square(difference)))
        if not errors[name] < 0.1:
            sys.exit(f"{name}: expected the output of the formula but for rounding, got errors of {errors[name]:.2e}")
    for _ in range(options.rounds):
        for name, ms in ours(options, case).items():
            milliseconds.setdefault(name, []).append(ms)
        for name, call in calls.items():
            time.sleep(REST)
            call()
            for _ in range(options.repeats):
                start = time.perf_counter()
                call()
                milliseconds.setdefault(name, []).append((time.perf_counter() - start) * 1e3)
    for name, all_of_it in milliseconds.items():
        print(f"{name:<36} {statistics.median(all_of_it):9.3f} ms" + (f"   error {errors[name]:.1e} rms" if name in errors else ""))


if __name__ == "__main__":
    main()

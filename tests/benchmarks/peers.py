"""What attune is compared with: each peer as its users call it, masks and biases made beforehand. A peer is a name and a call that returns (batch, head, query, depth)."""
import math

CAP = 30.0  # as in variants.hpp


class unsupported(Exception):
    """The peer has no way to say the case."""


def positions(torch, case):
    return torch.arange(case["queries"])[:, None], torch.arange(case["keys"])[None, :]


def visible(torch, case):
    """bool, (queries, keys) or (batch, 1, 1, keys); None where all is visible."""
    i, j = positions(torch, case)
    variant, ids = case["variant"], case["document"]
    if variant == "padded":
        return j[None, None] < torch.tensor(case["lengths"])[:, None, None, None]
    if variant == "window":
        return (i >= j) & (i - j < case["window"])
    if variant.startswith("documents"):
        same = ids[:, None] == ids[None, :]
        return same & (i >= j) if variant == "documents_causal" else same
    return None if variant in ("full", "bias") else i >= j


def chooser(torch, case, q, k):
    """A call that says which blocks of keys each query sees, by moba or by nsa: bool, (batch, head, query, block)."""
    size, count, nsa = case["block"], case["chosen"][case["variant"]], case["variant"] == "nsa"
    batch, heads, queries, depth = q.shape
    key_heads, blocks = k.shape[1], k.shape[2] // size
    n, own = torch.arange(blocks), torch.arange(queries)[:, None] // size
    before, always = n < own, (n == own) | ((n == 0) | (n == own - 1)) & (n < own) if nsa else n == own
    rows = q.view(batch, key_heads, heads // key_heads * queries, depth)

    def choose():
        means = k.view(batch, key_heads, blocks, size, depth).mean(3)
        scores = (rows @ means.transpose(2, 3)).view(batch, heads, queries, blocks)
        if nsa:  # the heads of a key head choose together
            weights = torch.softmax((scores * depth ** -0.5).masked_fill_(~before, -math.inf), -1)
            scores = weights.view(batch, key_heads, -1, queries, blocks).sum(2)
        chosen = scores.masked_fill_(~before, -math.inf).topk(min(count, blocks), -1).indices
        seen = torch.zeros(scores.shape, dtype=torch.bool).scatter_(-1, chosen, True).logical_and_(before).logical_or_(always)
        return seen.repeat_interleave(heads // key_heads, 1) if nsa else seen
    return choose


def choosing(torch, case, q, k, v, over_chosen, in_window):
    """The whole case around attention over chosen blocks and attention in a window, which are passed."""
    choose = chooser(torch, case, q, k)
    if case["variant"] == "moba":
        return lambda: over_chosen(choose())
    size, gates = case["block"], case["gates"]
    blocks, i = k.shape[2] // size, torch.arange(q.shape[2])[:, None]
    ended = (torch.arange(blocks) + 1) * size <= i
    pooled = lambda x: x.view(*x.shape[:2], blocks, size, x.shape[3]).mean(3)

    def branches():
        compressed = torch.nn.functional.scaled_dot_product_attention(q, pooled(k), pooled(v), attn_mask=ended, enable_gqa=True)
        compressed[:, :, :size] = 0  # no block has ended
        return gates[..., :1] * compressed + gates[..., 1:2] * over_chosen(choose()) + gates[..., 2:] * in_window()
    return branches


def sdpa(torch, case, q, k, v):
    """Every spelling of scaled_dot_product_attention that says the case, and plain tensor operations where none does."""
    attention = torch.nn.functional.scaled_dot_product_attention
    variant, group = case["variant"], q.shape[1] // k.shape[1]
    i, j = positions(torch, case)
    if variant in ("full", "causal"):
        causal = variant == "causal"
        yield "SDPA", lambda: attention(q, k, v, is_causal=causal, enable_gqa=group > 1)
        if group > 1:
            yield "SDPA, keys repeated", lambda: attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=causal)
        if case["queries"] == 1 and group > 1:
            yield "SDPA, heads as rows", lambda: attention(q.view(q.shape[0], k.shape[1], group, -1), k, v).view(q.shape)
    elif variant == "softcap":
        hidden = torch.zeros(case["queries"], case["keys"]).masked_fill(i < j, -math.inf)
        yield "eager", lambda: torch.softmax(CAP * torch.tanh(q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 / CAP)) + hidden, -1) @ v
    elif variant == "alibi":
        slopes = (case["slopes"][:, None, None] * (j - i)).masked_fill(i < j, -math.inf)[None]
        yield "SDPA, float mask", lambda: attention(q, k, v, attn_mask=slopes)
    elif variant == "bias":
        yield "SDPA, float mask", lambda: attention(q, k, v, attn_mask=case["bias"])
    elif variant == "differential":
        (q2, k2), share = case["second"], case["slopes"][:, None, None]
        yield "SDPA, two calls", lambda: torch.addcmul(attention(q, k, v, is_causal=True), attention(q2, k2, v, is_causal=True), share, value=-1)
        stacked_q, stacked_k = torch.cat((q, q2), 1), torch.cat((k, k2), 1)  # as a projection may lay them

        def both():
            first, second = attention(stacked_q, stacked_k, torch.cat((v, v), 1), is_causal=True).chunk(2, 1)
            return torch.addcmul(first, second, share, value=-1)
        yield "SDPA, stacked heads", both
    elif variant in ("moba", "nsa"):
        near = (i >= j) & (i - j < case["nsa_window"])
        over_chosen = lambda seen: attention(q, k, v, attn_mask=seen.repeat_interleave(case["block"], 3).logical_and_(i >= j), enable_gqa=group > 1)
        yield "SDPA, bool mask", choosing(torch, case, q, k, v, over_chosen, lambda: attention(q, k, v, attn_mask=near, enable_gqa=group > 1))
    else:
        seen = visible(torch, case)
        yield "SDPA, bool mask", lambda: attention(q, k, v, attn_mask=seen)
    if variant.startswith("documents"):
        ends = torch.cumsum(torch.bincount(case["document"].long()), 0).tolist()
        out = torch.empty_like(q)

        def each():
            for first, last in zip([0, *ends], ends):
                part = slice(first, last)
                out[:, :, part] = attention(q[:, :, part], k[:, :, part], v[:, :, part], is_causal=variant == "documents_causal")
            return out
        yield "SDPA, a call a document", each


def flex(torch, case, q, k, v):
    """FlexAttention, compiled afresh: after eight variants it would fall back to eager without a word."""
    from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
    torch._dynamo.reset()
    variant, ids, slopes, bias, window = case["variant"], case["document"], case["slopes"], case["bias"], case["window"]
    lengths = torch.tensor(case["lengths"])
    masks = {"window": lambda b, h, i, j: (i >= j) & (i - j < window), "documents": lambda b, h, i, j: ids[i] == ids[j],
             "documents_causal": lambda b, h, i, j: (i >= j) & (ids[i] == ids[j]), "padded": lambda b, h, i, j: j < lengths[b], "full": None, "bias": None}
    scores = {"alibi": lambda s, b, h, i, j: s + slopes[h] * (j - i), "softcap": lambda s, b, h, i, j: CAP * torch.tanh(s / CAP),
              "bias": lambda s, b, h, i, j: s + bias[b, h, i, j]}
    mask = masks.get(variant, lambda b, h, i, j: i >= j)
    blocks = mask and create_block_mask(mask, q.shape[0] if variant == "padded" else None, None, case["queries"], case["keys"], device="cpu")
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    gqa = q.shape[1] != k.shape[1]
    if variant == "differential":
        (q2, k2), share = case["second"], slopes[:, None, None]
        # Joined outside: PyTorch 2.15 refuses to compile what stands behind a call of it on CPUs.
        first = torch.compile(flex_attention, dynamic=False, fullgraph=True)
        both = lambda: torch.addcmul(first(q, k, v, block_mask=blocks), first(q2, k2, v, block_mask=blocks), share, value=-1)
        yield "FlexAttention, two calls", both
        return
    if variant in ("moba", "nsa"):
        size, of_queries = case["block"], 64
        seen = torch.zeros(q.shape[0], q.shape[1], case["queries"], case["keys"] // size, dtype=torch.bool)  # one tensor, or each call would be compiled
        visible_here = lambda b, h, i, j: (i >= j) & seen[b, h, i, j // size]
        near = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < case["nsa_window"]), None, None, case["queries"], case["keys"], device="cpu")
        first = torch.compile(flex_attention, dynamic=False, fullgraph=True)

        def over_chosen(chosen):
            seen.copy_(chosen)
            visited = chosen.view(*chosen.shape[:2], -1, of_queries, chosen.shape[3]).any(3)
            order = torch.argsort(visited.int(), dim=-1, descending=True, stable=True).int()
            mask = BlockMask.from_kv_blocks(visited.sum(-1, dtype=torch.int32), order, BLOCK_SIZE=(of_queries, size), mask_mod=visible_here, compute_q_blocks=False)
            return compiled(q, k, v, block_mask=mask, enable_gqa=gqa)
        yield "FlexAttention", choosing(torch, case, q, k, v, over_chosen, lambda: first(q, k, v, block_mask=near, enable_gqa=gqa))
        return
    yield "FlexAttention", lambda: compiled(q, k, v, score_mod=scores.get(variant), block_mask=blocks, enable_gqa=gqa)


def session(threads, node, inputs, outputs, feeds, results, in_place=()):
    """A model of one node on memory of its own: a call, and the array of its first output."""
    import onnxruntime
    from onnx import helper
    information = lambda tensors: [helper.make_tensor_value_info(name, kind, list(shape)) for name, (kind, shape) in tensors.items()]
    graph = helper.make_graph([node], "case", information(inputs), information(outputs))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)], ir_version=11)
    how = onnxruntime.SessionOptions()
    how.intra_op_num_threads, how.inter_op_num_threads, how.log_severity_level = threads, 1, 4
    how.add_session_config_entry("session.force_spinning_stop", "1")  # between calls, so that the others have the cores
    made = onnxruntime.InferenceSession(model.SerializeToString(), how, providers=["CPUExecutionProvider"])
    memory = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in {**feeds, **results}.items()}
    binding = made.io_binding()
    for name in feeds:
        binding.bind_ortvalue_input(name, memory[name])
    for name in results:
        binding.bind_ortvalue_output(name, memory[name])
    for name, same in in_place:
        binding.bind_ortvalue_output(name, memory[same])

    def call():
        made.run_with_iobinding(binding)
        return memory["out"].numpy()
    return call


def additive(torch, case, numpy):
    """Masks and biases as one float tensor (1 or batch, 1 or heads, queries, keys)."""
    i, j = positions(torch, case)
    bias = case["bias"] if case["variant"] == "bias" else case["slopes"][:, None, None] * (j - i) if case["variant"] == "alibi" else torch.zeros(1, case["queries"], case["keys"])
    seen = visible(torch, case)
    bias = bias if seen is None else bias.masked_fill(~seen, torch.finfo(torch.float32).min)
    return numpy.ascontiguousarray((bias if bias.dim() == 4 else bias[None]).numpy())


def onnx_runtime(torch, case, q, k, v, threads):
    """ONNX Runtime's operators, each on the layout that it reads. f32 only: its CPU provider has no bf16. Where k and v have room for more than the keys of the case,
    a cache has, too; operators without caches get the keys alone."""
    import numpy
    from onnx import TensorProto, helper
    room, k, v = (k, v), k[:, :, :case["keys"]].contiguous(), v[:, :, :case["keys"]].contiguous()
    if case["dtype"] != "f32":
        raise unsupported("no bf16")
    variant, heads, key_heads, queries, keys = case["variant"], q.shape[1], k.shape[1], case["queries"], case["keys"]
    if variant in ("differential", "moba", "nsa"):
        raise unsupported("no operator with two softmaxes, or that chooses")
    flat = lambda x: numpy.ascontiguousarray(x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1).numpy())
    by_head = lambda call: lambda: torch.from_numpy(call()).view(q.shape[0], queries, heads, -1).transpose(1, 2)
    kinds = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}
    of = lambda arrays: {name: (kinds[str(array.dtype)], array.shape) for name, array in arrays.items()}

    if heads == key_heads and variant != "softcap":
        feeds, names, how = {"q": flat(q), "k": flat(k), "v": flat(v)}, ["q", "k", "v"], {}
        if variant == "causal":
            how = {"unidirectional": 1}
        elif variant == "padded":
            feeds["lengths"], names = numpy.array(case["lengths"], numpy.int32), [*names, "", "lengths"]
        elif variant != "full":
            feeds["bias"], names = additive(torch, case, numpy), [*names, "", "", "bias"]
        node = helper.make_node("MultiHeadAttention", names, ["out"], domain="com.microsoft", num_heads=heads, **how)
        results = {"out": numpy.zeros_like(feeds["q"])}
        yield "ORT MultiHeadAttention", lambda: by_head(session(threads, node, of(feeds), of(results), feeds, results))

    decodes = queries == 1
    if decodes or variant not in ("full", "padded", "bias", "documents"):
        past = keys - queries
        inputs = {"q": flat(q), "k": flat(k[:, :, past:]), "v": flat(v[:, :, past:]), "last": numpy.full((q.shape[0],), keys - 1, numpy.int32), "total": numpy.array(keys, numpy.int32)}
        order, shared, how = ["q", "k", "v", "", "", "last", "total"], [], {}
        made = {"out": numpy.zeros_like(inputs["q"])}
        caches = dict(zip(("now_k", "now_v"), room))
        if past:  # all but the newest token lie in the cache, which is updated in place
            for name, tensor in zip(("past_k", "past_v"), room):
                inputs[name] = tensor.numpy().copy()
            order[3:5], shared = ["past_k", "past_v"], [("now_k", "past_k"), ("now_v", "past_v")]
        else:
            made.update({name: numpy.zeros(tensor.shape, numpy.float32) for name, tensor in caches.items()})
        if variant == "window":
            how = {"local_window_size": case["window"]}
        elif variant == "softcap":
            how = {"softcap": CAP}
        elif variant in ("alibi", "documents_causal"):
            inputs["bias"], order = additive(torch, case, numpy), [*order, "", "", "", "bias"]
        grouped = helper.make_node("GroupQueryAttention", order, ["out", "now_k", "now_v"], domain="com.microsoft", num_heads=heads, kv_num_heads=key_heads, **how)
        outputs = {"out": (TensorProto.FLOAT, inputs["q"].shape), **{name: (TensorProto.FLOAT, tuple(tensor.shape)) for name, tensor in caches.items()}}
        yield "ORT GroupQueryAttention", lambda: by_head(session(threads, grouped, of(inputs), outputs, inputs, made, shared))

    arrays, arguments, options = {"q": q.numpy(), "k": k.numpy(), "v": v.numpy()}, ["q", "k", "v"], {}
    if variant in ("causal", "softcap"):
        options["is_causal"] = 1
    if variant == "softcap":
        options["softcap"] = CAP
    if variant in ("alibi", "bias"):
        arrays["mask"] = additive(torch, case, numpy)
    elif variant not in ("full", "causal", "softcap"):
        seen = visible(torch, case)
        arrays["mask"] = numpy.ascontiguousarray((seen.expand(-1, -1, queries, -1) if seen.dim() == 4 else seen).numpy())
    attend = helper.make_node("Attention", arguments + ["mask"] * ("mask" in arrays), ["out"], **options)
    whole = {"out": numpy.zeros(q.shape, numpy.float32)}

    def standard():
        call = session(threads, attend, of(arrays), of(whole), arrays, whole)
        return lambda: torch.from_numpy(call())
    yield "ORT Attention", standard


def openvino(torch, case, q, k, v, threads):
    """OpenVINO's ScaledDotProductAttention, on memory of its own, in the precision of the case. Tensors of the model are f32 where the precision is bf16, too: the
    plug-in rounds them as it reads them, which is faster here than bf16 at its borders. Grouped keys are repeated in the model, in the form that its fusions know."""
    import numpy, openvino as ov
    from openvino import opset13 as ops
    variant, heads, key_heads = case["variant"], q.shape[1], k.shape[1]
    if variant in ("softcap", "differential", "moba", "nsa"):
        raise unsupported("no operator for it")
    arrays = {name: x.float().contiguous().numpy() for name, x in zip("qkv", (q, k, v))}
    inputs = {name: ops.parameter(list(x.shape), numpy.float32, name=name) for name, x in arrays.items()}

    def by_query_head(x):
        if heads == key_heads:
            return x
        ones = ops.constant(numpy.ones((1, 1, heads // key_heads, 1, 1), numpy.float32))
        shape = numpy.array([q.shape[0], heads, -1, q.shape[3]], numpy.int64)
        return ops.reshape(ops.multiply(ops.unsqueeze(x, ops.constant(numpy.int32(2))), ones), ops.constant(shape), False)

    def made(masks, **how):
        """A call; `masks` holds one array or none."""
        given = {**inputs, **{name: ops.parameter(list(x.shape), x.dtype.type, name=name) for name, x in masks.items()}}
        attended = ops.scaled_dot_product_attention(given["q"], by_query_head(given["k"]), by_query_head(given["v"]), *[given[name] for name in masks], **how)
        compiled = ov.Core().compile_model(ov.Model([ops.result(attended)], list(given.values())), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": case["dtype"], "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1})
        request, out = compiled.create_infer_request(), numpy.zeros(q.shape, numpy.float32)
        tensors = [ov.Tensor(x, shared_memory=True) for x in (*arrays.values(), *masks.values())]
        for at, tensor in enumerate(tensors):
            request.set_input_tensor(at, tensor)
        request.set_output_tensor(0, ov.Tensor(out, shared_memory=True))

        def call(keep=(arrays, masks)):  # the model reads their memory
            request.infer()
            return torch.from_numpy(out)
        return call

    if variant == "causal" and case["queries"] == case["keys"]:  # its triangle begins at the first key
        yield "OpenVINO", lambda: made({}, causal=True)
    if variant in ("alibi", "bias"):
        yield "OpenVINO, float mask", lambda: made({"mask": additive(torch, case, numpy)}, causal=False)
    elif variant == "full" or (variant == "causal" and case["queries"] == 1):
        yield "OpenVINO", lambda: made({}, causal=False)
    else:
        seen = visible(torch, case)
        seen = numpy.ascontiguousarray((seen.expand(-1, 1, case["queries"], -1) if seen.dim() == 4 else seen[None, None]).numpy())
        yield "OpenVINO, bool mask", lambda: made({"mask": seen}, causal=False)


def peers(torch, case, q, k, v, threads):
    """(name, call) for each peer, (name, the reason) where it cannot."""
    import ggml_peer
    if case["variant"] == "chat":  # the keys in use, as each takes them best: PyTorch where they lie
        case = {**case, "variant": "full", "keys": case["used"]}
        k, v = k[:, :, :case["used"]], v[:, :, :case["used"]]
    dense = k.contiguous(), v.contiguous()
    yield from sdpa(torch, case, q, k, v)
    for name, family in (("FlexAttention", lambda: flex(torch, case, q, k, v)), ("ORT", lambda: onnx_runtime(torch, case, q, *dense, threads)),
                         ("OpenVINO", lambda: openvino(torch, case, q, *dense, threads)), ("ggml", lambda: ggml_peer.ggml(torch, case, q, *dense, threads))):
        try:
            for each, call in family():
                try:
                    yield each, call if name == "FlexAttention" else call()
                except Exception as problem:  # whatever the peer throws is its answer
                    yield each, reason(problem)
        except Exception as problem:
            yield name, reason(problem)


def reason(problem):
    return f"{type(problem).__name__}: {problem}".split("\n")[0][:160]

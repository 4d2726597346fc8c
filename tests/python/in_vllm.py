"""attune.vllm behind vLLM's own abstract classes: in_vllm.py KERNELS, the formulas of runtime/python/attune/vllm.hpp that the cases name, for depth 64. Every result is compared with a
loop in double precision over a cache that the backend stored itself, by slots, page by page in random order."""
import os
import pathlib
import sys
import tempfile
import tomllib
import types

os.environ["ATTUNE_VLLM_KERNELS"] = sys.argv[1]

import torch
import vllm
from vllm import envs, plugins
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.attention.backend import AttentionType, CommonAttentionMetadata
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.attention.selector import AttentionSelectorConfig
from vllm.v1.kv_cache_interface import FullAttentionSpec

import attune.vllm
from attune.vllm import Backend

print("PyTorch", torch.__version__, "vLLM", vllm.__version__)
DEPTH, PAGE, HEADS, KEY_HEADS = 64, 16, 6, 3
torch.manual_seed(1)


def cache_of(layout, pages, dtype):
    """Of vLLM's logical shape (pages, key heads, tokens, 2 * depth); pages that nobody stored to hold NaN."""
    shape = (pages, KEY_HEADS, PAGE, 2 * DEPTH)
    made = torch.empty(shape if layout == "heads first" else (pages, PAGE, KEY_HEADS, 2 * DEPTH), dtype=dtype).fill_(float("nan"))
    return made if layout == "heads first" else made.transpose(1, 2)


def loop(q, cache, table, lengths, starts, left, causal, cap, slopes, sinks, scale):
    """The same by one query, head and key after another, in double precision."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    for row, length in enumerate(lengths):
        keys = torch.stack([cache[table[row][j // PAGE], :, j % PAGE].double() for j in range(length)]) if length else torch.empty(0, KEY_HEADS, 2 * DEPTH, dtype=torch.float64)
        for at in range(starts[row], starts[row + 1]):
            place = length - (starts[row + 1] - at)
            first, end = max(0, place - left) if left >= 0 else 0, min(length, place + 1) if causal else length
            for head in range(HEADS):
                k, v = keys[first:end, head // (HEADS // KEY_HEADS)].split(DEPTH, dim=1)
                scores = k @ q[at, head].double() * scale
                if cap:
                    scores = cap * torch.tanh(scores / cap)
                if slopes is not None:
                    scores = scores + slopes[head] * (torch.arange(first, end, dtype=torch.float64) - place)
                every = scores if sinks is None else torch.cat([scores, sinks[head].double()[None]])
                out[at, head] = torch.softmax(every, 0)[:len(scores)] @ v
    return out


def step(counts, earlier, layout="heads first", dtype=torch.float32, causal=True, most=2e-5, padding=0, scale=DEPTH**-0.5, **of_layer):
    """One step of a batch: `counts` new tokens after `earlier` ones in each sequence, and rows of padding behind them."""
    slopes = [2.0**-i for i in range(1, HEADS + 1)] if of_layer.pop("alibi", False) else None
    sinks = torch.randn(HEADS) if of_layer.pop("sinks", False) else None
    layer = Backend.get_impl_cls()(HEADS, DEPTH, scale, KEY_HEADS, slopes, of_layer.get("window"), "auto", of_layer.get("cap"), AttentionType.DECODER, None, **({"sinks": sinks} if sinks is not None else {}))
    lengths = [a + b for a, b in zip(counts, earlier)]
    blocks = [-(-length // PAGE) for length in lengths]
    order = torch.randperm(sum(blocks) + 3).tolist()
    table = torch.full((len(counts), max(blocks) + 2), -7, dtype=torch.int32)  # entries beyond what is in use may be anything
    for row, many in enumerate(blocks):
        table[row, :many] = torch.tensor([order.pop() for _ in range(many)], dtype=torch.int32)
    cache = cache_of(layout, sum(blocks) + 3, dtype)

    def slots(row, begin, end):
        return [int(table[row, j // PAGE]) * PAGE + j % PAGE for j in range(begin, end)]

    def stored(where):
        k, v = torch.randn(2, len(where), KEY_HEADS, DEPTH).to(dtype)
        layer.do_kv_cache_update(None, k, v, cache, torch.tensor(where, dtype=torch.int64))
        return k, v

    stored([slot for row, begin in enumerate(earlier) for slot in slots(row, 0, begin)])
    starts = [sum(counts[:i]) for i in range(len(counts) + 1)]
    new = [slot for row, begin in enumerate(earlier) for slot in slots(row, begin, lengths[row])] + [-1] * padding
    before = cache.clone()
    k, v = stored(new)
    for i, slot in enumerate(new[:starts[-1]]):
        assert torch.equal(cache[slot // PAGE, :, slot % PAGE], torch.cat([k[i], v[i]], dim=1)), slot
        before[slot // PAGE, :, slot % PAGE] = cache[slot // PAGE, :, slot % PAGE]
    assert torch.equal(before.nan_to_num(7), cache.nan_to_num(7)), "expected nothing else to be written"

    common = CommonAttentionMetadata(
        query_start_loc=torch.tensor(starts, dtype=torch.int32), query_start_loc_cpu=torch.tensor(starts, dtype=torch.int32), seq_lens=torch.tensor(lengths, dtype=torch.int32),
        num_reqs=len(counts), num_actual_tokens=starts[-1], max_query_len=max(counts), max_seq_len=max(lengths), block_table_tensor=table, slot_mapping=torch.tensor(new), causal=causal)
    spec = FullAttentionSpec(block_size=PAGE, num_kv_heads=KEY_HEADS, head_size=DEPTH, dtype=dtype)
    builder = Backend.get_builder_cls()(spec, ["layer"], types.SimpleNamespace(), torch.device("cpu"))
    built = builder.build(0, common)
    q = torch.randn(starts[-1] + padding, HEADS, DEPTH).to(dtype)
    out = torch.full(q.shape, 99.0, dtype=dtype)
    assert layer.forward(None, q, k, v, cache, built, out) is out
    assert (out[starts[-1]:] == 99).all(), "expected rows of padding as they were"
    window = of_layer.get("window")
    expected = loop(q, cache, table.tolist(), lengths, starts, -1 if window is None else window - 1, causal, of_layer.get("cap"), slopes, sinks, scale)[:starts[-1]]
    error = (out[:starts[-1]].double() - expected).abs().max().item()
    assert error <= most, (counts, earlier, of_layer, error)
    shifted = builder.update_block_table(built, table.flip(0), torch.tensor(new))
    assert torch.equal(shifted.block_table, table.flip(0)) and shifted.tokens == built.tokens
    return error


for layout in ("heads first", "tokens first"):
    errors = [step([1, 1, 1], [40, 0, 17], layout),                                     # decode
              step([23, 1, 37], [0, 29, 50], layout, padding=3),                        # a prompt, a token, a chunk of a prompt
              step([1, 0, 5], [33, 0, 3], layout),                                      # a row of a batch that holds no sequence
              step([9, 1], [31, 70], layout, window=7),
              step([9, 1], [3, 2], layout, window=7),                                   # wider than what is there
              step([9, 1], [31, 70], layout, cap=3.0),
              step([9, 1], [31, 70], layout, alibi=True),
              step([9, 1], [31, 70], layout, sinks=True, window=20),
              step([6, 3], [11, 30], layout, causal=False),
              step([9, 1], [31, 70], layout, scale=300.0, most=2e-3),                   # scores of some thousands
              step([9, 1], [31, 70], layout, dtype=torch.bfloat16, most=2e-2)]
    print(layout, "largest errors", *(f"{error:.1e}" for error in errors))


# What is refused, and before anything is written.
def refused(words, call, kind=Exception):
    try:
        call()
    except kind as problem:
        said = str(problem)
        assert said.startswith("attune: expected ") and words in said and "; try " in said, said
        return
    raise AssertionError(f"expected a refusal with {words}")


def layer_of(**named):
    return Backend.get_impl_cls()(**{**dict(num_heads=HEADS, head_size=DEPTH, scale=0.1, num_kv_heads=KEY_HEADS), **named})


refused("got attention of type encoder_only", lambda: layer_of(attn_type=AttentionType.ENCODER_ONLY), NotImplementedError)
refused("got one of fp8", lambda: layer_of(kv_cache_dtype="fp8"), NotImplementedError)
refused("got capped and with_sinks", lambda: layer_of(logits_soft_cap=3.0, sinks=torch.zeros(HEADS)), NotImplementedError)
refused("got alignment", lambda: layer_of(alignment=3), NotImplementedError)
cache, rows = cache_of("heads first", 2, torch.float32), torch.ones(1, KEY_HEADS, DEPTH)
refused("slots below 32", lambda: layer_of().do_kv_cache_update(None, rows, rows, cache, torch.tensor([32])))
refused("got (2, 3, 16, 128) in torch.float32", lambda: layer_of().do_kv_cache_update(None, rows.bfloat16(), rows.bfloat16(), cache, torch.tensor([0])))
refused("kv_cache_dtype bfloat16", lambda: layer_of(kv_cache_dtype="bfloat16").do_kv_cache_update(None, rows, rows, cache, torch.tensor([0])))
assert cache.isnan().all()
q, out = torch.ones(1, HEADS, DEPTH), torch.full((1, HEADS, DEPTH), 99.0)
of_step = dict(tokens=1, cu_seqlens_q=torch.tensor([0, 1], dtype=torch.int32), kv_lengths=torch.tensor([3], dtype=torch.int32), block_table=torch.tensor([[2]], dtype=torch.int32), causal=True)
refused("block_table", lambda: layer_of().forward(None, q, rows, rows, cache, attune.vllm.Metadata(**of_step), out))
refused("a causal step", lambda: layer_of(sliding_window=4).forward(None, q, rows, rows, cache, attune.vllm.Metadata(**{**of_step, "causal": False}), out), NotImplementedError)
refused("attention_f16 among the kernels", lambda: layer_of().forward(None, q.half(), rows, rows, cache.half(), attune.vllm.Metadata(**of_step), out.half()))
refused("scales of a quantized one", lambda: layer_of().forward(None, q, rows, rows, cache, attune.vllm.Metadata(**of_step), out, output_scale=torch.ones(1)), NotImplementedError)
assert (out == 99).all() and layer_of().forward(None, q, rows, rows, cache, None, out) is out

# The entry point, as an installed attune has it, and whom vLLM's platform for CPUs then asks.
root = pathlib.Path(attune.__file__).parents[3]
points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["vllm.general_plugins"]
with tempfile.TemporaryDirectory() as folder:
    about = pathlib.Path(folder) / "attune-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: attune\nVersion: 0\n")
    (about / "entry_points.txt").write_text("[vllm.general_plugins]\n" + "".join(f"{name} = {what}\n" for name, what in points.items()))
    sys.path.insert(0, folder)
    asked = AttentionSelectorConfig(head_size=DEPTH, dtype=torch.float32, kv_cache_dtype="auto", block_size=PAGE)
    for named, replaced in ((None, False), ("attune", True)):
        AttentionBackendEnum.CUSTOM.clear_override()
        os.environ.pop("VLLM_PLUGINS", None) if named is None else os.environ.update(VLLM_PLUGINS=named)
        plugins.plugins_loaded = False
        plugins.load_general_plugins()
        assert AttentionBackendEnum.CUSTOM.get_class() is Backend and AttentionBackendEnum[Backend.get_name()] is AttentionBackendEnum.CUSTOM
        assert AttentionBackendEnum.CPU_ATTN.is_overridden() == replaced, named
    assert CpuPlatform.get_attn_backend_cls(AttentionBackendEnum.CPU_ATTN, asked) == "attune.vllm.Backend"
assert not Backend.validate_configuration(DEPTH, torch.bfloat16, "auto", PAGE, False, True, False, False, False, None, AttentionType.DECODER, has_sliding_window=True, use_non_causal=True)
assert Backend.validate_configuration(DEPTH, torch.bfloat16, "fp8", PAGE, True, False, False, False, False, None, AttentionType.ENCODER_ONLY)

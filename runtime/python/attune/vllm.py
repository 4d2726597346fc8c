"""attune as an attention backend of vLLM, on CPUs.

    VLLM_PLUGINS=attune vllm serve ...                            # every attention layer, in place of CPU_ATTN
    VLLM_PLUGINS=attune ATTUNE_VLLM_KERNELS=libmy_kernels.so ...  # by kernels that are compiled ahead of time

vLLM calls register() in each of its processes. What the formulas of vllm.hpp do not say is refused when a layer is made, by a sentence: nothing runs by another backend unsaid.
"""
from __future__ import annotations

import functools
import os
import pathlib
from dataclasses import dataclass
from typing import Any

import torch
from vllm import envs
from vllm.v1.attention.backend import AttentionBackend, AttentionImpl, AttentionMetadata, AttentionMetadataBuilder, AttentionType, CommonAttentionMetadata
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from ._c import Error
from .build import compile
from .library import Library, Options, Variant

__all__ = ["Backend", "Implementation", "Metadata", "MetadataBuilder", "register"]

_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
_CACHES = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}  # None: the model's
_HEADER = pathlib.Path(__file__).with_suffix(".hpp")


def register() -> None:
    """The entry point of vllm.general_plugins. AttentionBackendEnum.CUSTOM becomes attune's backend. vLLM's platform for CPUs asks for none but CPU_ATTN, so where VLLM_PLUGINS
    names attune, attune stands in place of that, too; where it names none, an installed attune changes no model."""
    path = f"{Backend.__module__}.{Backend.__qualname__}"
    register_backend(AttentionBackendEnum.CUSTOM, path)
    if "attune" in (envs.VLLM_PLUGINS or ()):
        register_backend(AttentionBackendEnum.CPU_ATTN, path)


class Backend(AttentionBackend):
    """What vLLM asks before it makes layers."""

    supported_dtypes = list(_TYPES)
    supported_kv_cache_dtypes = [*_CACHES]  # type: ignore[list-item]
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[Implementation]:
        return Implementation

    @staticmethod
    def get_builder_cls() -> type[MetadataBuilder]:
        return MetadataBuilder

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True


@dataclass
class Metadata(AttentionMetadata):
    """A step as a call takes it: queries of all sequences one after another, and pages of each."""
    tokens: int                  # queries, less padding
    cu_seqlens_q: torch.Tensor   # i32 (sequences + 1)
    kv_lengths: torch.Tensor     # i32 (sequences), with the keys of this step
    block_table: torch.Tensor    # i32 (sequences, blocks)
    causal: bool


class MetadataBuilder(AttentionMetadataBuilder[Metadata]):
    """A step's numbers, once for all layers."""

    supports_update_block_table = True

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        if device.type != "cpu":
            raise Error(f"attune: expected a vLLM that runs on a CPU, got {device}; try another attention backend")

    def build(self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False) -> Metadata:
        given = common_attn_metadata
        if not isinstance(given.causal, bool):
            raise Error("attune: expected a step whose sequences are all causal, or none, got a tensor that says it of each; try VLLM_PLUGINS without attune")
        starts = given.query_start_loc[:given.num_reqs + 1].to(torch.int32)
        return Metadata(int(starts[-1]), starts, given.seq_lens[:given.num_reqs].to(torch.int32), given.block_table_tensor[:given.num_reqs].to(torch.int32), given.causal)

    def update_block_table(self, metadata: Metadata, blk_table: torch.Tensor, slot_mapping: torch.Tensor) -> Metadata:
        return Metadata(metadata.tokens, metadata.cu_seqlens_q, metadata.kv_lengths, blk_table[:len(metadata.kv_lengths)].to(torch.int32), metadata.causal)


class Implementation(AttentionImpl[Metadata]):
    """One layer: stores new keys and values by their slots, then attends over the pages.

    A cache is [page, key head, token, key and value beside each other], of any strides but the last.
    """

    def __init__(self, num_heads: int, head_size: int, scale: float, num_kv_heads: int | None = None, alibi_slopes: list[float] | None = None, sliding_window: int | None = None,
                 kv_cache_dtype: str = "auto", logits_soft_cap: float | None = None, attn_type: str = AttentionType.DECODER, kv_sharing_target_layer_name: str | None = None,
                 sinks: torch.Tensor | None = None, **others: Any) -> None:
        self.num_heads, self.head_size, self.scale, self.num_kv_heads = num_heads, head_size, float(scale), num_kv_heads or num_heads
        self.kv_cache_dtype, self.kv_sharing_target_layer_name = kv_cache_dtype, kv_sharing_target_layer_name
        self._left = -1 if sliding_window is None else sliding_window - 1
        self._named: dict[str, Any] = {"scale": self.scale}
        kinds = {"capped": logits_soft_cap or None, "alibi": alibi_slopes, "with_sinks": sinks}
        asked = [kind for kind, value in kinds.items() if value is not None]
        self._kind = asked[0] if asked else "attention"
        own = sorted(name for name, value in others.items() if value is not None and value is not False)
        for holds, wanted, got in ((attn_type == AttentionType.DECODER, "a decoder's attention over its own cache", f"attention of type {getattr(attn_type, 'value', attn_type)}"),
                                   (kv_cache_dtype in _CACHES, f"a cache of {', '.join(_CACHES)}", f"one of {kv_cache_dtype}"),
                                   (len(asked) < 2, "a cap, ALiBi or sinks in a layer", " and ".join(asked)),
                                   (not own, "a layer without arguments of its own model", ", ".join(own))):
            if not holds:
                raise NotImplementedError(f"attune: expected {wanted}, got {got}; try VLLM_PLUGINS without attune")
        if self._kind == "capped":
            self._named["cap"] = float(logits_soft_cap)  # type: ignore[arg-type]
        elif self._kind == "alibi":
            self._named["slopes"] = torch.tensor(alibi_slopes, dtype=torch.float32)
        self._sinks = sinks  # filled when weights are loaded, so read at each call

    def do_kv_cache_update(self, layer: Any, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor) -> None:
        """Stores row i of keys and values at slot_mapping[i], page * tokens of a page + token; where that is below 0, as of padding, not."""
        self._look_at(kv_cache, key)
        slots = slot_mapping.flatten()
        kept = (slots >= 0).nonzero().flatten()
        slots = slots[kept]
        if len(slots) and int(slots.max()) >= kv_cache.shape[0] * kv_cache.shape[2]:
            raise Error(f"attune: expected slots below {kv_cache.shape[0] * kv_cache.shape[2]}, {kv_cache.shape[0]} pages of {kv_cache.shape[2]} tokens, got {int(slots.max())}; try a larger cache")
        pages, tokens = slots // kv_cache.shape[2], slots % kv_cache.shape[2]
        kv_cache[pages, :, tokens, :self.head_size] = key[kept]
        kv_cache[pages, :, tokens, self.head_size:] = value[kept]

    def forward(self, layer: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, attn_metadata: Metadata | None, output: torch.Tensor,
                output_scale: torch.Tensor | None = None, output_block_scale: torch.Tensor | None = None) -> torch.Tensor:
        """query and output: (tokens, heads, depth), of which rows behind the step's last query are left as they are. key and value are in the cache already."""
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("attune: expected an output in the model's element type, got scales of a quantized one; try VLLM_PLUGINS without attune")
        if attn_metadata is None:  # vLLM measures memory
            return output
        self._look_at(kv_cache, query)
        given = attn_metadata
        if not given.causal and self._left >= 0:
            raise NotImplementedError("attune: expected a causal step where a layer has a window, got one that is not; try VLLM_PLUGINS without attune")
        named = dict(self._named)
        if self._sinks is not None:
            named["sinks"] = self._sinks.detach().to(torch.float32)
        rows = slice(0, given.tokens)
        _kernel(self._kind, query.dtype, self.head_size, kv_cache.shape[3] - self.head_size)(
            q=query.detach()[rows].view(given.tokens, self.num_heads, self.head_size).transpose(0, 1)[None], k_pages=kv_cache[..., :self.head_size], v_pages=kv_cache[..., self.head_size:],
            block_table=given.block_table, kv_lengths=given.kv_lengths, cu_seqlens_q=given.cu_seqlens_q, left=self._left, right=0 if given.causal else -1, **named,
            out=output[rows].view(given.tokens, self.num_heads, -1).transpose(0, 1)[None], options=Options(threads=torch.get_num_threads()))
        return output

    def _look_at(self, kv_cache: torch.Tensor, beside: torch.Tensor) -> None:
        wanted = _CACHES[self.kv_cache_dtype] or beside.dtype
        if kv_cache.ndim != 4 or kv_cache.shape[1] != self.num_kv_heads or kv_cache.shape[3] <= self.head_size or kv_cache.dtype != beside.dtype or wanted != beside.dtype:
            raise Error(f"attune: expected a cache of (pages, {self.num_kv_heads}, tokens, more than {self.head_size}) in the model's {beside.dtype}, got {tuple(kv_cache.shape)} in "
                        f"{kv_cache.dtype}, with kv_cache_dtype {self.kv_cache_dtype}; try --kv-cache-dtype auto")


@functools.cache
def _library(path: str) -> Library:
    return Library(path)


@functools.cache
def _kernel(kind: str, dtype: torch.dtype, depth: int, value_depth: int) -> Variant:
    """Of the library that ATTUNE_VLLM_KERNELS names, else compiled now, for prefill and decode, and kept as attune.compile keeps it."""
    if dtype not in _TYPES:
        raise Error(f"attune: expected a model in {', '.join(map(str, _TYPES))}, got {dtype}; try --dtype bfloat16")
    graph = f"attune::vllm::{kind}_{_TYPES[dtype]}"
    if not (path := os.environ.get("ATTUNE_VLLM_KERNELS")):
        library: Library = compile(_HEADER, [graph], depths=[depth if depth == value_depth else f"{depth}x{value_depth}"], dtypes=[_TYPES[dtype]])
    else:
        library = _library(path)
    found = {library[each].__qualname__: library[each] for each in library}
    if graph not in found:
        raise Error(f"attune: expected {graph} among the kernels of {path}, got {', '.join(found)}; try HEADER {_HEADER} GRAPHS {graph} DTYPES {_TYPES[dtype]}")
    return found[graph]

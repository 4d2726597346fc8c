"""attune as an attention of Transformers.

    import attune.transformers
    attune.transformers.register("libmy_kernels.so")      # or register(): kernels are compiled when they are first called
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="attune")

Causal masks, windows, padding and caches are numbers of a call: no mask is built. What the formulas of transformers.hpp do not say is computed by another attention of
Transformers, which one warning names: never by a wrong one.
"""
from __future__ import annotations

import os
import pathlib
import re
import sys
import warnings
from typing import Any, Callable

import torch
import transformers
from transformers import masking_utils
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from . import torch as operators
from ._c import Error
from .build import compile
from .library import Library

__all__ = ["Rule", "register"]

_GRAPHS = ["attune::transformers::attention", "attune::transformers::capped_attention"]
_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
# Arguments of an attention that change nothing of what it computes, or say again what the mask says.
_SAYS_NOTHING = {"dropout", "scaling", "softcap", "position_ids", "cache_position", "use_cache", "sliding_window", "deterministic", "layer_idx", "output_hidden_states", "return_dict", "num_items_in_batch", "logits_to_keep",
                 "is_causal", "output_attentions", "past_key_values", "position_embeddings", "token_type_ids", "mm_token_type_ids"}
_CAUSAL, _ALL = masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function
_BACKWARDS = masking_utils.sliding_window_overlay(1).__code__
_BOTH_WAYS = masking_utils.sliding_window_bidirectional_overlay(1).__code__
_AND = masking_utils.and_masks(_CAUSAL).__code__


def register(kernels: str | os.PathLike[str] | None = None, name: str = "attune") -> None:
    """Makes attn_implementation="attune" known to Transformers, with the mask function beside it.

    kernels  a library of attune_add_torch_library or attune_add_variant(... SHARED) with the graphs of transformers.hpp; without one they are compiled for each depth and element type when
             these are first called, as by attune.compile
    """
    attention = _Attention(_loaded(kernels) if kernels is not None else None)
    transformers.AttentionInterface.register(name, attention)
    transformers.AttentionMaskInterface.register(name, _mask)


def _loaded(path: str | os.PathLike[str]) -> Any:
    library = Library(path)
    for graph in _GRAPHS:
        if graph not in [library[each].__qualname__ for each in library]:
            raise Error(f"attune: expected {graph} among the kernels of {os.fspath(path)}, got {', '.join(library[each].__qualname__ for each in library)}; "
                        f"try HEADER {pathlib.Path(__file__).with_suffix('.hpp')} GRAPHS {' '.join(_GRAPHS)}")
    return operators.load(path) if hasattr(library._interface.library, "attune_torch_namespace") else library


class Rule:
    """A mask as numbers. Whatever else looks at it finds the tensor of True and False that sdpa would have got."""

    def __init__(self, how: dict[str, Any], first: int | None, last: int | None, start: torch.Tensor, lengths: torch.Tensor | None) -> None:
        self._how, self._made = how, None
        self.first, self.last, self.start, self.lengths = first, last, start, lengths
        self.shape, self.ndim, self.dtype = torch.Size((how["batch_size"], 1, how["q_length"], how["kv_length"])), 4, torch.bool

    def dense(self) -> torch.Tensor:
        if self._made is None:
            self._made = _dense(self._how)
        return self._made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.dense(), name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self.dense()[index]

    @classmethod
    def __torch_function__(cls, function: Callable[..., Any], types: Any, given: tuple[Any, ...] = (), named: dict[str, Any] | None = None) -> Any:
        return function(*_plain(given), **_plain(named or {}))


def _plain(value: Any) -> Any:
    if isinstance(value, Rule):
        return value.dense()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def _dense(how: dict[str, Any]) -> torch.Tensor:
    made = masking_utils.sdpa_mask(**{**how, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})
    assert made is not None
    return made


def _limits(function: Any) -> tuple[int | None, int | None] | None:
    """The keys that a mask function of Transformers shows, as distances from the query: None where it has no limit; None for both if it is another function."""
    if function is _CAUSAL:
        return None, 0
    if function is _ALL:
        return None, None
    code = getattr(function, "__code__", None)
    captured = dict(zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__))) if code is not None and getattr(function, "__closure__", None) else {}
    if code is _BACKWARDS:
        return 1 - captured["sliding_window"], None
    if code is _BOTH_WAYS:
        return -captured["sliding_window"], captured["sliding_window"]
    if code is not _AND:
        return None
    found = [_limits(each) for each in captured["mask_functions"]]
    if any(each is None for each in found):
        return None
    firsts, lasts = ([each[side] for each in found if each is not None and each[side] is not None] for side in (0, 1))
    return max(firsts, default=None), min(lasts, default=None)


def _mask(*given: Any, **named: Any) -> Rule | torch.Tensor:
    """What Transformers calls in place of sdpa_mask, with the same arguments."""
    how = {**dict(zip(("batch_size", "q_length", "kv_length", "q_offset", "kv_offset", "mask_function", "attention_mask"), given)), **named}
    padding = how.get("attention_mask")
    if isinstance(padding, Rule):  # made by generate already
        return padding
    for each in ("q_offset", "kv_offset"):  # of a static cache a tensor, which the cache counts on
        how[each] = int(how.get(each, 0))
    limits = _limits(how.get("mask_function", _CAUSAL))
    if limits is None:
        return _dense(how)
    between = how["q_offset"] - how["kv_offset"]
    first, last = (None if limit is None else limit + between for limit in limits)
    start, lengths = torch.zeros(how["batch_size"], dtype=torch.int32), None
    if padding is not None:
        length, offset = how["kv_length"], how["kv_offset"]
        seen = masking_utils.prepare_padding_mask(padding, length, offset)[:, offset:offset + length].bool()
        if not bool(seen.all()):
            count = seen.sum(dim=1)
            begin = seen.int().argmax(dim=1)
            places = torch.arange(length, device=seen.device)
            if not torch.equal(seen, (places >= begin[:, None]) & (places < (begin + count)[:, None])):  # holes
                return _dense(how)
            start, lengths = begin.to("cpu", torch.int32), (begin + count).to("cpu", torch.int32)
    return Rule(how, first, last, start, lengths)


def _others(named: dict[str, Any]) -> list[str]:
    """The arguments that change what an attention computes."""
    return sorted(each for each, given in named.items() if given is not None and each not in _SAYS_NOTHING)


class _Attention:
    """What Transformers calls in place of sdpa_attention_forward."""

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels
        self._compiled: dict[Any, Any] = {}
        self._said: set[tuple[str, str]] = set()

    def __call__(self, module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, dropout: float = 0.0, scaling: float | None = None,
                 softcap: float | None = None, **named: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        rule = attention_mask
        if rule is None:
            causal = named.get("is_causal")
            causal = (getattr(module, "is_causal", True) if causal is None else causal) and query.shape[2] > 1
            rule = Rule({"batch_size": query.shape[0], "q_length": query.shape[2], "kv_length": key.shape[2], "mask_function": _CAUSAL if causal else _ALL}, None, 0 if causal else None,
                        torch.zeros(query.shape[0], dtype=torch.int32), None)
        why = self._why_not(query, key, value, rule, dropout, named)
        if why is None:
            try:
                return self._call(query, key, value, rule, query.shape[3] ** -0.5 if scaling is None else scaling, softcap), None
            except (Error, RuntimeError) as problem:
                if not str(problem).startswith("attune: expected "):
                    raise
                why = str(problem)
        return self._by_another(why, module, (query, key, value), rule, {"dropout": dropout, "scaling": scaling, "softcap": softcap, **named})

    def _why_not(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: Any, dropout: float, named: dict[str, Any]) -> str | None:
        """Why a call is another attention's; None where it is attune's."""
        if not isinstance(rule, Rule):
            return "its mask is a tensor, not a causal mask, a window or padding at the ends of sequences"
        if rule.shape != (query.shape[0], 1, query.shape[2], key.shape[2]) or key.shape[0] != query.shape[0]:
            return f"its mask is for {tuple(rule.shape)}, its queries and keys are {tuple(query.shape)} and {tuple(key.shape)}"
        if dropout:
            return "it has dropout"
        if torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value)):
            return "it needs gradients; try torch.no_grad()"
        if any(each.device.type != "cpu" for each in (query, key, value)):
            return f"its tensors are on {query.device}"
        if named.get("output_attentions"):
            return "its weights are wanted"
        return f"it takes {', '.join(others)}" if (others := _others(named)) else None

    def _call(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: Rule, scaling: float, softcap: float | None) -> torch.Tensor:
        batch, heads, queries, _ = query.shape
        keys = key.shape[2]
        out = query.new_empty(batch, queries, heads, value.shape[3])
        # Tensors of a model may require gradients where none are made, which DLPack does not share.
        given: dict[str, Any] = {"q": query.detach(), "k": key.detach(), "v": value.detach(), "scale": float(scaling), "start": rule.start, "kv_lengths": rule.lengths,
                                 "first": -queries if rule.first is None else rule.first, "last": keys if rule.last is None else rule.last, "out": out.transpose(1, 2)}
        if softcap is not None:
            given["cap"] = float(softcap)
        variant = getattr(self._kernels_for(query, value), "attention" if softcap is None else "capped_attention")
        getattr(variant, "out", variant)(**given)
        return out

    def _kernels_for(self, query: torch.Tensor, value: torch.Tensor) -> Any:
        if self._kernels is not None:
            return self._kernels
        depth = str(query.shape[3]) if query.shape[3] == value.shape[3] else f"{query.shape[3]}x{value.shape[3]}"
        if query.dtype not in _TYPES:
            raise Error(f"attune: expected queries of {', '.join(map(str, _TYPES))}, got {query.dtype}; try model.to(torch.float32)")
        asked = depth, _TYPES[query.dtype]
        if asked not in self._compiled:
            try:
                self._compiled[asked] = compile(pathlib.Path(__file__).with_suffix(".hpp"), _GRAPHS, depths=[depth], dtypes=[asked[1]])
            except Error as problem:  # of this and of all later calls
                self._compiled[asked] = problem
        if isinstance(self._compiled[asked], Error):
            raise self._compiled[asked]
        return self._compiled[asked]

    def _by_another(self, why: str, module: torch.nn.Module, given: tuple[torch.Tensor, ...], rule: Any, named: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """By sdpa where it says all that the call says, else by the model's own attention."""
        by_sdpa = named["softcap"] is None and not named.get("output_attentions") and not set(_others(named)) - {"position_bias"}
        other: Any = sdpa_attention_forward if by_sdpa else getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
        name = "sdpa" if by_sdpa else "eager"
        if other is None:
            raise Error(f"attune: expected an attention of {type(module).__name__} that attune has kernels for, got one of which {why}, and {type(module).__module__} has no eager_attention_forward; "
                        f"try attn_implementation=\"eager\"")
        what = type(module).__name__, re.sub(r"\d+", "", why)  # once for all shapes
        if what not in self._said:
            self._said.add(what)
            warnings.warn(f"attune: {type(module).__name__} runs by {name}, as {why}", stacklevel=4)
        mask = rule.dense() if isinstance(rule, Rule) else rule
        if not by_sdpa and mask.dtype == torch.bool:  # which eager adds
            mask = torch.where(mask, torch.zeros((), dtype=given[0].dtype), torch.finfo(given[0].dtype).min)
        if named["softcap"] is None:  # not every attention has one
            del named["softcap"]
        return other(module, *given, mask, **named)

#!/usr/bin/env python3
"""Gradients of recurrences by PyTorch's autograd through a plain loop over tokens in float64, for recurrences.tests.cpp.

  make_state_gradients.py FOLDER       writes state_NAME.safetensors there; needs torch

What is stored, in f32: the inputs and the cotangents under the names of the graphs in recurrences.hpp, and the gradients. Inputs are
exactly what is stored; gradients were rounded once.
"""
import json
import pathlib
import struct
import sys

import torch
from torch.nn.functional import softplus

DEPTH, VALUE_DEPTH, TOKENS, HEADS = 16, 24, 21, 2


def unit(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def loop(q, k, v, decay, state, beta=None):
    """decay: (b, h, t, d). k and v may have fewer heads than q; a state is a head's."""
    k, v, decay = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v, decay))
    rows = []
    for t in range(q.shape[2]):
        state = decay[:, :, t, :, None] * state
        written = v[:, :, t]
        if beta is not None:
            written = beta[:, :, t, None] * (written - torch.einsum("bhd,bhde->bhe", k[:, :, t], state))
        state = state + k[:, :, t, :, None] * written[:, :, None]
        rows.append(torch.einsum("bhd,bhde->bhe", q[:, :, t], state))
    return torch.stack(rows, 2), state


def by_channel(x):
    return x[..., None].expand(*x.shape, DEPTH)


def retention(q, k_new, v_new, state_in):
    decay = 1 - 2.0 ** (-5 - torch.arange(q.shape[1], dtype=q.dtype))
    out, state = loop(q, k_new, v_new, by_channel(decay[None, :, None].expand(q.shape[:3])), state_in)
    return out * DEPTH**-0.5, state


def mamba2(q, k_new, v_new, state_in, dt_raw, dt_bias, a_log, skip):
    dt = softplus(dt_raw + dt_bias[None, :, None])
    decay = torch.exp(-torch.exp(a_log)[None, :, None] * dt)
    decay = torch.where(torch.arange(q.shape[2]) % 7 == 5, torch.zeros_like(decay), decay)
    out, state = loop(q, k_new, dt[..., None] * v_new, by_channel(decay), state_in)
    return out + skip[None, :, None, None] * v_new, state


def gla(q, k_new, v_new, state_in, gates):
    decay = torch.sigmoid(gates)
    reset = (torch.arange(q.shape[2])[:, None] + torch.arange(DEPTH)) % 5 == 1
    out, state = loop(q, k_new, v_new, torch.where(reset, torch.zeros_like(decay), decay), state_in)
    return out * DEPTH**-0.5, state


def gated_delta(q, k_new, v_new, state_in, gate, beta):
    decay = torch.sigmoid(gate)
    decay = torch.where(torch.arange(q.shape[2]) % 7 == 3, torch.zeros_like(decay), decay)
    out, state = loop(q, unit(k_new), v_new, by_channel(decay), state_in, torch.sigmoid(beta))
    return out * DEPTH**-0.5, state


def kda(q, k_new, v_new, state_in, gates, beta):
    out, state = loop(q, unit(k_new), v_new, torch.sigmoid(gates), state_in, torch.sigmoid(beta))
    return out * DEPTH**-0.5, state


def write(path, tensors):
    header, blobs, at = {}, [], 0
    for name, tensor in sorted(tensors.items()):
        blob = tensor.to(torch.float32).contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(4242)
    of_token, of_state = (1, HEADS, TOKENS), (1, HEADS, DEPTH, VALUE_DEPTH)
    shapes = {
        "q": (*of_token, DEPTH), "k_new": (*of_token, DEPTH), "v_new": (*of_token, VALUE_DEPTH), "state_in": of_state,
        "gate": of_token, "gates": (*of_token, DEPTH), "beta": of_token, "dt_raw": of_token,
        "dt_bias": (HEADS,), "a_log": (HEADS,), "skip": (HEADS,),
    }
    shared = {"k_new": (1, 1, TOKENS, DEPTH)}
    for formula, others in ((retention, {}), (mamba2, shared), (gla, {}), (gated_delta, shared), (kda, {})):
        names = formula.__code__.co_varnames[: formula.__code__.co_argcount]
        inputs = {name: torch.randn({**shapes, **others}[name]).double().requires_grad_() for name in names}
        out, state = formula(**inputs)
        cotangents = {"dout": torch.randn(out.shape).double(), "dstate_out": torch.randn(state.shape).double()}
        loss = (out * cotangents["dout"]).sum() + (state * cotangents["dstate_out"]).sum()
        gradients = torch.autograd.grad(loss, list(inputs.values()))
        made = {"d" + name: each for name, each in zip(names, gradients)}
        write(folder / f"state_{formula.__name__}.safetensors",
              {**{name: each.detach() for name, each in inputs.items()}, **cotangents, **made})


if __name__ == "__main__":
    main()

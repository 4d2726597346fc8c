"""The same training in PyTorch, from the same start: python3 beside_torch.py <bin>/training [steps]. Ends with 1 unless the losses agree within 1e-3."""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import torch

LENGTH, BATCH, HEADS, KEY_HEADS, DEPTH, LAYERS = 64, 4, 2, 1, 32, 2
TEXT = pathlib.Path(__file__).parents[1] / "TUTORIAL.md"


def read(file):
    raw = pathlib.Path(file).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    return {name: torch.frombuffer(bytearray(data[slice(*at["data_offsets"])]), dtype=torch.float32).reshape(at["shape"]).clone().requires_grad_() for name, at in header.items()}


def norm(x, factor):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * factor


def loss_of(model, text, following):
    place = torch.arange(LENGTH)
    distance = (place[None, :] - place[:, None]).float()
    x = model["embedding"][text]
    for layer in range(LAYERS):
        of = lambda name, layer=layer: model[f"layer{layer}.{name}"]
        normed = norm(x, of("norm"))
        q = (normed @ of("queries")).view(BATCH, LENGTH, HEADS, DEPTH).transpose(1, 2)
        k, v = ((normed @ of(name)).view(BATCH, LENGTH, KEY_HEADS, DEPTH).transpose(1, 2).repeat_interleave(HEADS // KEY_HEADS, 1) for name in ("keys", "values"))
        scores = q @ k.transpose(2, 3) / math.sqrt(DEPTH) + of("slopes")[:, None, None] * distance
        out = scores.masked_fill(distance > 0, -math.inf).softmax(-1) @ v
        x = x + out.transpose(1, 2).reshape(BATCH, LENGTH, -1) @ of("out")
        x = x + torch.nn.functional.silu(norm(x, of("norm_again")) @ of("inner")) @ of("outer")
    return torch.nn.functional.cross_entropy((norm(x, model["norm"]) @ model["embedding"].T).flatten(0, 1), following.flatten())


program, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
with tempfile.TemporaryDirectory() as folder:
    start, losses = f"{folder}/start.safetensors", f"{folder}/losses"
    print(subprocess.run([program, "--steps", str(steps), "--save-start", start, "--losses", losses], check=True, capture_output=True, text=True).stdout, end="")
    model, ours = read(start), [float(line) for line in open(losses, encoding="utf-8")]
text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
adam = torch.optim.Adam(model.values(), lr=3e-3, betas=(0.9, 0.99), eps=1e-8)
worst, began = 0.0, time.perf_counter()
for step in range(1, steps + 1):
    first = [(step * BATCH + row) * 7919 % (len(text) - LENGTH) for row in range(BATCH)]
    adam.zero_grad()
    loss = loss_of(model, *(torch.stack([text[at + ahead : at + ahead + LENGTH] for at in first]) for ahead in (0, 1)))
    loss.backward()
    adam.step()
    worst = max(worst, abs(loss.item() - ours[step - 1]))
print(f"PyTorch: loss {loss.item():.4f}, {1e3 * (time.perf_counter() - began) / steps:.1f} ms a step; largest difference of a loss {worst:.1e}")
sys.exit(0 if worst < 1e-3 else 1)

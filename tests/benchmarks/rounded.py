#!/usr/bin/env python3
"""Errors of rounding in decode over a trained model's queries, keys and values, beside those of random numbers.

    cmake --build --preset default --target attune_rounded && python3 tests/benchmarks/rounded.py MODEL [--text README.md] [--keys 256] [--queries 16]

MODEL is the folder of MiniLM-L6 that ./examples/run downloads, with model.safetensors and vocab.txt (or tokenizer.json). The text, as pieces of its vocabulary, goes through
the six layers in double precision; in each the queries of the last tokens are decoded over the keys and values of all. attune_rounded rounds, multiplies and compares.
"""
import argparse, json, math, pathlib, re, struct, subprocess, sys, tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tensors(path):
    """The f32 tensors of a .safetensors file, by name."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    body = data[8 + size:]
    return {name.removeprefix("bert."): np.frombuffer(body[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"]).astype(np.float64)
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def pieces_of(text, folder):
    """WordPiece, of lower-case words."""
    if (folder / "vocab.txt").exists():
        vocabulary = {line: number for number, line in enumerate((folder / "vocab.txt").read_text(encoding="utf-8").split("\n"))}
    else:
        vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    numbers = [vocabulary["[CLS]"]]
    for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower()):
        found, start = [], 0
        while start < len(word):
            end = next((end for end in range(len(word), start, -1) if ("##" * (start > 0) + word[start:end]) in vocabulary), None)
            if end is None:
                found = [vocabulary["[UNK]"]]
                break
            found.append(vocabulary["##" * (start > 0) + word[start:end]])
            start = end
        numbers += found
    return numbers


def layers(weights, numbers, heads=12):
    """q, k and v of each layer: (head, token, depth)."""
    def normal(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * weights[name + ".weight"] + weights[name + ".bias"]

    linear = lambda x, name: x @ weights[name + ".weight"].T + weights[name + ".bias"]
    erf = np.vectorize(math.erf)
    x = normal(weights["embeddings.word_embeddings.weight"][numbers] + weights["embeddings.position_embeddings.weight"][:len(numbers)] +
               weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for number in range(6):
        name = f"encoder.layer.{number}."
        q, k, v = (linear(x, f"{name}attention.self.{which}").reshape(len(numbers), heads, -1).swapaxes(0, 1) for which in ("query", "key", "value"))
        yield q, k, v
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
        w = np.exp(scores - scores.max(-1, keepdims=True))
        out = (w / w.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(x.shape)
        x = normal(x + linear(out, name + "attention.output.dense"), name + "attention.output.LayerNorm")
        inner = linear(x, name + "intermediate.dense")
        x = normal(x + linear(inner * 0.5 * (1 + erf(inner / np.sqrt(2))), name + "output.dense"), name + "output.LayerNorm")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "README.md")
    parser.add_argument("--keys", type=int, default=256)
    parser.add_argument("--queries", type=int, default=16, help="the last tokens, each decoded (default 16)")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_rounded", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"{options.program} is not there; try cmake --build --preset default --target attune_rounded")
    numbers = pieces_of(options.text.read_text(encoding="utf-8"), options.model)
    if len(numbers) < options.keys or options.keys > 512:
        sys.exit(f"expected --keys of at most 512 and of the text's {len(numbers)} pieces, got {options.keys}; try a longer text")
    with tempfile.TemporaryDirectory() as work:
        folders = []
        for number, (q, k, v) in enumerate(layers(tensors(options.model / "model.safetensors"), numbers[:options.keys])):
            folder = pathlib.Path(work) / f"layer {number}"
            folder.mkdir()
            folders.append(folder)
            last = q[:, -options.queries:].swapaxes(0, 1)[:, :, None]  # (query, head, 1, depth): each a sequence
            for name, tensor in (("q", last), ("k", np.broadcast_to(k, (options.queries, *k.shape))), ("v", np.broadcast_to(v, (options.queries, *v.shape)))):
                np.ascontiguousarray(tensor, np.float32).tofile(folder / name)
        shape = ["--sequences", options.queries, "--heads", q.shape[0], "--keys", options.keys, "--depth", q.shape[2]]
        for more in (["--from", *folders], []):
            subprocess.run(list(map(str, [options.program, *shape, *more])), check=True)


if __name__ == "__main__":
    main()

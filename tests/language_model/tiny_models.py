#!/usr/bin/env python3
"""Two models of two and six layers and random weights, a Llama and a Gemma 3, as small GGUF files: what CI runs language_model's code on.

    tiny_models.py FOLDER       # writes tiny_llama.gguf and tiny_gemma.gguf, the same bytes each time

transformers_reference.py made tiny_llama.json and tiny_gemma.json of them. Heads are 64 deep, which kernels of CI are compiled for. The weights come from a formula, so that no generator's version decides."""
import pathlib
import sys

import gguf_file
import numpy as np

WIDTH, INNER, HEADS, KEY_HEADS, DEPTH, LAYERS = 64, 96, 2, 1, 64, 2
WORDS = "the of capital France is Paris and in a to return if def n 1 2 3".split()


def draw(name, *shape):
    """Numbers in (-1, 1) that look random, over the root of the width: the fractions of multiples of an irrational number."""
    start = sum((i + 1) * byte for i, byte in enumerate(name.encode()))
    at = np.arange(np.prod(shape), dtype=np.float64) + start
    return ((at * at * 0.6180339887498949 % 1 * 2 - 1) * 1.7 / np.sqrt(shape[-1])).astype(np.float32).reshape(shape)


def byte_names():
    others = iter(range(256, 512))
    return [chr(byte) if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174 else chr(next(others)) for byte in range(256)]


def tokens_by_ranks():
    names, merges = byte_names(), []
    for word in WORDS:
        for text in (word, names[32] + word):
            merges += [f"{text[:cut]} {text[cut]}" for cut in range(1, len(text))]
    merges = list(dict.fromkeys(merges))
    pieces = list(dict.fromkeys(["<|end|>", *names, *(merge.replace(" ", "") for merge in merges)]))
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.token_type": [3] + [1] * (len(pieces) - 1),
            "tokenizer.ggml.merges": merges, "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.add_bos_token": False}


def tokens_by_scores():
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "\n\n"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [3, 3, 3, 2, 4] + [6] * 256
    begin = len(pieces)
    letters = sorted(set("".join(WORDS)) | {"\u2581", "F", "P"})
    for text in dict.fromkeys([text[:cut] for word in WORDS for text in (word, "\u2581" + word) for cut in range(2, len(text) + 1)] + letters):
        pieces.append(text), kinds.append(1)
    return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.scores": [-1000.0] * begin + [-float(i) for i in range(len(pieces) - begin)], "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.bos_token_id": 2,
            "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_space_prefix": False}


def model(kind):
    gemma = kind == "gemma3"
    values = {"general.architecture": kind}
    sizes = {"block_count": LAYERS, "context_length": 512, "embedding_length": WIDTH, "feed_forward_length": INNER, "attention.head_count": HEADS, "attention.head_count_kv": KEY_HEADS,
             "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e5}
    if gemma:
        sizes |= {"attention.key_length": DEPTH, "attention.sliding_window": 8, "block_count": 6}
    else:
        sizes |= {"attention.head_count": 1}  # a width of 64 is one head
    heads = sizes["attention.head_count"]
    values |= {f"{kind}.{name}": x for name, x in sizes.items()} | (tokens_by_scores() if gemma else tokens_by_ranks())
    tensors = {"token_embd.weight": draw("token_embd", len(values["tokenizer.ggml.tokens"]), WIDTH) * 4, "output_norm.weight": 1 + draw("output_norm", WIDTH)}
    for layer in range(sizes["block_count"]):
        shapes = {"attn_q": (heads * DEPTH, WIDTH), "attn_k": (KEY_HEADS * DEPTH, WIDTH), "attn_v": (KEY_HEADS * DEPTH, WIDTH), "attn_output": (WIDTH, heads * DEPTH), "ffn_gate": (INNER, WIDTH),
                  "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER), "attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
        if gemma:
            shapes |= {"post_attention_norm": (WIDTH,), "post_ffw_norm": (WIDTH,), "attn_q_norm": (DEPTH,), "attn_k_norm": (DEPTH,)}
        for part, shape in shapes.items():
            name = f"blk.{layer}.{part}"
            tensors[name + ".weight"] = draw(name, *shape) if len(shape) == 2 else 1 + draw(name, *shape)
    return values, tensors


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in (("tiny_llama", "llama"), ("tiny_gemma", "gemma3")):
        gguf_file.write(folder / f"{name}.gguf", *model(kind))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What the program language_model says of files that are no models, and of calls that it cannot do: one sentence, and status 2.

usage: check_refusals.py PROGRAM FOLDER       FOLDER: of tiny_models.py"""
import pathlib
import subprocess
import sys

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
good = (folder / "tiny_llama.gguf").read_bytes()
other = folder / "changed.gguf"


def renamed(old, new):
    assert old in good and len(old) == len(new)
    return good.replace(old, new, 1)


CASES = [
    (b"", [], "expected a GGUF file, got nothing that can be read"),
    (b"GGML" + good[4:], [], "expected a file that begins with GGUF, got another one"),
    (good[:4] + b"\x01" + good[5:], [], "expected GGUF of version 2 or 3, got 1"),
    (good[:1000], [], "truncated: expected"),
    (good[:-64], [], "truncated: expected"),
    (renamed(b"blk.1.ffn_up.weight", b"blk.1.ffn_xx.weight"), [], "expected a tensor blk.1.ffn_up.weight of 64 x 96, got none"),
    (renamed(b"llama.block_count", b"llama.block_xxxxx"), [], "expected a value llama.block_count of the kind that models have, got none"),
    (renamed(b"smollm", b"xxxxxx"), [], "expected the tokens of a SmolLM or a Gemma, got tokenizer.ggml.model gpt2 with xxxxxx words"),
    (renamed(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0xlama"), [], "expected a model llama or gemma3, got xlama"),
    (good, ["--slots", "4096"], "expected at most 512 tokens a sequence, which the model was trained on, got 4096"),
    (good, ["--slots", "64", "--tokens", "64"], "expected prompts of 1 to 64 tokens with 64 to say, got"),
    (good, ["--cache", "i8"], "expected a cache f32, got i8"),
]
wrong = []
for data, options, expected in CASES:
    other.write_bytes(data)
    done = subprocess.run([program, "--model", other, "--prompt", "Paris", *options], capture_output=True, text=True)
    print(done.stderr.strip())
    if done.returncode != 2 or expected not in done.stderr or len(done.stderr.splitlines()) != 1:
        wrong.append(f"FAILED  expected status 2 and one line with {expected!r}, got {done.returncode} and {done.stderr!r}")
sys.exit("\n".join(wrong) or None)

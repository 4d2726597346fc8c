#!/usr/bin/env python3
"""Logits, tokens and greedy answers of the program language_model against Transformers' (transformers_reference.py): 2e-3, and the same tokens.

usage: check_logits.py PROGRAM MODEL REFERENCE.json FOLDER [--caches f32 bf16 i8 pages]      MODEL that is not there: skipped (status 77)

Over a cache that rounds, and with weights in bf16, an answer may take another way; there the likeliest tokens behind the prompts count, and how far logits are off."""
import argparse
import array
import json
import pathlib
import subprocess
import sys

WITHIN = {"f32": 2e-3, "bf16": 0.25, "pages": 0.25, "i8": 1.2}


def run(options, arguments):
    done = subprocess.run([options.program, "--model", options.model, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"FAILED  expected status 0 of {' '.join(arguments)}, got {done.returncode}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "model", "reference", "folder"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--caches", nargs="+", default=["f32"])
    options = parser.parse_args()
    if not options.model.exists():
        print(f"skipped: {options.model} is not there; ./tests/run full:language_model fetches it")
        sys.exit(77)
    options.folder.mkdir(parents=True, exist_ok=True)
    reference = json.loads(options.reference.read_text())
    spread, prompts = reference["spread"], reference["prompts"]
    asked = [word for each in prompts for word in ("--prompt", each["prompt"])]
    output = options.folder / "logits"
    wrong = []
    for cache in options.caches:
        run(options, [*asked, "--cache", cache, "--logits", str(output)])
        logits = array.array("f", output.read_bytes())
        if any(x != x for x in logits):
            sys.exit(f"FAILED  expected numbers over a cache {cache}, got NaN")
        tokens = sum(len(each["tokens"]) for each in prompts)
        vocabulary, rest = divmod(len(logits), tokens)
        if rest:
            sys.exit(f"FAILED  expected logits of {tokens} tokens, got {len(logits)} numbers: prompts were cut into other tokens")
        worst, others, row = 0.0, 0, 0
        for each in prompts:
            count = len(each["tokens"])
            rows = [logits[(row + i) * vocabulary:(row + i + 1) * vocabulary] for i in range(count)]
            row += count
            others += sum(got.index(max(got)) != expected for got, expected in zip(rows, each["likeliest"]))
            for got, expected in zip(rows[-len(each["logits"]):], each["logits"]):
                worst = max(worst, max(abs(x - y) for x, y in zip(got[::spread], expected, strict=True)))
        print(f"{cache}: largest difference of a logit {worst:.1e}; of {tokens} likeliest tokens {others} differ", flush=True)
        if not worst <= WITHIN[cache] or (cache == "f32" and others):
            wrong.append(f"{cache}: expected logits within {WITHIN[cache]} and the same likeliest tokens")
        answers = json.loads(run(options, [*asked, "--cache", cache, "--json", "--tokens", str(len(prompts[0]["greedy"]))]))["sequences"]
        for each, answer in zip(prompts, answers, strict=True):
            if answer["tokens"][:answer["prompt"]] != each["tokens"]:
                wrong.append(f"expected {each['prompt']!r} as {each['tokens']}, got {answer['tokens'][:answer['prompt']]}")
            said = answer["tokens"][answer["prompt"]:]
            same = next((i for i, (x, y) in enumerate(zip(said, each["greedy"])) if x != y), len(said))
            print(f"  {same} of {len(said)} tokens said are Transformers'", flush=True)
            if cache == "f32" and same < len(said):
                wrong.append(f"expected the answer to {each['prompt']!r} as Transformers says it, got another token at {same}")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

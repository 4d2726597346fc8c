#!/usr/bin/env python3
"""Logits, tokens and greedy answers of the program language_model against Transformers' (transformers_reference.py): 2e-3, and the same tokens.

usage: check_logits.py PROGRAM MODEL REFERENCE.json FOLDER [--caches f32 bf16 i8 pages] [--weights f32 bf16]      MODEL that is not there: skipped (status 77)

All prompts are one batch, Transformers' are one by one. Each is then a call alone, too, and its answer is said with drafts. Over a cache that rounds, and with weights in bf16, an answer may take
another way; there the likeliest tokens behind the prompts count, and how far logits are off from those in f32."""
import argparse
import array
import json
import pathlib
import subprocess
import sys

# By cache, weights: logits that are at most so far from Transformers' in f32; the share of likeliest tokens that may be others. With its own keys and values rounded to i8, Transformers is off by
# as much: by 1.7 of Gemma 3, whose logits' root of the mean square is 5 to 12, and there by 0.02 to 0.8 from ours, which round a few numbers to their other neighbour.
WITHIN = {("f32", "f32"): (2e-3, 0), ("bf16", "f32"): (0.25, 0.1), ("pages", "f32"): (0.25, 0.1), ("i8", "f32"): (2, 0.1), ("f32", "bf16"): (0.5, 0.1)}
ALONE = 1e-3  # logits of a prompt alone, beside those in a batch, in f32
DRAFTS = 12

wrong = []


def check(good, text):
    if not good:
        wrong.append(text)


class program:
    def __init__(self, options, prompts):
        self.options, self.prompts = options, prompts

    def __call__(self, prompts, arguments):
        asked = [word for each in prompts for word in ("--prompt", each["prompt"])]
        done = subprocess.run([self.options.program, "--model", self.options.model, *asked, *arguments], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"FAILED  expected status 0 of {' '.join(arguments)}, got {done.returncode}: {done.stderr}")
        return done.stdout

    def logits(self, prompts, arguments):
        """Of each prompt, of each token."""
        output = self.options.folder / "logits"
        self(prompts, [*arguments, "--logits", str(output)])
        logits = array.array("f", output.read_bytes())
        if any(x != x for x in logits):
            sys.exit(f"FAILED  expected numbers of {' '.join(arguments)}, got NaN")
        tokens = sum(len(each["tokens"]) for each in prompts)
        vocabulary, rest = divmod(len(logits), tokens)
        if rest:
            sys.exit(f"FAILED  expected logits of {tokens} tokens, got {len(logits)} numbers: prompts were cut into other tokens")
        rows = iter(range(tokens))
        return [[logits[row * vocabulary:(row + 1) * vocabulary] for _, row in zip(each["tokens"], rows)] for each in prompts]

    def answers(self, prompts, arguments):
        got = json.loads(self(prompts, [*arguments, "--json", "--tokens", str(len(prompts[0]["greedy"]))]))
        return got["sequences"], got["generated_tokens"] / max(got["generation_steps"], 1)


def difference(xs, ys):
    return max(abs(x - y) for x, y in zip(xs, ys, strict=True))


def likeliest(row):
    return row.index(max(row))


def check_rounded(run, cache, weights, spread):
    """The batch's logits beside Transformers'."""
    got = run.logits(run.prompts, ["--cache", cache, "--weights", weights])
    within, share = WITHIN[cache, weights]
    tokens = sum(map(len, got))
    others = sum(likeliest(row) != expected for rows, each in zip(got, run.prompts) for row, expected in zip(rows, each["likeliest"], strict=True))
    worst = max(difference(row[::spread], expected) for rows, each in zip(got, run.prompts) for row, expected in zip(rows[-len(each["logits"]):], each["logits"], strict=True))
    print(f"cache {cache}, weights {weights}: largest difference of a logit {worst:.1e}; of {tokens} likeliest tokens {others} differ", flush=True)
    check(worst <= within and others <= share * tokens, f"cache {cache}, weights {weights}: expected logits within {within} and at most {share:.0%} other likeliest tokens")
    return got


def check_answers(run, cache, weights):
    """Answers of the batch, then with drafts, beside Transformers', which are to be the same in f32."""
    for drafts in (0, DRAFTS):
        answers, tokens_a_step = run.answers(run.prompts, ["--cache", cache, "--weights", weights, "--drafts", str(drafts)])
        for each, answer in zip(run.prompts, answers, strict=True):
            cut, tokens = answer["tokens"][:answer["prompt"]], answer["tokens"][answer["prompt"]:]
            check(cut == each["tokens"], f"expected {each['prompt']!r} as {each['tokens']}, got {cut}")
            same = next((i for i, (x, y) in enumerate(zip(tokens, each["greedy"])) if x != y), len(tokens))
            print(f"  {same} of {len(tokens)} tokens said with {drafts} drafts are Transformers'", flush=True)
            if (cache, weights) == ("f32", "f32"):
                check(same == len(tokens), f"expected the answer to {each['prompt']!r} with {drafts} drafts as Transformers says it, got another token at {same}")
        print(f"  {tokens_a_step:.2f} tokens a step of {len(run.prompts)} prompts", flush=True)


def check_alone(run, batched):
    """Each prompt as a call of its own."""
    for each, rows in zip(run.prompts, batched):
        alone, = run.logits([each], [])
        worst = max(map(difference, alone, rows))
        answers, tokens_a_step = run.answers([each], ["--drafts", str(DRAFTS)])
        print(f"alone: largest difference of a logit from those in the batch {worst:.1e}; {tokens_a_step:.2f} tokens a step with {DRAFTS} drafts", flush=True)
        check(worst <= ALONE, f"expected logits of {each['prompt']!r} alone within {ALONE} of those in the batch, got {worst}")
        said = answers[0]["tokens"][answers[0]["prompt"]:]
        check(said == each["greedy"][:len(said)], f"expected the answer to {each['prompt']!r} alone with drafts as Transformers says it, got {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "model", "reference", "folder"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--caches", nargs="+", default=["f32"])
    parser.add_argument("--weights", nargs="+", default=["f32"])
    options = parser.parse_args()
    if not options.model.exists():
        print(f"skipped: {options.model} is not there; ./tests/run full:language_model fetches it")
        sys.exit(77)
    options.folder.mkdir(parents=True, exist_ok=True)
    reference = json.loads(options.reference.read_text())
    run = program(options, reference["prompts"])
    for cache, weights in [(cache, "f32") for cache in options.caches] + [("f32", weights) for weights in options.weights if weights != "f32"]:
        batched = check_rounded(run, cache, weights, reference["spread"])
        check_answers(run, cache, weights)
        if (cache, weights) == ("f32", "f32"):
            check_alone(run, batched)
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A whole model in a llama.cpp that nobody changed, with the backend and without.

    models.py --generate PROGRAM --backend libggml-attune.so --model FILE.gguf --text FILE

Over a cache in f32 ggml's own flash attention rounds nothing, either: greedy tokens are equal. Over f16 it adds values up in f16, over codes it rounds queries; a
model whose weights are codes rounds what such differences become, so that perplexities agree within 0.5 %."""
import argparse, json, math, os, subprocess, sys

TOKENS = {"f32": 100, "f16": 1, "q8_0": 1}
WITHIN = {"f32": 1e-3, "f16": 5e-3, "q8_0": 5e-3}


def run(options, backend, cache, tokens):
    environment = {name: value for name, value in os.environ.items() if name != "GGML_BACKEND_PATH"}
    if backend:
        environment["GGML_BACKEND_PATH"] = options.backend
    done = subprocess.run([options.generate, options.model, options.text, cache, str(options.threads), str(tokens)], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--generate", "--backend", "--model", "--text"):
        parser.add_argument(name, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    wrong = []
    for cache, within in WITHIN.items():
        tokens = TOKENS[cache]
        expected, got = (run(options, backend, cache, tokens) for backend in (False, True))
        ratio = math.exp(got["surprise"] - expected["surprise"])
        same = sum(a == b for a, b in zip(got["greedy"], expected["greedy"]))
        print(f"{cache}: perplexity of {got['tokens']} tokens {math.exp(got['surprise']):.4f}, {ratio - 1:+.4%} of llama.cpp's own; {same} of {tokens} greedy tokens equal; "
              f"graph in {got['splits']} parts, without the backend in {expected['splits']}", flush=True)
        if got["splits"] <= expected["splits"]:
            wrong.append(f"{cache}: expected more parts of the graph with the backend, got {got['splits']}: it computed nothing")
        if abs(ratio - 1) > within:
            wrong.append(f"{cache}: expected perplexities within {within:.1%}, got {ratio - 1:+.3%}")
        if cache == "f32" and same != tokens:
            wrong.append(f"{cache}: expected {tokens} equal tokens, got {same}")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

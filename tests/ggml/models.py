#!/usr/bin/env python3
"""A whole model in a llama.cpp that nobody changed, with the backend and without: perplexities of a text.

    models.py --perplexity PROGRAM --backend libggml-attune.so --model FILE.gguf --text FILE

They agree within 0.5 %, not to the last bit: weights of the model are codes, so that ggml rounds what is multiplied with them, and the least difference becomes a step.
llama.cpp's own results with flash attention and without differ as much; of its greedy tokens the first differs where two are nearly as likely."""
import argparse, json, math, os, subprocess, sys

CACHES = ("f16", "q8_0")  # llama.cpp makes f16 of one in f32
WITHIN = 5e-3


def run(options, backend, cache):
    environment = {name: value for name, value in os.environ.items() if name != "GGML_BACKEND_PATH"}
    if backend:
        environment["GGML_BACKEND_PATH"] = options.backend
    done = subprocess.run([options.perplexity, options.model, options.text, cache, str(options.threads)], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--perplexity", "--backend", "--model", "--text"):
        parser.add_argument(name, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    wrong = []
    for cache in CACHES:
        expected, got = (run(options, backend, cache) for backend in (False, True))
        change = math.exp(got["surprise"] - expected["surprise"]) - 1
        print(f"{cache}: perplexity of {got['tokens']} tokens {math.exp(got['surprise']):.4f}, {change:+.4%} of llama.cpp's own; graph in {got['splits']} parts, without the backend in {expected['splits']}", flush=True)
        if got["splits"] <= expected["splits"]:
            wrong.append(f"{cache}: expected more parts of the graph with the backend, got {got['splits']}: it computed nothing")
        if abs(change) > WITHIN:
            wrong.append(f"{cache}: expected perplexities within {WITHIN:.1%}, got {change:+.3%}")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

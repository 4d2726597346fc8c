#!/usr/bin/env python3
"""Whole models in a llama.cpp that nobody changed, with the backend and without: perplexities of a text, and 200 tokens behind its first 64.

    models.py --programs FOLDER --backend libggml-attune.so --text FILE MODEL.gguf...

For each cache: the perplexity by llama.cpp's own attention and by the backend's; the error of each against attention in double over the same tensors; the perplexity where that in double stands
in for all attention, which is the same with the backend and without; and how far that one moves if each number of it changes by about 1e-6. A model's weights and a cache of codes are rounded, so
the least difference becomes a step of a code: what two ways of rounding give differs as much as that, whichever is nearer. Tokens are chosen without the backend, and then with it at the same places behind the same tokens; logits are
compared with those where attention is in double, again beside noise of 1e-6."""
import argparse, json, math, os, subprocess, sys, tempfile

CACHES = ("f16", "q8_0", "q4_0")  # llama.cpp gives a cache in f32 to the operator as f16
NOISE, SEEDS = 1e-6, range(1, 4)
MOST = 1e-11  # the square of the backend's error by that of the values


def run(options, program, model, backend, cache, *more):
    environment = {name: value for name, value in os.environ.items() if name != "GGML_BACKEND_PATH"}
    if backend:
        environment |= {"GGML_BACKEND_PATH": options.backend, "ATTUNE_GGML_SMALLEST": "0"}  # of short operations, too
    command = [os.path.join(options.programs, f"attune_ggml_{program}"), model, options.text, cache, str(options.threads), *map(str, more)]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])


def check_perplexity(options, model, cache):
    own, got = (run(options, "perplexity", model, backend, cache) for backend in (False, True))
    exact_own, exact_got = (run(options, "perplexity", model, backend, cache, "exact") for backend in (False, True))
    change = lambda of, to: math.exp(of["surprise"] - to["surprise"]) - 1
    moved = [change(run(options, "perplexity", model, False, cache, "exact", NOISE, seed), exact_own) for seed in SEEDS]
    print(f"{cache}: {got['tokens']} tokens; perplexity {math.exp(own['surprise']):.4f}, with the backend {change(got, own):+.3%}; in double {change(exact_own, own):+.3%}, "
          f"with noise of {NOISE:g} {', '.join(f'{each:+.3%}' for each in moved)} of that; errors {exact_own['error']:.2e} and with the backend {exact_got['error']:.2e}; "
          f"graph in {got['splits']} parts, without the backend in {own['splits']}", flush=True)
    if got["splits"] <= own["splits"]:
        yield f"expected more parts of the graph with the backend, got {got['splits']}: it computed nothing"
    if exact_got["error"] > MOST:
        yield f"expected an error below {MOST:g}, got {exact_got['error']:.2e}"
    if exact_own["surprise"] != exact_got["surprise"]:
        yield f"expected equal perplexities with attention in double, got {exact_own['surprise']} and {exact_got['surprise']}"
    most = 4 * max(map(abs, [*moved, change(exact_own, own)]))
    if abs(change(got, own)) > most:
        yield f"expected perplexities within {most:.2%}, got {change(got, own):+.3%}"


def check_tokens(options, model, cache):
    with tempfile.TemporaryDirectory(dir=options.programs) as folder:
        chosen, exact = (os.path.join(folder, name) for name in ("chosen", "exact"))
        run(options, "greedy", model, False, cache, chosen)
        got = run(options, "greedy", model, True, cache, chosen)
        os.remove(chosen)
        run(options, "greedy", model, False, cache, exact, "exact")
        replaced = run(options, "greedy", model, True, cache, exact, "exact")
        from_own, from_got = (run(options, "greedy", model, backend, cache, exact) for backend in (False, True))
        moved = [run(options, "greedy", model, False, cache, exact, "exact", NOISE, seed) for seed in SEEDS]
    apart = lambda of: f"{of['same']} choices and {of['apart']:.2e}"
    print(f"{cache}: {got['same']} of 200 tokens are the same choice with the backend and without; logits differ by {got['apart']:.2e}, at most {got['most']:.2e}; from those in double "
          f"{apart(from_own)} without the backend, {apart(from_got)} with it, {', '.join(map(apart, moved))} with noise", flush=True)
    if (replaced["same"], replaced["most"]) != (200, 0):
        yield f"expected equal tokens and logits with attention in double, got {replaced}"
    most = 2 * max(each["apart"] for each in moved)
    if from_got["apart"] > most:
        yield f"expected logits within {most:.2e} of those in double, got {from_got['apart']:.2e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--programs", "--backend", "--text"):
        parser.add_argument(name, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    wrong = []
    for model in options.models:
        print(os.path.basename(model), flush=True)
        for cache in CACHES:
            wrong += [f"{os.path.basename(model)}, {cache}: {each}" for check in (check_perplexity, check_tokens) for each in check(options, model, cache)]
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

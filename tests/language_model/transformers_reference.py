#!/usr/bin/env python3
"""What Transformers makes of a GGUF's weights, dequantised by gguf_file.py: logits of prompts, and the tokens that follow greedily.

    build/torch/bin/python tests/language_model/transformers_reference.py MODEL.gguf OUTPUT.json     # the prompts: prompts.txt, a line each

It wrote smollm2.json, gemma3.json and tiny_*.json beside it. Tokens are those of Transformers' own tokenizers, made of the file's vocabulary."""
import json
import pathlib
import sys

import gguf_file
import numpy as np
import torch
import transformers

NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
LLAMA = NAMES | {"ffn_norm": "post_attention_layernorm"}
GEMMA = NAMES | {"ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
KEPT = 400  # logits of a token, evenly spread over the vocabulary


def halves(weights, heads):
    """Rows of a head in the order of Transformers, whose pairs are halves apart; llama.cpp's are neighbours."""
    out, width = weights.shape
    return weights.reshape(heads, out // heads // 2, 2, width).swapaxes(1, 2).reshape(out, width)


def model_of(values, tensors):
    kind = values["general.architecture"]
    get = lambda name: values[f"{kind}.{name}"]  # noqa: E731
    sizes = dict(vocab_size=len(values["tokenizer.ggml.tokens"]), hidden_size=get("embedding_length"), intermediate_size=get("feed_forward_length"), num_hidden_layers=get("block_count"),
                 num_attention_heads=get("attention.head_count"), num_key_value_heads=get("attention.head_count_kv"), max_position_embeddings=get("context_length"),
                 rms_norm_eps=get("attention.layer_norm_rms_epsilon"), tie_word_embeddings=True)
    gemma = kind == "gemma3"
    if gemma:
        config = transformers.Gemma3TextConfig(**sizes, head_dim=get("attention.key_length"), query_pre_attn_scalar=get("attention.key_length"), sliding_window=get("attention.sliding_window"),
            rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": get("rope.freq_base")}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
            layer_types=["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(sizes["num_hidden_layers"])])
        model = transformers.Gemma3ForCausalLM(config)
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, rope_parameters={"rope_type": "default", "rope_theta": get("rope.freq_base")}))
    state = {}
    for name, x in tensors.items():
        if gemma and name.endswith("norm.weight"):
            x = x - 1  # Transformers adds it again
        if name.startswith("blk."):
            _, layer, part, _ = name.split(".")
            if not gemma and part in ("attn_q", "attn_k"):
                x = halves(x, sizes["num_attention_heads" if part == "attn_q" else "num_key_value_heads"])
            name = f"model.layers.{layer}.{(GEMMA if gemma else LLAMA)[part]}.weight"
        else:
            name = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]
        state[name] = torch.from_numpy(np.ascontiguousarray(x))
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model.eval()


def tokenizer_of(values):
    """Of the library that Transformers' fast tokenizers are: the same steps as in the models' tokenizer.json."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
    pieces, kinds = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]
    number = {piece: i for i, piece in enumerate(pieces)}
    if values["tokenizer.ggml.model"] == "gpt2":
        made = Tokenizer(models.BPE(number, [tuple(merge.split(" ")) for merge in values["tokenizer.ggml.merges"]]))
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:  # merges: each piece as any two, the likeliest first
        scores, merges = values["tokenizer.ggml.scores"], []
        for piece, score, kind in zip(pieces, scores, kinds):
            if kind == 1:
                merges += [(-score, (piece[:cut], piece[cut:])) for cut in range(1, len(piece)) if piece[:cut] in number and piece[cut:] in number]
        made = Tokenizer(models.BPE(number, [pair for _, pair in sorted(merges, key=lambda each: each[0])], byte_fallback=True))
        made.normalizer = normalizers.Replace(" ", "\u2581")
    made.add_tokens([AddedToken(piece, normalized=False) for piece, kind in zip(pieces, kinds) if kind in (3, 4)])
    return made


def main():
    path, output = map(pathlib.Path, sys.argv[1:])
    values, tensors = gguf_file.read(path)
    model, tokenizer = model_of(values, tensors), tokenizer_of(values)
    kept, spread = [], max(1, len(values["tokenizer.ggml.tokens"]) // KEPT)
    for line in (pathlib.Path(__file__).parent / "prompts.txt").read_text().splitlines():
        text = json.loads(f'"{line}"')
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        if values.get("tokenizer.ggml.add_bos_token"):
            tokens = [values["tokenizer.ggml.bos_token_id"]] + tokens
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0].numpy()
            said = list(tokens)
            past = None
            for _ in range(100):
                step = model(torch.tensor([said if past is None else said[-1:]]), past_key_values=past, use_cache=True)
                past = step.past_key_values
                said.append(int(step.logits[0, -1].argmax()))
        kept.append({"prompt": text, "tokens": tokens, "likeliest": logits.argmax(-1).tolist(), "logits": [[round(float(x), 5) for x in row[::spread]] for row in logits[-4:]], "greedy": said[len(tokens):]})
        print(json.dumps(text), len(tokens), flush=True)
    output.write_text("{\"spread\": %d, \"prompts\": [\n%s\n]}\n" % (spread, ",\n".join(json.dumps(each) for each in kept)))


if __name__ == "__main__":
    main()

"""attn_implementation="attune" in Transformers: in_transformers.py OPERATORS SHARED COMMON, the formulas of runtime/python/attune/transformers.hpp in f32 and bf16 for depth 64, as
attune_add_torch_library and as attune_add_variant make them, and the ready-made kernels, which are others."""
import itertools
import sys
import warnings
from unittest import mock

import torch
import transformers as of
from transformers import masking_utils

import attune
import attune.transformers

operators, shared, common = sys.argv[1:]
attune.transformers.register(operators)
attune.transformers.register(shared, "attune_by_dlpack")
print("PyTorch", torch.__version__, "Transformers", of.__version__)
torch.manual_seed(1)
small = dict(hidden_size=128, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, vocab_size=101, pad_token_id=0, bos_token_id=1, eos_token_id=None, max_position_embeddings=128)
causal = dict(small, num_key_value_heads=1, head_dim=64)
gemma = dict(causal, sliding_window=8, layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=50)
WRITERS = {
    "Llama": of.LlamaForCausalLM(of.LlamaConfig(**causal)),
    "Qwen 3": of.Qwen3ForCausalLM(of.Qwen3Config(**causal)),
    "Mistral": of.MistralForCausalLM(of.MistralConfig(**causal, sliding_window=8)),
    "Gemma 2": of.Gemma2ForCausalLM(of.Gemma2Config(**gemma, attn_logit_softcapping=2.0)),
    "Gemma 3": of.Gemma3ForCausalLM(of.Gemma3TextConfig(**gemma)),
}
READERS = {
    "BERT": of.BertForMaskedLM(of.BertConfig(**small)),
    "ModernBERT": of.ModernBertForMaskedLM(of.ModernBertConfig(**small, local_attention=8, cls_token_id=1, sep_token_id=2)),
}
SIGHT = of.ViTForImageClassification(of.ViTConfig(hidden_size=128, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8))
ours = attune.transformers._Attention
calls = 0


def counted(self, *given):
    global calls
    made = by_attune(self, *given)
    calls += 1
    return made


by_attune, ours._call = ours._call, counted


def by(model, implementation, **given):
    """Logits and loss; by attune in all layers, and without a dense mask."""
    global calls
    model.eval().set_attn_implementation(implementation)
    calls = 0
    if not implementation.startswith("attune"):
        with torch.no_grad():
            return model(**given)
    refuse = mock.patch.object(masking_utils, "sdpa_mask", side_effect=AssertionError("a dense mask was built"))
    with torch.no_grad(), refuse, warnings.catch_warnings():
        warnings.filterwarnings("error", message="attune: ")
        made = model(**given)
    assert calls == model.config.num_hidden_layers, (calls, model)
    return made


def close(got, expected, what, most, seen=None):
    differences = (got.logits - expected.logits).abs()
    largest = (differences if seen is None else differences[seen.bool()]).max().item()
    scale = expected.logits.abs().max().item()
    assert largest <= most * max(scale, 1), (what, largest, scale)
    if expected.loss is not None:
        assert abs(got.loss - expected.loss) <= most * abs(expected.loss), (what, got.loss, expected.loss)
    return largest


def peers(model):
    return ("eager", "sdpa") if model._supports_sdpa else ("eager",)


# Logits and losses, with padding on either side and none, in two element types and by both kinds of library.
tokens = torch.randint(3, 101, (3, 21))
full, left, right = (torch.ones(3, 21, dtype=torch.long) for _ in range(3))
left[1, :5], left[2, :20] = 0, 0
right[1, 16:], right[2, 1:] = 0, 0
for name, model in {**WRITERS, **READERS}.items():
    worst = 0.0
    for (side, mask), peer in itertools.product({"none": None, "all": full, "left": left, "right": right}.items(), peers(model)):
        seen = full if mask is None else mask
        labels = torch.where(seen.bool() & (seen.cumsum(1) > 1), tokens, -100)  # what is predicted from a token, not from padding
        given = dict(input_ids=tokens, attention_mask=mask, labels=labels)
        expected = by(model, peer, **given)
        for implementation in ("attune", "attune_by_dlpack"):
            worst = max(worst, close(by(model, implementation, **given), expected, (name, side, peer), 2e-5, seen))
    print(f"{name}: largest error {worst:.1e}")
pixels = torch.randn(2, 3, 32, 32)
for peer in peers(SIGHT):
    print(f"ViT: largest error {close(by(SIGHT, 'attune', pixel_values=pixels), by(SIGHT, peer, pixel_values=pixels), ('ViT', peer), 2e-5):.1e}")
half = WRITERS["Gemma 2"].to(torch.bfloat16)
print(f"Gemma 2, bf16: largest error {close(by(half, 'attune', input_ids=tokens, attention_mask=left), by(half, 'eager', input_ids=tokens, attention_mask=left), 'bf16', 0.03, left):.1e}")
half.float()

# Generated tokens: caches that grow and that do not, windows that are passed, a padded prompt, several beams.
for name, model in WRITERS.items():
    for how in (dict(), dict(cache_implementation="static"), dict(num_beams=2), dict(use_cache=False), dict(prefill_chunk_size=4)):
        texts = []
        for implementation in ("eager", "attune"):
            model.eval().set_attn_implementation(implementation)
            before = calls
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message="attune: ")
                texts.append(model.generate(tokens, attention_mask=left, max_new_tokens=14, do_sample=False, disable_compile=True, **how))
        assert calls > before, (name, how)
        assert torch.equal(*texts), (name, how, texts)
    print(f"{name}: the same tokens")

# What a rule says by numbers is what sdpa's mask says, wherever queries and keys begin.
random = torch.Generator().manual_seed(2)
number = lambda most: int(torch.randint(0, most, (1,), generator=random))
functions = [masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function]
for trial in range(300):
    width = 1 + number(9)
    function = [*functions, masking_utils.sliding_window_causal_mask_function(width), masking_utils.sliding_window_bidirectional_mask_function(width)][number(4)]
    queries, keys, offset = 1 + number(12), 1 + number(24), number(6)
    padding = None
    if number(2):
        begins, ends = torch.randint(0, 12, (2, 1), generator=random), torch.randint(4, 30, (2, 1), generator=random)
        places = torch.arange(1 + number(30))
        padding = (places >= begins) & (places < ends)
    counter = torch.tensor(number(20))
    rule = attune.transformers._mask(batch_size=2, q_length=queries, kv_length=keys, q_offset=counter, kv_offset=offset, mask_function=function, attention_mask=padding)
    counter += 1  # as a static cache does before the first layer attends
    i, j = torch.arange(queries)[:, None], torch.arange(keys)
    said = (j >= rule.start.view(2, 1, 1, 1)) & (j < (torch.full((2,), keys) if rule.lengths is None else rule.lengths).view(2, 1, 1, 1)) & (i >= 0)
    said = said & (j >= i + rule.first) if rule.first is not None else said
    said = said & (j <= i + rule.last) if rule.last is not None else said
    assert torch.equal(said, rule.dense()), (trial, rule.__dict__)
    assert torch.equal(rule[:, :, :1], rule.dense()[:, :, :1]) and torch.equal(torch.logical_not(rule), ~said) and rule.sum() == said.sum()
print("300 rules say what sdpa's masks say")


def another(what, words, peer, model, train=False, **given):
    """A call that is another attention's: its numbers, and one warning for it however many layers and calls there are."""
    attention = of.modeling_utils.ALL_ATTENTION_FUNCTIONS["attune"]
    attention._said.clear()
    results = []
    for implementation in (peer, "attune"):
        model.train(train).set_attn_implementation(implementation)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(2):
                torch.manual_seed(3)
                results.append(model(**given))
        said = [str(each.message) for each in said if str(each.message).startswith("attune: ")]
    assert len(said) == 1 and f"runs by {peer}, as " in said[0] and all(word in said[0] for word in words), (what, said)
    assert torch.allclose(results[-1].logits, results[0].logits, atol=1e-6, rtol=1e-5), what
    print(said[0])
    return results[-1]


llama, bert, capped = WRITERS["Llama"], READERS["BERT"], WRITERS["Gemma 2"]
with torch.no_grad():
    holes = full.clone()
    holes[0, 3:6] = 0
    another("holes", ["LlamaAttention", "its mask is a tensor"], "sdpa", llama, input_ids=tokens, attention_mask=holes)
    positions = torch.cat([torch.arange(9), torch.arange(12)]).expand(3, 21)
    another("packed sequences", ["its mask is a tensor"], "sdpa", llama, input_ids=tokens, position_ids=positions, use_cache=False)
    another("packed sequences, capped", ["Gemma2Attention", "its mask is a tensor"], "eager", capped, input_ids=tokens, position_ids=positions, use_cache=False)
    another("a mask of four axes", ["its mask is a tensor"], "sdpa", llama, input_ids=tokens, attention_mask=torch.ones(3, 1, 21, 21, dtype=torch.bool).tril())
    another("dropout", ["BertSelfAttention", "dropout"], "sdpa", bert, train=True, input_ids=tokens, attention_mask=right)
    weighed = another("weights", ["weights"], "eager", llama, input_ids=tokens, attention_mask=left, output_attentions=True)
    assert weighed.attentions[0].shape == (3, 2, 21, 21)
    other_depth = of.LlamaForCausalLM(of.LlamaConfig(**{**causal, "head_dim": 32}))
    another("a depth without kernels", ["attune: expected ", "64", "32"], "sdpa", other_depth, input_ids=tokens)
trained = another("gradients", ["gradients"], "sdpa", llama, input_ids=tokens, labels=tokens)
trained.loss.backward()
assert llama.model.layers[0].self_attn.q_proj.weight.grad.abs().max() > 0
try:
    attune.transformers.register(common)
    raise AssertionError("expected other kernels to be refused")
except attune.Error as problem:
    assert "expected attune::transformers::attention among the kernels" in str(problem) and "transformers.hpp" in str(problem), problem
    print("refused:", problem)
print("all as expected")

"""CPU seconds of forward passes by attention, on one thread: OMP_NUM_THREADS=1 PYTHONPATH=runtime/python python3 tests/python/forward_passes.py OPERATORS, as for in_transformers.py. Models are
small, with random weights: two layers like Llama's, with a causal mask, and three like ModernBERT's, two of them with a window of 128."""
import sys
import time

import torch
import transformers as of

import attune.transformers

torch.set_num_threads(1)
torch.manual_seed(0)
attune.transformers.register(sys.argv[1])
small = dict(hidden_size=512, num_attention_heads=8, vocab_size=100, max_position_embeddings=8192)
MODELS = {
    "Llama": of.LlamaModel(of.LlamaConfig(**small, intermediate_size=1024, num_hidden_layers=2, num_key_value_heads=2, head_dim=64)),
    "ModernBERT": of.ModernBertModel(of.ModernBertConfig(**small, intermediate_size=768, num_hidden_layers=3, local_attention=128, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1,
                                                         eos_token_id=2)),
}
for name, model in MODELS.items():
    model.eval()
    for length in (512, 1024, 2048, 4096, 8192):
        tokens, mask, best = torch.randint(3, 100, (1, length)), torch.ones(1, length, dtype=torch.long), {}
        for implementation in ("sdpa", "attune") * 2:
            model.set_attn_implementation(implementation)
            with torch.no_grad():
                began = time.process_time()
                model(input_ids=tokens, attention_mask=mask)
                took = time.process_time() - began
            best[implementation] = min(best.get(implementation, took), took)
        print(f"{name} {length}: sdpa {best['sdpa']:.3f} s, attune {best['attune']:.3f} s, {best['sdpa'] / best['attune']:.2f} times as fast", flush=True)

#!/usr/bin/env python3
"""A small GPT of PyTorch, f32: the same module with its attention by an operator of attune, by scaled_dot_product_attention, by FlexAttention and by plain tensor
operations; eager and compiled; forward and a step of training (forward, backward, AdamW); interleaved in one run and on equally many threads.

./tests/benchmarks/gpt builds what it needs first. Before anything is timed, the losses of the first steps are compared with those of plain tensor operations. A ratio
says how many times faster attune is than the fastest of the others in the same mode; compare numbers of one run only.
"""
import argparse
import json
import pathlib
import platform
import statistics
import sys

from turns import ROOT, by_turns, cpu_name, seconds_of

STEPS = 3            # whose losses are compared
TOLERANCE = 1e-3     # of a loss, relative


def attentions(torch, ops, mask, options):
    """A name, and attention of (batch, head, position, depth) as its users call it; what does not depend on q, k and v is made beforehand."""
    length, heads = options.length, options.heads
    positions = torch.arange(length)
    before = positions[:, None] >= positions
    slopes = 2.0 ** (-8 * torch.arange(1.0, heads + 1) / heads)
    document = torch.arange(length, dtype=torch.int32) * options.documents // length
    bias = (slopes[:, None, None] * (positions - positions[:, None])).masked_fill(~before, -torch.inf)[None]
    same = before & (document[:, None] == document)
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def flex():
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        masks = {"documents": lambda b, h, i, j: (i >= j) & (document[i] == document[j])}
        blocks = create_block_mask(masks.get(mask, lambda b, h, i, j: i >= j), None, None, length, length, device="cpu")
        score = {"alibi": lambda s, b, h, i, j: s + slopes[h] * (j - i)}.get(mask)
        compiled = torch.compile(flex_attention, fullgraph=True)
        return lambda q, k, v: compiled(q, k, v, score_mod=score, block_mask=blocks)

    hidden = bias if mask == "alibi" else torch.zeros(length, length).masked_fill(~(same if mask == "documents" else before), -torch.inf)
    yield "eager", lambda q, k, v: ((q @ k.mT) * q.shape[-1] ** -0.5 + hidden).softmax(-1) @ v
    yield "attune", {"causal": lambda q, k, v: ops.causal_attention(q, k, v)[0], "alibi": lambda q, k, v: ops.alibi_attention(q, k, v, slopes)[0],
                     "documents": lambda q, k, v: ops.documents_attention(q, k, v, document)[0]}[mask]
    yield "SDPA", {"causal": lambda q, k, v: sdpa(q, k, v, is_causal=True), "alibi": lambda q, k, v: sdpa(q, k, v, attn_mask=bias),
                   "documents": lambda q, k, v: sdpa(q, k, v, attn_mask=same)}[mask]
    yield "FlexAttention", flex()


def model_of(torch, attention, options):
    nn, width, heads = torch.nn, options.width, options.heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

        def forward(self, x):
            q, k, v = self.project(self.before(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            x = x + self.out(attention(q, k, v).transpose(1, 2).flatten(2))
            return x + self.feed(self.after(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(options.vocabulary, width), nn.Embedding(options.length, width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(options.layers))), nn.LayerNorm(width)
            self.head = nn.Linear(width, options.vocabulary, bias=False)

        def forward(self, tokens, following):
            x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
            return nn.functional.cross_entropy(self.head(self.norm(self.blocks(x))).flatten(0, 1), following.flatten())

    torch.manual_seed(1)
    return GPT()


def contender(torch, attention, compiled, options, data):
    """Calls of one module: the losses of its first steps, a forward pass, a step."""
    torch._dynamo.reset()
    model = model_of(torch, attention, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    call = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = call(*data)
        loss.backward()
        optimizer.step()
        return loss.item()

    def forward():
        with torch.no_grad():
            return call(*data).item()

    losses = [forward()]
    try:
        losses += [step() for _ in range(STEPS)]
    except Exception as problem:  # torch.compile wraps FlexAttention's refusal
        if "does not support backward" not in str(problem):
            raise
        return losses, {"forward": forward}
    return losses, {"forward": forward, "step": step}


def measure(torch, ops, mask, options, data):
    turns, losses = {}, {}
    for who, attention in attentions(torch, ops, mask, options):
        for mode in ("eager", "compiled"):
            if who == "FlexAttention" and mode == "eager":
                continue  # without a compiler it makes all scores
            losses[who, mode], calls = contender(torch, attention, mode == "compiled", options, data)
            for what, call in calls.items():
                turns[who, mode, what] = lambda n, call=call: seconds_of(call, n)
    expected = losses["eager", "eager"]
    for (who, mode), found in losses.items():
        if any(abs(a - b) > TOLERANCE * abs(b) for a, b in zip(found, expected)):
            sys.exit(f"{mask}: the losses of {who}, {mode}, are {found}, those of plain operations {expected}")
    seconds = {turn: [] for turn in turns}
    for i in range(options.rounds):
        if options.pause:
            print(f"{mask}: round {i + 1} is next", file=sys.stderr, flush=True)
            sys.stdin.readline()
        for turn, found in by_turns(turns, 1, 1).items():
            seconds[turn] += found
    rows = [{"attention": who, "mode": mode, "what": what, "median": statistics.median(s), "best": min(s), "losses": losses[who, mode]} for (who, mode, what), s in seconds.items()]
    ratios = {}
    for mode in ("eager", "compiled"):
        for what in ("forward", "step"):
            of = {row["attention"]: row["median"] for row in rows if row["mode"] == mode and row["what"] == what}
            ratios[f"{mode}, {what}"] = min(seconds for who, seconds in of.items() if who != "attune") / of["attune"]
    return {"mask": mask, "times": rows, "ratios": ratios}


def show(result):
    print(f"{result['mask']}: losses {', '.join(f'{loss:.4f}' for loss in result['times'][0]['losses'])}")
    print(f"    {'ms':<16}{'eager: forward':>16}{'step':>10}{'compiled: forward':>20}{'step':>10}")
    for who in dict.fromkeys(row["attention"] for row in result["times"]):
        of = {(row["mode"], row["what"]): f"{row['median'] * 1e3:.0f}" for row in result["times"] if row["attention"] == who}
        cells = [of.get(key, "-") for key in (("eager", "forward"), ("eager", "step"), ("compiled", "forward"), ("compiled", "step"))]
        print(f"    {who:<16}{cells[0]:>16}{cells[1]:>10}{cells[2]:>20}{cells[3]:>10}")
    r = result["ratios"]
    print(f"    {'fastest / attune':<16}{r['eager, forward']:>16.2f}{r['eager, step']:>10.2f}{r['compiled, forward']:>20.2f}{r['compiled, step']:>10.2f}\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("layers", 4), ("width", 256), ("heads", 4), ("length", 1024), ("batch", 4), ("vocabulary", 256), ("documents", 8), ("threads", 2), ("rounds", 7)):
        parser.add_argument("--" + name, type=int, default=usual, help=f"(default {usual})")
    parser.add_argument("--masks", nargs="*", choices=("causal", "alibi", "documents"), default=["causal", "alibi", "documents"])
    parser.add_argument("--json", metavar="FILE", help="write everything there as well")
    parser.add_argument("--pause", action="store_true", help="wait for a line before each round, so that the machine may be made quiet for as long as one takes")
    parser.add_argument("--library", default=ROOT / "build/default/tests/benchmarks/libattune_gpt_ops.so", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.width != 64 * options.heads:
        parser.error("--width is 64 for each of --heads: kernels are compiled for a depth of 64")
    if not options.library.exists():
        sys.exit(f"{options.library} is not there; try ./tests/benchmarks/gpt")
    import torch

    import attune.torch

    torch.set_num_threads(options.threads)
    ops = attune.torch.load(options.library)
    torch.manual_seed(2)
    tokens = torch.randint(options.vocabulary, (options.batch, options.length + 1))
    data = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    head = {"cpu": cpu_name(), "python": platform.python_version(), "torch": torch.__version__, "system": platform.platform(),
            **{name: getattr(options, name) for name in ("layers", "width", "heads", "length", "batch", "vocabulary", "documents", "threads", "rounds")}}
    print(f"{head['cpu']}, {options.threads} threads; PyTorch {torch.__version__}; {options.layers} layers of {options.heads} heads, width {options.width}, batch {options.batch} x {options.length}; medians\n", flush=True)
    results = []
    for mask in options.masks:
        results.append(measure(torch, ops, mask, options, data))
        show(results[-1])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({**head, "masks": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Gradients beside PyTorch's, in turns: what a forward pass and its gradient take.

    gradients.py BUILD/bin/gradient_benchmark [--rows N...] [--threads N] [--rounds N] [--json]

A round of a row is the program's calls, and then the same calls by the fastest spelling of PyTorch that gives the same gradients:
scaled_dot_product_attention, and for slopes with gradients of their own eager operations. The best of the rounds of each; a ratio above 1 means that PyTorch
takes longer.
"""
import argparse
import json
import subprocess
import time

import torch


def attention(case, causal):
    """The function of q, k, v and slopes that PyTorch runs."""
    if case != "alibi":
        return lambda q, k, v, slopes: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    def eager(q, k, v, slopes):
        length, group = q.shape[2], q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        place = torch.arange(length)
        distance = (place[None, :] - place[:, None]).float()
        scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5 + slopes[:, None, None] * distance
        return scores.masked_fill(distance > 0, float("-inf")).softmax(-1) @ v

    return eager


def seconds(row):
    """Of a forward pass and of a backward pass."""
    torch.manual_seed(1)
    batches, heads, key_heads, length, depth = (row[name] for name in ("batches", "heads", "key_heads", "length", "depth"))
    q = torch.randn(batches, heads, length, depth, requires_grad=True)
    k, v = (torch.randn(batches, key_heads, length, depth, requires_grad=True) for _ in "kv")
    slopes = (0.1 * torch.randn(heads)).requires_grad_()
    run, dout = attention(row["case"], row["case"] == "causal"), torch.randn(batches, heads, length, depth)
    best = [float("inf")] * 2
    for turn in range(3):
        for x in (q, k, v, slopes):
            x.grad = None
        began = time.perf_counter()
        out = run(q, k, v, slopes)
        between = time.perf_counter()
        out.backward(dout)
        if turn:
            best = [min(best[0], between - began), min(best[1], time.perf_counter() - between)]
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rows", type=int, nargs="+", default=list(range(12)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for number in options.rows:
        turns = []
        for _ in range(options.rounds):
            ours = subprocess.run([options.program, "--json", "--repeats", "2", "--only", str(number), "--threads", str(options.threads)], check=True, capture_output=True, text=True)
            (row,) = json.loads(ours.stdout)
            turns.append((row, seconds(row)))
        best = min((row for row, _ in turns), key=lambda row: row["gradient_ms"])
        rows.append({**best, "torch_forward_ms": 1e3 * min(took[0] for _, took in turns), "torch_gradient_ms": 1e3 * min(took[1] for _, took in turns)})
        rows[-1]["ratio"] = rows[-1]["torch_gradient_ms"] / rows[-1]["gradient_ms"]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print("| case | gradient ms | GFLOP/s | of peak | PyTorch ms | ratio | both over the forward pass |\n| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        heads = f"H{row['heads']}" + (f"/{row['key_heads']}" if row["key_heads"] != row["heads"] else "")
        print(f"| `{row['case']}/B{row['batches']}/{heads}/S{row['length']}/D{row['depth']}` | {row['gradient_ms']:.2f} | {row['gflops']:.0f} | "
              f"{100 * row['of_peak']:.0f} % | {row['torch_gradient_ms']:.2f} | {row['ratio']:.2f} | {row['both_over_forward']:.1f} |")


if __name__ == "__main__":
    main()

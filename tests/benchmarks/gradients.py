#!/usr/bin/env python3
"""Gradients beside PyTorch's, in turns: what a forward pass and its gradient take.

    gradients.py BUILD/bin/gradient_benchmark [--cases GLOB...] [--threads N] [--rounds N] [--compile] [--json]

A round of a case is the program's calls, and then the same calls by PyTorch, in each spelling that gives the same gradients:
scaled_dot_product_attention where it can, else eager operations, and with --compile torch.compile of those. The best of the rounds of each; the ratio
is the fastest spelling's time over the program's. Before anything is timed the program's gradients are compared with the spellings', by the same numbers.
"""
import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
import time

import torch

CASES = [f"{case}/B1/H8/S2048/D{depth}" for depth in (64, 128) for case in ("full", "causal", "full_bf16", "causal_bf16")]
CASES += [f"{case}/B8/H8/S512/D{depth}" for depth in (64, 128) for case in ("full", "causal", "causal_bf16")]
CASES += [f"causal/B1/H8/2/S2048/D{depth}" for depth in (64, 128)]
CASES += [f"full/B1/H8/S8192/D{depth}" for depth in (64, 128)]
CASES += ["window/B1/H8/S4096/D64", "documents/B1/H8/S4096/D64", "alibi/B1/H8/S2048/D64", "alibi_qkv/B1/H8/S2048/D64", "softcap/B1/H8/S2048/D64", "bias/B1/H8/S2048/D64"]
CASES += [f"full/B8/H8/S{length}/D64" for length in (1, 16, 33, 64, 65, 100, 130, 200, 300)]
DOCUMENTS = 8
ALLOWED = {torch.float32: 1e-5, torch.bfloat16: 2e-2}  # a gradient's error over its length
# Every pair of a head adds to its slope, with both signs: beside double, PyTorch's f32 are 1.5e-5 off at 2048 positions, attune's 4.2e-5.
ALLOWED_OF_SLOPES = 1e-4


def sdpa(q, k, v, more, **how):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **how)


def distances(length):
    place = torch.arange(length)
    return (place[None, :] - place[:, None]).float()


def eager(scores_of):
    """Attention by plain operations, with what `scores_of` makes of q * k^T / sqrt(D)."""

    def run(q, k, v, more):
        group = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        return scores_of(q @ k.transpose(2, 3) * q.shape[3] ** -0.5, more).softmax(-1) @ v

    return run


def causal_alone(scores):
    return scores.masked_fill(distances(scores.shape[2]) > 0, float("-inf"))


def by_documents(q, k, v, more):
    parts = [x.chunk(DOCUMENTS, dim=2) for x in (q, k, v)]
    return torch.cat([sdpa(*of, more, is_causal=True) for of in zip(*parts)], dim=2)


def spellings(case, length):
    """By name: the functions of q, k, v and what else has a gradient that PyTorch runs."""
    if case in ("full", "full_bf16"):
        return {"SDPA": sdpa}
    if case in ("causal", "causal_bf16"):
        return {"SDPA": lambda *x: sdpa(*x, is_causal=True)}
    if case == "window":
        near = (distances(length) <= 0) & (distances(length) > -256)
        return {"SDPA, bool mask": lambda *x: sdpa(*x, attn_mask=near)}
    if case == "documents":
        return {"SDPA, a call a document": by_documents}
    if case == "alibi_qkv":
        return {"SDPA, float mask": lambda q, k, v, more: sdpa(q, k, v, more, attn_mask=causal_alone((more["slopes"].detach()[:, None, None] * distances(length))[None]))}
    if case == "alibi":
        return {"eager": eager(lambda scores, more: causal_alone(scores + more["slopes"][:, None, None] * distances(length)))}
    if case == "softcap":
        return {"eager": eager(lambda scores, more: causal_alone(30 * torch.tanh(scores / 30)))}
    if case == "bias":
        return {"eager": eager(lambda scores, more: scores + more["bias"])}
    sys.exit(f"expected a case of the program, got {case}; try one of {', '.join(CASES)}")


def shapes_of(row):
    """Of the tensors that have gradients."""
    batches, heads, key_heads, length, depth = (row[name] for name in ("batches", "heads", "key_heads", "length", "depth"))
    shapes = {"q": (batches, heads, length, depth), "k": (batches, key_heads, length, depth), "v": (batches, key_heads, length, depth)}
    if row["case"] == "alibi" or row["case"] == "alibi_qkv":
        shapes["slopes"] = (heads,)
    if row["case"] == "bias":
        shapes["bias"] = (heads, length, length)
    return shapes


def read(folder, name, shape, kind):
    return torch.frombuffer(bytearray((open(f"{folder}/{name}", "rb")).read()), dtype=kind).reshape(shape)


def run_once(run, leaves, dout):
    """Seconds of a forward pass and of a backward pass."""
    for x in leaves.values():
        x.grad = None
    more = {name: x for name, x in leaves.items() if name not in "qkv"}
    began = time.perf_counter()
    out = run(leaves["q"], leaves["k"], leaves["v"], more)
    between = time.perf_counter()
    out.backward(dout)
    return between - began, time.perf_counter() - between


def distances_from_double(run, leaves, dout, made):
    """Of each gradient, attune's and PyTorch's error over the length of the one in double."""

    def gradients(kind):
        of_kind = {of: x.detach().to(kind).requires_grad_(of in made) for of, x in leaves.items()}
        run_once(run, of_kind, dout.to(kind))
        return {of: of_kind[of].grad.double() for of in made}

    exact, peer = gradients(torch.float64), gradients(dout.dtype)
    return {of: [((got.double() - exact[of]).norm() / exact[of].norm()).item() for got in (made[of], peer[of])] for of in made}


def measured(program, case, options):
    name, length = case.split("/")[0], int(case.split("/S")[1].split("/")[0])
    kind = torch.bfloat16 if name.endswith("_bf16") else torch.float32
    ways = spellings(name, length)
    if options.compile:
        ways |= {f"torch.compile of {how}": torch.compile(run) for how, run in ways.items() if how == "eager"}
    program = [program, "--threads", str(options.threads), case]
    with tempfile.TemporaryDirectory() as folder:
        (row,) = json.loads(subprocess.run([*program, "--repeats", "0", "--write", folder], check=True, capture_output=True, text=True).stdout)
        shapes = shapes_of(row)
        leaves = {of: read(folder, of, shape, kind if of in "qkv" else torch.float32) for of, shape in shapes.items()}
        dout = read(folder, "dout", shapes["q"], kind)
        made = {of: read(folder, "d" + of, shape, kind if of in "qkv" else torch.float32) for of, shape in shapes.items() if f"{name}{of}" != "alibi_qkvslopes"}
    for of, x in leaves.items():
        x.requires_grad_(of in made)
    for how, run in ways.items():
        run_once(run, leaves, dout)
        for of, got in made.items():
            error = ((got.double() - leaves[of].grad.double()).norm() / leaves[of].grad.double().norm().clamp_min(1e-30)).item()
            scale = leaves["v"].grad.double().norm().item()  # at one key dq and dk are 0
            allowed = ALLOWED_OF_SLOPES if of == "slopes" else ALLOWED[kind]
            if not error <= allowed and not (got.double() - leaves[of].grad.double()).norm().item() <= allowed * scale:
                sys.exit(f"{case}: expected the d{of} of {how}, got one that differs by {error:.1e}")
    if options.errors:
        return {"name": case, "errors": distances_from_double(next(iter(ways.values())), leaves, dout, made), "peer": next(iter(ways))}
    best, took = row, {how: (float("inf"), float("inf")) for how in ways}
    best["gradient_ms"] = float("inf")
    for _ in range(options.rounds):
        (row,) = json.loads(subprocess.run([*program, "--repeats", str(options.repeats)], check=True, capture_output=True, text=True).stdout)
        best = min(best, row, key=lambda row: row["gradient_ms"])
        for how, run in ways.items():
            for _ in range(options.repeats):
                took[how] = min(took[how], run_once(run, leaves, dout), key=lambda pair: pair[1])
    fastest = min(took, key=lambda how: took[how][1])
    return {**best, "name": case, "peer": fastest, "peer_gradient_ms": 1e3 * took[fastest][1], "ratio": 1e3 * took[fastest][1] / best["gradient_ms"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", nargs="+", default=["*"], metavar="GLOB", help=f"of {' '.join(CASES)}; or any other of that form")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--errors", action="store_true", help="time nothing: say how far the gradients are from those in double")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    chosen = [case for case in CASES if any(fnmatch.fnmatch(case, glob) for glob in options.cases)]
    chosen += [case for case in options.cases if "*" not in case and case not in chosen]
    if options.errors and not options.json:
        print("| case | gradient | attune | PyTorch | ratio | PyTorch's spelling |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    elif not options.json:
        print("| case | gradient ms | GFLOP/s | of peak | PyTorch ms | ratio | both | PyTorch's spelling |\n| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    rows = []
    for case in chosen:
        row = measured(options.program, case, options)
        rows.append(row)
        if options.errors and not options.json:
            for of, (ours, peer) in row["errors"].items():
                print(f"| `{case}` | d{of} | {ours:.1e} | {peer:.1e} | {ours / peer:.2f} | {row['peer']} |", flush=True)
        elif not options.json:
            print(f"| `{row['name']}` | {row['gradient_ms']:.3f} | {row['gflops']:.0f} | {100 * row['of_peak']:.0f} % | {row['peer_gradient_ms']:.3f} | "
                  f"{row['ratio']:.2f} | {row['both_over_forward']:.1f} | {row['peer']} |", flush=True)
    if options.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()

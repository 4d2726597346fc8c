#!/usr/bin/env python3
"""Decode of one token in short chats: attune over each cache, beside PyTorch's SDPA and ONNX Runtime, in turns on equally many threads.

    cmake --build --preset default --target attune_serving && python3 tests/benchmarks/chats.py [--depths 64 128] [--threads 1 2] [--json FILE]

Each cell is the time of the fastest peer, divided by attune's: of both, the fastest of all calls, since other programs only ever add time. A peer has the keys in use
alone, in the element type of attune's cache where it has that one, else in f32 and in bf16, of which the faster counts; pages are beside the peer's contiguous keys.
Between its calls attune reads the keys and values once, so that they are as warm as the peers' are. Peers come from the Python that runs this, or from build/torch.
"""
import argparse, json, math, pathlib, subprocess, sys, time

from turns import PACKAGES, ROOT, cpu_name, seconds_of, with_torch

CACHES = ["f32", "bf16", "i8", "paged f32 16", "paged f32 64", "paged f32 1", "paged bf16 16", "paged bf16 64"]


def attune(options, depth, threads):
    """{(cache, keys): seconds of the fastest call} of one turn."""
    ones = ["1"] * len(options.keys)
    done = subprocess.run([str(options.program), "--caches", *options.caches, "--sequences", *ones, "--keys", *map(str, options.keys), "--slots", str(options.slots),
                           "--heads", str(options.heads), "--key-heads", str(options.key_heads), "--depth", str(depth), "--threads", str(threads),
                           "--repeats", str(options.repeats), "--json"], stdout=subprocess.PIPE, text=True, check=True)
    rows = map(json.loads, done.stdout.splitlines())
    return {(row["cache"], row["keys"]): row["fastest_ms"] * 1e-3 for row in rows}


def calls_of(torch, peers, options, depth, keys, kind):
    """(name, call) of each peer."""
    random = torch.Generator().manual_seed(keys)
    draw = lambda heads, length: torch.randn((1, heads, length, depth), generator=random).to(kind)
    q, whole = draw(options.heads, 1), [draw(options.key_heads, options.slots) for _ in range(2)]
    k, v = (x[:, :, :keys] for x in whole)
    name = str(kind).removeprefix("torch.").replace("float32", "f32").replace("bfloat16", "bf16")
    case = {"variant": "full", "dtype": name, "queries": 1, "keys": keys, "batch": 1}
    if options.peers == "sdpa":
        yield from peers.sdpa(torch, case, q, k, v)
    elif name == "f32":
        for peer, made in peers.onnx_runtime(torch, case, q, k.contiguous(), v.contiguous(), torch.get_num_threads()):
            yield peer, made()


def peers_of(torch, options, depth):
    """{(element type, keys): (seconds, name)} of the fastest call of one turn."""
    import peers
    fastest = {}
    for keys in options.keys:
        for kind in (torch.float32, torch.bfloat16):
            for name, call in calls_of(torch, peers, options, depth, keys, kind):
                at = ("f32" if kind == torch.float32 else "bf16", keys)
                fastest[at] = min(fastest.get(at, (math.inf, "")), (min(seconds_of(call, options.repeats)), name))
    return fastest


def beside(cache, keys, peers):
    kinds = [kind for kind in ("f32", "bf16") if kind in cache.split()] or ["f32", "bf16"]
    return min(peers[kind, keys] for kind in kinds if (kind, keys) in peers) if any((kind, keys) in peers for kind in kinds) else (math.nan, "none")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caches", nargs="+", default=CACHES)
    parser.add_argument("--keys", nargs="+", type=int, default=[32, 128, 512, 2048, 4096])
    parser.add_argument("--slots", type=int, default=4160)
    parser.add_argument("--heads", type=int, default=9)
    parser.add_argument("--key-heads", type=int, default=3)
    parser.add_argument("--depths", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", choices=["sdpa", "ort"], default="sdpa")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--repeats", type=int, default=300, help="calls a turn (default 300)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_serving", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"{options.program} is not there; try cmake --build --preset default --target attune_serving")
    with_torch(sys.argv[1:], PACKAGES)
    import torch
    torch.set_grad_enabled(False)
    all_rows = []
    print(f"{cpu_name()}; torch {torch.__version__}; {options.heads} heads over {options.key_heads}, {options.slots} slots; us of attune, and the fastest peer's time / attune's")
    for depth in options.depths:
        for threads in options.threads:
            torch.set_num_threads(threads)
            ours, theirs = {}, {}
            for _ in range(options.rounds):
                for at, seconds in attune(options, depth, threads).items():
                    ours[at] = min(ours.get(at, math.inf), seconds)
                for at, found in peers_of(torch, options, depth).items():
                    theirs[at] = min(theirs.get(at, (math.inf, "")), found)
                time.sleep(0.05)
            print(f"depth {depth}, threads {threads}\n{'cache':<16}" + "".join(f"{keys:>16}" for keys in options.keys))
            for cache in options.caches:
                cells = []
                for keys in options.keys:
                    seconds, name = beside(cache, keys, theirs)
                    mine = ours[cache, keys]
                    cells.append(f"{mine * 1e6:9.2f} {seconds / mine:5.2f}x")
                    all_rows.append({"cache": cache, "depth": depth, "threads": threads, "keys": keys, "attune_s": mine, "peer_s": seconds, "peer": name})
                print(f"{cache:<16}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
    if options.json:
        options.json.write_text(json.dumps(all_rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Decode of one token in short chats: attune over each cache, beside PyTorch's SDPA or ONNX Runtime, in turns on equally many threads.

    cmake --build --preset default --target attune_serving && python3 tests/benchmarks/chats.py [--depths 64 128] [--threads 1 2] [--json FILE]

Outputs are compared before anything is timed. Each cell is the time of the fastest peer, divided by attune's: of both, the fastest of all calls, since other programs
only ever add time. A peer has the keys in use alone, in the element type of attune's cache where it has that one, else in f32 and in bf16, of which the faster counts;
pages are beside the peer's contiguous keys. PyTorch's keys lie in the slots, ONNX Runtime's too with --peers "ort in slots"; with --peers ort they lie side by side, as
attune's do with --slots 0. Calls of each follow each other, so that its tensors are as warm and its threads as awake as those of the others. Peers come from the Python
that runs this, or from build/torch.
"""
import argparse, json, math, pathlib, subprocess, sys, tempfile, time

from compare import TOLERANCES
from turns import PACKAGES, REST, ROOT, cpu_name, seconds_of, with_torch

CACHES = ["f32", "bf16", "i8", "paged f32 16", "paged f32 64", "paged f32 1", "paged bf16 16", "paged bf16 64"]


def attune(options, depth, threads, repeats, *more):
    """{(cache, keys): seconds of the fastest call} of one turn."""
    ones = ["1"] * len(options.keys)
    done = subprocess.run([str(options.program), "--caches", *options.caches, "--sequences", *ones, "--keys", *map(str, options.keys), "--slots", str(options.slots),
                           "--heads", str(options.heads), "--key-heads", str(options.key_heads), "--depth", str(depth), "--threads", str(threads),
                           "--repeats", str(repeats), "--alone", "--json", *more], stdout=subprocess.PIPE, text=True, check=True)
    rows = map(json.loads, done.stdout.splitlines())
    return {(row["cache"], row["keys"]): row["fastest_ms"] * 1e-3 for row in rows}


def calls_of(torch, peers, options, keys, q, k, v):
    """(name, call) of each peer, for the first keys of k and v."""
    name = {torch.float32: "f32", torch.bfloat16: "bf16"}[q.dtype]
    case = {"variant": "full", "dtype": name, "queries": 1, "keys": keys, "batch": 1}
    used = k[:, :, :keys], v[:, :, :keys]
    if options.peers == "sdpa":
        yield from peers.sdpa(torch, case, q, *used)
    elif name == "f32":
        for peer, made in peers.onnx_runtime(torch, case, q, *((k, v) if options.peers == "ort in slots" else used), torch.get_num_threads()):
            yield peer, made()


def drawn(torch, options, depth, keys, kind):
    random = torch.Generator().manual_seed(keys)
    draw = lambda heads, length: torch.randn((1, heads, length, depth), generator=random).to(kind)
    return draw(options.heads, 1), *(draw(options.key_heads, max(options.slots, keys)) for _ in range(2))


def saved(torch, options, depth, folder, cache, keys):
    """q, k, v and the output of a call of attune's that attune_serving --save wrote down: keys and values as rows of numbers, whatever the cache has."""
    read = lambda what, kind: torch.from_file(str(folder / f"{cache} {keys}.{what}"), size=(folder / f"{cache} {keys}.{what}").stat().st_size // kind.itemsize, dtype=kind)
    paged, kind = cache.startswith("paged"), torch.bfloat16 if "bf16" in cache.split() else torch.float32
    tokens = int(cache.split()[-1]) if paged else 1
    rows, of_call = -(-keys // tokens) * tokens, torch.float32 if paged else kind
    count = 2 * options.key_heads * rows
    if cache == "i8":
        codes = read("read", torch.int8)[:count * depth].view(count, depth).float()
        both = codes * read("read", torch.float32)[count * depth // 4:].view(count, 1)
    else:
        both = read("read", kind)
    both = both.view(2, 1, options.key_heads, rows, depth)[:, :, :, :keys]
    q, out = (read(what, of_call).view(1, options.heads, 1, depth) for what in ("q", "out"))
    return q, *(x.to(of_call) for x in both), out


def compare(torch, options, depth, threads):
    """The largest difference between attune's outputs and those of each peer for the same tensors; ends where one is too large."""
    import peers
    furthest = 0
    with tempfile.TemporaryDirectory() as name:
        attune(options, depth, threads, 1, "--save", name)
        for cache in options.caches:
            for keys in options.keys:
                q, k, v, out = saved(torch, options, depth, pathlib.Path(name), cache, keys)
                for peer, call in calls_of(torch, peers, options, keys, q, k, v):
                    difference = float((call().float() - out.float()).abs().max())
                    tolerance = TOLERANCES["bf16" if q.dtype == torch.bfloat16 else "f32"]
                    if not difference <= tolerance:
                        sys.exit(f"{cache}, {keys} keys: the outputs of attune and {peer} differ by {difference:.2e}, more than {tolerance:.0e}")
                    furthest = max(furthest, difference)
    return furthest


def peers_of(torch, options, depth):
    """{(element type, keys): (seconds, name)} of the fastest call of one turn."""
    import peers
    fastest = {}
    for keys in options.keys:
        for kind in (torch.float32, torch.bfloat16):
            for name, call in calls_of(torch, peers, options, keys, *drawn(torch, options, depth, keys, kind)):
                at = ("f32" if kind == torch.float32 else "bf16", keys)
                fastest[at] = min(fastest.get(at, (math.inf, "")), (min(seconds_of(call, options.repeats)), name))
    return fastest


def beside(cache, keys, peers):
    kinds = [kind for kind in ("f32", "bf16") if kind in cache.split()] or ["f32", "bf16"]
    return min((peers[kind, keys] for kind in kinds if (kind, keys) in peers), default=(math.nan, "none"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caches", nargs="+", default=CACHES)
    parser.add_argument("--keys", nargs="+", type=int, default=[32, 128, 512, 2048, 4096])
    parser.add_argument("--slots", type=int, default=4160)
    parser.add_argument("--heads", type=int, default=9)
    parser.add_argument("--key-heads", type=int, default=3)
    parser.add_argument("--depths", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", choices=["sdpa", "ort", "ort in slots"], default="sdpa")
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
            furthest = compare(torch, options, depth, threads)
            ours, theirs = {}, {}
            for _ in range(options.rounds):
                for at, seconds in attune(options, depth, threads, options.repeats).items():
                    ours[at] = min(ours.get(at, math.inf), seconds)
                for at, found in peers_of(torch, options, depth).items():
                    theirs[at] = min(theirs.get(at, (math.inf, "")), found)
                time.sleep(REST)
            print(f"depth {depth}, threads {threads}; outputs differ by at most {furthest:.0e}\n{'cache':<16}" + "".join(f"{keys:>16}" for keys in options.keys))
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

#!/usr/bin/env python3
"""Makes a small JSON of a search out of its log, or says how far the default is from the best of such searches.

    condense.py LOG > FILE
    condense.py --table FILE...

Of an exhaustive search each candidate counts against the default:

    ./build/default/bin/attune_common_generator tune --variant causal_attention --depths 64 --buckets prefill --exhaustive --log log.jsonl --schedules ""
    ./tests/tuner/condense.py log.jsonl > tests/tuner/exhaustive/causal_64.json

Of any other search that ended, each counts against the one that led when it was tried, and the last comparison, of the default and those that came closest,
says what is best:

    ./build/default/bin/attune_common_generator tune --variant decode_attention --depths 128 --targets x86-64-v4 --buckets decode --shape 1x32:8x1x1024 --threads 2 --budget 110 --log log.jsonl --schedules ""
    ./tests/tuner/condense.py log.jsonl > tests/tuner/searches/decode_1024.json
    ./tests/tuner/condense.py --table tests/tuner/searches/*.json
"""
import json
import statistics
import sys


def right(begin, tried, expected):
    wrong = [t for t in tried if "wrong" in t]
    if wrong or len(tried) < expected:
        sys.exit(f"expected {expected} right candidates, got {len(tried)}, of which {len(wrong)} are wrong")
    return [name for name in begin["default"] if name != "shapes"]


def of_exhaustive(begin, tried):
    fields = right(begin, tried, begin["space"] - 1)
    # The median over the rounds of a candidate's time over that of the default right before it, as the tuner scores it. Machines that are shared have slow
    # minutes, in which other schedules are the fast ones: their rounds count only where a candidate has no three others.
    fastest = min(a for t in tried for a, _ in t["rounds"])

    def over_default(rounds):
        undisturbed = [b / a for a, b in rounds if a < 1.1 * fastest]
        return statistics.median(undisturbed if len(undisturbed) > 2 else [b / a for a, b in rounds])

    usual = statistics.median(a for t in tried for a, _ in t["rounds"] if a < 1.1 * fastest)
    return {"default_seconds": usual, "ratio": "over_default", "fields": fields, "candidates": [(t, over_default(t["rounds"])) for t in tried]}


def of_search(begin, tried, last):
    fields = right(begin, tried, 1)
    column = list(zip(*last["seconds"]))
    best = [{"schedule": s, "over_default": round(statistics.median(a / b for a, b in zip(times, column[0])), 4)} for s, times in zip(last["schedules"], column)]
    rows = [(t, statistics.median(b / a for a, b in t["rounds"])) for t in tried]
    return {"default_seconds": statistics.median(column[0]), "ratio": "over_leader", "fields": fields, "candidates": rows, "last": best, "rounds": len(last["seconds"])}


def condense(log):
    lines = [json.loads(line) for line in open(log)]
    begin = lines[0]["begin"]
    tried = [line["tried"] for line in lines if "tried" in line]
    last = [line["last"] for line in lines if "last" in line]
    if not begin["exhaustive"] and not last:
        sys.exit("expected the log of a search that ended, got one that was cut short; go on with it: tune --resume")
    search = of_exhaustive(begin, tried) if begin["exhaustive"] else of_search(begin, tried, last[0])
    print("{")
    for name in ("class", "cpu", "attune", "halide", "date", "shape", "threads", "default"):
        print(f" {json.dumps(name)}: {json.dumps(begin[name])},")
    print(f' "default_seconds": {search["default_seconds"]:.6g},')
    print(f' "compile_seconds": {statistics.median(t["compile_seconds"] for t in tried):.3g},')
    if "last" in search:
        print(f' "space": {begin["space"]},\n "last_rounds": {search["rounds"]},\n "last": [')
        print(",\n".join("  " + json.dumps(row) for row in search["last"]))
        print(" ],")
    print(f' "fields": {json.dumps(search["fields"] + [search["ratio"]])},')
    print(' "candidates": [')
    rows = [[*(t["schedule"][f] for f in search["fields"]), round(ratio, 4)] for t, ratio in search["candidates"]]
    print(",\n".join("  " + json.dumps(row, separators=(",", ":")) for row in rows))
    print(" ]\n}")


def table(files):
    print(f'{"shape":<22} {"candidates":>10} {"default ms":>10} {"default / best":>14}  best')
    for file in files:
        search = json.load(open(file))
        if "last" not in search:
            sys.exit(f"{file}: expected a search with a last comparison, got an exhaustive one")
        batch, heads, key_heads, queries, keys = search["shape"]
        best = min(search["last"], key=lambda each: each["over_default"])
        changed = {name: value for name, value in best["schedule"].items() if value != search["default"][name]}
        print(f'{f"{batch}x{heads}:{key_heads}x{queries}x{keys}":<22} {len(search["candidates"]):>10} {1e3 * search["default_seconds"]:>10.3f} '
              f'{1 / best["over_default"]:>14.3f}  {json.dumps(changed) if changed else "the default"}')


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--table":
        table(sys.argv[2:])
    elif len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    else:
        condense(sys.argv[1])


if __name__ == "__main__":
    main()

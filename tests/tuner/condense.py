#!/usr/bin/env python3
"""Makes the small JSON of an exhaustive search out of its log: condense.py LOG > FILE

    ./build/default/bin/attune_common_generator tune --variant causal_attention --depths 64 --buckets prefill --exhaustive --log log.jsonl --schedules ""
    ./tests/tuner/condense.py log.jsonl > tests/tuner/exhaustive/causal_64.json
"""
import json
import statistics
import sys


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    lines = [json.loads(line) for line in open(sys.argv[1])]
    begin = lines[0]["begin"]
    if not begin["exhaustive"]:
        sys.exit("expected the log of an exhaustive search, got one of another")
    tried = [line["tried"] for line in lines if "tried" in line]
    wrong = [t for t in tried if "wrong" in t]
    if wrong or len(tried) != begin["space"] - 1:
        sys.exit(f"expected {begin['space'] - 1} right candidates, got {len(tried)}, of which {len(wrong)} are wrong")
    fields = [name for name in begin["default"] if name != "shapes"]
    # The median over the rounds of a candidate's time over that of the default right before it, as the tuner scores it. Machines that are shared have slow
    # minutes, in which other schedules are the fast ones: their rounds count only where a candidate has no three others.
    fastest = min(a for t in tried for a, _ in t["rounds"])

    def over_default(rounds):
        undisturbed = [b / a for a, b in rounds if a < 1.1 * fastest]
        return statistics.median(undisturbed if len(undisturbed) > 2 else [b / a for a, b in rounds])

    usual = statistics.median(a for t in tried for a, _ in t["rounds"] if a < 1.1 * fastest)
    rows = [[*(t["schedule"][f] for f in fields), round(over_default(t["rounds"]), 4)] for t in tried]
    print("{")
    for name in ("class", "cpu", "attune", "halide", "date", "shape", "threads", "default"):
        print(f" {json.dumps(name)}: {json.dumps(begin[name])},")
    print(f' "default_seconds": {usual:.6g},')
    print(f' "compile_seconds": {statistics.median(t["compile_seconds"] for t in tried):.3g},')
    print(f' "fields": {json.dumps(fields + ["over_default"])},')
    print(' "candidates": [')
    print(",\n".join("  " + json.dumps(row, separators=(",", ":")) for row in rows))
    print(" ]\n}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What searches found on this CPU beside the default schedules: how near does attune come without the CPU's file?

Each entry of a file of measured schedules is timed in turns with the default, which no file has a part in: `bench` of one
generator program compiles both. The figure is the searched schedule's time over the default's: 100 % where the search
gained nothing.
"""
import argparse, json, pathlib, subprocess, sys
from turns import ROOT, cpu_name

# Of each class of formulas and kind of kernel that entries name: a variant of attune::common, and what it is passed.
VARIANTS = {("full", "prefill"): ("plain_attention", []), ("causal", "prefill"): ("causal_attention", []),
            ("masked", "decode"): ("decode_attention", []), ("window", "prefill"): ("window_attention", ["left=256", "right=0"])}


def kind_of(entry):
    return entry["variants"], entry["schedule"]["shapes"]


def shape_of(entry):
    batches, heads, key_heads, queries, keys = entry["measured"]["shape"]
    return f"{batches}x{heads}:{key_heads}x{queries}x{keys}"


def seconds_of(program, entry, schedule, seconds):
    """The median of one turn's calls, and the schedule that they had."""
    variant, numbers = VARIANTS[kind_of(entry)]
    command = [program, "bench", "--json", "--variant", variant, "--shape", shape_of(entry), "--seconds", str(seconds),
               "--depths", f"{entry['depth']}x{entry['value_depth']}", "--dtypes", entry["types"], "--targets", entry["level"],
               "--threads", str(entry["measured"]["threads"]), "--tuned-for", "generic", "--schedule", json.dumps(schedule)]
    if numbers:
        command += ["--set", *numbers]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        sys.exit(answer.stderr)
    found = [kernel for kernel in json.loads(answer.stdout) if kernel["schedule"]["shapes"] == schedule["shapes"]]
    if not found:
        sys.exit(f"no {schedule['shapes']} kernel of {variant} was timed at {entry['level']}")
    return found[0]["median_s"], found[0]["schedule"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, help="measured schedules of this CPU, as generators/schedules/amd-25-1.json")
    parser.add_argument("--program", default=ROOT / "build/default/bin/attune_common_generator", help="the generator of attune::common")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each; the fastest counts")
    parser.add_argument("--seconds", type=float, default=0.3, help="of calls, a turn")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results = []
    for entry in json.loads(options.file.read_text())["entries"]:
        if kind_of(entry) not in VARIANTS:
            print(f"left out: {' '.join(kind_of(entry))} d{entry['depth']}, of which attune::common has no variant", file=sys.stderr)
            continue
        contenders = {"searched": entry["schedule"], "default": {"shapes": entry["schedule"]["shapes"]}}
        seconds, used = {who: [] for who in contenders}, {}
        for turn in range(options.rounds):
            print(f"{entry['variants']} {shape_of(entry)} d{entry['depth']}: turn {turn + 1} of {options.rounds}", file=sys.stderr)
            for who, schedule in contenders.items():
                median, used[who] = seconds_of(options.program, entry, schedule, options.seconds)
                seconds[who].append(median)
        best = {who: min(all_turns) for who, all_turns in seconds.items()}
        differs = sorted(field for field, value in used["searched"].items() if used["default"].get(field) != value)
        results.append({"variants": entry["variants"], "shape": shape_of(entry), "depth": entry["depth"], "shapes": entry["schedule"]["shapes"],
                        "level": entry["level"], "searched_s": best["searched"], "default_s": best["default"],
                        "of_searched": best["searched"] / best["default"], "differs": differs})
    if options.json:
        print(json.dumps({"cpu": cpu_name(), "file": options.file.name, "results": results}, indent=2))
        return
    print("| class | call | depth | kernel | default ms | searched ms | default reaches | fields that differ |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for r in results:
        print(f"| {r['variants']} | {r['shape']} | {r['depth']} | {r['shapes']}, {r['level']} | {r['default_s'] * 1e3:.3f} | {r['searched_s'] * 1e3:.3f} | "
              f"{100 * r['of_searched']:.0f} % | {', '.join(r['differs']) or 'none'} |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""`tune` and `merge` of a generator program, end to end.

    search   a short search: log, database, table, JSON and pictures; its replay chooses the same; what it left is used by `explain`; refusals
    gradient a gradient is timed, searched and replayed, and explain finds what was kept
    recurrence  a recurrence is timed, searched and replayed for prompts and for single tokens, and explain finds what was kept
    kill     searches killed at random times leave a valid database and a log that goes on
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

wrong = []


def check(condition, sentence):
    if not condition:
        wrong.append(sentence)


def run(command, expected=0):
    result = subprocess.run(command, capture_output=True, text=True)
    check(result.returncode == expected, f"{' '.join(command)}: expected exit status {expected}, got {result.returncode}:\n{result.stdout}{result.stderr}")
    return result


def the_database(folder):
    files = [name for name in os.listdir(folder) if name.endswith(".json")] if os.path.isdir(folder) else []
    return os.path.join(folder, files[0]) if files else None


def rewrite(file, lines):
    open(file, "w").writelines(json.dumps(line) + "\n" for line in lines)


def levels_here(options):
    """Of the levels asked for, those that this machine runs, the most demanding first: `bench` leaves the others out."""
    small = ["--shape", "1x1x16x16", "--seconds", "0", "--json"]
    return [row["target"] for row in json.loads(run([options.program, "bench", *options.kernel[: options.kernel.index("--buckets")], *small]).stdout)]


def steady(log, file):
    """The same log, as a machine would have written it whose times of one kernel do not differ."""
    lines = [json.loads(line) for line in open(log)]
    for line in lines:
        if "tried" in line:
            line["tried"]["rounds"] = [[1, 2]] * 6
    rewrite(file, lines)
    return file


def search(options, scratch):
    program = [options.program, "tune", *options.kernel]
    folder, log = os.path.join(scratch, "schedules"), os.path.join(scratch, "log.jsonl")
    levels = levels_here(options)
    ranks = {name: rank for rank, name in enumerate(["aarch64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx"])}
    most = os.environ.get("ATTUNE_MAX_LEVEL") or "x86-64-v4-amx"
    check(levels and max(ranks[level] for level in levels) <= ranks[most], f"expected levels up to {most}, got {levels}")
    made = run(program + ["--budget", "3", "--seed", "5", "--schedules", folder, "--log", log, "--report", os.path.join(scratch, "report.html"), "--json"])
    results = json.loads(made.stdout)
    check([r["search"].split()[-2] for r in results] == levels and all(r["tried"] == 3 for r in results), f"expected a search of three candidates for each of {levels}, got {made.stdout}")
    check("3/3 tried" in made.stderr and "left" in made.stderr, f"expected a line of progress, got {made.stderr}")
    check(len(open(log).read().splitlines()) == 5 * len(levels), "expected a log of a beginning, three candidates and an end of each search")

    replay = json.loads(run(program + ["--replay", log, "--json", "--report", os.path.join(scratch, "report.svg")]).stdout)
    check(replay == results, f"expected a replay to give {results}, got {replay}")
    table = run(program + ["--replay", log]).stdout
    check(all(r["search"] in table for r in results) and "gain" in table, f"expected a table, got {table}")
    for picture in ("report.svg", "report.html"):
        text = open(os.path.join(scratch, picture)).read()
        check(text.count("<circle") + text.count("\u00d7") == 3 * len(levels), f"expected a mark for each candidate in {picture}")
    xml.etree.ElementTree.parse(os.path.join(scratch, "report.svg"))

    database = the_database(folder)
    entries = json.load(open(database))["entries"]
    check({e["level"]: e["schedule"] for e in entries} == {level: r["schedule"] for level, r in zip(levels, results)} and len(entries) == len(levels), f"expected the schedules that were chosen in {database}, got {entries}")
    cpu = os.path.basename(database)[: -len(".json")]
    for tuned_for in ("native", cpu):
        kernels = run([options.program, "explain", *options.kernel[:-2], "--schedules", folder, "--tuned-for", tuned_for, "--json"]).stdout
        froms = [k["schedule_from"] for v in json.loads(kernels) for k in v["kernels"]]
        check(any(cpu + ".json: " in f for f in froms), f"expected explain to name {cpu}.json, got {froms}")
    text = run([options.program, "explain", *options.kernel[:-2], "--schedules", folder, "--tuned-for", "generic"]).stdout
    check("from the default" in text, "expected explain to say that schedules are the default ones")

    both = os.path.join(scratch, "both.json")
    run([options.program, "merge", database, database, "--into", both])
    check(json.load(open(both)) == json.load(open(database)), "expected a file merged with itself to stay as it is")
    # As if a candidate had been wrong: it is reported, with a command that compiles, checks and times that one schedule. This one is right.
    lines = [json.loads(line) for line in open(log)]
    suspect = lines[2]["tried"]
    suspect.update(rounds=[], wrong="1 queries and 1 keys: expected out within 5e-05, got an error of 1")
    changed = os.path.join(scratch, "changed.jsonl")
    rewrite(changed, lines)
    report = run(program + ["--replay", changed], expected=1).stderr
    check(f"{results[0]['search']}: BUG: a schedule changes results: {suspect['wrong']}" in report and "to see it again:" in report, f"expected a report of a wrong candidate, got {report}")
    command = report.splitlines()[-1].strip()
    check(json.dumps(suspect["schedule"], separators=(",", ":")) in command, f"expected a command that names the schedule, got {command}")
    only = run(["sh", "-c", command]).stdout
    check(f"{results[0]['search']}: right; " in only, f"expected the command to say that the schedule is right, got {only}")

    # As if times of one kernel had differed by a fifth.
    for line in lines:
        if "tried" in line:
            line["tried"] = dict(line["tried"], rounds=[[1 + 0.2 * (i % 2), 2] for i in range(6)])
            line["tried"].pop("wrong", None)
    rewrite(changed, lines)
    table = run(program + ["--replay", changed]).stdout
    check(f"{results[0]['search']}: this machine is noisy: times of one kernel differed by 18 %" in table, f"expected a noisy machine to be said, got {table}")
    check("this machine is noisy" not in run(program + ["--replay", steady(log, changed)]).stdout, "expected a steady machine not to be called noisy")

    # A log of which somebody has changed a schedule.
    for fields, sentence in [({"key_block": 100000}, f"{changed}, line 3: expected a line of a search's log, got one that is none (expected a schedule's key_block to be 4096 at most, got 100000"),
                             ({"query_block": 17 * suspect["schedule"]["query_tile"]}, f"{changed}: {results[0]['search']}: expected schedules of the search's space, got {{")]:
        rewrite(changed, [*lines[:2], dict(lines[2], tried=dict(lines[2]["tried"], schedule=dict(suspect["schedule"], **fields))), *lines[3:]])
        said = run(program + ["--replay", changed], expected=1).stderr
        check(sentence in said, f"expected `{sentence}`, got {said}")

    again = run(program + ["--again", "--schedules", folder]).stdout
    check(": right; " in again and " ms -> " in again, f"expected --again to time the schedule that is kept, got {again}")

    def refused(command, sentence):
        said = run(command, expected=1).stderr
        check(sentence in said, f"{' '.join(command)}: expected `{sentence}`, got {said}")

    refused(program + ["--budget", "soon"], "expected a budget as a time, 90s or 3m, or as a number of candidates, got \"soon\"")
    refused(program + ["--resume"], "expected --log with --resume, got none")
    refused(program + ["--replay", database], "expected a line of a search's log")
    refused(program + ["--budget", "3", "--seed", "6", "--log", log, "--resume"], "expected a log whose search has seed 6, got 5")
    refused([*program[:-2], "--buckets", "short", "--again", "--schedules", folder], "expected measured schedules of these kernels in")
    refused([options.program, "explain", "--schedules", folder, "--tuned-for", "vax-1-1"], f"expected schedules of vax-1-1 in {folder}, got those of: {cpu}")
    open(os.path.join(scratch, "cut.json"), "w").write(open(database).read()[:200])
    refused([options.program, "merge", os.path.join(scratch, "cut.json"), "--into", both], "cut short or damaged")


def gradient(options, scratch):
    folder, log = os.path.join(scratch, "schedules"), os.path.join(scratch, "log.jsonl")
    before = options.kernel.index("--targets")
    kernel = [*options.kernel[:before], "--targets", levels_here(options)[0]]
    (timed,) = json.loads(run([options.program, "bench", *kernel, "--shape", "1x2x40x40", "--seconds", "0", "--json", "--schedule", '{"shapes": "gradient", "depth_unroll": 2}']).stdout)
    check(timed["median_s"] > 0 and timed["schedule"]["depth_unroll"] == 2, f"expected the time of a gradient under that schedule, got {timed}")
    check(timed["flops_of_all_pairs"] == 5 * 2 * 2 * 40 * 40 * 32, f"expected five products, got {timed['flops_of_all_pairs']}")

    program = [options.program, "tune", *kernel, "--buckets", "gradient"]
    (made,) = json.loads(run(program + ["--budget", "2", "--schedules", folder, "--log", log, "--json"]).stdout)
    check(made["search"].endswith(" gradient") and made["tried"] == 2 and made["schedule"]["shapes"] == "gradient" and made["wrong"] == [], f"expected a search of a gradient, got {made}")
    check(made["rank_correlation"] is None, "expected no word of the cost model, which knows no gradients")
    replay = json.loads(run(program + ["--replay", log, "--json"]).stdout)
    check(replay == [made], f"expected a replay to give {made}, got {replay}")
    (entry,) = json.load(open(the_database(folder)))["entries"]
    check(entry["bucket"] == "gradient" and entry["schedule"] == made["schedule"], f"expected the schedule that was chosen, got {entry}")
    explained = json.loads(run([options.program, "explain", *kernel, "--schedules", folder, "--tuned-for", "native", "--json"]).stdout)
    check([k["schedule"] for v in explained for k in v["kernels"]] == [made["schedule"]], f"expected kernels with the schedule that is kept, got {explained}")


def recurrence(options, scratch):
    folder, log = os.path.join(scratch, "schedules"), os.path.join(scratch, "log.jsonl")
    before = options.kernel.index("--targets")
    kernel = [*options.kernel[:before], "--targets", levels_here(options)[0]]
    for tokens, serving in [(40, 1), (1, 3)]:  # kernels that go through so many tokens: a chunk of 16, one of 4, and one of a single token
        timed = json.loads(run([options.program, "bench", *kernel, "--shape", f"2x2x{tokens}x1", "--seconds", "0", "--json", "--schedule", '{"shapes": "recurrence", "rows": 2}']).stdout)
        check(len(timed) == serving and all(t["median_s"] > 0 and t["schedule"]["rows"] == 2 for t in timed), f"expected times of {serving} kernels of a recurrence under that schedule, got {timed}")

    kinds = ["prefill", "decode"]
    program = [options.program, "tune", *kernel, "--buckets", *kinds]
    made = json.loads(run(program + ["--budget", "2", "--schedules", folder, "--log", log, "--json"]).stdout)
    check([m["search"].split()[-1] for m in made] == kinds and all(m["tried"] == 2 and m["schedule"]["shapes"] == "recurrence" and m["wrong"] == [] for m in made), f"expected a search of prompts and one of single tokens, got {made}")
    replay = json.loads(run(program + ["--replay", log, "--json"]).stdout)
    check(replay == made, f"expected a replay to give {made}, got {replay}")
    entries = {e["bucket"]: e for e in json.load(open(the_database(folder)))["entries"]}
    check({kind: e["schedule"] for kind, e in entries.items()} == dict(zip(kinds, (m["schedule"] for m in made))), f"expected the schedules that were chosen, got {entries}")
    check(all(e["variants"].startswith("recurrence") for e in entries.values()), f"expected a class of recurrences, got {entries}")
    explained = json.loads(run([options.program, "explain", *kernel, "--schedules", folder, "--tuned-for", "native", "--json"]).stdout)
    kept = [k["schedule"] for v in explained for k in v["kernels"] if k["schedule_from"] != "the default"]
    check(kept == [m["schedule"] for m in made], f"expected the kernels of 16 tokens and of one with the schedules that are kept, got {explained}")


def kill(options, scratch):
    """The budget lets no search end, so that each is killed in the middle of something. Kills fall within the time that two candidates take on this machine."""
    folder, log = os.path.join(scratch, "schedules"), os.path.join(scratch, "log.jsonl")
    before, after = (options.kernel.index(name) for name in ("--targets", "--buckets"))
    kernel = [*options.kernel[:before], "--targets", levels_here(options)[0], *options.kernel[after:]]  # one search
    program = [options.program, "tune", *kernel, "--schedules", folder, "--log", log, "--jobs", "1"]
    random.seed(options.seed)

    def lines():
        return open(log).read().count("\n") if os.path.exists(log) else 0

    def check_database():
        database = the_database(folder)
        check(database is not None, "expected a database that stays, got none")
        if database:
            run([options.program, "merge", database, "--into", os.path.join(scratch, "valid.json")])

    run(program + ["--budget", "1"])  # what a kill could damage
    check_database()
    os.remove(log)
    longest = None  # of the seconds from a search's beginning to its second candidate
    kept = 0
    for attempt in range(options.times):
        start = time.monotonic()
        process = subprocess.Popen(program + ["--budget", "1000", "--resume"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if longest is None:
            while lines() < 3 and process.poll() is None and time.monotonic() < start + 300:
                time.sleep(0.05)
            longest = time.monotonic() - start
        else:
            time.sleep(random.uniform(0.1, longest))
        check(process.poll() is None, f"expected a search that goes on, got one that ended with {process.returncode}")
        process.send_signal(signal.SIGKILL)
        process.wait()
        check_database()
        whole = lines()
        check(whole >= kept, f"expected a log that grows, got {whole} lines after {kept}")
        kept = whole
    tried = kept - 1
    print(f"killed {options.times} times within {longest:.1f} s each, {tried} candidates tried")
    check(tried >= 2, f"expected two candidates in the log at least, got {tried}")
    ended = json.loads(run(program + ["--budget", str(max(1, tried)), "--resume", "--json"]).stdout)
    check(ended[0]["tried"] == tried, f"expected a search that ends with the {tried} candidates it had, got {ended[0]['tried']}")
    check_database()

    # The file itself, while it is written: as a whole or not at all.
    database, copy = the_database(folder), os.path.join(scratch, "copy.json")
    begun = time.monotonic()
    run([options.program, "merge", database, "--into", copy])
    took, whole, kinds = time.monotonic() - begun, open(database).read(), set()
    for attempt in range(options.times * 3):
        os.remove(copy) if os.path.exists(copy) else None
        process = subprocess.Popen([options.program, "merge", database, "--into", copy], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, 1.2 * took))
        process.kill()
        process.wait()
        kinds.add(os.path.exists(copy))
        check(not os.path.exists(copy) or open(copy).read() == whole, "expected a whole file or none, got a part of one")
    check(kinds == {False, True}, f"expected kills before and after the file was there, got {kinds}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=["search", "gradient", "recurrence", "kill"])
    parser.add_argument("program")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("kernel", nargs="+", help="what tells tune which kernel; --buckets <bucket> last")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        {"search": search, "gradient": gradient, "recurrence": recurrence, "kill": kill}[options.check](options, scratch)
    for sentence in wrong:
        print("FAILED  " + sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

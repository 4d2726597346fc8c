#!/usr/bin/env python3
"""check_compare.py <source folder>: what compare.py makes of timings, without any: its help, table, JSON and picture. A time is no test."""
import contextlib, io, os, subprocess, sys
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from compare import show
from roofline import roofline, ticks

failures = []


def check(condition, what, got):
    if not condition:
        failures.append(f"{what}\n    got: {got}")


machine = {"cpu": "A CPU", "threads": 2, "target": "x86-64-v3", "gigaflops": 200.0, "gigabytes": 30.0}
timed = lambda name, seconds, flops, size, peers, **more: {
    "case": name, "dtype": "f32", "attune_s": seconds, "peers": peers, "ratio_to_best": min(peers.values()) / seconds if peers else None, "peak_share": 0.5,
    "best": min(peers, key=peers.get) if peers else None, "flops": flops, "bytes": size, "over_causal": None, "read_share": None, **more}
results = [timed("full", 0.050, 8e9, 2e7, {"SDPA": 0.060, "SDPA, keys repeated": 0.055, "ORT Attention": 0.070}), timed("softcap", 0.030, 4e9, 2e7, {"eager": 0.3}, over_causal=0.95),
           timed("decode", 0.001, 1e8, 2e7, {}, read_share=0.8)]

table = io.StringIO()
with contextlib.redirect_stdout(table):
    show(results, machine)
rows = table.getvalue().splitlines()[-3:]
check(rows[0].split() == ["full", "50.000", "160.0", "55.000", "-", "70.000", "1.10x", "50.0%", "SDPA,", "keys", "repeated"], "a row holds the fastest spelling of each peer", rows[0])
check(rows[1].endswith("10.00x    50.0%  eager; 0.95x its own causal"), "a modified score is compared with its own causal", rows[1])
check(rows[2].split()[3:8] == ["-", "-", "-", "-", "50.0%"], "a case without peers has no ratio", rows[2])
check(rows[2].endswith("; 80% of reading alone"), "one query is compared with reading interleaved", rows[2])

picture = xml.fromstring(roofline(machine, results))
texts = ["".join(e.itertext()) for e in picture.iter() if e.tag.endswith("text")]
circles = [e for e in picture.iter() if e.tag.endswith("circle")]
check(any(text.startswith("1  full: 160, 1.10x") for text in texts) and any(text.startswith("3  decode: 100") for text in texts), "the picture says what each case reached", texts)
check(len(circles) == 3 + 2 + 2, "a point a case, one for its fastest peer, two in the legend", len(circles))
roof = next(e for e in picture.iter() if e.tag.endswith("polyline")).get("points").split()
check(len(roof) == 3 and roof[1].split(",")[1] == roof[2].split(",")[1], "the roof has a slope and a flat part", roof)
check(ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100] and ticks(0.01, 1e5)[0] == 0.01, "axes have marks", ticks(1, 100))

help_text = subprocess.run([sys.executable, os.path.join(sys.argv[1], "compare.py"), "--help"], capture_output=True, text=True)
check(help_text.returncode == 0 and all(option in help_text.stdout for option in ("--json", "--cases", "--plot", "--peers")), "--help explains", help_text.stdout + help_text.stderr)
refused = subprocess.run([sys.executable, os.path.join(sys.argv[1], "compare.py"), "--program", "/none"], capture_output=True, text=True)
check(refused.returncode == 1 and "try cmake" in refused.stderr, "a program that was not built is said to be", refused.stderr)

print("\n".join(failures) or "all checks passed")
sys.exit(bool(failures))

#!/usr/bin/env python3
"""check_compare.py <source folder>: what compare.py makes of timings, without any: its help, table, JSON and picture. A time is no test."""
import contextlib, io, os, subprocess, sys
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from compare import find_shares, show
from roofline import roofline, ticks

failures = []


def check(condition, what, got):
    if not condition:
        failures.append(f"{what}\n    got: {got}")


machine = {"cpu": "A CPU", "threads": 2, "target": "x86-64-v4-bf16", "gigaflops": 200.0, "gigabytes": 30.0}
timed = lambda name, seconds, flops, size, peers, **more: {
    "case": name, "dtype": "f32", "attune_s": seconds, "peers": peers, "ratio_to_best": min(peers.values()) / seconds if peers else None, "peak_share": 0.5,
    "best": min(peers, key=peers.get) if peers else None, "flops": flops, "bytes": size, "over_causal": None, "other_build": None, "read_share": None,
    "peak_of": "multiply-add", "peak_gigaflops": 150.0, "read_gigabytes": None, **more}
results = [timed("full", 0.050, 8e9, 2e7, {"SDPA": 0.060, "SDPA, keys repeated": 0.055, "ORT Attention": 0.070, "OpenVINO": 0.065}), timed("softcap", 0.030, 4e9, 2e7, {"eager": 0.3}, over_causal=0.95),
           timed("decode", 0.001, 1e8, 2e7, {}, read_share=0.8)]
halves = [timed("halves", 0.025, 8e9, 1e7, {"SDPA": 0.050}, peak_of="vdpbf16ps", peak_gigaflops=300.0),
          timed("halves too", 0.020, 8e9, 1e7, {"SDPA": 0.050}, peak_of="vdpbf16ps", peak_gigaflops=390.0)]


def shown(results, machine):
    table = io.StringIO()
    with contextlib.redirect_stdout(table):
        show(results, machine)
    return table.getvalue().splitlines()


def shares_of(results, gigaflops=200.0, gigabytes=30.0):
    """As main finds them: of copies, so that one check changes nothing of another's."""
    results, of = [dict(r) for r in results], {**machine, "gigaflops": gigaflops, "gigabytes": gigabytes}
    find_shares(results, of)
    return [round(r["peak_share"], 6) for r in results], of, results


shares, of, found = shares_of(results)
check(shares == [0.8, round(4e9 / 200e9 / 0.030, 6), round(2e7 / 30e9 / 0.001, 6)], "multiply-adds or memory, whichever takes longer", shares)
shares, of, found = shares_of([{**results[0], "peak_gigaflops": 160.0}, {**results[0], "peak_gigaflops": 320.0}], gigaflops=100.0)
check(shares == [0.5, 0.5] and of["gigaflops"] == 320.0, "the best of what was measured in a run is the peak of its rows", (shares, of))
shares, of, found = shares_of([results[0], *halves])
check(shares == [0.8, round(8e9 / 390e9 / 0.025, 6), round(8e9 / 390e9 / 0.020, 6)], "vdpbf16ps has a peak of its own", shares)
check(of["peaks"] == {"multiply-add": 200.0, "vdpbf16ps": 390.0}, "each instruction's peak is known", of)
said = shown(found, of)
check("multiply-add peak 200 GFLOP/s, vdpbf16ps peak 390 GFLOP/s" in said[0], "the head names both", said[0])
check("; peak of vdpbf16ps, softmax is f32; above" in said[-1] and "peak of" not in said[-3], "a row says whose peak it is, unless it is that of multiply-adds", said)
check(said[-1].endswith("102.6%  SDPA; peak of vdpbf16ps, softmax is f32; above what was measured of the machine: it was busy") and "above" not in said[-2],
      "a share above the peak is printed as it is, and marked", said)
shares, of, found = shares_of([{**results[2], "read_gigabytes": 40.0}, {**results[2], "read_gigabytes": 10.0}])
check(shares == [0.5, round(2e7 / 30e9 / 0.001, 6)] and of["gigabytes"] == 30.0, "the rate of reading between the calls is that row's memory, if faster", shares)
shares, of, found = shares_of([{**results[0], "other_build": 0.987}])
said = shown(found, of)
check(said[-1].endswith("keys repeated; the other build takes 0.987 of its time"), "another build's time is said beside its own", said)
peaks_of = lambda results: [e for e in xml.fromstring(roofline(shares_of(results)[1], results)).iter() if e.tag.endswith("polyline")]
check(len(peaks_of(results)) == 1 and len(peaks_of(results + halves)) == 2, "the picture has a roof for each instruction", peaks_of(results + halves))

machine["peaks"] = {"multiply-add": 200.0}
rows = shown(results, machine)[-3:]
check(rows[0].split() == ["full", "50.000", "160.0", "55.000", "-", "70.000", "65.000", "-", "1.10x", "50.0%", "SDPA,", "keys", "repeated"], "a row holds the fastest spelling of each peer", rows[0])
check(rows[1].endswith("10.00x    50.0%  eager; 0.95x its own causal"), "a modified score is compared with its own causal", rows[1])
check(rows[2].split()[3:10] == ["-", "-", "-", "-", "-", "-", "50.0%"], "a case without peers has no ratio", rows[2])
check(rows[2].endswith("; 80% of reading alone"), "one query is compared with reading between its calls", rows[2])

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
help_text = subprocess.run([sys.executable, os.path.join(sys.argv[1], "ggml_peer.py"), "--help"], capture_output=True, text=True)
check(help_text.returncode == 0 and "build/llama_cpp" in help_text.stdout, "and so does ggml's", help_text.stdout + help_text.stderr)
refused = subprocess.run([sys.executable, os.path.join(sys.argv[1], "compare.py"), "--program", "/none"], capture_output=True, text=True)
check(refused.returncode == 1 and "try cmake" in refused.stderr, "a program that was not built is said to be", refused.stderr)

print("\n".join(failures) or "all checks passed")
sys.exit(bool(failures))

#!/usr/bin/env python3
"""Embeddings of the program sentence_embeddings against those of a double-precision reference: 1e-4 absolute, a cosine of at least 0.99999.

usage: check_reference.py PROGRAM MODEL FOLDER
The reference is reference.safetensors beside this script, of sentences.txt there; or minilm/ in or beside the folder that ATTUNE_GOLDEN names. MODEL is
what ./examples/run sentence_embeddings fetched, or ./tests/run in CI: without it the test counts as skipped (status 77). Writes into FOLDER.
"""
import array
import json
import math
import os
import pathlib
import struct
import subprocess
import sys

program, model, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
golden = pathlib.Path(os.environ.get("ATTUNE_GOLDEN", "/nowhere"))
here = pathlib.Path(__file__).parent
reference = next(path for path in (golden / "minilm/reference.safetensors", golden.parent / "minilm/reference.safetensors", here / "reference.safetensors") if path.exists())
if not model.exists():
    print(f"skipped: {model} is not there; ./examples/run sentence_embeddings fetches it")
    sys.exit(77)

data = reference.read_bytes()
length, = struct.unpack("<Q", data[:8])
entry = json.loads(data[8:8 + length])["embeddings"]
begin, end = entry["data_offsets"]
expected = array.array("f", data[8 + length + begin:8 + length + end])
count, width = entry["shape"]

folder.mkdir(parents=True, exist_ok=True)
output = folder / "embeddings.csv"
done = subprocess.run([program, reference.parent / "sentences.txt", "--model", model, "--output", output], capture_output=True, text=True)
print(done.stdout + done.stderr)
if done.returncode != 0:
    sys.exit(f"FAILED  expected status 0, got {done.returncode}")
rows = [[float(number) for number in line.split(",")] for line in output.read_text().splitlines()]
if len(rows) != count or any(len(row) != width for row in rows):
    sys.exit(f"FAILED  expected {count} rows of {width} numbers, got {len(rows)} of {sorted({len(row) for row in rows})}")
worst, least = 0.0, 1.0
for number, row in enumerate(rows):
    other = expected[number * width:(number + 1) * width]
    worst = max(worst, max(abs(x - y) for x, y in zip(row, other)))
    least = min(least, sum(x * y for x, y in zip(row, other)) / math.hypot(*row) / math.hypot(*other))
print(f"{count} sentences: largest difference {worst:.1e}, least cosine {least:.7f}")
if not (worst <= 1e-4 and least >= 0.99999):
    sys.exit("FAILED  expected differences of at most 1e-4 and cosines of at least 0.99999")

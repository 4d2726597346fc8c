#!/usr/bin/env python3
"""check_pinned.py SOURCES: what is taken from a Python package index has a version and hashes, and no call of pip goes without them."""
import os
import re
import sys

SOURCES = sys.argv[1]
LISTS = (".setup/packages", "tests/benchmarks/peers", "tests/python/jax")
CALL = re.compile(r"-m pip install|\"pip\", *\"install\"|\bpip3? download|\buv pip (install|sync)")
HASHED = re.compile(r"^(\S+)==(\S+)(?: ; .*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M)
wrong = []


def text_of(name):
    with open(os.path.join(SOURCES, name), encoding="utf-8", errors="replace") as file:
        return file.read()


for name in LISTS:
    wanted, pinned = text_of(name + ".in"), text_of(name + ".txt")
    rest = HASHED.sub("", pinned)
    if rest.strip():
        wrong.append(f"{name}.txt: expected packages with versions and hashes alone, got {rest.strip()[:80]}")
    found = {(package, version) for package, version, _ in HASHED.findall(pinned)}
    for line in re.findall(r"^[^#\s].*$", wanted, re.M):
        package, _, version = line.split(";")[0].strip().partition("==")
        if not any(package == other and version in ("", which) for other, which in found):
            wrong.append(f"{name}.txt: expected {package} {version} as {name}.in has it, got none")

calls = 0
for where, folders, files in os.walk(SOURCES):
    folders[:] = [folder for folder in folders if folder not in ("build", ".git", "corpus", "shared")]
    for file in files:
        path = os.path.relpath(os.path.join(where, file), SOURCES)
        if file.endswith((".safetensors", ".o", ".png")) or path == os.path.relpath(os.path.abspath(__file__), os.path.abspath(SOURCES)):
            continue
        for line in text_of(path).splitlines():
            if CALL.search(line):
                calls += 1
                if "--require-hashes" not in line:
                    wrong.append(f"{path}: expected --require-hashes, got {line.strip()}")
if calls < 3:
    wrong.append(f"expected the calls of pip that set-up makes, got {calls}")
print("\n".join(wrong) or f"{calls} calls of pip, all by hashes")
sys.exit(bool(wrong))

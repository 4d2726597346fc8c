#!/usr/bin/env python3
"""check_pinned.py SOURCES: what is taken from a Python package index has a version and hashes, no call of pip goes without them, and all files that name a package's version
name the same one. The requirements of pyproject.toml are pinned likewise, or are a range below, with its reason."""
import os
import re
import sys

SOURCES = sys.argv[1]
LISTS = (".setup/packages", "tests/benchmarks/peers", "tests/benchmarks/ggml", "tests/ggml/model", "tests/python/jax", "tests/python/tvm_ffi", "tests/python/transformers", "tests/python/vllm")
CALL = re.compile(r"-m pip install|\"pip\", *\"(?:install|download)\"|\bpip3? download|\buv pip (install|sync)")
HASHED = re.compile(r"^(\S+)==(\S+)(?: ; .*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M)
NAMED = re.compile(r"(?<![\w.-])([A-Za-z][\w-]*)==(\d[\w.]*\w)")
REQUIREMENT = re.compile(r'"([A-Za-z][\w-]*)((?:[=<>!~]=|[<>])[^"]+)"|^(cmake)\.version = "(.+)"', re.M)
ELSEWHERE = re.compile(r"(requirements|constraints).*\.(txt|in)$|environment\.ya?ml$|Pipfile|setup\.(py|cfg)$|pyproject\.toml$|(poetry|uv)\.lock$")
# Ranges in pyproject.toml, each with the reason. Reviewed: a line more is a package that nobody here has seen.
RANGES = {
    "numpy>=1.23": "of who installs the wheel, with the packages of theirs; tests have the pinned one",
    "cmake>=3.28": "of who installs the wheel and compiles variants, and of who makes it where the system has none; tests have the pinned one",
    "ninja>=1.11": "as cmake",
}
wrong, versions = [], {}


def text_of(name):
    with open(os.path.join(SOURCES, name), encoding="utf-8", errors="replace") as file:
        return file.read()


for name in LISTS:
    wanted, pinned = text_of(name + ".in"), text_of(name + ".txt")
    rest = HASHED.sub("", pinned)
    if rest.strip():
        wrong.append(f"{name}.txt: expected packages with versions and hashes alone, got {rest.strip()[:80]}")
    found = {(package, version) for package, version, _ in HASHED.findall(pinned)}
    for package, version in found:
        versions.setdefault(package, set()).add(version)
    for line in re.findall(r"^[^#\s].*$", wanted, re.M):
        package, _, version = line.split(";")[0].strip().partition("==")
        if not any(package == other and version in ("", which) for other, which in found):
            wrong.append(f"{name}.txt: expected {package} {version} as {name}.in has it, got none")

hashed = {package: version for package, version, _ in HASHED.findall(text_of(".setup/packages.txt"))}
requirements = [(a or c, b or d) for a, b, c, d in REQUIREMENT.findall(text_of("pyproject.toml"))]
for package, version in requirements:
    if package + version not in RANGES and version != f"=={hashed.get(package)}":
        wrong.append(f"pyproject.toml: expected {package} as .setup/packages.txt has it, with hashes, or among the ranges of this test, got {package}{version}")
for unused in sorted(set(RANGES) - {package + version for package, version in requirements}):
    wrong.append(f"expected pyproject.toml to have the range {unused}, got none")
if (layout := re.search(r"mirrors-clang-format\s+rev: v(\S+)", text_of(".pre-commit-config.yaml"))[1]) != hashed["clang-format"]:
    wrong.append(f".pre-commit-config.yaml: expected clang-format {hashed['clang-format']}, got {layout}")

calls = 0
for where, folders, files in os.walk(SOURCES):
    folders[:] = [folder for folder in folders if folder not in ("build", ".git", "corpus", "shared")]
    for file in files:
        path = os.path.relpath(os.path.join(where, file), SOURCES)
        if file.endswith((".safetensors", ".o", ".png")) or path == os.path.relpath(os.path.abspath(__file__), os.path.abspath(SOURCES)):
            continue
        if ELSEWHERE.match(file) and path != "pyproject.toml":
            wrong.append(f"{path}: expected Python packages to be named in {', '.join(name + '.in' for name in LISTS)} and pyproject.toml, got another place")
        text = text_of(path)
        for package, version in NAMED.findall(text):
            if version not in versions.get(package, {version}):
                wrong.append(f"{path}: expected {package} {' or '.join(sorted(versions[package]))}, got {version}")
        for line in text.splitlines():
            if CALL.search(line):
                calls += 1
                if "--require-hashes" not in line:
                    wrong.append(f"{path}: expected --require-hashes, got {line.strip()}")
if calls < 3:
    wrong.append(f"expected the calls of pip that set-up makes, got {calls}")
print("\n".join(wrong) or f"{calls} calls of pip, all by hashes; {len(requirements)} requirements of pyproject.toml, {len(RANGES)} of them ranges")
sys.exit(bool(wrong))

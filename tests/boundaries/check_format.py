#!/usr/bin/env python3
"""Whether every C++ file is as clang-format writes it: check_format.py SOURCES CLANG-FORMAT [--fix]

Other versions write other things, so that there is one: that of .setup/packages.txt, which set-up installs. --fix rewrites the files."""
import os
import re
import subprocess
import sys

sources, program = sys.argv[1:3]
fix = "--fix" in sys.argv[3:]
with open(os.path.join(sources, ".setup/packages.txt"), encoding="utf-8") as file:
    wanted = re.search(r"^clang-format==(\S+)", file.read(), re.M)[1]
found = ""
if os.path.exists(program):
    found = re.search(r"version (\S+)", subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout)[1]
if found != wanted:
    print(f"expected clang-format {wanted}, got {found or 'none'}; try pip install clang-format=={wanted}")
    sys.exit(77)

files = [
    os.path.join(where, name)
    for top in ("dsl", "generators", "runtime", "tests", "examples")
    for where, _, names in os.walk(os.path.join(sources, top))
    for name in names
    if name.endswith((".cpp", ".hpp", ".c", ".h"))
]
if len(files) < 100:
    sys.exit(f"expected the files of attune in {sources}, found {len(files)}")
if fix:
    subprocess.run([program, "-i", *files], check=True)
said = subprocess.run([program, "--dry-run", "--Werror", *files], capture_output=True, text=True)
wrong = set(re.findall(r"^(\S+?):\d+:\d+: error: code should be clang-formatted", said.stderr, re.M))
if said.returncode != 0 and not wrong:
    sys.exit("FAILED  " + said.stderr)
for file in sorted(wrong):
    print(f"FAILED  {os.path.relpath(file, sources)} is not as clang-format writes it; try {program} -i {file}")
print(f"{len(files)} files")
sys.exit(1 if wrong else 0)

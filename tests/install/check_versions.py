#!/usr/bin/env python3
"""check_versions.py SOURCES: attune's version is CMakeLists.txt's, and all that repeats it agrees: the wheel, the list of changes, the page on upgrading, find_package in pages and
tests. So do the layout of kernels, which is kernel_table.hpp's, and the number in SONAMEs, which is that of attune/c.h."""
import os
import re
import sys

SOURCES = sys.argv[1]
wrong = []


def text_of(name):
    with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
        return file.read()


def expect(truth, sentence):
    if not truth:
        wrong.append(sentence)


cmake, changes, wheel = text_of("CMakeLists.txt"), text_of("CHANGELOG.md"), text_of("pyproject.toml")
version = re.search(r"project\(attune VERSION ([0-9.]+) ", cmake)[1]
minor = version.rpartition(".")[0]
provider = re.search(r"\[tool\.scikit-build\.metadata\.version\]\nprovider = \"scikit_build_core\.metadata\.regex\"\ninput = \"CMakeLists\.txt\"\nregex = '(.*)'", wheel)
expect(provider and re.search(provider[1], cmake)["value"] == version and 'dynamic = ["version"]' in wheel, f"pyproject.toml: expected the version {version} of CMakeLists.txt")

entries = re.findall(r"^## \[(\S+)\] - (.+)$", changes, re.M)
expect(len(entries) == len(re.findall(r"^## ", changes, re.M)) > 1, "CHANGELOG.md: expected entries `## [<version>] - <date>`")
expect(entries[0][0] == version, f"CHANGELOG.md: expected the newest entry to be of {version}, got {entries[0][0]}")
for at, (entry, date) in enumerate(entries):
    expect(re.fullmatch(r"\d{4}-\d\d-\d\d", date) or (at == 0 and date == "Unreleased"), f"CHANGELOG.md: expected {entry} to have a date, got {date}")
numbers = [tuple(map(int, entry.split("."))) for entry, _ in entries]
expect(numbers == sorted(set(numbers), reverse=True), "CHANGELOG.md: expected the newest entry first, each version once")
headings = set(re.findall(r"^### (.+)$", changes, re.M))
expect(headings <= {"Added", "Changed", "Fixed", "Faster"}, f"CHANGELOG.md: expected headings among Added, Changed, Fixed and Faster, got {sorted(headings)}")
for entry, part in zip(entries, re.split(r"^## ", changes, flags=re.M)[1:]):
    lines = [line for line in part.splitlines()[1:] if line and not line.startswith("### ")]
    expect(0 < len(lines) <= 25, f"CHANGELOG.md: expected {entry[0]} to have at most 25 lines, got {len(lines)}; leave out what matters least")
    for line in lines:
        expect(line.startswith("- ") and len(line) <= 140, f"CHANGELOG.md: expected `- ` and a line of at most 140 columns, got {len(line)}: {line[:60]}...")
before = next((".".join(entry.split(".")[:2]) for entry, _ in entries if not entry.startswith(minor + ".")), "")
upgrading = re.search(r"^## From (\S+) to (\S+)$", text_of("runtime/docs/upgrading.md"), re.M)
expect((upgrading[1], upgrading[2]) == (before, minor), f"upgrading.md: expected it to begin with the way from {before} to {minor}, got from {upgrading[1]} to {upgrading[2]}")

for recipe, stands in (("vcpkg/attune/vcpkg.json", r'"version": "([0-9.]+)"'), ("conda/recipe.yaml", r"^  version: ([0-9.]+)$")):
    found = re.search(stands, text_of("runtime/packaging/" + recipe), re.M)
    expect(found and found[1] == version, f"{recipe}: expected the version {version} of CMakeLists.txt, got {found and found[1]}")

layout = re.search(r"kernel_table_version = (\d+);", text_of("runtime/include/attune/runtime/detail/kernel_table.hpp"))[1]
said = re.search(r"built for layout (\d+), got", text_of("runtime/docs/upgrading.md"))[1]
expect(said == layout, f"upgrading.md: expected kernels built for layout {layout}, as kernel_table.hpp has it, got {said}")
of_c = re.search(r"define ATTUNE_C_VERSION (\d+)", text_of("runtime/include/attune/c.h"))[1]
expect(re.search(r"attune_common_shared PROPERTIES VERSION \$\{attune_VERSION\} SOVERSION \$\{attune_c_version\}", cmake), "CMakeLists.txt: expected attune/c.h's version in the SONAME")
asked = sonames = 0
for where, folders, files in os.walk(SOURCES):
    folders[:] = [folder for folder in folders if folder not in ("build", ".git", "corpus", "shared", "files")]
    for file in files:
        path = os.path.relpath(os.path.join(where, file), SOURCES)
        if not file.endswith((".md", ".txt", ".cmake", ".in", ".py", ".hpp")) or path == os.path.relpath(os.path.abspath(__file__), os.path.abspath(SOURCES)):
            continue
        text = text_of(path)
        for found in re.findall(r"find_package\(attune ([0-9.]+)", text):
            asked += 1
            expect(found in (minor, version), f"{path}: expected find_package(attune {minor}), got {found}")
        for found in re.findall(r"libattune_common\.so\.(\d+)", text):
            sonames += 1
            expect(found == of_c, f"{path}: expected libattune_common.so.{of_c}, as attune/c.h has it, got {found}")
expect(asked > 1 and sonames > 1, f"expected find_package and a SONAME in pages, got {asked} and {sonames}")
print("\n".join(wrong) or f"{version}: {asked} calls of find_package, {sonames} SONAMEs, {len(entries)} entries")
sys.exit(bool(wrong))

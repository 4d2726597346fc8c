#!/usr/bin/env python3
"""check_github.py SOURCES: the files of .github name what exists.

Every line of CODEOWNERS fits a file, and every list of rooms in rooms.txt has an owner of its own. Issue templates have a name, a description,
labels, and fields with distinct ids. Paths and variables of the environment between backquotes exist in the sources.
"""
import os
import re
import subprocess
import sys

SOURCES = sys.argv[1]
TYPES = {"textarea", "input", "dropdown", "markdown", "checkboxes"}
wrong = []


def text_of(name):
    with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
        return file.read()


def check_owners():
    lines = [line.split() for line in text_of(".github/CODEOWNERS").splitlines() if line and not line.startswith("#")]
    for pattern, *owners in lines:
        if pattern != "*" and not os.path.exists(os.path.join(SOURCES, pattern.strip("/"))):
            wrong.append(f"CODEOWNERS: expected a file or folder of the sources, got {pattern}")
        if not owners or not all(re.fullmatch(r"@[\w-]+(/[\w-]+)?", owner) for owner in owners):
            wrong.append(f"CODEOWNERS: expected an owner of {pattern}, such as @team, got {' '.join(owners) or 'none'}")
    owned = [pattern.strip("/") for pattern, *_ in lines if pattern != "*"]
    rooms = re.findall(r"^([\w/]+)$", text_of("tests/boundaries/rooms.txt"), re.M)
    for room in rooms:
        if not any(room == each or room.startswith(each + "/") for each in owned):
            wrong.append(f"CODEOWNERS: expected an owner of the rooms of {room}, got none but that of everything")
    return len(lines), len(rooms)


def check_template(name):
    text = text_of(name)
    head, _, body = text.partition("\nbody:\n")
    for key in ("name", "description", "labels"):
        if not re.search(rf"^{key}: \S", head, re.M):
            wrong.append(f"{name}: expected `{key}: ...` before the body")
    fields = re.split(r"^  - ", body, flags=re.M)[1:]
    for field in fields:
        kind = re.match(r"type: (\w+)\n", field)
        named = re.search(r"^    id: \w+$", field, re.M) and re.search(r"^      label: \S", field, re.M)
        if not kind or kind[1] not in TYPES or not named:
            wrong.append(f"{name}: expected a type of {', '.join(sorted(TYPES))}, an id and a label, got {field[:40].splitlines()}")
        for value in re.findall(r"^ +(?:label|description): (.*)$", field, re.M):
            if ": " in re.sub(r"`[^`]*`", "", value) or " #" in value or value[:1] in "`'\"[{&*!|>%@":
                wrong.append(f"{name}: expected text that YAML takes as it is, got {value}")
    ids = re.findall(r"^    id: (\w+)$", body, re.M)
    if not fields or len(set(ids)) != len(ids):
        wrong.append(f"{name}: expected fields with distinct ids, got {ids}")
    return len(fields)


def check_names(name):
    """What stands between backquotes, without blocks of code."""
    for quoted in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text_of(name), flags=re.M | re.S)):
        for word in quoted.split():
            path = re.fullmatch(r"(\./)?[\w.]+(/[\w.]+)+", word) and not word.startswith(("build/", "attune/"))
            if path and not os.path.exists(os.path.join(SOURCES, word)):
                wrong.append(f"{name}: there is no {word}")
            if re.fullmatch(r"ATTUNE_\w+(=.*)?", word) and not used(word.partition("=")[0]):
                wrong.append(f"{name}: no source reads {word.partition('=')[0]}")


def used(variable):
    kinds = [f"--include={kind}" for kind in ("*.cpp", "*.hpp", "*.cmake", "CMakeLists.txt", "*.py")]
    places = [os.path.join(SOURCES, room) for room in ("runtime", "generators", "CMakeLists.txt")]
    found = subprocess.run(["grep", "-rqwF", *kinds, variable, *places], check=False)
    return found.returncode == 0


owners, rooms = check_owners()
def files_in(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(os.path.join(SOURCES, folder)))


templates = files_in(".github/ISSUE_TEMPLATE")
fields = sum(check_template(name) for name in templates if name.endswith(".yml"))
pages = [name for name in files_in(".github") if name.endswith(".md") and not name.endswith("/CONTRIBUTING.md")]
for page in templates + pages:
    check_names(page)
print("\n".join(wrong) or f"{owners} lines of CODEOWNERS for {rooms} lists of rooms, {len(templates)} issue templates with {fields} fields, "
      f"{len(pages)} pages")
sys.exit(bool(wrong) or not fields)

"""compile_commands.json, with a row for each of the files that are compiled several at a time (ATTUNE_UNITY_BUILD)."""
import json
import os
import re


def rows_of(build):
    """Its rows. One of several files has their source as `unity`, and the command that compiles the file alone."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        rows = json.load(file)
    for row in rows:
        if "/Unity/unity_" not in row["file"]:
            yield row
            continue
        with open(row["file"], encoding="utf-8") as unity:
            for name in re.findall(r'^#include "(.*)"$', unity.read(), re.M):
                yield {**row, "file": name, "command": row["command"].replace(row["file"], name), "unity": row["file"]}

#!/usr/bin/env python3
"""every_entry.py: fails unless each entry of the catalogue is in a graph of tests/golden/variants, and so among those that golden_cuda_assembled and golden_opencl_full compile."""
import pathlib
import re
import sys

here = pathlib.Path(__file__).resolve().parent
headers = (here / "../../dsl/include/attune/catalogue").resolve()
entries, texts = {}, {path.name: path.read_text() for path in sorted(headers.glob("*.hpp"))}
for name, text in texts.items():
    for part in re.split(r"(?m)^namespace detail \{.*?^\}", text, flags=re.S | re.M):  # what entries share is no entry
        for found in re.finditer(r"(?m)^(?:template <.*> )?(?:inline )?constexpr auto (\w+)(.)", part):
            entries[found[1]] = name
used = set(re.findall(r"catalogue::(\w+)", re.sub(r"//.*", "", "".join(path.read_text() for path in (here / "variants").glob("*.hpp")))))
missing = {entry: name for entry, name in entries.items() if entry not in used}
# What other entries are made of is there with them.
for entry in list(missing):
    if any(re.search(rf"\b{entry}\(", line) and not re.search(rf"auto {entry}\(", line) for text in texts.values() for line in text.splitlines() if not line.startswith("///")):
        del missing[entry]
print(f"{len(entries)} entries of the catalogue")
if len(entries) < 80:
    sys.exit("expected the catalogue's headers to have at least 80 entries")
for entry, name in missing.items():
    print(f"{name}: expected {entry} in a graph of tests/golden/variants, got none; try without_file.hpp", file=sys.stderr)
sys.exit(1 if missing else 0)

#!/usr/bin/env python3
"""every_entry.py: fails unless each entry of the catalogue is in a graph of tests/golden/variants, and so among those that golden_cuda_assembled and
golden_opencl_full compile; and unless each that compares, masks or chooses is in tests/properties/blocks_catalogue.tests.cpp, where its blocks are counted.
Of what a call precomputes devices have no kernel: its entries are in tests/generators/precomputed.tests.cpp, which does both. Recurrences are in
tests/state/graphs.hpp, whose golden files are others."""
import pathlib
import re
import sys

here = pathlib.Path(__file__).resolve().parent
headers = (here / "../../dsl/include/attune/catalogue").resolve()
lab = here / "../properties/blocks_catalogue.tests.cpp"
precomputing = [here / "../generators" / name for name in ("precomputed.tests.cpp", "listed_keys.tests.cpp", "quantized.tests.cpp")]
recurring = here / "../state/graphs.hpp"
# They choose by head, hop or token, or after the softmax: no score is hidden.
HIDE_NOTHING = {"alibi_slope_paper", "graphormer_edge", "tile_mean", "with_dropout"}
HIDES = re.compile(r"\bmask\(|\bwhere\(|\bany\(|\bbit\(|\bvisible\(|-inf| (?:[<>]=?|[=!]=|&&) ")


def without_comments(text):
    return re.sub(r"//.*", "", text)


bodies, headers_of = {}, {}
for path in sorted(headers.glob("*.hpp")):
    for part in re.split(r"(?m)^namespace detail \{.*?^\}", path.read_text(), flags=re.S | re.M):  # what entries share is no entry
        for found in re.finditer(r"(?m)^(?:template <.*>\s+)?(?:inline )?constexpr auto (\w+)", part):
            headers_of[found[1]] = path.name
            bodies[found[1]] = without_comments(re.split(r"(?m)^(?=///|template|constexpr|inline|namespace|\}  // namespace)", part[found.end():])[0])


def made_of(entry):
    return {other for other in bodies if other != entry and re.search(rf"\b{other}\b", bodies[entry])}


def with_what_they_are_made_of(used):
    found, new = set(), used & set(bodies)
    while new:
        found |= new
        new = set().union(*(made_of(entry) for entry in new)) - found
    return found


def entries_in(paths):
    return with_what_they_are_made_of(set(re.findall(r"\bc(?:atalogue)?::(\w+)", without_comments("".join(path.read_text() for path in paths)))))


hiding = {entry for entry in bodies if HIDES.search(bodies[entry])}
print(f"{len(bodies)} entries of the catalogue, {len(hiding)} of them compare, mask or choose")
if len(bodies) < 80 or len(hiding) < 40:
    sys.exit("expected the catalogue's headers to have at least 80 entries, 40 of which compare, mask or choose")
precomputed = {entry for entry in bodies if headers_of[entry] in ("selectors.hpp", "quantized.hpp")}
recurrent = {entry for entry in bodies if headers_of[entry] == "recurrent.hpp"}
compiled, counted = entries_in((here / "variants").glob("*.hpp")) | precomputed | recurrent, entries_in([lab]) | precomputed
wrong = [f"{headers_of[entry]}: expected {entry} in a graph of tests/golden/variants, got none; try without_file.hpp" for entry in bodies if entry not in compiled]
wrong += [f"{headers_of[entry]}: expected {entry} among the masks of {lab.name}, got none; try a graph there, or HIDE_NOTHING here with a reason"
          for entry in sorted(hiding - HIDE_NOTHING - counted)]
wrong += [f"{headers_of[entry]}: expected {entry} in a graph of {' or '.join(path.name for path in precomputing)}, got none" for entry in sorted(precomputed - entries_in(precomputing))]
wrong += [f"{headers_of[entry]}: expected {entry} in a graph of {recurring.name}, got none" for entry in sorted(recurrent - entries_in([recurring]))]
wrong += [f"HIDE_NOTHING has {entry}, which needs no exception" for entry in sorted(HIDE_NOTHING - hiding | HIDE_NOTHING & counted)]
for sentence in wrong:
    print(sentence, file=sys.stderr)
sys.exit(1 if wrong else 0)

#!/usr/bin/env python3
"""check_sentences.py <source root>

Each sentence that a header's static_assert says to the user is one that a case here expects, and no two cases have one name.
"""
import os, re, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_rejects import read_cases, says

FOLDERS = ["dsl/include", "runtime/include", "runtime/mpi/include"]
NOT_OF_USERS = ["attune: operation_table has a row", "attune: an operation has a rule here"]  # what whoever adds an operation forgot
BUILT = ["attune has no "]  # a macro adds the name of each function that has another one


def files_in(folder, ending):
    return sorted(os.path.join(path, name) for path, _, names in os.walk(folder) for name in names if name.endswith(ending))


def sentences_of(text):
    """The text of each static_assert: its literals, side by side."""
    for match in re.finditer(r"\bstatic_assert\(", text):
        at, depth, literals = match.end(), 1, []
        while depth:
            if text[at] == '"':
                literal = re.compile(r'"((?:[^"\\]|\\.)*)"').match(text, at)
                literals.append(literal[1].replace('\\"', '"'))
                at = literal.end()
                continue
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        first = next((i for i, literal in enumerate(literals) if literal.startswith("attune")), None)
        if first is not None:
            yield "".join(literals[first:])


def main():
    root = sys.argv[1]
    cases = [case for file in files_in(os.path.join(root, "tests/reject"), ".cpp") for case in read_cases(file)[1]]
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        sys.exit(f"expected each name once in tests/reject, got twice: {', '.join(twice)}")
    expected = [case.sentence for case in cases]
    said, untried = 0, []
    for folder in FOLDERS:
        for file in files_in(os.path.join(root, folder), ".hpp"):
            with open(file, encoding="utf-8") as header:
                for sentence in sentences_of(header.read()):
                    if sentence.startswith(tuple(NOT_OF_USERS)):
                        continue
                    said += 1
                    if not any(says(each, sentence) or (sentence.startswith(tuple(BUILT)) and each.startswith(tuple(BUILT))) for each in expected):
                        untried.append(f"{os.path.relpath(file, root)}: {sentence}")
    print(f"{said} sentences, {len(untried)} that no case of tests/reject expects; {len(cases)} cases")
    if said < 100:
        sys.exit("expected a hundred sentences at least, got fewer: they are looked for in the wrong places")
    if untried:
        sys.exit("\n".join(untried))


main()

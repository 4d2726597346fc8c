#!/usr/bin/env python3
"""Checks that misuse is rejected with its sentence, and that the twin of each misuse compiles.

    check_rejects.py --compile "c++ -std=c++20 -fsyntax-only -I..." FILE...
    check_rejects.py --compile "..." --self-test

The first line of a file is `// rejects: <sentence>`, text or a regular expression. Compiled with -DREJECT the file must fail, and the
sentence must stand in the compiler's first error or in the note that follows it; g++ must need 15 lines at most for all it says
(clang, which quotes more, 40), but where the line says `// rejects at length: <sentence>` because the standard library lists overloads
of its own, or what a macro made is shown twice. Where the second line is `// not: <text>`, that text, or what the regular expression
finds, must stand nowhere in what the compiler says. Compiled without, the twin must pass.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

MARK = "// rejects: "
MARK_AT_LENGTH = "// rejects at length: "
MARK_NOT = "// not: "


def first_error(stderr):
    """The first error and the first note after it, each as the line that states it."""
    said = []
    for line in stderr.splitlines():
        if not said and re.search(r"\berror: ", line):
            said.append(line)
        elif said and re.search(r"\b(note|error): ", line):
            if "note: " in line:
                said.append(line)
            break
    return "\n".join(said)


def says(sentence, text):
    if sentence in text:
        return True
    try:  # what is found in nothing, such as `&&, || and !`, is text
        return re.search(sentence, text) is not None and re.search(sentence, "") is None
    except re.error:
        return False


def read_before(compiler, folder):
    """Options by which the compiler has read the language's headers before any file: each then takes a third of the time."""
    header = os.path.join(folder, "language_before.hpp")
    with open(header, "w", encoding="utf-8") as out:
        out.write("#include <attune/dsl.hpp>\n")
    kept = [option for option in compiler if option != "-fsyntax-only"] + ["-x", "c++-header", header, "-o", header + ".gch"]
    subprocess.run(kept, check=True)
    return ["-include", header]


def check(compiler, file):
    """What is wrong with the file, as a list of sentences."""
    with open(file, encoding="utf-8") as source:
        head, second = (source.readline().rstrip("\n") for _ in range(2))
    at_length = head.startswith(MARK_AT_LENGTH)
    if not at_length and not head.startswith(MARK):
        return [f"expected the first line to be `{MARK}<sentence>`, got `{head}`"]
    sentence = head[len(MARK_AT_LENGTH if at_length else MARK):].strip()

    wrong = []
    twin = subprocess.run(compiler + [file], capture_output=True, text=True)
    if twin.returncode != 0:
        wrong.append("the twin without -DREJECT does not compile:\n" + twin.stderr)
    misuse = subprocess.run(compiler + ["-DREJECT", file], capture_output=True, text=True)
    if misuse.returncode == 0:
        wrong.append("compiled with -DREJECT, but must not")
        return wrong
    limit = 40 if "clang" in misuse.stderr or "clang" in os.path.basename(compiler[0]) else 15
    lines = misuse.stderr.count("\n")
    if not says(sentence, first_error(misuse.stderr)):
        wrong.append(f"expected `{sentence}` in the first error or its note, got:\n{misuse.stderr}")
    elif lines > limit and not at_length:
        wrong.append(f"expected at most {limit} lines, got {lines}:\n{misuse.stderr}")
    if second.startswith(MARK_NOT) and says(unwanted := second[len(MARK_NOT):].strip(), misuse.stderr):
        wrong.append(f"expected no `{unwanted}`, got:\n{misuse.stderr}")
    return wrong


def self_test(compiler):
    """The checker finds what it is for: each case is a file that must be faulted, or must not."""
    right = MARK + 'expected a good thing\n#ifdef REJECT\nstatic_assert(false, "expected a good thing");\n#endif\n'
    cases = {
        "as it should be": (right, True),
        "a regular expression": (right.replace("a good thing\n#", "a .* thing\n#", 1), True),
        "another sentence, with an empty alternative": (right.replace("a good thing\n#", "a || bad thing\n#", 1), False),
        "another sentence": (right.replace("a good thing\n#", "a bad thing\n#", 1), False),
        "misuse that compiles": (right.replace("false", "true"), False),
        "a twin that fails": (right.replace("#endif", "#else\nint twin = undeclared;\n#endif"), False),
        "the sentence in the second error": (right.replace("static_assert", "int other = undeclared;\nstatic_assert"), False),
        "too much said": (right.replace("#endif", "\n".join(f"int x{i} = undeclared{i};" for i in range(40)) + "\n#endif"), False),
        "what must not be said": (right.replace("\n", "\n// not: a good thing\n", 1), False),
        "what is not said": (right.replace("\n", "\n// not: a bad thing\n", 1), True),
        "no sentence": (right.replace(MARK, "// ", 1), False),
    }
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, good) in cases.items():
            file = os.path.join(folder, "case.cpp")
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            if (check(compiler, file) == []) != good:
                print(f"self-test, {name}: expected it to be {'accepted' if good else 'faulted'}")
                wrong += 1
    print(f"{len(cases) - wrong} of {len(cases)} self-tests right")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", required=True, help="the compiler and its options, as a shell would take them")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    compiler = shlex.split(options.compile)
    os.environ["LC_ALL"] = "C"
    if options.self_test:
        return 1 if self_test(compiler) else 0
    if not options.files:
        print("expected files to check, got none")
        return 1
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        compiler += read_before(compiler, folder)
        for file in options.files:
            wrong = check(compiler, file)
            failed += bool(wrong)
            print(("ok      " if not wrong else "FAILED  ") + os.path.basename(file))
            for sentence in wrong:
                print("    " + sentence.replace("\n", "\n    "))
    print(f"{len(options.files) - failed} of {len(options.files)} rejected as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

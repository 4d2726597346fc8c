#!/usr/bin/env python3
"""Checks that misuse is rejected with its sentence, and that the twin of each misuse compiles.

    check_rejects.py --compile "c++ -std=c++20 -fsyntax-only -I..." [--headers FOLDER] FILE... [--only NAME]
    check_rejects.py --compile "..." --headers FOLDER --prepare
    check_rejects.py --compile "..." --self-test

A file holds the cases of one subject: first the includes of all, then the cases, each after a line `// --- <name>`. The first line of a case
is `// rejects: <sentence>`, text or a regular expression; comments on the next lines continue it. With -DREJECT each case is compiled by
itself. It must fail, and the sentence must stand in the compiler's first error or in the note that follows it. g++ may print 15 lines at
most, clang, which quotes more, 40. A case has no such limit if it begins with `// rejects at length: <sentence>`, because the standard
library lists overloads of its own, or because a macro shows its line twice. After `// not: <text>` that text, or a match of the regular
expression, must stand nowhere in the compiler's output. Without -DREJECT a case is the twin, which must compile. The twins of a file are
one program, each in a namespace of its own.

--prepare compiles language.hpp into FOLDER, once for all files; without --headers each run does so by itself.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

SOURCES = os.path.dirname(os.path.abspath(__file__))
NAME = re.compile(r"// --- (\w+)$")
MARK = "// rejects: "
MARK_AT_LENGTH = "// rejects at length: "
MARK_NOT = "// not: "


class Case:
    def __init__(self, path, name, line, lines):
        """`line` is the number of the first of `lines`, those after the name."""
        self.path, self.name, self.line, self.lines = path, name, line, lines
        self.sentence, self.at_length, self.unwanted, self.wrong = "", False, None, []
        head = lines[0] if lines else ""
        for mark in (MARK, MARK_AT_LENGTH):
            if head.startswith(mark):
                self.sentence, self.at_length = head[len(mark):].strip(), mark == MARK_AT_LENGTH
        if not self.sentence:
            self.wrong.append(f"expected the first line to be `{MARK}<sentence>`, got `{head}`")
        for comment in lines[1:]:
            if comment.startswith(MARK_NOT):
                self.unwanted = comment[len(MARK_NOT):].strip()
            elif not comment.startswith("// "):
                break
            elif self.unwanted is None:
                self.sentence += comment[len("//"):]
        if any(each.startswith((MARK, MARK_AT_LENGTH)) for each in lines[1:]):
            self.wrong.append("expected one sentence a case, got another; try a line `// --- <name>` before it")

    def text(self, includes=True):
        """The case, so that the compiler names its lines as those of the file."""
        kept = (line if includes or not line.startswith("#include") else "" for line in self.lines)
        return f'#line {self.line} "{self.path}"\n' + "\n".join(kept) + "\n"


def read_cases(path):
    """What all cases of a file include, and the cases."""
    with open(path, encoding="utf-8") as source:
        lines = source.read().split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("// ---")]
    if not starts:
        raise ValueError(f"expected cases, each after a line `// --- <name>`, got none in {path}")
    cases = []
    for start, end in zip(starts, starts[1:] + [len(lines)]):
        name = NAME.match(lines[start])
        if not name:
            raise ValueError(f"expected `// --- <name>`, got `{lines[start]}` in line {start + 1} of {path}")
        if name[1] in (case.name for case in cases):
            raise ValueError(f"expected each name once, got {name[1]} twice in {path}")
        cases.append(Case(path, name[1], start + 2, lines[start + 1:end]))
    return "\n".join(lines[:starts[0]]) + "\n", cases


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
    try:  # a sentence that finds the empty text, such as `&&, || and !`, is no regular expression
        return re.search(sentence, text) is not None and re.search(sentence, "") is None
    except re.error:
        return False


def prepare(compiler, folder):
    """The compiler has read the language's headers before any case: each then takes a third of the time."""
    os.makedirs(folder, exist_ok=True)
    header = os.path.join(folder, "language_before.hpp")
    with open(header, "w", encoding="utf-8") as out:
        out.write(f'#include "{SOURCES}/language.hpp"\n')
    kept = [option for option in compiler if option != "-fsyntax-only"] + ["-x", "c++-header", header, "-o", header + ".gch"]
    subprocess.run(kept, check=True)


class Checker:
    def __init__(self, compiler, folder):
        self.compiler, self.folder = compiler, folder

    def compile(self, text, *options):
        unit = os.path.join(self.folder, "unit.cpp")
        with open(unit, "w", encoding="utf-8") as out:
            out.write(text)
        return subprocess.run([*self.compiler, "-iquote", SOURCES, *options, unit], capture_output=True, text=True)

    def check_twins(self, preamble, cases):
        """Together, which takes a fraction of the time; one by one to find those that fail."""
        hoisted = [line for case in cases for line in case.lines if line.startswith("#include")]
        parts = [f"namespace of_{case.name} {{\nnamespace my {{\nusing namespace ::my;\n}}\n{case.text(False)}}}\n" for case in cases]
        together = self.compile(preamble + "\n".join([*hoisted, "namespace my {}", *parts]))
        if together.returncode == 0:
            return
        failed = False
        for case in cases:
            twin = self.compile(preamble + case.text())
            if twin.returncode != 0:
                case.wrong.append("the twin without -DREJECT does not compile:\n" + twin.stderr)
                failed = True
        if not failed:
            cases[0].wrong.append("the twins of this file compile one by one, but not as one program:\n" + together.stderr)

    def check_misuse(self, preamble, case):
        misuse = self.compile(preamble + case.text(), "-DREJECT")
        if misuse.returncode == 0:
            case.wrong.append("compiled with -DREJECT, but must not")
            return
        limit = 40 if "clang" in misuse.stderr or "clang" in os.path.basename(self.compiler[0]) else 15
        lines = misuse.stderr.count("\n")
        if not says(case.sentence, first_error(misuse.stderr)):
            case.wrong.append(f"expected `{case.sentence}` in the first error or its note, got:\n{misuse.stderr}")
        elif lines > limit and not case.at_length:
            case.wrong.append(f"expected at most {limit} lines, got {lines}:\n{misuse.stderr}")
        if case.unwanted and says(case.unwanted, misuse.stderr):
            case.wrong.append(f"expected no `{case.unwanted}`, got:\n{misuse.stderr}")

    def check(self, path, only=None):
        """The cases of a file, each with sentences about what is wrong with it."""
        preamble, cases = read_cases(path)
        cases = [case for case in cases if only in (None, case.name)]
        complete = [case for case in cases if not case.wrong]
        if complete:
            self.check_twins(preamble, complete)
        for case in complete:
            self.check_misuse(preamble, case)
        return cases


GOOD = '// --- case\n// rejects: expected a good thing\n#ifdef REJECT\nstatic_assert(false, "expected a good thing");\n#endif\nint same;\n'
SELF_TESTS = {  # a file, and the names of the cases that must be faulted; None where the file must be refused
    "as it should be": (GOOD, []),
    "a regular expression": (GOOD.replace("a good thing\n#", "a .* thing\n#", 1), []),
    "a sentence over two lines": (GOOD.replace("good thing\n#", "good\n// thing\n#", 1), []),
    "another sentence over two lines": (GOOD.replace("good thing\n#", "good\n// deed\n#", 1), ["case"]),
    "another sentence, with an empty alternative": (GOOD.replace("a good thing\n#", "a || bad thing\n#", 1), ["case"]),
    "another sentence": (GOOD.replace("a good thing\n#", "a bad thing\n#", 1), ["case"]),
    "misuse that compiles": (GOOD.replace("false", "true"), ["case"]),
    "a twin that fails": (GOOD.replace("#endif", "#else\nint twin = undeclared;\n#endif"), ["case"]),
    "the sentence in the second error": (GOOD.replace("static_assert", "int other = undeclared;\nstatic_assert"), ["case"]),
    "a long message": (GOOD.replace("#endif", "\n".join(f"int x{i} = undeclared{i};" for i in range(40)) + "\n#endif"), ["case"]),
    "an unwanted sentence": (GOOD.replace("thing\n", "thing\n// not: a good thing\n", 1), ["case"]),
    "an unwanted sentence that is not said": (GOOD.replace("thing\n", "thing\n// not: a bad thing\n", 1), []),
    "no sentence": (GOOD.replace(MARK, "// ", 1), ["case"]),
    "two sentences in a case": (GOOD + GOOD.replace("// --- case\n", "").replace("same", "other"), ["case"]),
    "two cases that declare one name": (GOOD + GOOD.replace("case", "next"), []),
    "the second twin fails": (GOOD + GOOD.replace("case", "next").replace("#endif", "#else\nint twin = undeclared;\n#endif"), ["next"]),
    "the first misuse compiles": (GOOD.replace("false", "true") + GOOD.replace("case", "next"), ["case"]),
    "twins that exclude each other": (GOOD + "#define other same\n" + GOOD.replace("case", "next") + "int other;\n", ["case"]),
    "a preamble that all cases see": ("using good = int;\n" + GOOD.replace("int same", "good same"), []),
    "a preamble that no case compiles with": ("using good = undeclared;\n" + GOOD, ["case"]),
    "one name twice": (GOOD + GOOD, None),
    "a mark without a name": (GOOD + GOOD.replace("--- case", "---"), None),
    "no cases": ("int same;\n", None),
}


def self_test(compiler):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, faulted) in SELF_TESTS.items():
            file = os.path.join(folder, "cases.cpp")
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            try:
                found = [case.name for case in Checker(compiler, folder).check(file) if case.wrong]
            except ValueError:
                found = None
            if found != faulted:
                print(f"self-test, {name}: expected {faulted} to be faulted, got {found}")
                wrong += 1
    print(f"{len(SELF_TESTS) - wrong} of {len(SELF_TESTS)} self-tests right")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", required=True, help="the compiler and its options, as a shell would take them")
    parser.add_argument("--headers", help="where language.hpp is compiled to")
    parser.add_argument("--prepare", action="store_true", help="compile language.hpp, and no file")
    parser.add_argument("--only", help="the case of this name alone")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    compiler = shlex.split(options.compile)
    os.environ["LC_ALL"] = "C"
    if options.self_test:
        return 1 if self_test(compiler) else 0
    if options.prepare:
        prepare(compiler, options.headers)
        return 0
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        headers = options.headers or folder
        if not options.headers:
            prepare(compiler, headers)
        checker = Checker([*compiler, "-include", os.path.join(headers, "language_before.hpp")], folder)
        for file in options.files:
            cases += checker.check(os.path.abspath(file), options.only)
    if not cases:
        print(f"expected cases to check, got none{f' called {options.only}' if options.only else ''}")
        return 1
    failed = [case for case in cases if case.wrong]
    for case in cases:
        print(("FAILED  " if case.wrong else "ok      ") + f"{os.path.basename(case.path)}: {case.name}")
        for sentence in case.wrong:
            print("    " + sentence.replace("\n", "\n    "))
    print(f"{len(cases) - len(failed)} of {len(cases)} rejected as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

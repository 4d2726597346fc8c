#!/usr/bin/env python3
"""A Halide function, loop or argument has the name of its C++ variable, so that a statement that is dumped is read beside the source.

    check_names.py SOURCES

Declared with a name, Func x{"x"}, the two are equal; x_ may be "x". Where a part of the name is computed, the other part is the variable's name or begins it:
sum("sum_" + number), whole_sum("whole_" + number), lanes(name + "_lanes"). A name that is assigned, its.tile = Func("tile_of_products"), has the words of the
variable among its own.
"""
import os
import re
import sys

CLASS = r"(?:Halide::)?(?:Func|Var|RVar|RDom|ImageParam|Param<[^<>]*>)"
DECLARED = re.compile(rf"^ *(?:const |static )*{CLASS} (?=[&\w])([^;]*);", re.M)
ASSIGNED = re.compile(rf"\b(\w+) = {CLASS}\(")
COMMENT = re.compile(r"//[^\n]*")


def parts(text):
    """Split at commas outside of brackets and strings."""
    found, depth, last, quoted = [], 0, 0, False
    for at, c in enumerate(text):
        if c == '"' and text[at - 1:at] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found.append(text[last:at].strip())
            last = at + 1
    return found + [text[last:].strip()]


def until_closed(text, at):
    """What stands from here to the bracket that closes one which was opened before."""
    depth = 1
    for end in range(at, len(text)):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        if depth == 0:
            return text[at:end]
    return text[at:]


def literal(arguments):
    """(what is written of the name that is the last argument, whether it stands before a part that is computed, or behind one); None where nothing is."""
    last = parts(arguments)[-1]
    match = re.fullmatch(r'(.+\+ )?"([^"]*)"( \+.+)?', last, re.S)
    return match and (match[2], match[3] is not None, match[1] is not None)


def is_named(variable, arguments):
    """Whether Halide's name in the arguments of a declaration is the variable's; so is none."""
    found, name = literal(arguments), variable.strip("_")
    if not found:
        return True
    text, before, behind = found
    if before:
        return text.strip("_") == name or (text.endswith("_") and name.startswith(text))
    return text.strip("_") == name if behind else text == name


def has_words(variable, arguments):
    found = literal(arguments)
    return not found or set(variable.strip("_").split("_")) <= set(found[0].strip("_").split("_"))


def names(text):
    """(position, variable, whether it has its name) of each thing of Halide's that is given a name."""
    text = COMMENT.sub(lambda match: " " * len(match[0]), text)
    for match in DECLARED.finditer(text):
        for each in parts(match[1]):
            given = re.fullmatch(r"(\w+)([({].*[)}])", each, re.S)
            if given and '"' in each:
                yield match.start(), given[1], is_named(given[1], given[2][1:-1])
    for match in ASSIGNED.finditer(text):
        arguments = until_closed(text, match.end())
        if '"' in arguments:
            yield match.start(), match[1], has_words(match[1], arguments)


def check_itself():
    right = ['Func x("x");', 'Halide::Var x_{"x"};', 'const RDom x({{0, n}, {0, f("y")}}, "x");', 'Var a("a"), b = c.y, x("x");', 'Func sum("sum_" + n);', 'Func whole_sum("whole_" + n);',
             'Func x(name + "_x"), y(name);', 'a.tile = Func("tile_of_products"), a.sum = Func(pass_ + "sum");', 'Param<int> x("x");', 'Func x;']
    wrong = ['Func x("y");', 'Halide::Var x_{"y"};  // "x"', 'const RDom x({{0, n}, {0, m}}, "y");', 'Var a("a"), x("b");', 'Func sum("total_" + n);', 'Func x(name + "_y");',
             'a.tile = Func("products");', 'a.sum = Func(pass_ + "dot");', 'Halide::Func x{\n"y"};']
    for text, expected in [(each, True) for each in right] + [(each, False) for each in wrong]:
        if all(holds for _, _, holds in names("    " + text)) != expected:
            sys.exit(f"FAILED  expected `{text}` to be {'taken' if expected else 'refused'}, it was not")


def main():
    check_itself()
    count, wrong = 0, []
    for where, _, files in os.walk(os.path.join(sys.argv[1], "generators/src")):
        for file in sorted(files):
            path = os.path.join(where, file)
            with open(path, encoding="utf-8") as opened:
                text = opened.read()
            for at, variable, holds in names(text):
                count += 1
                if not holds:
                    wrong.append(f"{os.path.relpath(path, sys.argv[1])}:{text.count(chr(10), 0, at) + 1} gives {variable} another name in Halide; try \"{variable.strip('_')}\"")
    for sentence in wrong:
        print("FAILED  " + sentence)
    print(f"{count} names")
    return 1 if wrong or count < 200 else 0


if __name__ == "__main__":
    sys.exit(main())

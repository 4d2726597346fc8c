"""Rewrites the checks of a C++ source, so that it holds all mutants of them at once: see mutants.hpp.

Text alone: the sources are formatted, so an `if`, a statement and an operator are known by how they stand."""
import os
import re

ROOT = "runtime/src"  # an include folder of the runtime
HEADER = "runtime/src/mutants.hpp"
REFUSALS = re.compile(r"(?<![\w:])(?:\w+::)*(?:fail|refuse|refused)\(|\bthrow (?:(?:attune::)?error|kernel_failure|context_failure|std::(?:bad_alloc|invalid_argument|runtime_error))\(")
# A statement, wherever it stands: the name may be qualified, or a member's.
CHECKS = re.compile(r"(?:(?<=\n)|(?<=[){;] )) *((?:\w+(?:::|\.|->))*check_\w+\([^;{}]*\);)")


def quoted_end(text, at):
    """The place of the quotation mark that ends the one at `at`."""
    end = at + 1
    while text[end] != text[at]:
        end += 2 if text[end] == "\\" else 1
    return end


def matching(text, at):
    """The place behind the bracket that closes the one at `at`; strings are jumped over."""
    depth = 0
    while True:
        c = text[at]
        if c in "\"'":
            at = quoted_end(text, at)
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1


def opening(text, at):
    """The place of the bracket that the `)` at `at` closes."""
    depth = 0
    while True:
        if text[at] == ")":
            depth += 1
        elif text[at] == "(":
            depth -= 1
            if depth == 0:
                return at
        at -= 1


def top_level(text, word):
    """Where an operator stands outside all brackets."""
    depth, at, found = 0, 0, []
    while at < len(text):
        if text[at] in "\"'":
            at = quoted_end(text, at)
        elif text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        elif depth == 0 and text.startswith(word, at):
            found.append(at)
        at += 1
    return found


def operand_end(text, at):
    """Where the right side of a comparison ends that begins at `at`."""
    depth = 0
    while at < len(text):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            if depth == 0:
                return at
            depth -= 1
        elif depth == 0 and (text.startswith((" && ", " || ", " ? ", " : ", ";", ", ", " == ", " != "), at)):
            return at
        at += 1
    return at


def weaker(condition):
    """What a condition of a refusal may become: (what was done, the condition)."""
    yield "never", "false"
    for word in (" || ", " && "):
        places = top_level(condition, word)
        if not places:
            continue
        ends = [0, *[p + len(word) for p in places]], [*places, len(condition)]
        parts = [condition[a:b] for a, b in zip(*ends)]
        for i, part in enumerate(parts):
            yield f"without `{' '.join(part.split())}`", word.join(parts[:i] + parts[i + 1:])
        break
    for match in re.finditer(r" (<=|>=|<|>|!=) ", condition):
        before, after = condition[:match.start()], condition[match.end():]
        if match[1] == "!=":
            if re.match(r"(nullptr|\"|[\w:]*(kind|type|memory|element|form|operation)\w*::|tensor::|d\.|\w+\.type)", after) or re.search(r"\(|target|where|code|its|end", operand(before)):
                continue  # no numbers, or what has no order
            for other in (" < ", " > "):
                yield f"{other.strip()} for the != of `{operand(before).strip()}`", before + other + after
            continue
        end = operand_end(after, 0)
        compared = f"`{' '.join((operand(before) + match[0] + after[:end]).split())}`"
        step = "- 1ll" if match[1] in ("<", "<=") else "+ 1ll"  # wide: 2^31 - 1 may be an int
        yield f"{compared}, weaker by one", f"{before} {match[1]} ({after[:end]}) {step}{after[end:]}"
        step = "+ 1ll" if match[1] in ("<", "<=") else "- 1ll"
        yield f"{compared}, stricter by one", f"{before} {match[1]} ({after[:end]}) {step}{after[end:]}"


def operand(before):
    return re.split(r" && | \|\| |; ", before)[-1]


class rewriting:
    def __init__(self, name, text, first):
        self.name, self.text, self.next, self.mutants = name, text, first, []
        self.edits = []  # (from, to, text)

    def mutant(self, at, what, was):
        number = self.next
        self.next += 1
        self.mutants.append({"number": number, "file": self.name, "line": self.text.count("\n", 0, at) + 1, "what": what, "of": " ".join(was.split())[:160]})
        return f"attune_mutants::is({number})"

    def guarded(self, open_at, close_at):
        """An `if (...)` before a refusal."""
        inside = self.text[open_at + 1:close_at]
        semicolons = top_level(inside, "; ")
        begin = semicolons[-1] + 2 if semicolons else 0
        condition = re.sub(r"\s+", " ", inside[begin:])
        # `if (const auto x = f())` has a condition that is a declaration: only a removal fits around it.
        if re.match(r"(const |auto |std::)[^=<>!]* = ", condition):
            return False
        chain = ""
        for what, other in weaker(condition):
            chain += f"{self.mutant(open_at, what, condition)} ? static_cast<bool>({other}) : "
        self.edits.append((open_at + 1 + begin, close_at, f"({chain}static_cast<bool>({condition}))"))
        return True

    def alone(self, at, end):
        statement = self.text[at:end]
        self.edits.append((at, at, f"if ({self.mutant(at, 'another exception', statement)}) throw attune_mutants::other{{}};\n "))

    def run(self):
        done = set()
        for match in REFUSALS.finditer(self.text):
            at = match.start()
            line = self.text[self.text.rfind("\n", 0, at) + 1:at]
            if "//" in line or re.search(r"(void|auto|status|error) $", line) or line.rstrip().endswith((",", "=", "?", ":", "(")) and not re.search(r"(default|case [\w:]+):$", line.rstrip()):
                continue
            start = at - len("return ") if self.text[:at].endswith("return ") else at
            before = self.text[:start].rstrip()
            before = before[:-1].rstrip() if before.endswith("{") else before
            if before.endswith(")"):
                open_at = opening(before, len(before) - 1)
                if re.search(r"\bif( constexpr)? $", before[:open_at]):
                    if open_at not in done and "constexpr" not in before[open_at - 12:open_at]:
                        done.add(open_at)
                        if self.guarded(open_at, len(before) - 1):
                            continue
                    else:
                        continue
                    self.removed(start)
                    continue
            if re.search(r"(\belse|[;{}]|:)$", self.text[:start].rstrip()):
                self.alone(start, matching(self.text, self.text.index("(", at)))
        for match in CHECKS.finditer(self.text):
            self.edits.append((match.start(1), match.start(1), f"if (!{self.mutant(match.start(1), 'not checked', match[1])}) "))
        for begin, end, text in sorted(self.edits, reverse=True):
            self.text = self.text[:begin] + text + self.text[end:]
        return self.text

    def removed(self, start):
        """A refusal under a condition that declares what it looks at."""
        end = self.text.index(";", matching(self.text, self.text.index("(", start)) - 1)
        self.edits.append((start, start, f"if (!{self.mutant(start, 'never', self.text[start:end])}) "))


def rewrite(name, text, first):
    """The text with all its mutants, and what they are."""
    it = rewriting(name, text, first)
    body = it.run()
    if not it.mutants:
        return text, []
    include = f'#include "{os.path.relpath(HEADER, os.path.dirname(name) if name.endswith(".hpp") else ROOT)}"\n'
    once = "#pragma once\n"
    return (body.replace(once, once + include, 1) if once in body else include + body), it.mutants

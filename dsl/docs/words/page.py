#!/usr/bin/env python3
"""Writes dsl/docs/words.md, a table of every word of the language, from words.hpp.

    page.py                            writes it
    page.py --check --compile "c++..."  says whether it is what the header says, whether every word that dsl/include/attune/dsl declares is in it,
                                       whether every example compiles, and whether upgrading.md lists the words that no released version had
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
sys.dont_write_bytecode = True
from cpp_lines import lines_of

language = here.parents[1] / "include/attune/dsl"
header, page_file = here / "words.hpp", here.parent / "words.md"
types = here.parents[1] / "include/attune/ir/element_type.hpp"
released, upgrading = here / "released.txt", here.parents[2] / "runtime/docs/upgrading.md"
EXAMPLE = re.compile(r"^inline constexpr auto (\w+) = (scored|seen|whole)\((.*)\);$")
# What other headers declare for themselves, or for the compiler's errors.
NOT_WORDS = re.compile(r"^(belongs_to_the_call|cu_seqlens_q|is_\w+|has_\w+|\w+_kind|operator.*|index_matches_axis|indices_match_rank|indices_are_of_the_language|an_identifier|axis_of|kind_of|operation_of|uses_in|free_of|"
                       r"number|plain_number|condition|can_be_named|named_part_of_the_graph|a_condition_of_the_graph|as_many_as_it_takes|every_input_was_passed|"
                       r"passed_once|scalars_are_numbers|tensors_are_views|variant_reads|derivative_name|before_name|sequence_of|made_again|may_mean_a_fraction|"
                       r"place|row|data|bound|channel|finished|late)$")


def rows():
    """(heading or nothing, words, what they are, an example), in order."""
    said, heading = None, None
    for line in lines_of(header, "# |`"):
        if line.startswith("// # "):
            heading = line[5:]
        elif line.startswith("// `"):
            said = line[3:]
        elif (found := EXAMPLE.match(line)) and said:
            words, _, what = said.partition(": ")
            yield heading, words, what, found[3]
            said, heading = None, None


def page():
    yield """# Every word of the language

The words of formulas, each with an example that is compiled: a number that is added to scores, a condition, or a whole variant. [language.md](language.md)
explains the language.

In the examples `scores` is `q * t(k) * rsqrt(depth)`, `w`, `cap` and `seed` are scalars, `n` is a bound index, and other names are inputs that
[words.hpp](words/words.hpp) declares. `words/page.py` writes this page from that header."""
    cell = lambda text: text.replace("|", "\\|")
    for heading, words, what, example in rows():
        if heading:
            yield f"\n## {heading}\n\n| word | what it is | example |\n| --- | --- | --- |"
        yield f"| {cell(words)} | {cell(what)} | `{cell(example)}` |"


def declared():
    """Names that the language's headers declare, outside of its details."""
    for file in sorted(language.glob("*.hpp")):
        if file.name == "elsewhere.hpp":
            continue
        outside, level, text = None, 0, re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8"))
        for line in text.splitlines():
            if re.match(r"\s*namespace (attune::dsl::)?(\w*detail|use)\b", line):
                outside = level
            if outside is None and not line.startswith("  "):
                for found in re.finditer(r"(?:^|\s)constexpr auto (\w+|operator\S{1,2})\s*[\(=]|inline constexpr [\w<>:,\s\"]+?\s(\w+)\s*[\{=;]", line):
                    yield found[1] or found[2]
            level += line.count("{") - line.count("}")
            if outside is not None and level <= outside and "}" in line:
                outside = None


def new_words():
    """What is wrong with the list of new words in upgrading.md: a word that a version adds may meet a name of an application, so each is named there."""
    q_k_v = {"q", "k", "v"}
    words = {name for name in declared() if not NOT_WORDS.match(name)} | set(re.findall(r"^inline constexpr auto (\w+) = element_type::", types.read_text(encoding="utf-8"), re.M)) | q_k_v
    old = {word for line in released.read_text(encoding="utf-8").splitlines() if not line.startswith("#") for word in line.split()}
    section = upgrading.read_text(encoding="utf-8").partition("\n### New words\n")[2].partition("New in ")[2].partition("\n#")[0]
    said = set(re.findall(r"`(\w+)`", section))
    yield from (f"{name} is a new word: expected it among those of `New words` in {upgrading.name}, got none" for name in sorted(words - old - said))
    yield from (f"{upgrading.name} calls {name} a new word: expected one that is declared and not in {released.name}" for name in sorted(said - (words - old)))
    yield from (f"{released.name} has {name}: expected a word that is still declared, or a row of {upgrading.name} and no word here" for name in sorted(old - words))


def check(compile_command):
    wrong = []
    if page_file.read_text(encoding="utf-8") != "\n".join(page()) + "\n":
        wrong.append("words.md is not what words.hpp says: run dsl/docs/words/page.py")
    said = set(re.findall(r"\w+", " ".join(words for _, words, _, _ in rows())))
    wrong += [f"{name} is declared, and in no row of words.hpp" for name in sorted(set(declared())) if name not in said and not NOT_WORDS.match(name)]
    wrong += new_words()
    examples = [found[1] for line in lines_of(header, "# |`") if (found := EXAMPLE.match(line))]
    program = f'#include "{header}"\n' + "".join(f"static_assert(!attune::dsl::ir_of<words::{name}>.nodes.empty());\n" for name in examples)
    done = subprocess.run([*shlex.split(compile_command), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++", "-"], input=program, capture_output=True, text=True)
    if done.returncode != 0:
        wrong.append("an example does not compile:\n" + "\n".join(line[:300] for line in done.stderr.splitlines()[:20]))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compile", default="c++ -std=c++20")
    options = parser.parse_args()
    if options.check:
        wrong = check(options.compile)
        print("\n".join(wrong) or "words.md has every word of the language, and every example compiles")
        return bool(wrong)
    page_file.write_text("\n".join(page()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

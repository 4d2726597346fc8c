#!/usr/bin/env python3
"""Compiles the code of the documentation. A page is one translation unit: its blocks see what stands before them.

    ```cpp             declarations, inside a namespace of the page's with attune::dsl at hand
    ```cpp call        statements of a call, where Q, K, V, O and other tensors are attune::tensor
    ```cpp file=x.hpp  a file; later blocks see what it declares
    ```cpp namespace=my  declarations that go on with the namespace of such a file, which later calls use
    ```c               a C99 translation unit, with the headers of the page's files' kernels, and MPI's, stood in for
    ```python          compiled to byte code
    ```cmake           run with stand-ins for the commands that make targets, and attune_add_variant's own check of its arguments
    ```sh              every program that is named by a path exists in the sources, or is one that the build makes
generators/docs/add_variant.md has every option of attune_add_variant in its table, and each in a block of code.
Links to files and to headings of pages are followed, too. Blocks of other kinds (text) are not looked at.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.doxygen"))
from pages import anchors_of

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
TENSORS = "Q K V O S L B R T lengths".split()
STAND_INS = """
foreach(command IN ITEMS project find_package attune_add_torch_library attune_add_jax_library attune_add_tvm_ffi_library attune_add_ggml_backend add_executable target_link_libraries add_subdirectory install attune_install_variant find_library)
    cmake_language(EVAL CODE "macro(${command})\\nendmacro()")
endforeach()
function(attune_add_variant target)
    cmake_parse_arguments(PARSE_ARGV 1 arg @options@)
    if(arg_UNPARSED_ARGUMENTS OR NOT ((arg_HEADER AND arg_GRAPHS) OR arg_OF))
        message(FATAL_ERROR "attune_add_variant(${target}): ${arg_UNPARSED_ARGUMENTS}")
    endif()
endfunction()
"""
MPI_STAND_IN = """
typedef struct communicator* MPI_Comm;
extern MPI_Comm MPI_COMM_WORLD;
enum { MPI_THREAD_FUNNELED = 1 };
int MPI_Init_thread(int*, char***, int, int*);
int MPI_Finalize(void);
"""


def options_of_variants(source):
    """What attune_add_variant parses, as its file writes it."""
    with open(os.path.join(source, "generators/cmake/attune_add_variant.cmake"), encoding="utf-8") as file:
        return re.search(r'function\(attune_add_variant target\)\n\s*cmake_parse_arguments\(PARSE_ARGV 1 arg ((?:"[A-Z0-9_;]*" ?)+)\)', file.read())[1]


def headings(file):
    """The anchors of a page's headings, as forges make them."""
    with open(file, encoding="utf-8") as page:
        return anchors_of(page.read())


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})


class Page:
    def __init__(self, path, options):
        self.path, self.options, self.wrong = path, options, []
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.blocks = [(kind, info.strip(), code, self.text[: at.start()].count("\n") + 2) for at in BLOCK.finditer(self.text) for kind, info, code in [at.groups()]]

    def refuse(self, line, why):
        self.wrong.append(f"{self.path}:{line}: {why}")

    def check(self):
        with tempfile.TemporaryDirectory() as folder:
            self.cpp(folder)
            for kind, _, code, line in self.blocks:
                getattr(self, "check_" + kind, lambda *_: None)(folder, code, line)
        if self.path.endswith("generators/docs/add_variant.md"):
            code = " ".join(code for kind, _, code, _ in self.blocks if kind == "cmake")
            for option in re.findall(r"[A-Z][A-Z0-9_]*", options_of_variants(self.options.source)):
                if f"\n| `{option}` |" not in self.text:
                    self.refuse(1, f"attune_add_variant's {option} has no row")
                if not re.search(rf"\b{option}\b", code):
                    self.refuse(1, f"attune_add_variant's {option} stands in no block")
        for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", BLOCK.sub("", self.text)):
            file = os.path.join(os.path.dirname(self.path), target) if target else self.path
            if "://" in target:
                continue
            if not os.path.exists(file):
                self.refuse(1, f"there is no {target}")
            elif heading and file.endswith(".md") and heading not in headings(file):
                self.refuse(1, f"{target or 'the page'} has no heading #{heading}")
        return self.wrong

    def cpp(self, folder):
        unit, calls = "#include <attune/runtime.hpp>\n#include <attune/dlpack.hpp>\n#include <cstdio>\n#include <vector>\n", 0
        page = re.sub(r"\W", "_", os.path.basename(self.path))
        for kind, info, code, line in self.blocks:
            if kind != "cpp":
                continue
            place = f'#line {line} "{self.path}"\n'
            if info.startswith("file="):
                name = os.path.join(folder, info[5:])
                with open(name, "w", encoding="utf-8") as file:
                    file.write(place + code)
                if name.endswith(".hpp"):
                    unit += f'#include "{name}"\n'
                else:
                    self.compile(["-x", "c++", name, "-I", folder], None)
            elif info.startswith("namespace="):
                unit += f"namespace {info[10:]} {{\n{place}{code}}}\nnamespace page_{page} {{ using namespace {info[10:]}; }}\n"
            elif info == "call":
                calls += 1
                tensors = "".join(f"[[maybe_unused]] attune::tensor {name};" for name in TENSORS)
                unit += "".join(f"{line}\n" for line in re.findall(r"^#include .*$", code, re.M))
                code = re.sub(r"^#include .*$", "", code, flags=re.M)
                unit += f"namespace page_{page} {{ [[maybe_unused]] static void call_{calls}() {{ {tensors}\n{place}{code}}} }}\n"
            else:
                included = re.findall(r"^#include .*$", code, re.M)  # stand outside the namespace
                unit += "".join(f"{line}\n" for line in included)
                code = re.sub(r"^#include .*$", "", code, flags=re.M)
                unit += f"namespace page_{page} {{ using namespace attune::dsl;\n{place}{code}}}\n"
        if len(unit.splitlines()) > 4:
            self.compile(["-x", "c++", "-", "-I", folder], unit)

    def compile(self, arguments, text):
        done = run(shlex.split(self.options.compile) + ["-fsyntax-only", *arguments], text)
        if done.returncode != 0:
            self.wrong.append(done.stderr)

    def check_c(self, folder, code, line):
        if "#include <attune/mpi.h>" in code:
            with open(os.path.join(folder, "mpi.h"), "w", encoding="utf-8") as file:
                file.write(MPI_STAND_IN)
        for name in re.findall(r"#include <(\w+)\.h>", code):
            if name.endswith("_kernels") or name == "attune_common":
                variant = "my_alibi" if name.endswith("_kernels") else "attune_common_causal_attention"
                with open(os.path.join(folder, name + ".h"), "w", encoding="utf-8") as file:
                    file.write(f"#include <attune/c.h>\nconst attune_variant* {variant}_variant(void);\nconst attune_variant* {variant}_shard_variant(void);\n"
                               f"typedef struct {{ attune_tensor q, k, v, slopes, kv_lengths, out; }} {variant}_arguments;\n"
                               f"static inline attune_status {variant}_run(const {variant}_arguments* given, const attune_options* how) "
                               f"{{ (void)given; return attune_run({variant}_variant(), NULL, 0, how); }}\n")
        done = run([self.options.c_compiler, "-std=c99", "-fsyntax-only", "-Wall", "-pedantic-errors", "-I", folder, "-I", self.options.runtime, "-I", os.path.join(self.options.source, "runtime/mpi/include"), "-x", "c", "-"],
                   f'#line {line} "{self.path}"\n{code}')
        if done.returncode != 0:
            self.wrong.append(done.stderr)

    def check_python(self, _, code, line):
        try:
            compile("\n" * (line - 1) + code, self.path, "exec")
        except SyntaxError as problem:
            self.refuse(problem.lineno, problem.msg)

    def check_cmake(self, folder, code, line):
        script = os.path.join(folder, "block.cmake")
        with open(script, "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.28)\n" + STAND_INS.replace("@options@", options_of_variants(self.options.source)) + code)
        done = run([self.options.cmake, "-P", script])
        if done.returncode != 0:
            self.refuse(line, done.stderr)

    def check_sh(self, _, code, line):
        for number, text in enumerate(code.splitlines()):
            for word in re.findall(r"(?:^|&& |\| )(?:[A-Z_]+=\S+ )*([\w./-]+)", text.split("#")[0]):
                known = not ("/" in word or word.startswith(".")) or os.path.exists(os.path.join(self.options.source, word)) or word.startswith(("build/", "./build/"))
                if not known:
                    self.refuse(line + number, f"there is no {word}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "compile", "c-compiler", "cmake", "runtime"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("pages", nargs="*")
    options = parser.parse_args()
    listed = run(["git", "-C", options.source, "ls-files", "*.md", ".github/*.md"]).stdout.split()
    pages = options.pages or [os.path.join(options.source, page) for page in listed] or \
        [os.path.join(where, name) for where, _, names in os.walk(options.source) for name in names if name.endswith(".md") and "/build" not in where]
    wrong, blocks = [], 0
    for path in sorted(set(pages)):
        page = Page(path, options)
        blocks += len(page.blocks)
        wrong += page.check()
    print(f"{len(set(pages))} pages, {blocks} blocks of code")
    for sentence in wrong:
        print("FAILED  " + sentence)
    return 1 if wrong or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())

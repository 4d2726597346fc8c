#!/usr/bin/env python3
"""No file of C++ is longer than 400 lines, no function longer than 80, and no switch goes by operation. Outside the tests no class has more than 15
data members, and no function more than 6 parameters; what has more is named below, with what it has and why, and may not grow. In generators, the
reference and the runtime each file has a header of its own: beside it, or among the library's installed headers; the loops of x.hpp lie in
x_schedule.cpp. Files that define what another header declares are named below, with the reason.

    check_sizes.py SOURCES [--list N]    --list prints the N longest of both
    check_sizes.py --check-itself        functions written here are found, with their lengths

A function is counted from the first line of its declarator to its closing brace; lambdas within it are its own lines, those in a table or
that initialise a variable count as functions. What an operation needs is found by its family or by_operation (ir/operations.hpp), where a missing one does
not compile; a `default:` beside cases of families would hide one.
"""
import argparse
import os
import re
import sys

LONGEST_FILE, LONGEST_FUNCTION, MOST_MEMBERS, MOST_PARAMETERS = 400, 80, 15, 6
STAGES = "the functions of one pass, all of which its schedules name"
RECORD = "a record, a member for each thing that is printed or stored"
C = "a function of a C interface, or beneath one"
PLANNING = "what ranks agreed on before, each part from elsewhere"
MORE_MEMBERS = {  # class: (data members, why)
    "tensor_state": (40, STAGES), "gpu_decode_state": (24, STAGES), "backward_sweep": (24, STAGES), "score_tile": (25, STAGES),
    "precomputed_tensor": (19, STAGES), "pair_block": (20, STAGES), "recurrent_chunk": (17, STAGES),
    "explanation": (44, RECORD), "kernel": (28, RECORD), "exchange_plan": (24, RECORD), "attune_mpi_planning": (23, RECORD), "plan": (18, RECORD),
    "cuda_functions": (18, "a table of a driver's functions"),
    "ir_builder": (29, "a list under construction, with a member for each way in which it may be wrong"),
    "bound_call": (18, "all that one call was bound to"),
    "tune_command": (18, "a member for each option"), "emit_command": (16, "a member for each option"),
}
MORE_PARAMETERS = {  # function: (parameters, why)
    "launch_kernel": (11, C), "answer": (10, C), "call_of": (8, C), "attune_blocks": (7, C), "attune_explain": (7, C), "attune_mpi_prepare": (7, C),
    "attune_mpi_run": (7, C), "attune_reference_evaluate": (7, C),
    "sliding_tiles_3d": (9, "a formula: three lengths of a canvas, of a tile and of a window"),
    "keep": (7, "a formula: a probability, a seed of two halves and the four indices of a pair"),
    "work_of": (8, PLANNING), "layout::layout": (8, PLANNING), "cost_of_head_parts": (8, PLANNING), "cost_of": (7, PLANNING),
    "whole_chunks::whole_chunks": (7, PLANNING),
    "bound_call::bound_call": (7, "a call and where it begins"),
    "copy": (7, "two tensors, each with the place in it that its recursion has reached"),
}
SHARED = "the C interface of a shared library or a program: no header"
PLAN = "a part of plan_kernel"
BINDING = "a step of bound_call, which is all that one call was bound to"
EVALUATION = "evaluation walks all of a graph: its members are apart by what they evaluate"
WITHOUT_HEADER = {  # file: (the header that declares it, why)
    "generators/src/plans/bytes.cpp": ("plans/parts.hpp", PLAN), "generators/src/plans/gradient_bytes.cpp": ("plans/parts.hpp", PLAN), "generators/src/plans/recurrence_bytes.cpp": ("plans/parts.hpp", PLAN),
    "generators/src/plans/key_passes.cpp": ("plans/parts.hpp", PLAN), "generators/src/plans/passes.cpp": ("plans/parts.hpp", PLAN),
    "generators/src/plans/plan_kernel.cpp": ("plans/kernel_plan.hpp", PLAN), "generators/src/plans/refusals.cpp": ("plans/parts.hpp", PLAN),
    "generators/src/schedules/schedule_key.cpp": ("schedules/database.hpp", "the database links without kernels, as its fuzzer does"),
    "generators/src/block_mask/ranges.cpp": ("block_mask/block_mask.hpp", "tile_mask decides conditions by ranges, and finds ranges by conditions"),
    "generators/src/stages/narrow_products.cpp": ("stages/score_tile.hpp", "the products of a score_tile whose factors are codes"),
    "generators/src/stages/tensor_rows.cpp": ("stages/tensor_state.hpp", "what others read of a tensor_state"),
    "generators/src/stages/precomputed_products.cpp": ("stages/precomputed.hpp", "one way to make a precomputed_tensor"),
    "generators/src/cpu/backward_places.cpp": ("cpu/backward.hpp", "the gradients that a backward_sweep places"),
    "generators/src/cpu/recurrence_gradient_places.cpp": ("cpu/recurrence_gradient.hpp", "the gradients that a backward_sweep places"),
    "generators/src/cpu/backward_products.cpp": ("cpu/backward.hpp", "the gradients of a backward_sweep that are matrix products"),
    "generators/src/stages/pair_block_bf16.cpp": ("stages/pair_block.hpp", "the products of a pair_block of bf16"),
    "generators/src/kernel/schedule_json.cpp": ("kernel/schedule_fields.hpp", "schedules as text, by the fields that it lists"),
    "generators/src/analysis/decode_support.cpp": ("analysis/plan.hpp", "the facts of a plan that decode asks for"),
    "generators/src/expr/loads.cpp": ("expr/pointwise.hpp", "the loads of a pointwise"),
    "generators/src/expr/packed_reals.cpp": ("expr/pointwise.hpp", "the loads of a pointwise that are of a few bits"),
    "generators/src/emit/halide_runtime_tool.cpp": ("", SHARED), "generators/src/commands/generator_main.cpp": ("", SHARED),
    "generators/reference/src/shared.cpp": ("", SHARED),
    "generators/reference/src/call.cpp": ("attune/reference.hpp", "the arguments of a call of the reference"),
    "generators/reference/src/places.cpp": ("evaluation.hpp", EVALUATION), "generators/reference/src/precomputed.cpp": ("evaluation.hpp", EVALUATION),
    "generators/reference/src/state_cotangents.cpp": ("evaluation.hpp", EVALUATION),
    "generators/reference/src/whole_tensors.cpp": ("evaluation.hpp", EVALUATION),
    "runtime/src/c/calls.cpp": ("attune/runtime/detail/c_variant.hpp", "what the C interface does with a variant"),
    "runtime/src/call/bind/definitions.cpp": ("attune/runtime/detail/call.hpp", "a check of the process, by its dynamic linker"),
    "runtime/src/call/bind/empty_sums.cpp": ("call/bind/bind.hpp", BINDING), "runtime/src/call/bind/on_device.cpp": ("call/bind/bind.hpp", BINDING), "runtime/src/call/bind/recurrent_states.cpp": ("call/bind/bind.hpp", BINDING), "runtime/src/call/choose/request.cpp": ("call/bind/bind.hpp", BINDING),
    "runtime/src/call/choose/synchronize.cpp": ("attune/runtime/detail/call.hpp", "a wait for a device, which no call is bound to"),
    "runtime/src/call/indices/index_values.cpp": ("call/indices/indices.hpp", "the elements that are indices; indices.cpp has what bounds them"),
    "runtime/src/call/indices/number_run.cpp": ("call/indices/numbers.hpp", "the arithmetic of a run; numbers.cpp has what it is of"),
    "runtime/src/call/run/prepared.cpp": ("attune/runtime/detail/call.hpp", "a prepared call, whose class nothing else sees"),
    "runtime/src/call/shape/lengths.cpp": ("call/shape/shape.hpp", "the numbers that a call's shape has by formulas"),
    "runtime/src/call/shape/outputs.cpp": ("call/shape/shape.hpp", "the outputs that a call's shape asks for"),
    "runtime/src/call/shape/wide_integers.cpp": ("call/shape/shape.hpp", "a check of elements, where shape.cpp has those of axes"),
    "runtime/src/execution/hooks.cpp": ("attune/runtime/threads.hpp", "the hooks of a process into Halide, whose classes nothing else sees"),
    "runtime/src/gpu/device.cpp": ("execution/device_call.hpp", "the devices of attune_gpu, a library of its own"),
}
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'                                    # comments
    r'|(?:u8|[uUL])?R"([^()\\\s]{0,16})\(.*?\)\1"'           # raw strings
    r'|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    r'|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*'                       # preprocessor
    r'|[A-Za-z_]\w*|\d[\w.\']*|->|::|\[\[|\]\]|\S',
    re.S | re.M)
NO_NAMES = ("requires", "decltype", "explicit", "alignas", "noexcept", "__attribute__")  # before other parentheses than those of parameters
AFTER_PARAMETERS = {"const", "noexcept", "override", "final", "&", "->", "requires", "mutable", "try", "[["}


def is_function(statement):
    """Whether a brace after these tokens, at the level of a namespace or a class, opens a function's body."""
    words, depth, last, of_members = [text for text, _ in statement], 0, None, False
    for i, text in enumerate(words):
        depth += text in "([" and len(text) == 1
        depth -= text in ")]" and len(text) == 1
        if depth == 0 and text == ")":
            last = i
        if depth == 0 and text == ":" and last is not None and (i == last + 1 or words[i - 1] in AFTER_PARAMETERS):
            of_members = True
    if depth != 0:
        return False
    if words[-1:] == ["]"]:  # [] {
        return True
    if of_members:
        return words[-1] in (")", "{}")
    return last is not None and (last == len(words) - 1 or words[last + 1] in AFTER_PARAMETERS)


def parameters(words):
    """The name of a function and how many parameters it has, by the tokens of its declarator."""
    name, count, angles, depth = "", 0, 0, 0
    for i, word in enumerate(words):
        if not name:
            angles += (word == "<") - (word == ">")
            if word != "(" or angles > 0 or words[i - 1:i] == ["operator"]:
                continue
            angles = 0
            if words[i - 1] not in NO_NAMES:
                name, depth = words[i - 1] if words[i - 2:i - 1] != ["::"] else words[i - 3] + "::" + words[i - 1], 1
                count = int(words[i + 1:i + 2] != [")"])
            continue
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if depth == 0:
            break
        angles += (word == "<") - (word == ">")
        count += word == "," and depth == 1 and angles == 0
    return name, count


def members(words):
    """How many data members a statement of a class declares."""
    if not words or words[0] in ("using", "friend", "static_assert", "typedef", "template", "static", "inline", "enum", "virtual"):
        return 0
    count, angles, depth = 1, 0, 0
    for i, word in enumerate(words):
        if word == "=" and angles == 0:
            break  # what follows initialises it
        depth += (word in ("(", "[")) - (word in (")", "]"))
        angles += (word == "<") - (word == ">") if depth == 0 else 0
        if word in ("(", "operator") and angles == 0 or words[:1] == ["~"]:
            return 0  # a function
        count += word == "," and angles == 0 and depth == 0
    return count if len(words) > 1 and words[-1] != "class" else 0


def functions(text, classes=None):
    """(first line, last line, what is written on the first, name, parameters) of every function; `classes` gets (line, name, data members)."""
    found, levels, statement, line, at = [], [], [], 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        token = match[0]
        if token.lstrip().startswith(("//", "/*", "#")):
            continue
        if token == "{":
            words = [word for word, _ in statement]
            inside = any(level[0] == "function" for level in levels)
            if inside:
                levels.append(("block", None, statement))
            elif "namespace" in words[:2] or words[:1] == ["extern"] and len(words) == 2:
                levels.append(("scope", None, []))
            elif is_function(statement):
                levels.append(("function", statement[0][1], words))
            elif {"class", "struct", "union", "enum"} & set(words) and "=" not in words and "(" not in words[words.index(next(
                    w for w in words if w in ("class", "struct", "union", "enum"))):]:
                levels.append(("class", statement[0][1], [" ".join(words), 0]))
            else:
                levels.append(("initializer", None, statement))
            statement = []
        elif token == "}" and levels:
            kind, first, before = levels.pop()
            statement = before + [("{}", line)] if kind in ("initializer", "block") else []
            if kind == "function":
                found.append((first, line, text.splitlines()[first - 1].strip(), *parameters(before)))
            elif kind == "class" and classes is not None and "enum" not in before[0].split():
                name = re.search(r"(?:class|struct|union) (?:alignas \( \w+ \) )?(\w+(?: :: \w+)*)(?: final)?(?: <[^:]*>)?(?: :.*)?$", before[0])
                classes.append((first, name[1].replace(" ", "") if name else "", before[1]))
        elif token == ";" and not (levels and levels[-1][0] == "initializer"):
            depth = sum(w == "(" for w, _ in statement) - sum(w == ")" for w, _ in statement)
            if depth == 0:
                if levels and levels[-1][0] == "class":
                    levels[-1][2][1] += members([word for word, _ in statement])
                statement = []
        elif token == ":" and statement and statement[-1][0] in ("public", "private", "protected") and len(statement) == 1:
            statement = []
        else:
            statement.append((token, line))
    return found


def too_many(counted, of_what, most, exceptions):
    """What has more than `most`, or than its exception allows; exceptions that nothing needs any more."""
    largest, wrong = {}, []
    for count, name, where in counted:
        if count <= most:
            continue
        allowed, _ = exceptions.get(name, (most, ""))
        largest[name] = max(largest.get(name, 0), count)
        if count > allowed:
            wrong.append(f"{where} has {count} {of_what}, more than {allowed}")
    return wrong + [f"{name} is allowed {allowed} {of_what} and has {largest.get(name, f'at most {most}')}: say so in {os.path.basename(__file__)}"
                    for name, (allowed, _) in exceptions.items() if largest.get(name, 0) < allowed]


def switches(text):
    """Lines where a switch goes by operation, or hides a family behind a default."""
    bare = "using enum" in text and "operation;" in text
    for match in re.finditer(r"\n( *)switch \([^\n]*\{\n(.*?)\n\1\}", text, re.S):
        inner = match[2]
        by_operation = re.search(r"^ *case (attune::)?operation::", inner, re.M)
        hidden = re.search(r"^ *case family::", inner, re.M) and re.search(rf"^{match[1]}    default:", inner, re.M)
        named = bare and re.search(r"^ *case (q_idx|kv_idx|add|logical_and|load|less|constant):", inner, re.M)
        if by_operation or hidden or named:
            yield text.count("\n", 0, match.start()) + 2


def without_header(paths, texts):
    """Files of libraries without a header of their own that WITHOUT_HEADER does not name, and what it names without need."""
    libraries = {"generators/src/": "generators/", "generators/reference/src/": "generators/reference/include/", "runtime/src/": "runtime/include/"}
    headers = {path for path in paths if path.endswith((".hpp", ".h"))}
    wrong, needed = [], set()
    for path in paths:
        library = next((folder for folder in libraries if path.startswith(folder)), None)
        if library is None or not path.endswith(".cpp"):
            continue
        stem = path.removesuffix(".cpp")
        name = "/" + os.path.basename(stem)
        if {stem + ".hpp", stem + ".h", stem.removesuffix("_schedule") + ".hpp"} & headers:
            continue
        if any(h.startswith(libraries[library]) and "/include/" in h and h.rsplit(".", 1)[0].endswith(name) for h in headers):
            continue
        needed.add(path)
        header, _ = WITHOUT_HEADER.get(path, (None, ""))
        if header is None:
            wrong.append(f"{path} has no header of its own: give it one, join it to a file that has, or name it in {os.path.basename(__file__)}")
        elif header and not re.search(rf'^#include ["<]{re.escape(header)}[">]', texts[path], re.M):
            wrong.append(f"{path} does not include {header}, which {os.path.basename(__file__)} says declares it")
    return wrong + [f"{path} is named in {os.path.basename(__file__)} without need" for path in WITHOUT_HEADER if path not in needed]


def check_itself():
    text = '''namespace a {
// struct {
constexpr int table[] = {1, 2};
struct b : c {
    b(int x)
        : x_{x}, y_(x) {
        if (x) { f("}"); }
    }
    auto operator()() const -> int { return '}'; }
    int x_{}, y_;
};
template <class T> requires true
int f(const T& x = {}) {
    switch (x) {
        default: return [] { return 1; }();
    }
}
constexpr by_operation<family::logic, bool (*)(bool)> of{
    {one, [](bool x) { return x; }},
};
inline constexpr int g = [] {
    return 1;
}();
#define h(x) {
}
'''
    classes = []
    got = [(first, last, count) for first, last, _, _, count in functions(text, classes)]
    expected = [(5, 8, 1), (9, 9, 0), (12, 17, 1), (19, 19, 1), (21, 23, 0)]
    parts = '''struct d final : c {
    static constexpr int none = 0;
    using e = int;
    enum class f { g, h };
    struct i { int j, k; };
    i l{1, 2};
    std::map<int, std::pair<int, int>> m, n = {{1, {2, 3}}};
    const std::function<void(int)> o;
    int p(int q) const { return q; }
    virtual void r(std::span<const int> s, std::map<int, int> t = {}, int (&u)[2]) = 0;
private:
    int v_;
};
template <class A, class B> auto operator()(const A& a, std::pair<A, B> b) requires(c<A>) { return a; }
std::map<int, int> w(int x, std::function<int(int, int)> y, int z = f(1, 2)) { return {}; }
'''
    inside = []
    took = [(name, count) for *_, name, count in functions(parts, inside)]
    had = [(name, count) for _, name, count in inside]
    if had != [("i", 2), ("d", 5)] or took != [("p", 1), (")", 2), ("w", 3)]:
        sys.exit(f"FAILED  expected 2 and 5 data members and 1, 2 and 3 parameters, got {had} and {took}")
    by = "void f() {\n    switch (op) {\n        case operation::add: break;\n    }\n    switch (of) {\n        case family::sums: break;\n        default: break;\n    }\n}\n"
    lines = list(switches(by))
    if got != expected or lines != [2, 5]:
        sys.exit(f"FAILED  expected functions {expected} and switches [2, 5], got {got} and {lines}")
    if too_many([(8, "a", "a"), (9, "b", "b"), (3, "c", "c")], "parts", 7, {"b": (9, "why"), "c": (8, "why")}) == []:
        sys.exit("FAILED  expected that a is too large and c no exception, got nothing")
    paths = ["generators/src/a/b.cpp", "generators/src/a/b.hpp", "generators/src/a/b_schedule.cpp", "generators/src/a/c.cpp", "runtime/src/d.cpp",
             "runtime/include/e/d.h"]
    if [sentence for sentence in without_header(paths, dict.fromkeys(paths, "")) if "a/" in sentence or "/d." in sentence] != [
            f"generators/src/a/c.cpp has no header of its own: give it one, join it to a file that has, or name it in {os.path.basename(__file__)}"]:
        sys.exit("FAILED  expected c.cpp without a header of its own")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="?")
    parser.add_argument("--list", type=int, default=0)
    parser.add_argument("--check-itself", action="store_true")
    options = parser.parse_args()
    check_itself()
    if options.check_itself:
        return 0
    files, lengths, members_of, parameters_of, wrong, texts = [], [], [], [], [], {}
    for top in ("dsl", "generators", "runtime", "tests", "examples"):
        for where, _, names in os.walk(os.path.join(options.sources, top)):
            for name in sorted(names):
                if not name.endswith((".cpp", ".hpp", ".c", ".h")):
                    continue
                path = os.path.join(where, name)
                with open(path, encoding="utf-8") as opened:
                    text = opened.read()
                path = os.path.relpath(path, options.sources)
                files.append((text.count("\n"), path))
                texts[path] = text
                classes = []
                found = functions(text, classes)
                lengths += [(last - first + 1, f"{path}:{first} {head}") for first, last, head, *_ in found]
                if top in ("dsl", "generators", "runtime"):
                    members_of += [(count, name, f"{path}:{first} {name}") for first, name, count in classes]
                    parameters_of += [(count, name, f"{path}:{first} {head}") for first, _, head, name, count in found]
                wrong += [f"{path}:{line} switches over operations: ask for the family, or by_operation (ir/operations.hpp)" for line in switches(text)]
    if len(files) < 100 or len(lengths) < 1000:
        sys.exit(f"expected the files of attune in {options.sources}, found {len(files)} with {len(lengths)} functions")
    wrong += [f"{path} has {length} lines, more than {LONGEST_FILE}" for length, path in files if length > LONGEST_FILE]
    wrong += [f"{path} has {length} lines, more than {LONGEST_FUNCTION}" for length, path in lengths if length > LONGEST_FUNCTION]
    wrong += too_many(members_of, "data members", MOST_MEMBERS, MORE_MEMBERS) + too_many(parameters_of, "parameters", MOST_PARAMETERS, MORE_PARAMETERS)
    wrong += without_header([path for _, path in files], texts)
    counted = ([(count, what) for count, _, what in of] for of in (members_of, parameters_of))
    for of in (files, lengths, *counted):
        for number, what in sorted(of, reverse=True)[:options.list]:
            print(number, what)
    for sentence in wrong:
        print("FAILED  " + sentence)
    print(f"{len(files)} files, {len(lengths)} functions, {len(members_of)} classes; {len(MORE_MEMBERS)} of them and {len(MORE_PARAMETERS)} functions are exceptions, "
          f"{len(WITHOUT_HEADER)} files are without a header of their own")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

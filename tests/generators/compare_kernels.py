#!/usr/bin/env python3
"""Whether two builds of attune make the same kernels.

    compare_kernels.py emit BUILD --save FILE      every kernel of BUILD's generator programs, for each level; their digests. What FILE has of them is kept,
                                                   so that a run which was ended goes on
    compare_kernels.py compare FIRST SECOND        two such files; ends with 1 if anything differs

What is compared of an object, section by section, which is function by function: code and the data that code reads, byte for byte; where it refers to other
symbols. Texts of messages count apart: names of stages stand in them. Kernels for GPUs are texts themselves, where names are
replaced by numbers in the order of their first appearance; how long such a text is counts for nothing, where code says it and in what fills up behind. Functions of parallel loops, whose names say the loops, go by their order.

    --programs   a regular expression of the programs' names; without it the golden set, the catalogue, attune::common and the
                 benchmarks, which have to be built: --list says their targets
    --levels     default x86-64-v3 x86-64-v4 x86-64-v4-bf16 x86-64-v4-amx opencl cuda
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time

LEVELS = ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx", "opencl", "cuda"]
PROGRAMS = r"^(golden_.*|catalogue|attune_common|benchmark_.*|deciding_variants|layer_variants)_generator$"
ASIDE = {"--target": 1, "--object": 1, "--code": 1, "--cache": 1, "--graph": 1, "--key": 1}  # options of emit that do not say what a kernel is


def builds(folder, programs):
    """{(program, options)} of a build folder: what its commands have compiled."""
    found = set()
    with open(os.path.join(folder, "build.ninja"), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("  COMMAND = ") or "_generator emit " not in line:
                continue
            for command in line.split(" = ", 1)[1].split(" && "):
                match = re.search(r"(\S*_generator) emit (.*)", command)
                if not match or "--object" not in command:
                    continue
                program, words = os.path.basename(match[1]), shlex.split(match[2].replace("$", ""))
                if not re.search(programs, program):
                    continue
                options, at = [], 0
                while at < len(words):
                    if words[at] in ASIDE:
                        at += 1
                        while at < len(words) and not words[at].startswith("--"):
                            at += 1
                        continue
                    options.append(words[at])
                    at += 1
                found.add((program, tuple(options)))
    return sorted(found)


def sections(data):
    """(name, type, flags, bytes, linked section, information) of an ELF object for 64 bits, little endian; names of its symbols."""
    if data[:4] != b"\x7fELF":
        raise ValueError("no ELF object")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    text = lambda base, at: data[base + at:data.index(b"\0", base + at)].decode()
    base = rows[names][4]
    found = [(text(base, r[0]), r[1], r[2], data[r[4]:r[4] + r[5]] if r[1] != 8 else b"", r[6], r[7]) for r in rows]
    symbols = []
    for i, row in enumerate(rows):
        if row[1] == 2:  # symbols
            strings = rows[row[6]][4]
            for at in range(0, row[5], 24):
                name, info, _, index, value, length = struct.unpack_from("<IBBHQQ", data, row[4] + at)
                symbols.append((text(strings, name), info & 15, index, value, length))
    return found, symbols


def neutral(text):
    """A text with its names numbered in the order of their first appearance."""
    seen = {}
    return re.sub(r"[A-Za-z_$.][\w$.]*", lambda m: seen.setdefault(m[0], f"n{len(seen)}"), text)


def is_program(data):
    """Whether a section is a program for a GPU, as text."""
    return len(data) > 200 and sum(32 <= c < 127 or c in b"\n\t\0" for c in data) > 0.95 * len(data)


def without_lengths(code, programs):
    """Code that says 0 for the length of each of these programs."""
    for text in (text for program in programs for text in program.split(b"\0") if len(text) > 200):
        for length in (len(text), len(text) + 1):
            code = code.replace(struct.pack("<I", length), bytes(4))
    return code


def digest(*parts):
    of = hashlib.sha256()
    for part in parts:
        of.update(part if isinstance(part, bytes) else str(part).encode())
        of.update(b"\0")
    return of.hexdigest()[:24]


def digests(file):
    """{what: digest} of an object."""
    with open(file, "rb") as opened:
        found, symbols = sections(opened.read())
    result, texts, of_code = {}, [], []
    loops = {}
    found = [(re.sub(r"_par_for_\w+", lambda m: f"_par_for_{loops.setdefault(m[0], len(loops))}", name), *others) for name, *others in found]
    programs = [data for _, kind, flags, data, _, _ in found if kind == 1 and flags & 2 and not flags & 0x24 and is_program(data)]
    for number, (name, kind, flags, data, _, applies) in enumerate(found):
        allocated, code, strings = flags & 2, flags & 4, flags & 0x20
        if kind == 4 and found[applies][2] & 2:  # relocations: where, of which kind
            rows = [struct.unpack_from("<QIIq", data, at)[:2] for at in range(0, len(data), 24)]
            if not name.startswith(".rela.eh_frame"):
                of_code.append((name, digest(json.dumps(rows))))
        if kind != 1 or not allocated or name == ".eh_frame":
            continue
        if code:
            functions = sorted((s[3], s[4]) for s in symbols if s[1] == 2 and s[2] == number)
            result["code " + name] = digest(without_lengths(data, programs), json.dumps(functions))
        elif strings:
            texts.append(data)
        elif data in programs:
            result["program " + name] = digest(neutral(re.sub(rb"\0+", rb"\0", data).decode("latin1")))
        else:
            result["data " + name] = digest(data)
    for name, value in of_code:
        result["references " + name] = value
    result["texts"] = digest(neutral(b"".join(texts).decode("latin1")))
    return result


def emitted(folder, program, options, level, work):
    """The digests of what one program makes for a level, or the sentence by which it refuses; the seconds that it took."""
    file = os.path.join(work, digest(program, options, level) + ".o")
    environment = {k: v for k, v in os.environ.items() if k != "ATTUNE_KERNEL_CACHE"}
    command = [os.path.join(folder, "bin", program), "emit", "--target", level, "--object", file, *options]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    seconds = time.monotonic() - start
    if done.returncode < 0:  # killed, which says nothing of its kernels
        raise RuntimeError(f"{program} for {level} ended by signal {-done.returncode}")
    if done.returncode != 0:
        return {"refused": done.stderr.strip().splitlines()[-1].split(": ", 1)[-1] if done.stderr.strip() else str(done.returncode)}, seconds
    try:
        return digests(file), seconds
    finally:
        os.remove(file)


def named(program, how, level):
    said = list(how)
    if "--schedules" in said:  # a path of this machine
        said[said.index("--schedules") + 1] = "..."
    return f"{program} {' '.join(said)} for {level}"


def save(name, result):
    with open(name + ".new", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, sort_keys=True)
    os.replace(name + ".new", name)


def emit(options):
    wanted = builds(options.build, options.programs)
    if not wanted:
        sys.exit(f"expected generator programs like {options.programs} in {options.build}/build.ninja, found none")
    if options.list:
        return print(*sorted({program for program, _ in wanted}))
    absent = sorted({program for program, _ in wanted if not os.path.exists(os.path.join(options.build, "bin", program))})
    if absent:
        sys.exit(f"expected these programs to be built, they are not; try ninja -C {options.build} {' '.join(absent)}")
    result, start = {}, time.monotonic()
    if os.path.exists(options.save):
        with open(options.save, encoding="utf-8") as file:
            result = json.load(file)
    jobs = [(program, how, level) for program, how in wanted for level in options.levels if named(program, how, level) not in result]
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(emitted, options.build, *job, work): job for job in jobs}
        for done, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            program, how, level = waiting[future]
            made, seconds = future.result()
            result[named(program, how, level)] = {"seconds": round(seconds, 1), **made}
            save(options.save, result)
            print(f"\r{done}/{len(jobs)} after {time.monotonic() - start:.0f} s  {program} {level}\033[K", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{len(result)} objects in {time.monotonic() - start:.0f} s")


def compare(options):
    with open(options.first, encoding="utf-8") as first, open(options.second, encoding="utf-8") as second:
        first, second = json.load(first), json.load(second)
    differing, texts, before, after = 0, 0, 0.0, 0.0
    for name in sorted(first.keys() | second.keys()):
        one, other = first.get(name), second.get(name)
        if one is None or other is None:
            differing += 1
            print(f"only in the {'first' if other is None else 'second'}: {name}")
            continue
        before, after = before + one["seconds"], after + other["seconds"]
        unlike = sorted(k for k in one.keys() | other.keys() if k != "seconds" and one.get(k) != other.get(k))
        if unlike == ["texts"]:
            texts += 1
        elif unlike:
            differing += 1
            print(f"differs in {', '.join(unlike)}: {name}")
    print(f"{len(first.keys() & second.keys())} objects in both: {differing} differ, {texts} have other texts of messages alone; {before:.0f} and {after:.0f} s of compiling")
    return 1 if differing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    way = ways.add_parser("emit", help="compile and keep the digests")
    way.add_argument("build")
    way.add_argument("--save", default="kernels.json")
    way.add_argument("--programs", default=PROGRAMS)
    way.add_argument("--levels", nargs="+", default=LEVELS)
    way.add_argument("--jobs", type=int, default=os.cpu_count())
    way.add_argument("--list", action="store_true", help="only say which programs it asks for")
    way = ways.add_parser("compare", help="two files of digests")
    way.add_argument("first")
    way.add_argument("second")
    options = parser.parse_args()
    return {"emit": emit, "compare": compare}[options.way](options)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The inputs that the fuzzers keep: corpus/<fuzzer>.txt, a line an input.

    corpus.py add FILE INPUT...      adds files, such as build/fuzz/crash-..., to the kept inputs
    corpus.py pack FOLDER FILE       keeps the files of a folder and nothing else, as libFuzzer minimised them
    corpus.py unpack FILE FOLDER     writes each input into a file of its own, which libFuzzer reads
    corpus.py check FILE...          each file is as `pack` writes it

A printable character of ASCII stands for itself. A backslash is \\\\; any other byte, and a space that ends a line, is \\x and two digits.
Lines are sorted, each there once. replay.cpp reads the same.
"""
import hashlib
import pathlib
import re
import sys

ESCAPE = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))|\\")


def line_of(data):
    text = "".join("\\\\" if byte == 0x5C else chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in data)
    return text[:-1] + "\\x20" if text.endswith(" ") else text


def input_of(line):
    def byte_of(escape):
        if escape[0] == b"\\":
            found = line[escape.start():escape.start() + 4]
            sys.exit(f"expected \\\\ or \\x and two digits of 0123456789abcdef, got {found!r} in the input {line[:60]!r}")
        return bytes([int(escape[1], 16)]) if escape[1] else b"\\"

    return ESCAPE.sub(byte_of, line.encode("ascii"))


def read(file):
    return [input_of(line) for line in file.read_text(encoding="ascii").split("\n")[:-1]]


def text_of(inputs):
    return "".join(line_of(data) + "\n" for data in sorted(set(inputs)))


def write(file, inputs):
    file.write_text(text_of(inputs), encoding="ascii")
    print(f"{file}: {len(set(inputs))} inputs, {sum(map(len, set(inputs)))} bytes")


def main():
    command, *paths = sys.argv[1:] or [""]
    paths = [pathlib.Path(path) for path in paths]
    if command == "add" and len(paths) > 1:
        write(paths[0], read(paths[0]) + [path.read_bytes() for path in paths[1:]])
    elif command == "pack" and len(paths) == 2:
        write(paths[1], [path.read_bytes() for path in paths[0].iterdir()])
    elif command == "unpack" and len(paths) == 2:
        paths[1].mkdir(parents=True, exist_ok=True)
        for data in read(paths[0]):
            (paths[1] / hashlib.sha1(data).hexdigest()).write_bytes(data)  # libFuzzer's own names
    elif command == "check" and paths:
        for path in paths:
            inputs = read(path)
            if not inputs or path.read_text(encoding="ascii") != text_of(inputs):
                again = f"corpus.py unpack {path} build/inputs && corpus.py pack build/inputs {path}"
                sys.exit(f"expected {path} sorted, each input once; try {again}")
            print(f"{path.stem}: {len(inputs)} inputs, {sum(map(len, inputs))} bytes")
    else:
        sys.exit(__doc__)


main()

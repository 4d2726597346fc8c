#!/usr/bin/env python3
"""The program sentence_embeddings on texts and models that it has to refuse: with a sentence, status 2, and before it writes anything.

usage: check_program.py PROGRAM FOLDER"""
import json
import pathlib
import struct
import subprocess
import sys

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
failures = 0


def model(name, vocabulary, weights):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "vocab.txt").write_text(vocabulary)
    (folder / name / "model.safetensors").write_bytes(weights)
    return folder / name


def text(name, content):
    (folder / name).write_bytes(content)
    return folder / name


def refuses(sentence, *arguments):
    global failures
    output = folder / "embeddings.csv"
    output.unlink(missing_ok=True)
    done = subprocess.run([program, *map(str, arguments), "--output", str(output)], capture_output=True, text=True)
    if done.returncode != 2 or sentence not in done.stderr or done.stdout or output.exists():
        failures += 1
        print(f"FAILED  {' '.join(map(str, arguments))}: expected status 2 and a sentence with\n    {sentence}\n"
              f"got {done.returncode} and\n    {done.stderr}{done.stdout}")


pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
header = json.dumps({"embeddings.word_embeddings.weight": {"dtype": "F32", "shape": [6, 4], "data_offsets": [0, 96]}}).encode()
header += b" " * (-len(header) % 8)
small = struct.pack("<Q", len(header)) + header + bytes(96)
other = model("other", pieces, small)
sentence = text("sentence.txt", b"a\n")

refuses("absent.txt: expected a text, a sentence a line, got nothing that can be read", folder / "absent.txt", "--model", other)
refuses("expected a text, a sentence a line, got nothing that can be read", folder, "--model", other)
refuses("expected a sentence a line, got no line that is not blank", text("empty.txt", b""), "--model", other)
refuses("expected a sentence a line, got no line that is not blank", text("blank.txt", b" \n\n\t\r\n"), "--model", other)
refuses("nowhere: expected a folder with model.safetensors and vocab.txt, got none; try ./examples/run sentence_embeddings", sentence, "--model", folder / "nowhere")
(folder / "bare").mkdir(exist_ok=True)
refuses("vocab.txt: expected a vocabulary, a piece a line, got nothing that can be read", sentence, "--model", folder / "bare")
refuses("vocab.txt: expected the piece [CLS]", sentence, "--model", model("wordless", "a\nb\n[PAD]\n[UNK]\n", small))
refuses("model.safetensors: expected embeddings.word_embeddings.weight of shape (6, 384), got (6, 4)", sentence, "--model", other)
refuses("model.safetensors: truncated: expected embeddings.word_embeddings.weight to end at byte 96", sentence, "--model", model("cut", pieces, small[:-1]))
refuses("model.safetensors: truncated: expected 8 bytes", sentence, "--model", model("empty", pieces, b""))

done = subprocess.run([program], capture_output=True, text=True)
if done.returncode == 0 or "FILE" not in done.stderr:
    failures += 1
    print(f"FAILED  without arguments: expected an error that names FILE, got {done.returncode} and\n    {done.stderr}")
sys.exit(1 if failures else 0)

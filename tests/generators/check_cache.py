#!/usr/bin/env python3
"""emit --cache and --key: an object is compiled once for what it is made of, and again for anything else. GENERATOR CODE LEVEL WORK"""
import os
import shutil
import subprocess
import sys

generator, code, level, work = sys.argv[1:]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
cache = os.path.join(work, "cache")


def emit(name, *options):
    object_file = os.path.join(work, name)
    command = [generator, "emit", "--target", level, "--object", object_file, "--depths", "64", *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ATTUNE_KERNEL_CACHE": cache, "ASAN_OPTIONS": "detect_leaks=0"})
    print(done.stderr)
    if done.returncode != 0:
        sys.exit(f"FAILED  {' '.join(command)}")
    with open(object_file, "rb") as file:
        return file.read(), "as compiled before" in done.stderr


def expect(truth, sentence):
    if not truth:
        sys.exit("FAILED  " + sentence)


first, kept = emit("first.o", "--code", code)
expect(not kept and len(os.listdir(cache)) == 1, "the first object is compiled and kept")
second, kept = emit("second.o", "--code", code)
expect(kept and second == first, "the second is the first")
other_code = os.path.join(work, "other_code")
with open(other_code, "w", encoding="utf-8") as file:
    file.write("something else")
for options in (["--code", other_code], ["--code", code, "--schedule", '{"key_block": 32}'], ["--code", code, "--depths", "64x32"], ["--code", code, "--sanitize", "address"], []):
    expect(not emit("third.o", *options)[1], f"{options or 'without --code'}: compiled")
expect(len(os.listdir(cache)) == 5, "one object kept for each")


def key(*options):
    file = os.path.join(work, "key")
    command = [generator, "emit", "--target", level, "--key", file, "--depths", "64", *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    if done.returncode != 0:
        return done.stderr, 0
    with open(file, encoding="utf-8") as opened:
        return opened.read(), os.stat(file).st_mtime_ns


same, written = key("--code", code)
expect(same.strip() + ".o" in os.listdir(cache), "the key is what the cache calls the object")
expect(key("--code", code) == (same, written), "a key that did not change is not written again")
keys = {same, key("--code", code, other_code)[0], key("--code", code, "--depths", "64x32")[0], key("--code", code, "--sanitize", "address")[0]}
expect(len(keys) == 4, "another key for what is made of something else")
expect("expected --code" in key()[0] and "expected --code" in key("--code", os.path.join(work, "absent"))[0], "no key without code")
os.chmod(cache, 0o500)  # a folder that cannot be written is no error
emit("fourth.o", "--code", code, "--depths", "32")
os.chmod(cache, 0o700)
shutil.rmtree(work)

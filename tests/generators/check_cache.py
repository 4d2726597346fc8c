#!/usr/bin/env python3
"""emit --cache and --key: an object is compiled once for what it is made of, and again for anything else; and a
generator that is killed leaves no half of a file. GENERATOR CODE LEVEL WORK"""
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

generator, code, level, work = sys.argv[1:]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
cache = os.path.join(work, "cache")


def start(name, *options, kept_in=cache):
    command = [generator, "emit", "--target", level, "--object", os.path.join(work, name), "--depths", "8", *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=work, env={**os.environ, "ATTUNE_KERNEL_CACHE": kept_in, "ASAN_OPTIONS": "detect_leaks=0"})


def content(file):
    with open(file, "rb") as opened:
        return opened.read()


def end(process, name):
    """The object, and what was said."""
    said = process.communicate()[1]
    print(said)
    expect(process.returncode == 0, f"{name} is emitted")
    return content(os.path.join(work, name)), said


def emit(name, *options):
    """The object, and whether it was taken from the cache."""
    made, said = end(start(name, *options), name)
    return made, "as compiled before" in said


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
for options in (["--code", other_code], ["--code", code, "--schedule", '{"key_block": 32}'], ["--code", code, "--depths", "8x4"], ["--code", code, "--sanitize", "address"], []):
    expect(not emit("third.o", *options)[1], f"{options or 'without --code'}: compiled")
expect(len(os.listdir(cache)) == 5, "one object kept for each")


def key(*options):
    file = os.path.join(work, "key")
    command = [generator, "emit", "--target", level, "--key", file, "--depths", "8", *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    if done.returncode != 0:
        return done.stderr, 0
    with open(file, encoding="utf-8") as opened:
        return opened.read(), os.stat(file).st_mtime_ns


same, written = key("--code", code)
expect(same.strip() + ".kernels" in os.listdir(cache), "the key is what the cache calls the object")
expect(key("--code", code) == (same, written), "a key that did not change is not written again")
keys = {same, key("--code", code, other_code)[0], key("--code", code, "--depths", "8x4")[0], key("--code", code, "--sanitize", "address")[0], key("--code", code, "--finite")[0]}
expect(len(keys) == 5, "another key for what is made of something else")
expect("expected --code" in key()[0] and "expected --code" in key("--code", os.path.join(work, "absent"))[0], "no key without code")

# An entry that is not what was written is found out, made anew and said, whatever happened to it.
entry = os.path.join(cache, same.strip() + ".kernels")
whole = content(entry)
at = len(whole) // 2
for what, damaged in {"cut short": whole[:at], "with a flipped bit": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:], "garbage": b"\0" * len(whole),
                      "an object as it is": first, "of another key": whole.replace(same.strip().encode(), b"0" * 32)}.items():
    with open(entry, "wb") as file:
        file.write(damaged)
    again, said = end(start("again.o", "--code", code), "again.o")
    expect(again == first and f'"{entry}" of the kernel cache is damaged: it is made anew' in said and "as compiled before" not in said, f"an entry {what}: made anew and said")
    expect(content(entry) == whole and emit("again.o", "--code", code) == (first, True), f"an entry {what}: whole again")

# One that cannot be read is no error either; what stands in its place is left to whoever put it there.
os.remove(entry)
os.makedirs(os.path.join(entry, "inside"))
again, said = end(start("again.o", "--code", code), "again.o")
expect(again == first and f'"{entry}" of the kernel cache is damaged: it is made anew' in said and "not kept in the kernel cache: " in said, f"a folder as an entry: made anew and said, got {said}")
shutil.rmtree(entry)
expect(emit("again.o", "--code", code) == (first, False), "and kept again where it can be")

# Two that compile the same at the same time leave one entry, whole; nothing else stays.
os.remove(entry)
for name, process in [(name, start(name, "--code", code)) for name in ("left.o", "right.o")]:
    expect(end(process, name)[0] == first, "each of two writers has its object")
expect(content(entry) == whole and len(os.listdir(cache)) == 5, "two writers: one whole entry")

# A generator that is killed leaves no object: what it has begun has another name.
killed = start("killed.o", "--depths", "8x4")
while killed.poll() is None and not any(name.startswith("killed.o") for name in os.listdir(work)):
    time.sleep(0.001)
killed.kill()
killed.communicate()
left = [name for name in os.listdir(work) if name.startswith("killed.o")]
expect(killed.returncode == -9 and "killed.o" not in left, f"a generator killed as it writes leaves no object, got {left}")

# Nor does one that ends in the midst of a file, here of its first 1000 bytes, whichever file that is; and two of them do not get in each other's way.
files = {"half.o": ["--target", level, "--object", "half.o"], "half.cpp": ["--registry", "half.cpp", "--header", "some.hpp", "--c-header", "half.h", "--targets", level]}


def emitting(options, **how):
    return subprocess.Popen([generator, "emit", "--depths", "8", *options], stderr=subprocess.DEVNULL, cwd=work, env={**os.environ, "ATTUNE_KERNEL_CACHE": "", "ASAN_OPTIONS": "detect_leaks=0"}, **how)


def first_kilobyte():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # by a signal that nothing handles: a kill at that byte


def begun(name):
    return [found for found in os.listdir(work) if re.fullmatch(re.escape(name) + "[.][0-9a-f]{16}", found)]


for name, options in files.items():
    for times in (1, 2):
        ended = emitting(options, preexec_fn=first_kilobyte).wait()
        halves = begun(name)
        expect(ended == -signal.SIGXFSZ and len(halves) == times and all(os.path.getsize(os.path.join(work, half)) == 1000 for half in halves), f"{name}: {times} halves of other names, got {halves}")
        expect(not os.path.exists(os.path.join(work, name)) and not os.path.exists(os.path.join(work, "half.h")), f"{name}: not there while it is no whole file")
    expect(emitting(options).wait() == 0 and sorted(begun(name)) == sorted(halves), f"{name}: made beside what was left")

# Killed at any time, a generator leaves the registry and the header whole or as they were.
both, started = ("half.cpp", "half.h"), time.monotonic()
emitting(files["half.cpp"]).wait()
takes, texts = time.monotonic() - started, [content(os.path.join(work, name)) for name in both]
for there in (False, True):
    for at in range(20):
        for name in both:
            if not there and os.path.exists(os.path.join(work, name)):
                os.remove(os.path.join(work, name))
        killed = emitting(files["half.cpp"])
        time.sleep(takes * at / 20)
        killed.kill()
        killed.wait()
        for name, expected in zip(both, texts):
            file = os.path.join(work, name)
            expect(content(file) == expected if os.path.exists(file) else not there, f"{name} is whole or as it was, killed after {at} twentieths")
    expect(emitting(files["half.cpp"]).wait() == 0 and [content(os.path.join(work, name)) for name in both] == texts, "and the next generator makes both")

# What it leaves in a cache is removed by whoever keeps an object an hour later: under such a name, and that alone.
part = left[0].removeprefix("killed.o")
kept_before, other = set(os.listdir(cache)), "0123456789abcdef" * 2 + ".kernels"
ages = {other + part: 4000, "f" + other[1:] + part: 3000, "e" + other[1:]: 4000, other + part + "0": 4000, other + ".backup": 4000, "d" + other[1:] + part[:-1] + "g": 4000, "kernels" + part: 4000}
for name, age in ages.items():
    file = os.path.join(cache, name)
    with open(file, "w", encoding="utf-8"):
        pass
    os.utime(file, (time.time() - age,) * 2)
folder = os.path.join(cache, "c" + other[1:] + part)
os.mkdir(folder)
os.utime(folder, (time.time() - 4000,) * 2)
os.utime(entry, (time.time() - 4000,) * 2)
expect(emit("again.o", "--code", code) == (first, True) and os.path.exists(os.path.join(cache, other + part)), "who takes an object looks for nothing")
expect(not emit("again.o", "--code", code, "--depths", "4")[1], "another object is compiled")
left = set(os.listdir(cache)) - kept_before
expect(len(left) == len(ages) + 1 and left - {os.path.basename(folder), *ages} and other + part not in left, f"of what killed writers left only what is old is removed, got {left}")
for name in left:
    os.rmdir(folder) if name == os.path.basename(folder) else os.remove(os.path.join(cache, name))

# A relative folder would be another one in each build folder.
for options in (["--object", os.path.join(work, "relative.o")], ["--key", os.path.join(work, "relative.key"), "--code", code]):
    refused = subprocess.run([generator, "emit", "--target", level, *options], capture_output=True, text=True, cwd=work, env={**os.environ, "ATTUNE_KERNEL_CACHE": "some/cache"})
    expect(refused.returncode == 1 and f'as an absolute path, got "some/cache"; try "{work}/some/cache"' in refused.stderr, f"a relative cache is refused, got {refused.stderr}")
    expect(not [name for name in os.listdir(work) if name.startswith(("relative", "some"))], "and nothing is written")

not_a_folder = os.path.join(work, "not_a_folder")
with open(not_a_folder, "w", encoding="utf-8"):
    pass
said = end(start("fourth.o", "--code", code, kept_in=not_a_folder), "fourth.o")[1]
expect("not kept in the kernel cache: " in said, "a cache that cannot be written is no error, and said")
shutil.rmtree(work)

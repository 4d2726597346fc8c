"""attune.compile: a variant from its text, kept by its content; and mistakes, in the compiler's sentences."""
import contextlib
import io
import os
import pathlib
import time
import xml.etree.ElementTree

import attune
import numpy as np

TEXT = """#pragma once
#include <attune/dsl.hpp>
namespace my {
using namespace attune::dsl;
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto alibi = softmax(mask(q * t(k) * rsqrt(depth) + slopes(h) * (kv_idx - q_idx), causal)) * v;
inline constexpr auto bias = input<"bias", f32>(axis<"bucket">);
inline constexpr auto bucket = input<"bucket", i32>(query, key);
inline constexpr auto bucketed = softmax(q * t(k) * rsqrt(depth) + bias(bucket(q_idx, kv_idx))) * v;
}  // namespace my
"""
began = time.monotonic()
kernels = attune.compile(TEXT, ["my::alibi"], depths=[64], shapes=["prefill"])
first = time.monotonic() - began
q, k, v = np.random.default_rng(1).standard_normal((3, 2, 4, 100, 64), dtype=np.float32)
slopes = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
assert np.abs(kernels.alibi(q, k, v, slopes) - attune.common.alibi_attention(q, k, v, slopes)).max() < 1e-5

began = time.monotonic()
again = attune.compile(TEXT, ["my::alibi"], depths=[64], shapes=["prefill"])
second = time.monotonic() - began
assert again.path == kernels.path and second < 1 < first, (first, second)
print(f"compiled in {first:.1f} s, found again in {second * 1e3:.0f} ms")

# What is damaged in the cache is made anew, and said.
library = pathlib.Path(kernels.path)
short = library.with_name("short")  # another file, since this process has loaded that one
short.write_bytes(library.read_bytes()[:library.stat().st_size // 2])
os.replace(short, library)
said = io.StringIO()
with contextlib.redirect_stderr(said):
    anew = attune.compile(TEXT, ["my::alibi"], depths=[64], shapes=["prefill"])
assert f"{library.parent} is damaged: compiling my::alibi anew" in said.getvalue(), said.getvalue()
assert np.abs(anew.alibi(q, k, v, slopes) - attune.common.alibi_attention(q, k, v, slopes)).max() < 1e-5

picture = kernels.draw(kernels.alibi, queries=128, inputs=["slopes=0.5"], scalars=[], head=1)
assert xml.etree.ElementTree.fromstring(picture._repr_svg_()).tag.endswith("svg")

# Indices of each pair are looked at where that is asked for.
of_pairs = attune.compile(TEXT, ["my::bucketed"], depths=[64], shapes=["prefill"]).bucketed
bias, bucket = np.zeros(6, np.float32), np.zeros((100, 100), np.int32)
of_pairs(q, k, v, bias, bucket, options=attune.Options(checked=True))
bucket[7, 9] = 6
of_pairs(q, k, v, bias, bucket)
for variable, options in (("0", attune.Options(checked=True)), ("1", attune.Options())):
    os.environ["ATTUNE_CHECKED"] = variable
    try:
        of_pairs(q, k, v, bias, bucket, options=options)
        raise AssertionError("expected an index of a pair to be refused")
    except attune.Error as problem:
        assert "expected bucket from 0 to 5, an index along bucket of bias, got 6 at (query 7, key 9)" in str(problem), problem
del os.environ["ATTUNE_CHECKED"]

left = set(os.listdir(os.environ["ATTUNE_PYTHON_CACHE"]))
for text, graphs, words in (
        (TEXT.replace("slopes(h)", "slopes(h, b)"), ["my::alibi"], ["another number of indices"]),
        (TEXT, ["my::alibi; message(1)"], ["graphs"]),
        ("no_such_header.hpp", ["my::alibi"], ["no_such_header.hpp"])):
    try:
        attune.compile(text, graphs, depths=[64], progress=False)
        raise AssertionError(f"expected {graphs} to be refused")
    except attune.Error as problem:
        assert all(word in str(problem) for word in words), problem
        print("refused:", str(problem)[:300])
assert set(os.listdir(os.environ["ATTUNE_PYTHON_CACHE"])) == left, "what failed leaves nothing"
os.environ["ATTUNE_PYTHON_CACHE"] = "some/cache"
try:
    attune.compile(TEXT, ["my::alibi"])
    raise AssertionError("expected a relative ATTUNE_PYTHON_CACHE to be refused")
except attune.Error as problem:
    assert 'ATTUNE_PYTHON_CACHE as an absolute path, got "some/cache"; try "/' in str(problem), problem

"""Variants as functions of TVM-FFI: tvm_ffi_functions.py LIBRARY COMMON, the ready-made kernels as attune_add_tvm_ffi_library and as attune_add_variant make them."""
import sys

import numpy as np
import tvm_ffi

import attune

functions, common = tvm_ffi.load_module(sys.argv[1]), attune.load(sys.argv[2])
print("TVM-FFI", tvm_ffi.__version__)


def shared(*arrays):
    return [tvm_ffi.from_dlpack(array) for array in arrays]


def same(got, expected, what):
    assert np.array_equal(got, expected), what
    print(what, "has the bits of the same call from NumPy")


random = np.random.default_rng(1)
q = random.standard_normal((2, 4, 100, 64), dtype=np.float32)
k, v = random.standard_normal((2, 2, 2, 100, 64), dtype=np.float32)
slopes = 2.0 ** -np.arange(1, 5, dtype=np.float32)
lengths = np.array([30, 100], np.int32)
out = np.full_like(q, 7)

# Each variant by its name; what may be left out is None; numbers; packed queries; strided views as they are.
functions.causal_attention(*shared(q, k, v), None, None, *shared(out))
same(out, common.causal_attention(q, k, v), "causal")
functions.alibi_attention(*shared(q, k, v, slopes), None, None, *shared(out))
same(out, common.alibi_attention(q, k, v, slopes), "ALiBi")
functions.plain_attention(*shared(q, k, v, lengths), None, *shared(out))
same(out, common.plain_attention(q, k, v, kv_lengths=lengths), "key lengths")
functions.window_attention(*shared(q, k, v), 3, 7, None, None, *shared(out))
same(out, common.window_attention(q, k, v, left=3, right=7), "a window")
starts, packed = np.array([0, 5, 12], np.int32), np.ascontiguousarray(q[:1, :, :12])
into = np.empty_like(packed)
functions.decode_attention(*shared(packed, k, v), None, *shared(starts, into))
same(into, common.decode_attention(packed, k, v, cu_seqlens_q=starts), "packed queries")
turned = np.empty((2, 100, 4, 64), np.float32)
functions.plain_attention(*shared(np.ascontiguousarray(q.swapaxes(1, 2)).swapaxes(1, 2), k, v), None, None, *shared(turned.swapaxes(1, 2)))
same(turned.swapaxes(1, 2), common.plain_attention(q, k, v), "a strided view")
try:
    import torch
    made = torch.empty(q.shape)
    functions.causal_attention(*map(torch.from_numpy, (q, k, v)), None, None, made)
    same(made.numpy(), common.causal_attention(q, k, v), "PyTorch's tensors")
except ImportError:
    print("without PyTorch")

# What each says of itself.
text = functions.get_function_doc("window_attention")
assert text.startswith("window_attention(q, k, v, left, right, kv_lengths or None, cu_seqlens_q or None, out)\n"), text
assert "\nleft: i32\n" in text and "\nq: f32, bf16 or f16, as compiled, 4 axes\n" in text and text.endswith("\nout: an output, written"), text
assert "int" in str(functions.get_function_metadata("window_attention"))
assert attune.load(sys.argv[1]).causal_attention(q, k, v).shape == q.shape  # by attune/c.h, too


def refused(kind, words, call, *given):
    try:
        call(*given)
    except kind as problem:
        assert type(problem) is kind and all(word in str(problem) for word in words), problem
        return print("refused:", str(problem).splitlines()[0])
    raise AssertionError(f"expected a refusal with {words}, got none")


# TVM-FFI's refusals by number and type, attune's by name; nothing is written.
out[:] = 7
refused(TypeError, ["Expected 6 but got 5"], functions.plain_attention, *shared(q, k, v), None, None)
refused(TypeError, ["argument #1", "int"], functions.plain_attention, tvm_ffi.from_dlpack(q), 3, tvm_ffi.from_dlpack(v), None, None, tvm_ffi.from_dlpack(out))
refused(TypeError, ["argument #3", "float"], functions.window_attention, *shared(q, k, v), 3.5, 7, None, None, *shared(out))
refused(ValueError, ["attune: expected ", "slopes: f32 (3)"], functions.alibi_attention, *shared(q, k, v, slopes[:3]), None, None, *shared(out))
refused(ValueError, ["attune: expected ", "q", "f64"], functions.plain_attention, *shared(q.astype(np.float64), k, v), None, None, *shared(out))
refused(ValueError, ["attune: expected ", "q"], functions.plain_attention, *shared(q[None], k, v), None, None, *shared(out))
refused(ValueError, ["attune: expected ", "kv_lengths", "101"], functions.plain_attention, *shared(q, k, v, lengths + 71), None, *shared(out))
refused(ValueError, ["attune: expected ", "out"], functions.plain_attention, *shared(q, k, v), None, None, *shared(q))
assert (out == 7).all()
print("all as expected")

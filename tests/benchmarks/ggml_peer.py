#!/usr/bin/env python3
"""ggml's attention, ggml_flash_attn_ext as llama.cpp calls it, for compare.py.

    build/venv/bin/python3 tests/benchmarks/ggml_peer.py      # builds ggml for this CPU into build/llama_cpp: two minutes on two cores

compare.py takes it from there, and says that it is left out where it was not built. The source is that of a pinned llama-cpp-python (ggml.txt), which brings llama.cpp with it
(tests/ggml/llama_cpp.py)."""
import argparse, ctypes, math, pathlib, sys, weakref

from peers import CAP, unsupported, visible
from turns import ROOT

sys.path.append(str(ROOT / "tests/ggml"))
import llama_cpp

LIBRARY = llama_cpp.LIBRARIES / "libggml-cpu.so"
TYPES = {"float32": 0, "float16": 1, "bfloat16": 30}  # ggml_type
FARTHEST = 2048  # up to there f16 holds all distances
STEEPEST = 8.0  # the exponent of its slopes: head h of n has 2^(-8 (h + 1) / n), as ALiBi's paper has


class memory(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def version():
    """None where it was not built."""
    if not LIBRARY.exists():
        return None
    ggml = library()
    ggml.ggml_version.restype = ctypes.c_char_p
    return ggml.ggml_version().decode()


def library():
    """ggml's functions, with the types of what they return."""
    ctypes.CDLL(str(LIBRARY.with_name("libggml-base.so")), mode=ctypes.RTLD_GLOBAL)
    ggml = ctypes.CDLL(str(LIBRARY))
    for name in ("init", "new_tensor_4d", "get_data", "flash_attn_ext", "new_graph", "backend_cpu_init"):
        getattr(ggml, f"ggml_{name}").restype = ctypes.c_void_p
    ggml.ggml_init.argtypes = [memory]
    ggml.ggml_new_tensor_4d.argtypes = [ctypes.c_void_p, ctypes.c_int, *[ctypes.c_int64] * 4]
    ggml.ggml_flash_attn_ext.argtypes = [*[ctypes.c_void_p] * 5, *[ctypes.c_float] * 3]
    ggml.ggml_backend_cpu_set_n_threads.argtypes = [ctypes.c_void_p, ctypes.c_int]
    for name in ("get_data", "new_graph", "free", "backend_free"):
        getattr(ggml, f"ggml_{name}").argtypes = [ctypes.c_void_p]
    for name in ("build_forward_expand", "backend_graph_compute"):
        getattr(ggml, f"ggml_{name}").argtypes = [ctypes.c_void_p] * 2
    return ggml


def mask_of(torch, case):
    """(1 or batch, 1, queries, keys) in f16, exactly: of ALiBi the distance that a head's slope multiplies. None where all is visible."""
    seen = visible(torch, case)
    if seen is None:
        return None
    i, j = torch.arange(case["queries"])[:, None], torch.arange(case["keys"])[None, :]
    of_pairs = (j - i if case["variant"] == "alibi" else 0 * (j - i)).float()
    mask = torch.where(seen, of_pairs, -math.inf).half()
    return mask if mask.dim() == 4 else mask[None, None]


def ggml(torch, case, q, k, v, threads):
    """Queries and outputs in f32, keys and values in the case's type. What multiplies tiles of queries takes f32 and f16 alone: so bf16 has a second spelling, of as many bytes."""
    import numpy
    if not LIBRARY.exists():
        raise unsupported(f"not built; try build/venv/bin/python3 tests/benchmarks/{pathlib.Path(__file__).name}")
    variant, heads = case["variant"], q.shape[1]
    if variant in ("differential", "moba", "nsa", "bias"):
        raise unsupported("its masks are f16" if variant == "bias" else "no operator for it")
    slopes = torch.tensor([2 ** (-STEEPEST * (h + 1) / heads) for h in range(heads)])
    if variant == "alibi" and not (torch.equal(slopes, case["slopes"]) and case["keys"] <= FARTHEST):
        raise unsupported(f"other slopes, or keys farther than {FARTHEST}")
    functions = library()

    def made(of):
        tensors, mask = [q.float().contiguous(), k.to(of).contiguous(), v.to(of).contiguous()], mask_of(torch, case)
        tensors += [] if mask is None else [mask.contiguous()]
        size = sum(x.numel() * x.element_size() for x in tensors) + 4 * q.numel() + (1 << 20)
        context = functions.ggml_init(memory(size, None, False))

        def kept(x):
            tensor = functions.ggml_new_tensor_4d(context, TYPES[str(x.dtype).removeprefix("torch.")], *reversed(x.shape))
            ctypes.memmove(functions.ggml_get_data(tensor), x.data_ptr(), x.numel() * x.element_size())
            return tensor
        inputs = [kept(x) for x in tensors]
        attended = functions.ggml_flash_attn_ext(context, *inputs, *[None] * (4 - len(inputs)), q.shape[3] ** -0.5, STEEPEST if variant == "alibi" else 0.0, CAP if variant == "softcap" else 0.0)
        graph, backend = functions.ggml_new_graph(context), functions.ggml_backend_cpu_init()
        functions.ggml_build_forward_expand(graph, attended)
        functions.ggml_backend_cpu_set_n_threads(backend, threads)
        shape = (q.shape[0], q.shape[2], heads, v.shape[3])
        # in memory of the context: (batch, query, head, depth)
        out = numpy.ctypeslib.as_array(ctypes.cast(functions.ggml_get_data(attended), ctypes.POINTER(ctypes.c_float)), shape)

        def call():
            if functions.ggml_backend_graph_compute(backend, graph):
                raise RuntimeError("ggml_backend_graph_compute failed")
            return torch.from_numpy(out).transpose(1, 2)
        weakref.finalize(call, lambda: (functions.ggml_backend_free(backend), functions.ggml_free(context)))
        return call
    yield "ggml", lambda: made(k.dtype)
    if k.dtype == torch.bfloat16:
        yield "ggml, keys and values in f16", lambda: made(torch.float16)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    llama_cpp.fetch_source()
    llama_cpp.build("ggml-cpu")

"""GGUF read and written with NumPy alone, for the references of language_model: beside the C++ reader, whose mistakes it must not share."""
import struct

import numpy as np

SCALARS = "BbHhIif?"
F32, F16, Q4_1, Q5_0, Q8_0, Q4_K, Q6_K, BF16 = 0, 1, 3, 6, 8, 12, 14, 30
BLOCK = {F32: (1, 4), F16: (1, 2), Q4_1: (32, 20), Q5_0: (32, 22), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210), BF16: (1, 2)}


def half(rows, at):
    return rows[:, at:at + 2].copy().view(np.float16).astype(np.float32)


def nibbles(codes):
    return np.concatenate([codes & 15, codes >> 4], axis=1)


def q4_1(rows):
    return nibbles(rows[:, 4:]) * half(rows, 0) + half(rows, 2)


def q5_0(rows):
    fifth = np.unpackbits(rows[:, 2:6], axis=1, bitorder="little")
    return ((nibbles(rows[:, 6:]) | fifth << 4).astype(np.float32) - 16) * half(rows, 0)


def q8_0(rows):
    return rows[:, 2:].view(np.int8) * half(rows, 0)


def q4_k(rows):
    packed = rows[:, 4:16].astype(np.int32)
    scales = np.concatenate([packed[:, :4] & 63, (packed[:, 8:] & 15) | packed[:, :4] >> 6 << 4], axis=1)
    least = np.concatenate([packed[:, 4:8] & 63, packed[:, 8:] >> 4 | packed[:, 4:8] >> 6 << 4], axis=1)
    codes = rows[:, 16:].reshape(-1, 4, 1, 32)
    codes = np.concatenate([codes & 15, codes >> 4], axis=2).reshape(-1, 8, 32)
    return ((half(rows, 0) * scales)[:, :, None] * codes - (half(rows, 2) * least)[:, :, None]).reshape(-1, 256)


def q6_k(rows):
    low = rows[:, :128].reshape(-1, 2, 2, 32)
    low = np.stack([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
    high = np.stack([rows[:, 128:192].reshape(-1, 2, 32) >> shift & 3 for shift in (0, 2, 4, 6)], axis=2)
    codes = (low | high << 4).astype(np.float32).reshape(-1, 16, 16) - 32
    return (codes * (half(rows, 208) * rows[:, 192:208].view(np.int8))[:, :, None]).reshape(-1, 256)


def as_f32(kind, data, shape):
    elements, size = BLOCK[kind]
    if kind in (F32, F16):
        return data.view(np.float32 if kind == F32 else np.float16).astype(np.float32).reshape(shape)
    if kind == BF16:
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    convert = {Q4_1: q4_1, Q5_0: q5_0, Q8_0: q8_0, Q4_K: q4_k, Q6_K: q6_k}[kind]
    return convert(data.reshape(-1, size)).astype(np.float32).reshape(shape)


def read(path):
    """Values by name, and tensors by name in f32, outermost axis first."""
    data = np.fromfile(path, np.uint8)
    raw, at = data.tobytes(), 0

    def take(form):
        nonlocal at
        got, = struct.unpack_from("<" + form, raw, at)
        at += struct.calcsize("<" + form)
        return got

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return raw[at - size:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            of, count = take("I"), take("Q")
            return [value(of) for _ in range(count)]
        return take(SCALARS[kind] if kind < 8 else {10: "Q", 11: "q", 12: "d"}[kind])

    assert take("4s") == b"GGUF" and take("I") in (2, 3)
    tensor_count, value_count = take("Q"), take("Q")
    values = {}
    for _ in range(value_count):
        name = text()
        values[name] = value(take("I"))
    places = []
    for _ in range(tensor_count):
        name = text()
        extents = [take("Q") for _ in range(take("I"))]
        places.append((name, extents[::-1], take("I"), take("Q")))
    begin = (at + 31) // 32 * 32
    tensors = {}
    for name, shape, kind, offset in places:
        elements, size = BLOCK[kind]
        length = int(np.prod(shape)) // elements * size
        tensors[name] = as_f32(kind, data[begin + offset:begin + offset + length], shape)
    return values, tensors


def bf16(x):
    """(kind, shape, bytes) for write: the nearest of bf16, of two the even one."""
    bits = np.ascontiguousarray(x, "<f4").view(np.uint32)
    return BF16, x.shape, ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


def write(path, values, tensors):
    """Values are text, int, float, bool, or lists of text, int or float; tensors are f32, or (kind, shape, bytes)."""
    def text(x):
        return struct.pack("<Q", len(x.encode())) + x.encode()

    def kind_of(x, integer):
        return next(kind for of, kind in ((bool, 7), (str, 8), (int, integer), (float, 6)) if isinstance(x, of))

    def scalar(x):
        return text(x) if isinstance(x, str) else struct.pack("<" + {bool: "?", int: "I", float: "f"}[type(x)], x)

    def value(x):
        if not isinstance(x, list):
            return struct.pack("<I", kind_of(x, integer=4)) + scalar(x)
        # llama.cpp takes a number as u32, and the kinds of tokens as i32 alone.
        return struct.pack("<IIQ", 9, kind_of(x[0], integer=5), len(x)) + b"".join(map(scalar, x))

    tensors = {name: x if isinstance(x, tuple) else (F32, x.shape, x.astype("<f4").tobytes()) for name, x in tensors.items()}
    head = b"".join(text(name) + value(x) for name, x in values.items())
    padding, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1]) + struct.pack("<IQ", kind, at)
        padding[name] = b"\0" * (-len(data) % 32)
        at += len(data) + len(padding[name])
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + head)
        file.write(b"\0" * (-file.tell() % 32))
        for name, (_, _, data) in tensors.items():
            file.writelines((data, padding[name]))

#!/usr/bin/env python3
"""check_inner_loops.py <source folder>: which loops inner_loops.py finds in a listing, and which of their instructions it counts. Of llvm-mca it needs nothing."""
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from inner_loops import alone, heaviest, is_product, loops, touches_stack

failures = []


def check(what, got, expected):
    if got != expected:
        failures.append(f"{what}\n    expected: {expected}\n    got:      {got}")


inner = ["vbroadcastss (%rsi), %zmm2", "vfmadd231ps %zmm0, %zmm2, %zmm3", "vfmadd231ps (%rax), %zmm2, %zmm4", "jne 0x10"]
power = ["vfmadd213ps %zmm0, %zmm1, %zmm2", "vfmadd213ps %zmm0, %zmm1, %zmm2", "vfmadd213ps %zmm0, %zmm1, %zmm2", "vpslld $0x17, %zmm2, %zmm2", "jne 0x50"]
text = ["movl $0x1, %eax", *inner, *power, "jg 0x0", "jmp 0xfff0", "retq"]
code = [(0x10 * number, line) for number, line in enumerate(text)]
check("a loop that holds another, and jumps elsewhere, are none", loops(code), [inner, power])
objdump = [line.replace(" 0x", " ") if line[0] == "j" else line for line in text]
check("jumps as GNU's objdump writes them", [loop[:-1] for loop in loops(list(zip((at for at, _ in code), objdump)))], [inner[:-1], power[:-1]])
check("what touches the stack", [touches_stack(x) for x in ("vmovaps %zmm6, 1088(%rsp)", "vmovaps 0x100(%rsp),%ymm9", "mov -0x8(%rbp),%rax", "ldr q1, [sp, #16]", "vmovaps (%rsi), %ymm1", inner[2])],
      [True, True, True, True, False, False])
check("exponentials are left out", heaviest(loops(code)), [inner])
check("widening bf16 is no exponential", heaviest([inner, ["vpslld $0x10, %zmm2, %zmm2", inner[1], inner[1], inner[1]]])[0][0], "vpslld $0x10, %zmm2, %zmm2")
check("what is multiplied and added", [is_product(x) for x in (*inner, "vdpbf16ps %zmm0, %zmm2, %zmm3", "fmla v3.4s, v1.4s, v2.s[0]", "fmla s3, s1, v2.s[0]", "vmulps %zmm0, %zmm1, %zmm2")],
      [False, True, True, False, True, True, False, False])
check("each on a register of its own", alone(inner[2])[:2] + alone(inner[2])[-1:], ["vfmadd231ps %zmm0, %zmm1, %zmm2", "vfmadd231ps %zmm0, %zmm1, %zmm3", "vfmadd231ps %zmm0, %zmm1, %zmm31"])
check("fewer registers of 32 bytes", alone("vfmadd231ps (%rax), %ymm2, %ymm4")[-1], "vfmadd231ps %ymm0, %ymm1, %ymm15")
check("an element of a vector", alone("fmla v31.4s, v8.4s, v11.s[3]")[0], "fmla v2.4s, v0.4s, v1.s[3]")
check("pairs of bf16", alone("bfdot v31.4s, v8.8h, v11.2h[1]")[0], "bfdot v2.4s, v0.8h, v1.2h[1]")
print("\n".join(failures) or "all is well")
sys.exit(1 if failures else 0)

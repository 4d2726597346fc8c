#!/usr/bin/env python3
"""check_tensor_loops.py <source folder>: which loop tensor_loops.py finds in a disassembly, and which of its instructions it counts. It needs no ptxas."""
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from tensor_loops import counted, entries_in, group_of, main_loop

failures = []


def check(what, got, expected):
    if got != expected:
        failures.append(f"{what}\n    expected: {expected}\n    got:      {got}")


def disassembled(lines):
    """As nvdisasm writes it: labels as they are, instructions behind their addresses."""
    return "\n".join(line if line.startswith((".", "/")) else f"        /*{16 * at:04x}*/                   {line} ;" for at, line in enumerate(lines))


visit = [
    ".L_x_1:",
    "LDSM.16.M88.4 R4, [R2]",
    "HMMA.16816.F32.BF16 R8, R4, R6, R8",
    "@P1 BRA `(.L_x_2)",  # the block needs no mask
    "FSEL R8, R8, -INF, P2",
    "ISETP.GE.AND P2, PT, R3, R5, PT",
    ".L_x_2:",
    "@!P3 BRA `(.L_x_3)",  # there is no next block
    "LDGSTS.E.BYPASS.128 [R2], [R12.64]",
    ".L_x_3:",
    "MUFU.EX2 R9, R8",
    "HMMA.16816.F32.BF16 R12, R4, R6, R12",
    "@!PT LDS RZ, [RZ]",  # ptxas' own padding
    "NOP",
    "@P0 BRA `(.L_x_1)",
]
kernel = ["//--------------------- .text.attention --------------------------", ".L_x_0:", "MOV R1, R2", *visit, "HMMA.16816.F32.BF16 R8, R4, R6, R8", "@P4 BRA `(.L_x_0)", "EXIT"]
other = ["//--------------------- .text.extremes --------------------------", ".L_x_9:", "FADD R1, R2, R3", "@P0 BRA `(.L_x_9)", "EXIT"]
entries = entries_in(disassembled(kernel + ["//--------------------- .nv.info --------------------------", "NOT AN INSTRUCTION"] + other))
check("entries by their names", list(entries), ["attention", "extremes"])
found, labels = entries["attention"]
check("the innermost loop with most products", [found[at][1] for at in main_loop(found, labels)], ["LDSM.16.M88.4", "BRA"])
counts = counted(found, labels)
check("what is jumped over is a mask, copies are no mask, padding is nothing", {what: counts[what] for what in ("mma", "others", "jumped_over", "others_an_mma", "at_most")},
      {"mma": 2, "others": 6, "jumped_over": 2, "others_an_mma": 3.0, "at_most": 4.0})
check("by kinds", counts["groups"], {"branch": 3, "mma": 2, "ldmatrix": 1, "copies": 1, "exp2": 1})
check("an entry without products has no main loop", counted(*entries["extremes"]), None)
check("kinds are told by the first name that fits",
      [group_of(each) for each in ("LDSM.16.M88.4", "LDS.128", "LDGSTS.E", "LDG.E", "LDL", "IMAD.MOV.U32", "IMAD", "FMNMX", "F2FP.BF16.PACK_AB", "MUFU.EX2", "FSEL", "FCHK")],
      ["ldmatrix", "shared", "copies", "global", "local", "move", "integer", "maximum", "convert", "exp2", "choose", "other"])
print("\n".join(failures) or "all is well")
sys.exit(1 if failures else 0)

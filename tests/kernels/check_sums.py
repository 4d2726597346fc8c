#!/usr/bin/env python3
"""check_sums.py <generator of attune::common> <generator of a gradient>: the loops that multiply keep their sums in registers.

A sum that LLVM keeps in memory is loaded and stored at each step, and the next step waits for it: a loop of twelve sums, one of them in memory, takes twice as
long. Results are right all the same, and llvm-mca does not see it: its loads do not wait for stores. A stride that is added to an address may lie there."""
import pathlib, re, shutil, subprocess, sys, tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "benchmarks"))
import inner_loops

COMMON, GRADIENT = sys.argv[1:3]
PLAIN, WINDOW, DECODE = (["--graph", f"attune::common::{name}_attention", "--shapes", shapes] for name, shapes in (("plain", "prefill"), ("window", "prefill"), ("decode", "decode")))
BACKWARD = ["--graph", "golden_gradients::full_gradient"]
# Level, types, program, what is compiled, its loops with most products, and how often vectors of these may touch the stack.
CASES = [("x86-64-v3", "f32", COMMON, PLAIN, 2, 0), ("x86-64-v3", "f32", COMMON, WINDOW, 2, 0), ("x86-64-v3", "bf16", COMMON, PLAIN, 2, 0),
         ("x86-64-v4", "f32", COMMON, PLAIN, 2, 0), ("x86-64-v4-bf16", "bf16", COMMON, PLAIN, 2, 0), ("x86-64-v3", "f32", COMMON, DECODE, 2, 0),
         ("x86-64-v4", "f32", COMMON, DECODE, 2, 0), ("x86-64-v3", "f32", GRADIENT, BACKWARD, 3, 0),
         ("x86-64-v4", "f32", GRADIENT, BACKWARD, 3, 2)]  # one of sixteen sums lies in memory still


def main():
    if not shutil.which("objdump"):
        print("skipped: no objdump here (binutils)")
        return 77
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "kernels.o"
        for level, dtype, program, what, count, allowed in CASES:
            case = f"{what[1]} {level} {dtype}"
            made = subprocess.run([program, "emit", "--target", level, "--dtypes", dtype, "--depths", "64", "--tuned-for", "generic", *what, "--object", file], capture_output=True, text=True)
            if made.returncode:
                failures.append(f"{case}: not compiled: {made.stderr}")
                continue
            loops = [loop for code in inner_loops.functions("objdump", file).values() for loop in inner_loops.loops(code)]
            found = inner_loops.heaviest(loops, count)
            if len(found) < count:
                failures.append(f"{case}: expected {count} loops of products, found {len(found)}")
            for loop in found:
                products = sum(map(inner_loops.is_product, loop))
                touched = [text for text in loop if inner_loops.touches_stack(text) and re.search("%[xyz]mm", text)]
                print(f"{case:<60} {products:3} products of {len(loop):4} instructions, {len(touched)} vectors touch the stack")
                if len(touched) > allowed:
                    failures.append(f"{case}: expected a loop of {products} products whose vectors touch the stack {allowed} times at most, got {len(touched)}: {touched[0]}")
    print("\n".join(failures))
    return 1 if failures else 0


sys.exit(main())

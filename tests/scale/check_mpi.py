#!/usr/bin/env python3
"""mpi_ranks and c_ranks over MPI: what arrives, and that all ranks say the same of what goes wrong. Each part is a job of its own."""
import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time

LONGER = "; try a longer timeout if it lives"
START = "; try MPI_Init_thread(..., MPI_THREAD_FUNNELED, ...) before and MPI_Finalize after"


def one_call(ranks):
    others = "0" if ranks == 2 else "0 and 1" if ranks == 3 else f"0 to {ranks - 2}"
    return f"attune: expected one count on all ranks, got 10 on {others} and 20 on {ranks - 1}; try one count"


def wrong(ranks):
    last = f"attune: on rank {ranks - 1}: expected "
    thrown = f"attune: on rank {ranks - 1}: expected memory, got none; try less"
    return [one_call(ranks), last + "k, got none; try run(..., k = K)", thrown,
            f"attune: expected a context in which every call succeeded, got one in which a call failed ({thrown}); try a new context, of the ranks that live",
            "attune: on rank 1: expected 12 bytes of rank 0, got 10; try the same calls on every rank"]


def expected(part, ranks):
    """The lines of each rank that lives, of which there are two at least where something is wrong."""
    dead = ranks - 1
    return {
        "messages": ["exchanged"], "many": ["exchanged"], "long": ["exchanged"], "decode": ["decoded"], "prefill": ["prefilled"], "heads": ["shared"], "gradients": ["added up"], "c": ["all is well"], "masks": ["computed"], "wrong": wrong(ranks),
        "killed_before": [f"attune: expected rank {dead} in run of my::alibi within 2 s, got nothing of it{LONGER}, and the same calls on every rank"],
        "killed_in_call": [f"attune: expected keys of rank {dead} within 2 s, got none{LONGER}"],
        "misplaced": ["attune: expected MPI to be initialized, got a process that did not" + START, "attune: expected MPI for threads, got MPI_THREAD_SINGLE, as of MPI_Init" + START,
                      "attune: expected MPI to be initialized, got a process after MPI_Finalize" + START],
        "after_the_end": ["attune: expected a communicator, got MPI_COMM_NULL; try MPI_COMM_WORLD",
                          *(f"attune: expected pieces of 1 to 2147483647 bytes, got {bytes}; try leaving them out, for 1 GiB" for bytes in (0, 1 << 31)),
                          "attune: on rank {rank}: expected MPI, got a process after MPI_Finalize; try MPI_Finalize after the last call of a context"],
    }[part]


def check(options, part, ranks):
    living = range(ranks - part.startswith("killed"))
    wanted = sorted(line.format(rank=rank) if "{rank}" in line else line for line in expected(part, ranks) for rank in living)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "said")
        program = [options.c_program, file, *options.shared] if part == "c" else [options.program, part, file]
        job = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "run"), str(ranks), *program]
        environment = {**os.environ, "MPIRUN": options.mpirun, "RANKS_SURVIVE": "1" if part.startswith("killed") else ""}
        began = time.monotonic()
        with subprocess.Popen(job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment) as started:
            try:
                noise = started.communicate(timeout=900 if part in ("masks", "long") else 120)[0]
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                return [f"{part} of {ranks} ranks hangs"]

        def said():
            if not os.path.exists(file):
                return []
            with open(file, encoding="utf-8") as lines:
                return sorted(lines.read().splitlines())

        # MPICH's mpiexec ends with the process that was killed, and the others go on.
        while part.startswith("killed") and len(said()) < len(wanted) and time.monotonic() < began + 20:
            time.sleep(0.1)
        got = said()
    print(f"{part} of {ranks}: {time.monotonic() - began:.1f} s")
    if got == wanted and (part.startswith("killed") or started.returncode == 0):
        return []
    return [f"{part} of {ranks} ranks ended with {started.returncode}; expected\n" + "\n".join(wanted) + "\ngot\n" + "\n".join(got) + "\nand in passing\n" + noise]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--c-program")
    parser.add_argument("--parts", nargs="+", help="these alone")
    parser.add_argument("--shared", nargs=1, default=[], help="a library of kernels that has a copy of attune")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--long", action="store_true", help="of 2 ranks a thousand calls and a message over 2 GiB, too")
    options = parser.parse_args()
    if not options.c_program and not options.parts:
        parser.error("expected --c-program, or the --parts that need none")
    failed = []
    for ranks in options.ranks:
        parts = ["messages", "decode", "prefill", "heads", "gradients", "c", "misplaced", "after_the_end"]
        if ranks > 1:
            parts += ["wrong", "killed_before", "killed_in_call"]
        if options.long and ranks == 2:
            parts += ["many", "long"]
        for part in options.parts or parts:
            failed += check(options, part, ranks)
    for sentence in failed:
        print("FAILED  " + sentence)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""`tune --target cuda` or `opencl` of a generator program, end to end, on CUDA's device in software or any OpenCL device (PoCL's CPU, where there is no other): a search of a candidate or
more, its file, its replay, what a build makes of it; and what is said where there is no device. Exit status 77 without a device, once that was seen."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

wrong = []


def check(condition, sentence):
    if not condition:
        wrong.append(sentence)


def run(command, expected=0, **environment):
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    check(result.returncode == expected, f"{' '.join(command)}: expected exit status {expected}, got {result.returncode}:\n{result.stdout}{result.stderr}")
    return result


def refused(command, sentence, **environment):
    said = run(command, expected=1, **environment).stderr
    check(sentence in said and said.count("\n") == 1, f"{' '.join(command)}: expected one sentence, `{sentence}`, got {said}")


def search(options, scratch):
    kernel = ["--variant", options.variant, "--depths", options.depths, "--buckets", options.bucket]
    program = [options.program, "tune", *kernel]
    folder, log, nowhere = (os.path.join(scratch, name) for name in ("schedules", "log.jsonl", "nowhere"))

    # No driver, no device, no such target: a sentence each, and nothing is written.
    os.mkdir(nowhere)
    open(os.path.join(nowhere, "libcuda.so.1"), "w").close()
    kept = ["--schedules", folder, "--log", log]
    without = {"OCL_ICD_VENDORS": nowhere + "/", "LD_LIBRARY_PATH": nowhere}
    on_device = {"LD_LIBRARY_PATH": options.software} if options.target == "cuda" else {}
    refused([*program, "--target", "cuda", *kept], "expected a device that runs cuda kernels, got none: lacks libcuda.so.1, NVIDIA's driver", **without)
    refused([*program, "--target", "opencl", *kept], "expected a device that runs opencl kernels, got none: lacks ", **without)
    refused([*program, "--target", "vulkan", *kept], "expected a GPU's target that schedules are searched for, cuda or opencl, got vulkan")
    refused([*program, "--target", "metal", *kept], "expected a target among")
    refused([*program, "--target", "opencl", "--shape", "1x2", *kept], "expected a shape")
    refused([*program, "--target", "opencl", "--shape", "1x1x0x16", *kept], "expected --shape with a query and a key at least")
    check(not os.path.exists(folder) and not os.path.exists(log), "expected what is refused to leave no file")
    # CUDA's device in software, told to compute nothing: the kernel is compiled, loaded and launched, and its results are seen to be wrong.
    refused([*program, "--target", "cuda", "--shape", options.shape, "--schedules", folder], "expected a default schedule whose results are right, got ", LD_LIBRARY_PATH=options.software, PTX_RUN="0")
    check(not os.path.exists(folder), "expected a search whose default is wrong to leave no file")
    target = ["--target", options.target]
    command = [*program, *target, "--budget", str(options.candidates), "--shape", options.shape, "--json", *kept]
    made = subprocess.run(command, capture_output=True, text=True, env=os.environ | on_device)
    if made.returncode == 1 and "expected a device that runs opencl kernels, got none" in made.stderr:
        return 77
    if made.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: expected exit status 0, got {made.returncode}:\n{made.stdout}{made.stderr}")
    results = json.loads(made.stdout)
    check(len(results) == 1 and results[0]["tried"] == options.candidates and results[0]["wrong"] == [], f"expected one search of {options.candidates} candidates, all right, got {made.stdout}")
    check(f"{options.candidates}/{options.candidates} tried" in made.stderr, f"expected a line of progress, got {made.stderr}")
    lines = [json.loads(line) for line in open(log)]
    check(all(t["tried"]["rounds"] for t in lines if "tried" in t), f"expected times of each candidate, got {lines}")

    [file] = os.listdir(folder)
    device = file[: -len(".json")]
    check(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*\.json", file), f"expected a file named by the device in small letters, got {file}")
    text = json.load(open(os.path.join(folder, file)))
    [entry] = text["entries"]
    check("cpu" not in text and re.sub("[^a-z0-9]+", "-", text["device"]["name"].lower()).strip("-") == device, f"expected {file} to name its device, got {text}")
    check(entry["level"] == options.target and entry["schedule"] == results[0]["schedule"], f"expected the schedule that was chosen in {file}, got {entry}")
    check(entry["measured"]["shape"][:2] == [int(n) for n in re.match(r"(\d+)x(\d+)", options.shape).groups()], f"expected the shape that was timed in {file}, got {entry}")

    # Without the device: decided again by the log, which needs nothing else; a search that has ended is not done again.
    again = json.loads(run([*program, *target, "--replay", log, "--json"], **without).stdout)
    check(again == results, f"expected a replay to give {results}, got {again}")
    resumed = run([*program, *target, "--budget", str(options.candidates), "--shape", options.shape, *kept, "--resume", "--json"], **on_device)
    check(json.loads(resumed.stdout) == results and "the log holds the whole search" in resumed.stderr, f"expected --resume to find the search whole, got {resumed.stdout}{resumed.stderr}")

    # What a build has of it: on a machine without the device, too.
    explain = [options.program, "explain", "--json", "--targets", options.target, "--depths", options.depths]
    froms = {}
    for tuned_for in (device, f"generic,{device}", "generic"):
        said = json.loads(run([*explain, "--schedules", folder, "--tuned-for", tuned_for], **without).stdout)
        kernels = [k for v in said if v["variant"].endswith(options.variant) for k in v["kernels"] if k["schedule"]["shapes"] == entry["schedule"]["shapes"]]
        froms[tuned_for] = kernels[0]["schedule_from"]
        check(tuned_for == "generic" or kernels[0]["schedule"] == entry["schedule"], f"expected --tuned-for {tuned_for} to use the entry, got {kernels}")
    check(froms[device].startswith(f"{file}: ") and froms[f"generic,{device}"] == froms[device] and froms["generic"].startswith("the default"), f"expected schedules of {file} where it is named, got {froms}")
    refused([*explain, "--schedules", folder, "--tuned-for", "nvidia-h300"], f"expected schedules of nvidia-h300 in {folder}, got those of: {device}")
    open(os.path.join(folder, "cut.json"), "w").write(open(os.path.join(folder, file)).read()[:200])
    refused([*explain, "--schedules", folder, "--tuned-for", "cut"], "cut short or damaged")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--variant", required=True)
    parser.add_argument("--depths", default="8")
    parser.add_argument("--shape", default="1x1x32x32")
    parser.add_argument("--bucket", default="prefill")
    parser.add_argument("--target", required=True)
    parser.add_argument("--software", required=True, help="the folder of the driver of CUDA's device in software")
    parser.add_argument("--candidates", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        status = search(options, scratch)
    for sentence in wrong:
        print("FAILED  " + sentence)
    return 1 if wrong else status


if __name__ == "__main__":
    sys.exit(main())

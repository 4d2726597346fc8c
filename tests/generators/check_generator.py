#!/usr/bin/env python3
"""check_generator.py <generator program> <compiler command>: what a generator program says about itself, and how it refuses what it cannot do."""
import json, os, re, struct, subprocess, sys, tempfile
import xml.etree.ElementTree as xml

PROGRAM, COMPILE = sys.argv[1:]
failures = []


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300)


def check(condition, what, got=""):
    if not condition:
        failures.append(f"{what}\n    got: {got}")


def helps():
    for arguments in (["--help"], ["emit", "--help"], ["explain", "--help"], ["plan", "--help"], ["loops", "--help"], ["describe", "--help"], ["draw", "--help"], ["bench", "--help"]):
        r = run(*arguments)
        check(r.returncode == 0 and "Usage" in r.stdout, f"{' '.join(arguments)} explains and ends well", r.stdout + r.stderr)


def explains():
    text = run("explain", "--depths", "64", "64x32", "--targets", "x86-64-v3")
    check(text.returncode == 0 and "formula" not in text.stderr and "kernels" in text.stdout, "explain prints text", text.stdout + text.stderr)
    variants = json.loads(run("explain", "--json", "--depths", "64", "64x32", "--targets", "x86-64-v3", "x86-64-v4").stdout)
    for v in variants:
        check({"q", "k", "v", "kv_lengths"} <= {i["name"] for i in v["inputs"]}, "explain --json lists the inputs", v)
        check(v["outputs"] and v["formula"], "explain --json lists outputs and the formula", v)
        check(len(v["kernels"]) == 4, "explain --json has a kernel a depth and level", v["kernels"])
        check([k["target"] for k in v["kernels"]] == ["x86-64-v4"] * 2 + ["x86-64-v3"] * 2, "the most demanding level comes first", v["kernels"])
        for k in v["kernels"]:
            check(re.fullmatch(r"attune_[a-z0-9_]+_f32_d64x(64|32)_x86_64_v[34]_[0-9a-f]{16}", k["symbol"]), "symbols follow their grammar", k["symbol"])
            check(0 < k["scratch_bytes_per_thread"] < 1 << 20 and "query_block" in k["schedule"], "scratch and schedule are stated", k)
            check(k["lanes"] > 0 and k["flops_of_call"] > 0 and k["bytes_read_of_call"] > 0, "the cost of a call is stated", k)
        check(v["symbol_grammar"] == "attune_<variant>_<dtype>_d<depth>x<value depth>_<target>_<fingerprint>", "the grammar of symbols is stated", v)
    of = {v["variant"].split("::")[-1]: v for v in variants}
    costs = json.loads(run("explain", "--json", "--variant", "plain", "--depths", "64x32", "--shape", "2x8:4x100x200", "--targets", "x86-64-v3").stdout)[0]
    check(costs["flops"] == "2 B H Lq Lk D + 2 B H Lq Lk Dv" and costs["kernels"][0]["flops_of_call"] == 2 * 2 * 8 * 100 * 200 * (64 + 32), "flops are those of the contractions", costs)
    check(costs["kernels"][0]["bytes_read_of_call"] == 4 * 2 * (8 * 100 * 64 + 4 * 200 * 64 + 4 * 200 * 32), "bytes read are those of the inputs", costs)
    check(costs["kernels"][0]["bytes_written_of_call"] == 4 * 2 * 8 * 100 * (32 + 1), "bytes written are those of the outputs", costs)
    check(costs["kernels"][0]["table_bytes"]["of_call"] == 0, "no mask, no tables", costs)
    tables = json.loads(run("explain", "--json", "--variant", "documents", "--shape", "1x8x192x256", "--schedule", '{"query_block": 96, "key_block": 128}').stdout)[0]["kernels"][0]["table_bytes"]
    check(tables["of_call"] == 16 * 8 + 2 * 8 and "ceil(Lq / 96)" in tables["formula"] and "ceil(Lk / 16)" in tables["formula"], "tables of conditions are counted", tables)
    cut = json.loads(run("explain", "--json", "--schedule", '{"key_block": 512}').stdout)[0]
    check(cut["kernels"][0]["schedule"]["key_block"] == 512, "another schedule is shown", cut)
    for name, condition, by in [("causal_last", "q_idx + (kv_lengths(b) - query_length) >= kv_idx", "intervals"), ("documents", "document(q_idx) == document(kv_idx)", "tables"),
                                ("dense_bias", "-infinity in bias", "nothing")]:
        check([(b["condition"], b["by"]) for b in of[name]["blocks"]] == [(condition, by)], f"explain says why blocks of {name} are skipped", of[name]["blocks"])
    check(not of["plain"]["blocks"], "a graph without mask has no reasons to skip", of["plain"]["blocks"])
    for name, about, says in [("causal_mask", "alignment", "top-left"), ("causal_last", "alignment", "bottom-right"), ("sliding", "window", "down to w before its own position, inclusive: w + 1 keys"),
                              ("plain", "empty rows", "-infinity"), ("plain", "log-sum-exp", "natural")]:
        check(any(c["about"] == about and says in c["says"] for c in of[name]["semantics"]), f"explain states the {about} of {name}", of[name]["semantics"])


def plans():
    wanted = ("plan", "--tuned-for", "generic", "--depths", "64", "--targets", "x86-64-v4", "--graph")
    text = run(*wanted, "alibi").stdout
    check(text.startswith("under_test::alibi f32 64x64 x86-64-v4 prefill\n") and "kept of a task: slopes(h)" in text, "plan prints a plan", text)
    cut = run(*wanted, "alibi", "--schedule", '{"key_block": 64}').stdout
    check(cut == text.replace("128 keys, 8 sub", "64 keys, 4 sub").replace(text.split("bytes")[-1], cut.split("bytes")[-1]), "a schedule's blocks show in the plan", cut)
    (made,) = json.loads(run(*wanted, "plain", "--json").stdout)
    check([output["place"] for output in made["outputs"]] == [0, 1] and made["grid"]["keys"] == 128, "plan --json has a kernel's parts", made)
    check("scratch_on_heap" in [each["name"] for each in made["passes"]] and made["bytes"]["of_thread"] > 0, "plan --json has passes and bytes", made)
    check(run(*wanted, "planes").returncode == 1, "plan refuses a graph that there is not", "")


def loops():
    wanted = ("loops", "--tuned-for", "generic", "--depths", "64", "--targets", "x86-64-v4", "--graph")
    text = run(*wanted, "alibi").stdout
    check(text.startswith("under_test::alibi f32 64x64 x86-64-v4 prefill\n") and "parallel" in text and "vectorized" in text, "loops prints loops", text)
    check("$" not in text, "loops prints names without the numbers of a process", text)
    (made,) = json.loads(run(*wanted, "alibi", "--json").stdout)
    check("".join(f"{' ' * (2 + 2 * each['depth'])}{each['text']}\n" for each in made["loops"]) in text, "loops --json has the same lines", made)
    other = run(*wanted, "alibi", "--schedule", '{"key_block": 64}').stdout
    check(other != text and other.startswith(text[:20]), "a schedule shows in the loops", other)
    check(run(*wanted, "planes").returncode == 1, "loops refuses a graph that there is not", "")


def registers():
    """Kernel tables carry to attune::explain what explain says here."""
    with tempfile.TemporaryDirectory() as scratch:
        file = os.path.join(scratch, "registry.cpp")
        r = run("emit", "--registry", file, "--header", "variants.hpp", "--targets", "x86-64-v3")
        check(r.returncode == 0, "emit --registry ends well", r.stderr)
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    said = 0
    for v in json.loads(run("explain", "--json", "--targets", "x86-64-v3").stdout):
        rows = [f'{{R"text({b["condition"]})text", R"text({b["says"]})text"}}' for b in v["blocks"]] + [f'R"text({c["about"]}: {c["says"]})text"' for c in v["semantics"]]
        said += len(rows)
        for row in rows:
            check(row in text, f"the table of {v['variant']} says what explain says", row)
    check(said > 50, "explain says something of every variant", said)


def times():
    shape = ["--variant", "sliding", "--shape", "1x2:1x70x130", "--depths", "16", "--targets", "x86-64-v2", "x86-64-v4-bf16", "--seconds", "0"]
    rows = json.loads(run("bench", *shape, "--set", "w=9", "--json").stdout)
    check(rows and rows[-1]["target"] == "x86-64-v2" and 0 < rows[-1]["fastest_s"] <= rows[-1]["median_s"] < 1 and rows[-1]["calls"] >= 5, "bench times kernels of levels that run here", rows)
    check(rows[-1]["flops_of_all_pairs"] == 2 * 2 * 2 * 70 * 130 * 16, "bench says what it counts", rows)
    text = run("bench", *shape, "--set", "w=9")
    check(text.returncode == 0 and "median ms" in text.stdout and "attune_under_test_sliding" in text.stdout, "bench prints a table", text.stdout + text.stderr)
    for arguments, sentence in [(shape, "expected a number for `w`, which under_test::sliding reads, got none; try --set w=..."), ([*shape, "--set", "w"], 'expected --set as name=number, got "w"'),
                                (["--targets", "aarch64"], "expected a kernel for this shape at an ISA level that this machine runs, got none")]:
        r = run("bench", *arguments)
        check(r.returncode == 1 and sentence in r.stderr, f"bench refuses with: {sentence}", r.stdout + r.stderr)


def describes():
    """The text, compiled, is the graph."""
    variants = json.loads(run("explain", "--json").stdout)
    with tempfile.TemporaryDirectory() as folder:
        for v in variants[::4]:
            header = run("describe", "--header", "--variant", v["variant"]).stdout
            check(run("describe", "--variant", v["variant"]).stdout.strip() in header, "describe prints declarations, or a header around them", header)
            file = os.path.join(folder, "described.cpp")
            with open(file, "w") as f:
                f.write(header.replace("#pragma once\n", "") + f"\nstatic_assert(attune::dsl::fingerprint<{v['variant']}> == 0x{v['fingerprint']}ull);\n")
            r = subprocess.run(f"{COMPILE} -fsyntax-only '{file}'", shell=True, capture_output=True, text=True)
            check(r.returncode == 0, f"the description of {v['variant']} has its fingerprint", header + r.stderr)


def refuses():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "kernels.o")
        for arguments, sentence in [
            (["emit"], "expected one of --object"),
            (["emit", "--object", file], "expected --target"),
            (["emit", "--object", file, "--target", "x86-64-v9"], 'expected a target among x86-64-v4-amx, x86-64-v4-bf16, x86-64-v4, x86-64-v3, x86-64-v2, aarch64, cuda-sm90a, cuda, opencl, vulkan, got "x86-64-v9"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--depths", "64y"], 'expected depths as "64" or "64x32"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--depths", "0"], 'expected depths as "64" or "64x32"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--dtypes", "f31"], "expected an element type among f32, bf16, f16"),
            (["emit", "--object", file, "--target", "x86-64-v3", "--dtypes", "q:bf16"], 'expected an element type for each of q, k and v, got "q:bf16"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--dtypes", "x:bf16"], 'expected element types as "f32" or "q:f32,k:bf16,v:bf16", got "x:bf16"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--shapes", "prefil"], 'expected a class of shapes, prefill or decode, got "prefil"'),
            (["emit", "--object", file, "--target", "x86-64-v3", "--schedule", '{"pairing": 2}'], "under_test::plain: a pairing of 2 needs q, k and v of bf16"),
            (["emit", "--registry", file, "--targets", "x86-64-v3"], "expected --targets and --header"),
            (["emit", "--object", file, "--target", "x86-64-v3", "--schedule", '{"key_block": 3}'], "key_block to be a multiple of key_tile"),
            (["emit", "--object", file, "--target", "x86-64-v3", "--schedule", '{"key_block": 100000}'], "under_test::plain, --schedule: expected a schedule's key_block to be 4096 at most, got 100000; try 4096"),
            (["bench", "--variant", "plain", "--targets", "x86-64-v2", "--depths", "4", "--schedule", '{"lanes": 64}'], "under_test::plain, --schedule: expected a schedule's lanes to be 16 at most, got 64"),
            (["tune", "--variant", "plain", "--targets", "x86-64-v2", "--depths", "4", "--buckets", "prefill", "--only", '{"key_splits": 1000000}'], "under_test::plain, --only: expected a schedule's key_splits to be 1 in prefill, got 1000000; try 1"),
            (["draw", "--variant", "plain", "--schedule", '{"key_block": 100000}'], "under_test::plain, --schedule: expected a schedule's key_block to be 4096 at most"),
            (["explain", "--shape", "1x8x1024"], "expected a shape as batch x heads x queries x keys"),
            (["explain", "--variant", "x"], "expected a variant among"),
            (["describe", "--variant", "x"], "expected a variant among"),
        ]:
            r = run(*arguments)
            check(r.returncode != 0 and sentence in r.stderr, f"{' '.join(arguments)} is refused with `{sentence}`", r.stderr)
            check(not os.path.exists(file), "nothing is written by a refused command")
        nowhere = os.path.join(folder, "no", "such", "folder")
        for arguments in (["--registry", nowhere, "--targets", "x86-64-v3", "--header", "x.hpp"], ["--object", nowhere, "--target", "x86-64-v3", "--depths", "4"]):
            r = run("emit", *arguments)
            check(r.returncode == 1 and "expected a file that can be written" in r.stderr, "a file that cannot be written is refused", r.stderr)


def warns():
    """An index of both positions that nothing keeps inside its axis; the others are checked at the call, or clamped by the formula."""
    with tempfile.TemporaryDirectory() as folder:
        r = run("emit", "--registry", os.path.join(folder, "registry.cpp"), "--targets", "x86-64-v3", "--header", "x.hpp")
        said = r.stderr.splitlines()
        check(r.returncode == 0 and len(said) == 1, "one graph is warned of", r.stderr)
        check(said and said[0].startswith("under_test::relative: table is read at q_idx - kv_idx + 8 along distance") and "extent<1>(table) - 1))" in said[0],
              "the warning names graph, tensor, index, axis and what to write", r.stderr)


def drawn(variant, *arguments):
    r = run("draw", "--variant", variant, "--json", *arguments)
    check(r.returncode == 0, f"draw --json {variant} {' '.join(arguments)}", r.stderr)
    return json.loads(r.stdout) if r.returncode == 0 else None


def keys_of(picture):
    """Visible keys by query, as sets."""
    return [{k for first, end in row for k in range(first, end)} for row in picture["visible"]]


def draws():
    """What a picture shows is what the formula says, and its blocks are the kernel's."""
    documents = [0] * 30 + [1] * 50 + [2] * 20
    for name, arguments, sees in [
        ("causal_mask", [], lambda q, k: q >= k),
        ("causal_last", ["--keys", "130"], lambda q, k: q + 30 >= k),
        ("sliding", ["--scalar", "w=7"], lambda q, k: 0 <= q - k <= 7),
        ("documents", ["--input", "document=0*30,1*50,2*20"], lambda q, k: documents[q] == documents[k]),
        ("longformer", ["--scalar", "w=7", "--input", "is_global=1,0*15"], lambda q, k: q >= k and (q - k <= 7 or k % 16 == 0)),
        ("masked_by_where", [], lambda q, k: (q ^ k) % 3 != 0 and q // 5 >= k // 7),
    ]:
        picture = drawn(name, "--queries", "100", *arguments)
        if picture is None:
            continue
        keys = picture["keys"]
        check(keys_of(picture) == [{k for k in range(keys) if sees(q, k)} for q in range(100)], f"draw shows the pairs of {name}", picture["visible"])
        rows, columns = picture["query_block"], picture["key_block"]
        for i, row in enumerate(picture["blocks"]):
            for j, state in enumerate(row):
                seen = [sees(q, k) for q in range(i * rows, min(100, i * rows + rows)) for k in range(j * columns, min(keys, j * columns + columns))]
                check(state != 0 or not any(seen), f"no visible pair of {name} is in a skipped block", (i, j))
                check(state != 2 or all(seen), f"no masked pair of {name} is in a block without mask", (i, j))

    bias = drawn("alibi", "--queries", "10", "--input", "slopes=0.5,0.25", "--heads", "2", "--head", "1")["scores"]
    check(all(abs(bias[q][k] + 0.25 * (q - k)) < 1e-6 for q in range(10) for k in range(q + 1)) and bias[0][1] is None, "draw shows the bias of a head", bias)
    lengths = drawn("plain", "--queries", "4", "--keys", "6", "--input", "kv_lengths=3,5", "--batch", "1")
    check(lengths["visible"] == [[[0, 5]]] * 4, "draw ends at the key lengths of the batch element", lengths)
    blocks = drawn("causal_mask", "--queries", "96", "--schedule", '{"query_block": 24, "key_block": 32}')["blocks"]
    check(blocks == [[1, 0, 0], [1, 1, 0], [2, 1, 1], [2, 2, 1]], "draw shows other blocks on demand", blocks)

    with tempfile.TemporaryDirectory() as folder:
        tensors = os.path.join(folder, "some.safetensors")
        ids = [3] * 5 + [4] * 7
        header = json.dumps({"document": {"dtype": "I32", "shape": [12], "data_offsets": [0, 48]}}).encode()
        with open(tensors, "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header + struct.pack("<12i", *ids))
        for given in (f"document={tensors}", f"document={tensors}:document", tensors):
            picture = drawn("documents", "--queries", "12", "--input", given)
            check(keys_of(picture) == [{k for k in range(12) if ids[k] == ids[q]} for q in range(12)], f"draw reads {given}", picture["visible"])
        for variant in [v["variant"] for v in json.loads(run("explain", "--json").stdout)][::2]:
            file = os.path.join(folder, "picture.svg")
            r = run("draw", "--variant", variant, "--output", file)
            check(r.returncode == 0 and not r.stdout, f"draw writes a picture of {variant}", r.stderr)
            with open(file) as f:
                text = f.read()
            check(xml.fromstring(text).tag.endswith("svg") and variant in text, f"the picture of {variant} is SVG with its name", text[:200])
            check(len(text) < 60000, f"the picture of {variant} is small", len(text))
        for arguments, sentence in [
            (["--variant", "x"], 'expected a variant among'),
            (["--input", "x=1"], 'expected the name of an input of this variant, got "x"; try one of'),
            (["--input", "document"], "expected an input as name=value"),
            (["--variant", "documents", "--input", "document=1,a"], 'expected numbers for the input document, got "a"'),
            (["--variant", "documents", "--input", "document=" + os.path.join(folder, "none.safetensors")], "none.safetensors: expected a .safetensors file, got nothing that can be read"),
            (["--variant", "documents", "--queries", "13", "--input", tensors], "expected the input document with 13 along its axis position, got 12"),
            (["--variant", "documents", "--input", f"document={tensors}:ids"], 'expected a tensor "ids" in'),
            (["--head", "8", "--heads", "8"], "expected a head below 8, got 8"),
            (["--queries", "100000"], "expected a picture of 1 to 2^24 pairs"),
            (["--schedule", '{"colour": 1}'], 'got "colour"; try without it'),
            (["--schedule", "32"], ", --schedule: expected a schedule as a JSON object"),
            (["--output", os.path.join(folder, "no", "file.svg")], "expected a file that can be written"),
        ]:
            r = run("draw", *arguments)
            check(r.returncode == 1 and sentence in r.stderr, f"draw {' '.join(arguments)} is refused with `{sentence}`", r.stderr)


helps()
explains()
plans()
loops()
registers()
times()
describes()
draws()
refuses()
warns()
for failure in failures:
    print("FAILED:", failure)
print("generator program:", "failed" if failures else "all checks passed")
sys.exit(bool(failures))

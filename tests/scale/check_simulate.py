#!/usr/bin/env python3
"""simulate, as it is called: plans by kernels, what it prints and draws, and what it refuses."""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PROGRAM = sys.argv[1]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


def simulated(*arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def chosen(all):
    return next(each for each in all["layouts"] if each["layout"] == all["chosen"])


def check_masks():
    """At 64 nodes and 1M tokens each mask has the layout that suits it, and sends little of what a ring does."""
    for mask, best, efficiency, of_ring in (("causal", "zigzag", 0.98, 0.8), ("window", "contiguous", 0.94, 0.01),
                                            ("documents", None, 0.9, 0.5)):
        all = simulated("--mask", mask, "--nodes", "64", "--tokens", "1048576")
        of = chosen(all)
        print(mask, of)
        shares = "share heads" in all["chosen"]
        assert len(all["layouts"]) == 7 + shares and (best is None or all["chosen"] == best), all
        assert efficiency < of["efficiency"] < 1 and 0 < of["of_ring"] < of_ring, of
        # Each layout has the same work, so that efficiency is what the time is.
        products = [each["efficiency"] * each["milliseconds"] for each in all["layouts"]]
        assert max(products) < 1.0001 * min(products), products
    again = [simulated("--mask", "documents", "--nodes", "4", "--tokens", "65536", "--seed", seed) for seed in "112"]
    for each in again:
        del each["blocks_milliseconds"], each["planning_milliseconds"]
    assert again[0] == again[1] != again[2]


def check_network():
    def seconds(*more):
        all = simulated("--mask", "documents", "--nodes", "64", "--tokens", "262144", "--layout", "best", "--head-parts", "1", *more)
        return all["layouts"][0]["milliseconds"]

    usual = seconds()
    for slower in (("--rate", "1e9"), ("--latency", "1e-2"), ("--jitter", "0.5"), ("--flops", "1e12"),
                   ("--merged", "1e10"), ("--rate", "4e9", "--oversubscription", "32")):
        assert seconds(*slower) > 1.05 * usual, slower
    assert seconds("--rate", "4e9", "--oversubscription", "32") > 1.05 * seconds("--rate", "4e9")


def check_decode():
    """Over 1M keys on 64 nodes; a tree has as many messages as a ring of states, but few one after the other."""
    def ways(*more):
        all = simulated("--queries", "1", "--nodes", "64", "--tokens", "1048576", *more)
        print(all)
        return all, {each["way"]: each for each in all["ways"]}

    all, usual = ways()
    tree = usual["tree of states"]
    assert usual["ring of keys"]["of_tree"] > 5 and usual["ring of states"]["of_tree"] > 1, usual
    assert tree["messages"] == 2 * 63 and tree["bytes"] == 2 * 63 * 32 * 129 * 4, tree
    assert abs(tree["milliseconds"] / all["predicted_milliseconds"] - 1) < 0.05, all
    for slower in (("--latency", "1e-4"), ("--read", "1e10"), ("--rate", "1e7"), ("--merged", "1e7")):
        assert ways(*slower)[1]["tree of states"]["milliseconds"] > 1.5 * tree["milliseconds"], slower
    done = run("--queries", "16", "--nodes", "7", "--tokens", "100000")
    assert done.returncode == 0 and "decode of 16 queries over 100000 keys on 7 nodes" in done.stdout and "tree of states" in done.stdout, done


def check_drawing():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sent.svg")
        done = run("--mask", "causal", "--nodes", "8", "--tokens", "32768", "--draw", path)
        assert done.returncode == 0 and " *" in done.stdout and "zigzag" in done.stdout, done
        root = xml.etree.ElementTree.parse(path).getroot()
        titles = root.findall(".//{http://www.w3.org/2000/svg}title")
        assert len(titles) == 8 * 7, len(titles)
        done = run("--nodes", "2", "--tokens", "4096", "--draw", os.path.join(folder, "none", "sent.svg"))
        assert done.returncode == 1 and "expected a file to write to, got " in done.stderr, done


def check_refusals():
    for arguments, said in (
            (("--nodes", "0"), "simulate: expected --nodes from 1 to 4096, got 0; try --nodes 64\n"),
            (("--nodes", "1.5"), "simulate: expected --nodes from 1 to 4096, got 1.5; try --nodes 64\n"),
            (("--rate", "fast"), "got fast; try --rate 12500000000\n"),
            (("--rate", "nan"), "got nan; try --rate 12500000000\n"),
            (("--mask", "full"), "simulate: expected --mask of causal, window, documents, got full; try --mask causal\n"),
            (("--head-parts", "3"), "simulate: expected --head-parts that divides 64 nodes and 8 key heads, got 3; try --head-parts 0\n"),
            (("--speed", "1"), "; try simulate --help\n")):
        done = run(*arguments)
        assert done.returncode == 1 and done.stderr.endswith(said) and "expected " in done.stderr and not done.stdout, done
    help = run("--help")
    assert help.returncode == 0 and "--oversubscription" in help.stdout, help


check_refusals()
check_drawing()
check_network()
check_decode()
check_masks()

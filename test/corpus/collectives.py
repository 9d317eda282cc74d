#!/usr/bin/env python3
"""Runs the corpus's modules with collectives as native code on as many devices as their groups and pairs name, beside the evaluator.

    collectives.py [N]   every module, or a sample of N

Replicas and partitions are what the header says, or more where an op's ids (replicas, partitions or both, as its mode says)
name more. Prints what fails with its cause, then the causes with their counts and how many agree. WEFT_CORPUS and
WEFT_BUILD_DIR as in check.py.
"""

import collections
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("WEFT_CORPUS", ROOT.parent / "shared/corpus/hlo"))
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"
SKIPPED = {"xla-rejects", "maybe-negative", "substituted"}
MOST_DEVICES = 32
SECONDS_EACH = 20
OP = re.compile(r"= .*? (all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast)(-start)?\(")
LISTS = re.compile(r"(?:replica_groups|source_target_pairs)=(\{\{.*?\}\})")
IOTA = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=")


def files():
    for line in (CORPUS / "manifest.tsv").read_text().splitlines()[1:]:
        path, _, _, flags = (line.split("\t") + [""])[:4]
        flags = set(flags.split(","))
        if "collective" in flags and not flags & SKIPPED:
            yield path


def named(line, shapes):
    """How many devices, replicas or partitions the line's groups or pairs name; of one group of all: what the sizes say."""
    lists, iota = LISTS.search(line), IOTA.search(line)
    if iota:
        return int(iota[1]) * int(iota[2])
    if lists:
        return max(map(int, re.findall(r"\d+", lists[1])), default=-1) + 1
    sides = re.search(r"= \(?([a-z]\w*\[[\d,]*\]).*? (?:all-gather|reduce-scatter)\(%?([\w.-]+)", line)
    if not sides or sides[2] not in shapes:
        return 0
    elements = [math.prod(map(int, filter(None, re.search(r"\[(.*)\]", s)[1].split(",")))) for s in (sides[1], shapes[sides[2]])]
    return max(elements) // max(1, min(elements))


def counts(text):
    """Replicas and partitions that the module needs."""
    header = text.split("\n", 1)[0]
    of = lambda key: int((re.search(rf"{key}=(\d+)", header) or [0, 1])[1])
    replicas, partitions, all_devices, shapes = of("replica_count"), of("num_partitions"), 1, {}
    for line in text.splitlines():
        made = re.match(r"\s*(?:ROOT )?%?([\w.-]+) = ([a-z]\w*\[[\d,]*\])", line)
        if made:
            shapes[made[1]] = made[2]
        op = OP.search(line)
        if not op:
            continue
        n, channel = named(line, shapes), re.search(r"channel_id=[1-9]", line)
        if "use_global_device_ids=true" in line:
            all_devices = max(all_devices, n)
        elif channel and op[1] in ("collective-permute", "all-to-all", "ragged-all-to-all", "collective-broadcast"):
            partitions = max(partitions, n)
        else:
            replicas = max(replicas, n)
    while replicas * partitions < all_devices:
        partitions = -(-all_devices // replicas)
    return replicas, partitions


def with_counts(text, replicas, partitions):
    header, rest = text.split("\n", 1)
    header = re.sub(r", (replica_count|num_partitions)=\d+", "", header)
    name = re.match(r"HloModule [^,\s]+", header)
    if not name:
        return text
    return f"{name[0]}, replica_count={replicas}, num_partitions={partitions}{header[name.end():]}\n{rest}"


def run_file(arguments):
    try:
        done = subprocess.run([str(WEFT), *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=SECONDS_EACH)
    except subprocess.TimeoutExpired:
        return 124, "timeout"
    return done.returncode, done.stdout + done.stderr


def run(text, *arguments):
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(text)
        file.flush()
        status, out = run_file([*arguments, file.name])
        return status, out.replace(file.name, "FILE")


def cause_of(text):
    line = next((line for line in text.splitlines() if "error" in line or "differ" in line), text[:200])
    return line.split("error: ")[-1].strip()


def check(path):
    """"agree", or why not: (kind, cause)"""
    status, text = run((CORPUS / path).read_text(errors="replace"), "print")
    if status != 0:
        return "outside", "does not parse: " + cause_of(text)
    replicas, partitions = counts(text)
    if replicas * partitions > MOST_DEVICES:
        return "outside", f"names {replicas * partitions} devices"
    text = with_counts(text, replicas, partitions)
    status, out = run(text, "run", "--check", "--tolerance=1e-3")
    if status == 0:
        return "agree", ""
    evaluated, why = run(text, "eval", "--max-elements=0")
    if evaluated != 0:
        return "outside", "evaluator: " + cause_of(why)
    return "failed", cause_of(out)


def main():
    if not CORPUS.exists():
        print(f"skipped: there is no corpus at {CORPUS}")
        return 0
    paths = list(files())
    if len(sys.argv) > 1:
        paths = sorted(random.Random(0).sample(paths, min(int(sys.argv[1]), len(paths))))
    totals, causes = collections.Counter(), collections.Counter()
    for path in paths:
        kind, cause = check(path)
        totals[kind] += 1
        if kind == "agree":
            continue
        print(f"{path}: {kind}: {cause}", flush=True)
        causes[f"{kind}: " + re.sub(r"[%\w.-]*\d[\w.-]*", "N", cause)[:110]] += 1
    for cause, count in causes.most_common(25):
        print(f"{count:5} {cause}")
    print(f"{len(paths)} modules, {totals['agree']} agree, {totals['failed']} do not, {totals['outside']} for reasons outside")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Partitions the corpus's modules with shardings and compares joined results with the whole programs'.

    partition.py [--jobs=N] [FOLDER...]   folders of the corpus, by default those of the tests of partitioning and propagation; N at a time

Prints failures with their cause, then how many are programs of no one number of devices, how many partition, of these how many evaluate whole on random inputs, and
how many of those agree (of these `in f32`: whose bf16 differs by rounding alone). WEFT_CORPUS and WEFT_BUILD_DIR as in check.py.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("WEFT_CORPUS", ROOT.parent / "shared/corpus/hlo"))
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"
FOLDERS = ["xla/service/spmd/", "xla/service/sharding_propagation_test/"]
SKIPPED = {"xla-rejects", "maybe-negative", "substituted"}
PASSES = "--passes=propagate-shardings,partition"
SECONDS_EACH = 120
# Shardings of tests of propagation alone: of some devices of a program, or of several numbers of them.
OUTSIDE = re.compile(r"sharding: (of \d+ devices in a program|device \d+ of \d+ is not there)|a manual region of")


def run(*arguments):
    try:
        done = subprocess.run([str(WEFT), *arguments], cwd=CORPUS, capture_output=True, text=True, errors="replace", timeout=SECONDS_EACH)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return 124, "timeout"


def agrees_in_f32(path):
    """Sums of bf16 depend on how they are cut, where terms cancel or are many; the same program in f32 says whether anything else differs."""
    text = (CORPUS / path).read_text(errors="replace")
    if "bf16" not in text:
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as wide:
        wide.write(text.replace("bf16", "f32"))
        wide.flush()
        return run("opt", PASSES, "--same-results", "--tolerance=1e-4", wide.name)[0] == 0


def files(folders):
    lines = (CORPUS / "manifest.tsv").read_text().splitlines()
    for line in lines[1:]:
        path, _, _, flags = (line.split("\t") + [""])[:4]
        wanted = any(path.startswith(folder) for folder in folders)
        if wanted and not SKIPPED & set(flags.split(",")) and "sharding=" in (CORPUS / path).read_text(errors="replace"):
            yield path


def check(path):
    """What counts for a module, the cause why it does not partition, and what to print of it."""
    status, text = run("opt", PASSES, path)
    if status != 0:
        cause = next((line for line in text.splitlines() if "error" in line), text[:200])
        if OUTSIDE.search(cause):
            return ["outside"], "", f"not a program of one number of devices: {cause}"
        return [], re.sub(r"\d+", "N", cause.split("error: ")[-1]), f"not partitioned: {cause}"
    if run("eval", "--devices=1", path)[0] != 0:
        return ["partitioned"], "", ""
    status, text = run("opt", PASSES, "--same-results", "--tolerance=3e-2", path)
    if status == 0:
        return ["partitioned", "evaluated", "agreeing"], "", ""
    if status != 124 and agrees_in_f32(path):
        return ["partitioned", "evaluated", "agreeing", "in f32"], "", f"rounding of bf16 alone: {text.strip().splitlines()[-1][:200]}"
    return ["partitioned", "evaluated"], "", next((line for line in text.splitlines() if "error" in line), text[:300])


def main():
    if not CORPUS.exists():
        print(f"skipped: there is no corpus at {CORPUS}")
        return 0
    jobs = next((int(a.removeprefix("--jobs=")) for a in sys.argv[1:] if a.startswith("--jobs=")), 1)
    paths = list(files([a for a in sys.argv[1:] if not a.startswith("--")] or FOLDERS))
    counts, causes = collections.Counter(modules=len(paths)), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for path, (kinds, cause, line) in zip(paths, pool.map(check, paths)):
            counts.update(kinds)
            causes.update([cause] if cause else [])
            if line:
                print(f"{path}: {line}", flush=True)
    for cause, count in causes.most_common(20):
        print(f"{count:5} {cause}")
    print(", ".join(f"{counts[key]} {key}" for key in ("modules", "outside", "partitioned", "evaluated", "agreeing", "in f32")))
    return 0


if __name__ == "__main__":
    sys.exit(main())

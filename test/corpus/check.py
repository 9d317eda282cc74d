#!/usr/bin/env python3
"""Runs weft over a corpus of HLO modules beside the repository (../shared/corpus/hlo), when it is there.

    check.py roundtrip   parse, print, parse, print: a fixed point for at least 99.5 %
    check.py verify      every rule holds for at least 98 %
    check.py reject      files that are wrong on purpose: an answer within 10 s each, no crash
    check.py eval        at least 95 % evaluate on random inputs (single device, no unknown custom
                         call, no host I/O, no tensor over 2 GiB, no endless loop). A sample of
                         WEFT_CORPUS_SAMPLE files (default 250; 0: all)
    check.py native      of those that evaluate in a few seconds, enough run as native code with the same results
    check.py both        eval and native over the same files: what native code was compared with has been evaluated

Prints each failure with its cause. WEFT_CORPUS names another folder with a manifest.tsv.
"""

import collections
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("WEFT_CORPUS", ROOT.parent / "shared/corpus/hlo"))
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"
THRESHOLDS = {"roundtrip": 99.5, "verify": 98.0, "eval": 95.0, "native": 96.0}
NEGATIVE = {"xla-rejects", "maybe-negative"}
SECONDS_EACH = 30


def manifest():
    """(path, set of flags) of each file."""
    lines = (CORPUS / "manifest.tsv").read_text().splitlines()
    columns = {name: i for i, name in enumerate(lines[0].split("\t"))}
    for line in lines[1:]:
        fields = line.split("\t")
        flags = fields[columns["flags"]] if columns["flags"] < len(fields) else ""
        yield fields[columns["path"]], set(filter(None, flags.split(",")))


def check_many(arguments, files):
    """One process over all files: {file: message} of the failures."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing:
        listing.write("".join(f"{f}\n" for f in files))
        listing.flush()
        done = subprocess.run(
            [str(WEFT), *arguments, "--files-from", listing.name], cwd=CORPUS, stdout=subprocess.PIPE, text=True, errors="replace"
        )
    if done.returncode not in (0, 1):
        sys.exit(f"weft {' '.join(arguments)} ended with status {done.returncode}")
    failures, last = {}, None
    for line in done.stdout.splitlines():
        match = re.match(r"(.+?\.hlo):\d+:\d+: error: (.*)", line)
        if match:
            last = match[1]
            failures.setdefault(last, line)
        elif last and line.startswith("  "):
            failures[last] += "\n" + line
    summary = re.fullmatch(r"(\d+) passed, (\d+) failed", done.stdout.splitlines()[-1])
    if summary is None or int(summary[1]) + int(summary[2]) != len(files) or int(summary[2]) != len(failures):
        sys.exit(f"the summary does not fit: {done.stdout.splitlines()[-1]}; {len(failures)} errors, {len(files)} files")
    return failures


def run_each(arguments, files, seconds):
    """One process per file: {file: (status, standard error)}; status None: too slow."""

    took = {}

    def one(file):
        begun = time.monotonic()
        try:
            done = subprocess.run([str(WEFT), *arguments, file], cwd=CORPUS, capture_output=True, text=True, errors="replace", timeout=seconds)
            return done.returncode, done.stderr
        except subprocess.TimeoutExpired:
            return None, f"no answer within {seconds} s"
        finally:
            took[file] = time.monotonic() - begun

    workers = len(os.sched_getaffinity(0))
    results = {}
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for file, result in zip(files, pool.map(one, files)):
            results[file] = result
            if sys.stderr.isatty():
                print(f"\r{len(results)} of {len(files)}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    longest = sorted(took, key=took.get, reverse=True)[:5]
    print(f"{arguments[0]}: {sum(took.values()):.0f} s for {len(files)} files; longest:", ", ".join(f"{f} {took[f]:.1f} s" for f in longest))
    return results


def report(mode, total, failures):
    for file in sorted(failures):
        print(failures[file])
    passed = total - len(failures)
    percent = 100.0 * passed / max(total, 1)
    print(f"{mode}: {passed} of {total} pass: {percent:.2f} % (at least {THRESHOLDS[mode]} % wanted)")
    return 0 if percent >= THRESHOLDS[mode] else 1


def check_positive(mode, arguments):
    files = [path for path, flags in manifest() if not flags & NEGATIVE]
    return report(mode, len(files), check_many(arguments, files))


def check_reject():
    files = [path for path, flags in manifest() if flags & NEGATIVE]
    bad = 0
    accepted = 0
    for file, (status, text) in run_each(["verify", "--roundtrip"], files, 10).items():
        accepted += status == 0
        if status not in (0, 1):
            bad += 1
            print(f"{file}: status {status}: {text.strip()[-500:]}")
    print(f"reject: {len(files)} files, {len(files) - accepted - bad} rejected, {accepted} accepted, {bad} crashed or hung")
    return 1 if bad else 0


def needs_one_device(path):
    text = (CORPUS / path).read_text(errors="replace")
    counts = re.findall(r"\b(?:replica_count|num_partitions)=(\d+)", text)
    return all(int(n) == 1 for n in counts)


# What makes a module not count: reasons that lie outside the evaluator.
EXCUSES = [
    ("custom call of an unknown target", r"custom-call: target \S+ is not known"),
    ("host input or output", r"\b(infeed|outfeed|host transfer|the host|is_host_transfer)\b"),
    ("a tensor over 2 GiB", r"exceeds the limit of \d+ bytes|no memory for \d+ bytes|too large"),
    ("random inputs make a loop run on", r"loop iterations"),
    ("no random value of the parameter's shape", r"parameter \S+: "),
]


def evaluated_files():
    files = [p for p, flags in manifest() if not flags & (NEGATIVE | {"substituted", "collective"}) and needs_one_device(p)]
    sample = int(os.environ.get("WEFT_CORPUS_SAMPLE", "250"))
    if 0 < sample < len(files):
        files = sorted(random.Random(0).sample(files, sample))
    return files


EVALUATE = ["eval", "--max-elements", "0", "--max-loop-steps", "100000"]


def counted_files():
    """Files of the sample that verify; how many do not."""
    files = evaluated_files()
    rejected = set(check_many(["verify"], files))
    return [f for f in files if f not in rejected], len(rejected)


def check_eval():
    counted, rejected = counted_files()
    return report_evaluated(len(counted), rejected, run_each(EVALUATE, counted, SECONDS_EACH))


def report_evaluated(total, rejected, results):
    failures, excused = {}, collections.Counter()
    excused["does not verify"] = rejected
    for file, (status, text) in results.items():
        if status == 0:
            continue
        reason = next((name for name, pattern in EXCUSES if re.search(pattern, text)), None) if status == 1 else None
        if reason:
            excused[reason] += 1
            total -= 1
        else:
            failures[file] = text.strip()[:600] if status in (None, 1) else f"{file}: status {status}: {text.strip()[-600:]}"
    for reason, count in excused.items():
        print(f"not counted: {count}: {reason}")
    return report("eval", total, failures)


def kind_of(text):
    """A failure without its numbers and names."""
    text = re.sub(r"^.*?error: ", "", text.strip().splitlines()[0] if text.strip() else "")
    if "differs from the evaluator" in text:
        return "another result"
    return re.sub(r"[\w.-]*\d[\w.-]*|\"[^\"]*\"|'[^']*'", "#", text)[:100]


def check_native(with_eval=False):
    counted, rejected = counted_files()
    results = run_each(["run", "--check", "--tolerance", "1e-3"], counted, 10)
    failed = [f for f, (status, _) in results.items() if status != 0]
    evaluated = run_each(EVALUATE, failed, SECONDS_EACH)
    # Where the comparison took too long, the evaluator did if native code alone is done in time.
    slow = [f for f in failed if results[f][0] is None and evaluated[f][0] == 0]
    alone = run_each(["run", "--max-elements", "0"], slow, 60)
    failures = {}
    for file in failed:
        if evaluated[file][0] != 0 or (file in alone and alone[file][0] == 0):
            continue
        status, text = results[file]
        failures[file] = f"{file}: status {status}: {text.strip()[-600:]}"
    kinds = collections.Counter(
        f"ended by signal {-results[f][0]}" if (results[f][0] or 0) < 0 else kind_of(results[f][1]) for f in failures)
    total = len(counted) - (len(failed) - len(failures))
    status = report("native", total, failures)
    for kind, count in kinds.most_common():
        print(f"{count:5}  {kind}")
    if with_eval:
        status = max(status, report_evaluated(len(counted), rejected, evaluated))
    return status


def main():
    mode = sys.argv[1] if len(sys.argv) == 2 else ""
    if mode not in ("roundtrip", "verify", "reject", "eval", "native", "both"):
        sys.exit(__doc__)
    if not (CORPUS / "manifest.tsv").exists():
        print("SKIPPED: there is no corpus beside the repository (WEFT_CORPUS names another folder)")
        return 77
    if mode == "roundtrip":
        return check_positive(mode, ["parse", "--roundtrip"])
    if mode == "verify":
        return check_positive(mode, ["verify"])
    if mode == "both":
        return check_native(with_eval=True)
    return {"reject": check_reject, "eval": check_eval, "native": check_native}[mode]()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the passes for collectives on every module of the corpus that has some; what a pass changes gives the same results on simulated devices.

    collective_passes.py [--passes=A;B,C;...] [--jobs=J] [--seconds=S] [--limit=L] [N]   every module, or a sample of N; J at a time

A pass for loops is tried on the modules with loops. Printed are a table of counts (tried, changed, equal before and after, not comparable because the
module itself does not run) and every module that differs, then those that took longest. A command gets S seconds (120), of which 10 of
the processor; no module is begun after L seconds, and how many are left is said. Of a changed module, the keys of frontend attributes, scheduling groups and control edges have
to be there still, and channels that were apart stay apart. WEFT_CORPUS and WEFT_BUILD_DIR as in check.py.
"""

import collections
import concurrent.futures
import functools
import pathlib
import random
import re
import sys
import tempfile
import time

import collectives

LOOP_PASSES = ["pipeline-collectives", "sink-all-reduces", "sink-collectives", "sink-collectives,simplify-while,sink-all-reduces,pipeline-collectives",
               "double-buffer-loops", "unroll-collective-loops"]  # fmt: skip
PASSES = ["make-collectives-async", "make-collectives-async,make-collectives-sync", "reassociate-all-reduces", "hoist-transposes", "split-batch", "quarter-batch",
          "window-dots", "combine-collectives"]  # fmt: skip


def weft(*arguments):
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(arguments[-1])
        file.flush()
        return collectives.run_file([*arguments[:-1], file.name])


def diff(before, after, devices):
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in ("before.hlo", "after.hlo")]
        for path, text in zip(paths, (before, after)):
            path.write_text(text)
        # Sums are taken in another order, and rounded to what the type holds.
        tolerance = "5e-2" if re.search(r"\b(bf16|f16|f8\w+)\[", before) else "1e-3"
        return collectives.run_file(["diff", f"--tolerance={tolerance}", f"--devices={devices}", *paths])


def facts(text):
    """What a pass has to leave: keys of frontend attributes, how many control edges; channels with how often each is named."""
    keys = {key for attributes in re.findall(r"frontend_attributes=\{(.*?)\}", text) for key in re.findall(r'([\w.-]+)="', attributes)}
    edges = sum(len(names.split(",")) for names in re.findall(r"control-predecessors=\{(.+?)\}", text))
    return keys, edges, collections.Counter(re.findall(r"channel_id=(\d+)", text))


def lost(before, after, passes):
    old, new = facts(before), facts(after)
    if old[0] - new[0]:
        return f"frontend attributes are gone: {', '.join(sorted(old[0] - new[0]))}"
    if new[1] < old[1]:
        return f"control edges: {old[1]} before, {new[1]} after"
    if passes == "pipeline-collectives" and max(old[2].values(), default=1) == 1 and max(new[2].values(), default=1) > 1:
        return "two collectives have one channel"
    return None


def check(text, devices, passes, runs):
    """unchanged, equal, "does not run", or why not."""
    status, after = weft("opt", f"--passes=separate-computations,{passes}", text)
    if status != 0:
        return collectives.cause_of(after)
    if after == text:
        return "unchanged"
    gone = lost(text, after, passes)
    if gone:
        return gone
    if not runs():
        return "does not run"
    status, out = diff(text, after, devices)
    if status == 124:
        return "does not run"  # in the time that it is given
    return "equal" if status == 0 else collectives.cause_of(out) or "differs"


def candidates():
    """Modules with collectives, and the tests of XLA's own passes for loops whether they hold some or not."""
    yield from (known := list(collectives.files()))
    for line in (collectives.CORPUS / "manifest.tsv").read_text().splitlines()[1:]:
        path, flags = line.split("\t")[0], set(line.split("\t")[-1].split(","))
        if "while" in flags and not flags & collectives.SKIPPED and path not in known and re.search(r"pipelin|code_motion|unroll", path):
            yield path


def module_of(path):
    """Its text and how many devices it wants; None: it cannot be read, or wants too many."""
    source = (collectives.CORPUS / path).read_text(errors="replace")
    status, text = weft("opt", "--passes=separate-computations", source)
    if status != 0:
        return None
    replicas, partitions = collectives.counts(text)
    if replicas * partitions > collectives.MOST_DEVICES:
        return None
    status, text = weft("print", collectives.with_counts(text, replicas, partitions))
    return (text, replicas * partitions) if status == 0 and weft("verify", text)[0] == 0 else None


def try_module(passes, until, path):
    """What each pass does to it, and how long all that took; None: there is no time left."""
    begin, known, results = time.monotonic(), [], {}
    if begin > until:
        return None, 0
    module = module_of(path)

    def runs():
        if not known:
            known.append(diff(module[0], *module)[0] == 0)
        return known[0]

    for p in passes if module else []:
        if p not in LOOP_PASSES or " while(" in module[0]:
            results[p] = check(*module, p, runs)
    return results, time.monotonic() - begin


def main():
    if not collectives.CORPUS.exists():
        print(f"skipped: there is no corpus at {collectives.CORPUS}")
        return 0
    chosen = [a.split("=", 1)[1].split(";") for a in sys.argv[1:] if a.startswith("--passes=")]
    size = [int(a) for a in sys.argv[1:] if a.isdigit()]
    passes = chosen[0] if chosen else LOOP_PASSES + PASSES
    number = lambda key, default: next((int(a.split("=", 1)[1]) for a in sys.argv[1:] if a.startswith(key)), default)  # noqa: E731
    collectives.SECONDS_EACH = number("--seconds=", 120)  # devices that wait for each other take none of the processor
    paths = [p for p in candidates() if " while(" in (collectives.CORPUS / p).read_text(errors="replace") or not set(passes) <= set(LOOP_PASSES)]
    if size:
        paths = sorted(random.Random(0).sample(paths, min(size[0], len(paths))))
    totals, wrong, taken = {p: collections.Counter() for p in passes}, 0, []
    until = time.monotonic() + number("--limit=", 1 << 30)
    with concurrent.futures.ProcessPoolExecutor(number("--jobs=", 1)) as pool:  # not threads: limits are set between fork and exec
        for path, (results, seconds) in zip(paths, pool.map(functools.partial(try_module, passes, until), paths)):
            if results is not None:
                taken.append((seconds, path))
            for p, result in (results or {}).items():
                totals[p]["tried"] += 1
                if result not in ("unchanged", "equal", "does not run"):
                    print(f"{path}: {p}: {result}", flush=True)
                    wrong += 1
                    result = "wrong"
                totals[p][result] += 1
    print(f"{len(taken)} of {len(paths)} modules were tried, {sum(seconds for seconds, _ in taken):.0f} s")
    for seconds, path in sorted(taken, reverse=True)[:5]:
        print(f"{seconds:6.1f} s {path}")
    for p, t in totals.items():
        changed = t["tried"] - t["unchanged"]
        print(f"{p}: {t['tried']} tried, {changed} changed, {t['equal']} equal before and after, {t['does not run']} do not run, {t['wrong']} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

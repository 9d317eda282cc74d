#!/usr/bin/env python3
"""What partitioned programs send: a table of collectives, their bytes and time on the wire, and what they are for.

    wire.py [--machine h200x8] [--target h200] MODULE...   StableHLO or HLO with shardings (jitted.lower(...).as_text())

Each module is partitioned and its collectives are combined as for the target; times are by the ring model of
`weft schedule` (docs/overlap.md). WEFT_BUILD_DIR names another build.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"
PASSES = (
    "inline-calls,propagate-shardings,partition,simplify,eliminate-common-subexpressions,"
    "eliminate-dead-code,combine-collectives,eliminate-dead-code"
)
LINE = re.compile(r"// (\S+) of (\S+): (\S+) over (\d+),.*? (\d+) runs, (\d+) bytes, wire (\S+) ms")


def weft(*arguments):
    done = subprocess.run([str(WEFT), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"weft {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def reasons(text):
    """What each collective is made for: the op of the program and its line, as its metadata says."""
    why = {}
    for line in text.splitlines():
        made = re.match(r"\s*(?:ROOT )?%?([\w.-]+) = ", line)
        if made:
            name, source = re.search(r'op_name="([^"]*)"', line), re.search(r'source_file="([^"]*)" source_line=(\d+)', line)
            where = f" at {pathlib.Path(source[1]).name}:{source[2]}" if source else ""
            why[made[1]] = (name[1].split("/")[-1] if name else "") + where
    return why


def table(module, machine, target):
    text = weft("opt", f"--passes={PASSES}", f"--target={target}", module)
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(text)
        file.flush()
        certificate = weft("schedule", "--as-is", "--emit=certificate", f"--target={machine}", file.name)
    why, rows, total = reasons(text), {}, 0.0
    for name, _, kind, devices, runs, size, ms in LINE.findall(certificate):
        key = (kind, int(devices), int(size) // max(1, int(runs)), why.get(name, ""))
        row = rows.setdefault(key, [0, 0.0])
        row[0] += int(runs)
        row[1] += float(ms)
        total += float(ms)
    print(f"{pathlib.Path(module).stem}: {total:.3f} ms on the wire of {machine}")
    print(f"  {'collective':<20} {'over':>4} {'runs':>5} {'MB a run':>9} {'ms':>8}  for")
    for (kind, devices, size, reason), (runs, ms) in sorted(rows.items(), key=lambda item: -item[1][1]):
        print(f"  {kind:<20} {devices:>4} {runs:>5} {size / 1e6:>9.3f} {ms:>8.3f}  {reason}")
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--machine", default="h200x8")
    parser.add_argument("--target", default="h200")
    args = parser.parse_args()
    for module in args.modules:
        table(module, args.machine, args.target)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Every op of ops.def has test/run/<mnemonic>.hlo, and every file there belongs to something."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Ops without a meaning that the evaluator could show.
EXCEPTIONS = {
    "infeed": "reads from a host that is not there",
    "outfeed": "writes to a host that is not there",
}


def main():
    text = (ROOT / "src/hlo/ops.def").read_text()
    ops = re.findall(r'^OP\(\w+, "([^"]+)"', text, re.MULTILINE)
    missing = [op for op in ops if op not in EXCEPTIONS and not (ROOT / f"test/run/{op}.hlo").exists()]
    for op in missing:
        print(f"test/run/{op}.hlo: missing")
    print(f"{len(ops)} ops, {len(missing)} without a test")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

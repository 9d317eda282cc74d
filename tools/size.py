#!/usr/bin/env python3
"""Prints lines of code per module, the ten largest files, and hand-written files over 800 lines."""

import collections
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONG = 800


def main():
    totals = collections.defaultdict(lambda: [0, 0, 0])  # files, lines, lines of tests
    files = []
    for folder in ("src", "tools", "bench", "test"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cc", ".h", ".def", ".py", ".hlo", ".program"):
                continue
            lines = path.read_bytes().count(b"\n")
            parts = path.relative_to(ROOT).parts
            module = "/".join(parts[:2]) if folder in ("src", "test") else folder
            is_test = folder == "test" or path.stem.endswith(("_test", "_fuzz"))
            totals[module][0] += 1
            totals[module][2 if is_test else 1] += lines
            if path.suffix in (".cc", ".h", ".py"):
                files.append((lines, str(path.relative_to(ROOT))))
    print(f"{'':24}{'files':>8}{'lines':>8}{'tests':>8}")
    for module, (count, code, tests) in sorted(totals.items()):
        print(f"{module:24}{count:8}{code:8}{tests:8}")
    sums = [sum(column) for column in zip(*totals.values())]
    print(f"{'all':24}{sums[0]:8}{sums[1]:8}{sums[2]:8}\n\nlargest files")
    files.sort(reverse=True)
    for lines, path in files[:10]:
        print(f"{lines:8}  {path}")
    long = [path for lines, path in files if lines > LONG]
    print(f"\nfiles over {LONG} lines: {', '.join(long) if long else 'none'}")
    options = (ROOT / "src/compiler/options.h").read_text().count('    v("')
    print(f"compile options: {options}")


if __name__ == "__main__":
    main()

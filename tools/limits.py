#!/usr/bin/env python3
"""Numeric limits in the compiler and the CPU backend that are not facts of a target: python3 tools/limits.py [--bare | --derived | --most=N].

Machine facts belong into src/program/target.h (TargetInfo) or target_facts.h (what all CPUs share), with units; how far analyses look and how much
code is written out into src/program/work_bounds.h; the order of sums into sum_order.h. A constant that is computed from those has a name where it is
used and no number of its own (--derived lists them). Each of the others has its unit in a comment on its line or above it; --bare lists those without one.
--most=N prints the last line alone, and fails when there are more than N, or one without a unit.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["src/compiler", "src/cpu", "src/program"]
DECLARATION = re.compile(
    r"^[ ]*(?:inline |static )*constexpr (?:u?int\d*(?:_t)?|size_t|double|float|unsigned)\s+(k[A-Z][^;{]*(?:\{[^}]*\}[^;{]*)*);(.*)$", re.MULTILINE)
ONE = re.compile(r"(k[A-Z]\w*)\s*=\s*([^,]+)")
# Numbers of mathematics and of formats, not choices: hexadecimal floats, ends of types, bits of words, marks below zero, what
# follows from other constants.
NO_LIMIT = re.compile(r"0x[0-9a-f.]+p|^-\d+$|0x7fffffff|INT\d+_M(?:AX|IN)|numeric_limits|sizeof|\bk[A-Z]|int64_t\{1\} << (3[01]|60|63)|\b1 << 30")
# The list of targets, verifiers and texts, and bits of CPUID as the manual numbers them.
EXEMPT = re.compile(r"_test\.cc$|program/math|program/target|program/print|program/verify|_testing\.h$|routines/machine")


def limits(derived=False):
  """(path, line number, name, value, whether a comment says what it is); derived: of those that follow from others instead"""
  for folder in FOLDERS:
    for path in sorted((ROOT / folder).rglob("*")):
      name = str(path.relative_to(ROOT))
      if path.suffix not in (".cc", ".h") or EXEMPT.search(name):
        continue
      text = path.read_text()
      for found in DECLARATION.finditer(text):
        number = text.count("\n", 0, found.start()) + 1
        above = text[:found.start()].rstrip("\n").rsplit("\n", 1)[-1].strip()
        said = "//" in found.group(2) or above.startswith("//")
        for constant, value in ONE.findall(found.group(1)):
          follows = bool(re.search(r"\bk[A-Z]", value))
          if follows if derived else not NO_LIMIT.search(value.strip()):
            yield name, number, constant, value.strip(), said


def main():
  others = list(limits(derived=True))
  if "--derived" in sys.argv[1:]:
    for name, number, constant, value, _ in others:
      print(f"{name}:{number}: {constant} = {' '.join(value.split())}")
    return 0
  rows, bare = list(limits()), "--bare" in sys.argv[1:]
  most = next((int(word[7:]) for word in sys.argv[1:] if word.startswith("--most=")), None)
  bad = most is not None and (len(rows) > most or not all(said for *_, said in rows))
  for name, number, constant, value, said in rows:
    if most is None or bad:
      if not (bare and said):
        print(f"{name}:{number}: {constant} = {value}{'' if said else '   (no unit)'}")
  groups = {}
  for name, *_ in rows:
    group = "/".join(name.split("/")[1:3 if name.startswith(("src/compiler", "src/cpu")) else 2])
    groups[group] = groups.get(group, 0) + 1
  if most is None:
    print("; ".join(f"{group} {count}" for group, count in sorted(groups.items())))
  print(f"{len(rows)} limits, {sum(not said for *_, said in rows)} without a unit; {len(others)} constants follow from them and from facts of targets")
  if bad:
    print(f"limits: more than {most}, or one without a unit", file=sys.stderr)
    print("  hint: derive it from program/target_facts.h, work_bounds.h or sum_order.h", file=sys.stderr)
  return 1 if bad else 0


if __name__ == "__main__":
  sys.exit(main())

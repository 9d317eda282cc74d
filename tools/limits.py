#!/usr/bin/env python3
"""Numeric limits in the compiler and the CPU backend that are not facts of a target: python3 tools/limits.py [--bare].

Machine facts belong into src/program/target.h (TargetInfo) or target_facts.h (what all CPUs share), with units. What stays are limits of algorithms (how much code,
how deep a search); each has its unit in a comment on its line or above it. --bare lists those without one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["src/compiler", "src/cpu", "src/program"]
DECLARATION = re.compile(r"^\s*(?:inline |static )*constexpr (?:u?int\d*(?:_t)?|size_t|double|float|unsigned) (k[A-Z]\w*.*?);(.*)$")
ONE = re.compile(r"(k[A-Z]\w*)\s*=\s*([^,]+)")
# Numbers of mathematics and of formats, not choices: hexadecimal floats, ends of types, bits of words, what follows from other
# constants.
NO_LIMIT = re.compile(r"0x[0-9a-f.]+p|0x7fffffff|INT64_MAX|numeric_limits|sizeof|\bk[A-Z]|int64_t\{1\} << (3[01]|60|63)|\b1 << 30")
# The list of targets, verifiers and texts, and bits of CPUID as the manual numbers them.
EXEMPT = re.compile(r"_test\.cc$|program/math|program/target|program/print|program/verify|_testing\.h$|routines/machine")


def limits():
  """(path, line number, name, value, whether a comment says what it is)"""
  for folder in FOLDERS:
    for path in sorted((ROOT / folder).rglob("*")):
      name = str(path.relative_to(ROOT))
      if path.suffix not in (".cc", ".h") or EXEMPT.search(name):
        continue
      lines = path.read_text().split("\n")
      for number, line in enumerate(lines):
        found = DECLARATION.match(line)
        if not found:
          continue
        above = lines[number - 1].strip() if number else ""
        said = "//" in found.group(2) or above.startswith("//")
        for constant, value in ONE.findall(found.group(1)):
          if not NO_LIMIT.search(value.strip()):
            yield name, number + 1, constant, value.strip(), said


def main():
  rows, bare = list(limits()), "--bare" in sys.argv[1:]
  for name, number, constant, value, said in rows:
    if not (bare and said):
      print(f"{name}:{number}: {constant} = {value}{'' if said else '   (no unit)'}")
  groups = {}
  for name, *_ in rows:
    group = "/".join(name.split("/")[1:3 if name.startswith(("src/compiler", "src/cpu")) else 2])
    groups[group] = groups.get(group, 0) + 1
  print("; ".join(f"{group} {count}" for group, count in sorted(groups.items())))
  print(f"{len(rows)} limits, {sum(not said for *_, said in rows)} without a unit")
  return 0


if __name__ == "__main__":
  sys.exit(main())

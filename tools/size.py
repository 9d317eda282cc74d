#!/usr/bin/env python3
"""The house in numbers: folders with lines, longest files, functions and classes, tests of the target's kind, limits.

Functions and classes are found by their indentation, which clang-format keeps.
"""

import collections
import os
import pathlib
import re

import limits

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONG = 400  # lines of a source
CODE = (".cc", ".h", ".def", ".py", ".hlo", ".program")
DEFINITION = re.compile(r"^(?P<indent> *)(?!namespace|class|struct|enum|union|else|return|if|for|while|switch|do\b|case|using|typedef|\}|//|#)"
                        r"[\w:<>~&*,\[\]() ]*?(?P<name>[\w:~]+)\((?!\s*$|.*\)\s*;)")
CLASS = re.compile(r"^(?:class|struct) (?:\w+\(.*\) )?(?P<name>\w+)(?: final)?(?: : .*)?\s*\{$")
METHOD = re.compile(r"^\w.*?\b(?P<owner>[A-Z]\w+)::~?\w+\(")
KIND = re.compile(r"\bkind\s*[!=]=\s*(?:program::)?TargetKind|TargetKind::k\w+\s*[!=]=")


def is_test(path):
  return path.stem.endswith(("_test", "_fuzz")) or path.stem.startswith(("test_", "testing"))


def sources():
  """(path, lines) of what is no test, of src and tools."""
  for folder in ("src", "tools"):
    for path in sorted((ROOT / folder).rglob("*")):
      if path.suffix in (".cc", ".h") and not is_test(path):
        yield path, path.read_text().split("\n")


def functions(lines):
  """(length, name) of functions, by the line that closes them at the indentation at which they begin."""
  at = 0
  while at < len(lines):
    in_macro = lines[at].endswith("\\") or lines[at - 1].endswith("\\")  # whose rows are no functions
    begins = None if in_macro else DEFINITION.match(lines[at])
    opens = at
    while begins and opens < min(at + 8, len(lines) - 1) and not lines[opens].endswith(("{", ";", "}")):
      opens += 1
    if not begins or not lines[opens].endswith("{") or len(begins["indent"]) > 2:
      at += 1
      continue
    close = next((n for n in range(opens + 1, len(lines)) if lines[n].startswith(begins["indent"] + "}")), opens)
    yield close - at + 1, begins["name"]
    at = close + 1


def classes(files):
  """(member functions in all files, lines of the definition, name)"""
  methods, lengths, homes = collections.Counter(), {}, collections.defaultdict(list)
  for path, lines in files:
    for number, line in enumerate(lines):
      if found := CLASS.match(line):
        end = next((n for n in range(number, len(lines)) if lines[n].startswith("}")), number)
        key = (found["name"], path.parent)
        lengths[key] = max(lengths.get(key, 0), end - number + 1)
        methods[key] += sum(1 for inside in lines[number:end] if re.match(r"  (?! ).*\w\(.*\).*\{", inside))
        homes[found["name"]].append(path.parent)
  for path, lines in files:
    for found in filter(None, map(METHOD.match, lines)):
      # Of classes of one name the one that lies nearest.
      near = max(homes[found["owner"]], key=lambda home: len(os.path.commonpath([home, path.parent])), default=None)
      if near:
        methods[found["owner"], near] += 1
  return sorted(((count, lengths[key], f"{key[0]}  {key[1].relative_to(ROOT)}") for key, count in methods.items()), reverse=True)


def contents(folder):
  """The first sentence of a folder's README, or of its first header."""
  for path in (folder / "README.md", *sorted(folder.glob("*.h")), *sorted(folder.glob("*.cc"))):
    if path.exists():
      text = [line.lstrip("/# ") for line in path.read_text().split("\n")[:12] if line.strip() and not line.startswith("# ")]
      return re.split(r"(?<=[a-z)`])[.:](?:\s|$)", " ".join(text))[0][:100] if text else ""
  return ""


def folders():
  """Lines of code and of tests, by module; of src two levels deep."""
  totals = collections.defaultdict(lambda: [0, 0, 0])
  for top in ("src", "tools", "bench", "test"):
    for path in sorted((ROOT / top).rglob("*")):
      if path.suffix not in CODE or "__pycache__" in path.parts:
        continue
      parts = path.relative_to(ROOT).parts
      depth = min(len(parts) - 1, {"src": 3, "test": 2}.get(top, 1))
      row = totals["/".join(parts[:depth])]
      row[0] += 1
      row[2 if top == "test" or is_test(path) else 1] += path.read_bytes().count(b"\n")
  return totals


def main():
  totals, files = folders(), list(sources())
  print(f"{'':30}{'files':>7}{'lines':>8}{'tests':>8}  contents")
  for name, (count, code, tests) in sorted(totals.items()):
    print(f"{name:30}{count:7}{code:8}{tests:8}  {contents(ROOT / name)}")
  print(f"{'all':30}" + "".join(f"{sum(column):{width}}" for column, width in zip(zip(*totals.values()), (7, 8, 8))))
  lengths = sorted(((len(lines) - 1, str(path.relative_to(ROOT))) for path, lines in files), reverse=True)
  print(f"\nlongest files ({sum(1 for n, _ in lengths if n > LONG)} of {len(lengths)} are over {LONG} lines)")
  print("\n".join(f"{n:8}  {path}" for n, path in lengths[:10]))
  found = sorted(((n, name, str(path.relative_to(ROOT))) for path, lines in files for n, name in functions(lines)), reverse=True)
  print(f"\nlongest functions ({sum(1 for n, *_ in found if n > 60)} of {len(found)} are over 60 lines)")
  print("\n".join(f"{n:8}  {name}  {path}" for n, name, path in found[:10]))
  print("\nclasses with most functions, and lines of their definitions")
  print("\n".join(f"{count:8}{length:8}  {name}" for count, length, name in classes(files)[:10]))
  places = [str(path.relative_to(ROOT)) for path, lines in files for line in lines
            if KIND.search(line) and "program/target" not in str(path)]
  print(f"\nplaces that test the target's kind: {len(places)} ({', '.join(places)})")
  rows = list(limits.limits())
  print(f"numeric limits outside of target descriptions: {len(rows)}, {sum(not said for *_, said in rows)} without a unit")
  print(f"compile options: {(ROOT / 'src/compiler/options.h').read_text().count('    v(' + chr(34))}")


if __name__ == "__main__":
  main()

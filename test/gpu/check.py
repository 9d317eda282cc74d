#!/usr/bin/env python3
"""All that is worth a few minutes on a GPU, most telling first: `./dev gpu-check --help`.

Needs Python and bash alone, here or in an unpacked bundle. Parts run one after the other while there is time; the table of what came out is printed
last, and written as JSON, where the rows of a part replace those that it had.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

import bundle
import parts

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_BYTES = 16 << 20  # of the JSON


def arguments(argv):
  parser = argparse.ArgumentParser(
      prog="./dev gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
      epilog="parts:\n" + "\n".join(f"  {part.name:10} {part.seconds:4} s  {part.__doc__}" for part in parts.ALL) +
      "\n\nStatus 1: something failed. What had no time is no failure, and is in the table.")
  parser.add_argument("--minutes", type=float, default=8, metavar="M", help="for everything (8)")
  parser.add_argument("--parts", default="", metavar="A,B", help="only these; when none is named all but `suite`, `baseline`, `races` and those for --dry")
  parser.add_argument("--bundle", nargs="?", const="dist/weft-gpu-check.tar.xz", metavar="FILE",
                      help="run nothing: build with LLVM inside and pack what another machine needs (50 MB at most)")
  parser.add_argument("--dry", action="store_true", help="what can be found out without a GPU: the pretend device, NVRTC, resources of kernels")
  parser.add_argument("--device", choices=["gpu", "pretend"], default="gpu", help="pretend: the parts themselves are tried, on any machine")
  parser.add_argument("--part", default="1/1", metavar="I/N", help="of JAX's tests: every Nth file from the Ith on")
  parser.add_argument("--sample", type=int, default=40, metavar="N", help="of JAX's tests: cases a file (40; 0: all)")
  parser.add_argument("--jax", metavar="PATH", help="a checkout of jax, for its tests")
  parser.add_argument("--count", type=int, default=0, metavar="N", help="random modules (2000; pretend 60)")
  parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first random module (1)")
  parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes at once")
  parser.add_argument("--json", type=pathlib.Path, default=ROOT / "gpu-check.json", metavar="FILE")
  parser.add_argument("--build", type=pathlib.Path, metavar="DIR", help="where weft is (build-gpu, else build)")
  options = parser.parse_args(argv)
  known = [part.name for part in parts.ALL]
  options.names = [name for name in options.parts.split(",") if name]
  for name in options.names:
    if name not in known:
      parser.error(f"unknown part: {name}; known are {', '.join(known)}")
  if options.dry:
    options.device = "pretend"
  if not options.names:
    options.names = [part.name for part in parts.ALL if (part.dry if options.dry else part.usual)]
  if options.build is None:
    options.build = next((ROOT / name for name in ("build-gpu", "build") if (ROOT / name / "weft").exists()), ROOT / "build")
  return options


def commit():
  if (ROOT / "COMMIT").exists():
    return (ROOT / "COMMIT").read_text().strip()
  done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
  return done.stdout.strip() or "unknown"


def machine():
  try:
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True, timeout=20)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 else platform.machine()
  except (OSError, subprocess.TimeoutExpired, IndexError):
    return platform.machine()


def run_parts(options):
  """Rows of all parts, each with its limit and what is left of the whole."""
  end = time.monotonic() + 60 * options.minutes
  facts = {"commit": commit(), "machine": machine(), "device": options.device}
  rows = []
  for part in parts.ALL:
    if part.name not in options.names:
      continue
    left = end - time.monotonic()
    print(f"==> {part.name}", file=sys.stderr, flush=True)
    if left < 5:
      made = [parts.Row(part.name, "no time", "none")]
    else:
      made = part.run(parts.Setting(ROOT, options, time.monotonic() + min(left, part.seconds)))
    for row in made:
      rows.append({"part": part.name, **row._asdict(), **facts})
      print(line(rows[-1]), file=sys.stderr, flush=True)
  return rows


def merge(path, rows):
  """Rows of parts that ran replace those in the file; the longest details go first where there is too much."""
  fresh = {(row["part"], row["name"]) for row in rows}
  try:
    old = [row for row in json.loads(path.read_text()) if (row["part"], row["name"]) not in fresh]
  except (OSError, ValueError):
    old = []
  everything, most = old + rows, 4000
  text = json.dumps(everything, indent=1)
  while len(text) > MOST_BYTES and most > 10:
    most //= 2
    text = json.dumps([{**row, "detail": row["detail"][:most]} for row in everything], indent=1)
  path.write_text(text + "\n")
  return everything


def line(row):
  numbers = f"{row['passed']} passed, {row['failed']} failed" if row["passed"] or row["failed"] else ""
  return f"{row['part']:10} {row['name']:34} {row['outcome']:8} {row['seconds']:6.1f} s  {numbers:28} {row['commit']}"


def main(argv):
  options = arguments(argv)
  if options.bundle:
    return bundle.make(ROOT, options.build, ROOT / options.bundle, commit())
  ran = run_parts(options)
  rows = merge(options.json, ran)
  failed = [row for row in ran if row["outcome"] in ("failed", "timeout")]
  for row in failed:
    print(f"\n--- {row['part']} {row['name']} ({row['commit']})\n{row['detail'][-1500:]}")
  print("\n" + "\n".join(line(row) for row in rows))
  print(f"{len(ran)} rows, {len(failed)} with failures; {options.json}")
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))

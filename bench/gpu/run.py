#!/usr/bin/env python3
"""Weft beside JAX's CUDA backend, in one process on one GPU: `./dev bench gpu --help`.

Results are compared with NumPy's in f64 at a small size, and at the timed size with the other platform's. Times are of steady state: calls in a row,
waited for at the end, the platforms turn by turn. The floor is what bandwidth and FLOP/s allow at best.
"""

import argparse
import datetime
import gc
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "weft,cuda")
os.environ.setdefault("WEFT_PLATFORM", "gpu")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # memory for both

import jax
import numpy as np

import programs
import unseen

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"
BANDWIDTH = 4.3e12  # bytes a second, measured on an H200
PEAKS = {"bf16": 790e12, "tf32": 420e12}
ROUNDS, ROUND_SECONDS = 7, 0.05


def options_of(argv):
  parser = argparse.ArgumentParser(prog="./dev bench gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--quick", action="store_true", help="smaller programs, fewer rounds")
  parser.add_argument("--check", action="store_true", help="compare with NumPy alone")
  parser.add_argument("--only", default="", metavar="A,B", help="programs with one of these in their name or kind")
  parser.add_argument("--platforms", default="weft,cuda", metavar="A,B", help="the first is compared with the second")
  parser.add_argument("--minutes", type=float, default=20, help="begin no program after so long")
  parser.add_argument("--unseen", action="store_true", help="the programs of unseen.py, which nobody tuned for, instead of those of programs.py")
  parser.add_argument("--list", action="store_true")
  parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="JSON (bench/results/DATE-gpu-DEVICE.json; nothing with --quick)")
  return parser.parse_args(argv)


def wide(x):
  return np.asarray(x).astype(np.float64)


def error(got, want):
  """The largest difference relative to the largest magnitude."""
  worst = 0.0
  for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    a, b = wide(a), wide(b)
    if a.shape != b.shape or not np.isfinite(a).all():
      return math.inf
    worst = max(worst, float(np.abs(a - b).max(initial=0)) / (float(np.abs(b).max(initial=0)) or 1.0))
  return worst


class Compiled:
  """A program on one device."""

  def __init__(self, made, device):
    self.arguments = jax.device_put(made.arguments, device)
    begin = time.perf_counter()
    self.carried = made.carried
    self.call = jax.jit(made.function, donate_argnums=tuple(range(made.carried))).lower(*self.arguments).compile()
    self.compile_seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    self.result = jax.block_until_ready(self.once())
    if self.carried:  # the next call overwrites it
      self.result = np.asarray(jax.tree.leaves(self.result)[0])
    jax.block_until_ready(self.once())
    self.count = max(1, min(200, int(ROUND_SECONDS / max((time.perf_counter() - begin) / 2, 1e-6))))

  def once(self):
    result = self.call(*self.arguments)
    if self.carried:
      self.arguments = (*result, *self.arguments[self.carried:])
    return result

  def round(self):
    begin = time.perf_counter()
    for _ in range(self.count):
      result = self.once()
    jax.block_until_ready(result)
    return (time.perf_counter() - begin) / self.count


def check(make, device):
  """The error against NumPy, and whether it is within the tolerance; None where there is no reference."""
  made = make("check")
  if made.reference is None:
    return None, True
  want = made.reference(*(jax.tree.map(wide, made.arguments)))
  off = error(jax.jit(made.function)(*jax.device_put(made.arguments, device)), want)
  return off, off <= made.tolerance


def measure(name, kind, make, devices, options):
  """A row of results; what goes wrong on one platform is its text, and no end of the others."""
  row = {"name": name, "kind": kind, "size": "quick" if options.quick else "full", "wrong": []}
  compiled = {}
  for platform, device in devices.items():
    try:
      off, fine = check(make, device)
      row[platform] = {"error": off}
      if not fine:
        row["wrong"].append(f"{platform}: error {off:.2g} against NumPy")
      if not options.check:
        made = make(row["size"])
        compiled[platform] = Compiled(made, device)
        row[platform]["compile_seconds"] = compiled[platform].compile_seconds
    except Exception as problem:  # a row of the table, like a time
      row.setdefault(platform, {})["failed"] = f"{type(problem).__name__}: {problem}"[:500]
      row["wrong"].append(f"{platform}: failed")
  if compiled:
    times = {platform: [] for platform in compiled}
    for _ in range(3 if options.quick else ROUNDS):
      for platform, program in compiled.items():
        times[platform].append(program.round())
    row["floor_us"] = 1e6 * max(made.bytes / BANDWIDTH, made.flops / PEAKS[made.peak])
    for platform, seconds in times.items():
      row[platform]["us"] = 1e6 * statistics.median(seconds)
      row[platform]["rounds_us"] = [1e6 * s for s in seconds]
      row[platform]["peak_bytes"] = (devices[platform].memory_stats() or {}).get("peak_bytes_in_use")  # of all programs so far
    if len(compiled) == 2:
      first, second = compiled.values()
      row["apart"] = error(first.result, second.result)
      if row["apart"] > max(made.tolerance, 1e-2):
        row["wrong"].append(f"the platforms differ by {row['apart']:.2g}")
  return row


def show(row, platforms):
  cells = [f"{row['name']:26}"]
  for platform in platforms:
    cell = row.get(platform, {})
    cells.append(f"{platform} {cell['us']:10.1f} us (compiled in {cell['compile_seconds']:6.2f} s)" if "us" in cell else
                 f"{platform} " + (cell.get("failed") or f"error {cell.get('error')}")[:60])
  have = [row.get(p, {}).get("us") for p in platforms]
  if all(have) and len(have) == 2:
    cells.append(f"{have[1] / have[0]:6.2f}x")
  if have[0] and "floor_us" in row:
    cells.append(f"{100 * row['floor_us'] / have[0]:5.1f} % of the floor")
  print("  ".join(cells + row["wrong"]), flush=True)


def summary(rows, platforms):
  """The geometric mean over kinds of the mean of the first two programs of each."""
  kinds = {}
  for row in rows:
    us = [row.get(p, {}).get("us") for p in platforms]
    if len(us) == 2 and all(us):
      kinds.setdefault(row["kind"], []).append(math.log(us[1] / us[0]))
  means = [statistics.mean(values[:2]) for values in kinds.values()]
  return math.exp(statistics.mean(means)) if means else None


def main(argv):
  options = options_of(argv)
  words = [word for word in options.only.split(",") if word]
  chosen = [p for p in (unseen if options.unseen else programs).PROGRAMS if not words or any(word in p[0] or word in p[1] for word in words)]
  if options.list:
    print("\n".join(f"{name:26} {kind}" for name, kind, _ in chosen))
    return 0
  platforms = options.platforms.split(",")
  devices = {name: jax.devices(name)[0] for name in platforms}
  end, rows = time.monotonic() + 60 * options.minutes, []
  for name, kind, make in chosen:
    if time.monotonic() > end:
      print(f"{name}: no time")
      continue
    rows.append(measure(name, kind, make, devices, options))
    show(rows[-1], platforms)
    gc.collect()  # arrays of the last program
  mean = summary(rows, platforms)
  if mean is not None:
    print(f"geometric mean over kinds, {platforms[1]} / {platforms[0]}: {mean:.3f}")
  kind = str(devices[platforms[-1]].device_kind).replace(" ", "-")
  out = options.out or (None if options.quick or options.check else RESULTS / f"{datetime.date.today()}-gpu{'-unseen' * options.unseen}-{kind}.json")
  if out:
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    out.write_text(json.dumps({"device": kind, "jax": jax.__version__, "commit": commit, "mean": mean, "rows": rows}, indent=1) + "\n")
    print(out)
  return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))

"""Runs libraries from PyPI on Weft and on XLA:CPU, each test in a process of its own, and compares what they computed."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("run", "common") and not path.stem.startswith("suite"))


def run(name, platform, limit):
  """(results, seconds, error) of one test on one platform."""
  env = dict(os.environ, JAX_PLATFORMS=platform)
  begin = time.monotonic()
  try:
    done = subprocess.run([sys.executable, str(HERE / f"{name}.py")], env=env, capture_output=True, text=True, timeout=limit)
  except subprocess.TimeoutExpired:
    return None, limit, f"over {limit:g} s"
  seconds = time.monotonic() - begin
  for line in done.stdout.splitlines():
    if line.startswith("RESULT "):
      return json.loads(line.removeprefix("RESULT ")), seconds, ""
  lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith((" ", "-", "For simplicity"))]
  return None, seconds, lines[-1] if lines else f"exit status {done.returncode}"


def difference(a, b):
  """The largest relative difference of two lists (absolute below 1)."""
  if len(a) != len(b):
    return float("inf")
  worst = 0.0
  for x, y in zip(a, b):
    distance = abs(x - y) / max(1.0, abs(y))
    worst = max(worst, distance if distance == distance else float("inf"))
  return worst


def compare(ours, theirs, tolerance):
  """(largest difference of the exact values, what disagrees)."""
  worst, wrong = 0.0, []
  for name, value in theirs["exact"].items():
    delta = difference(ours["exact"].get(name, []), value)
    worst = max(worst, delta)
    if not delta <= tolerance:
      wrong.append(f"{name} differ by {delta:.1e}")
  for name, (value, allowed) in theirs["near"].items():
    delta = max((abs(x - y) for x, y in zip(ours["near"][name][0], value)), default=float("inf"))
    if not delta <= allowed:
      wrong.append(f"{name} differs by {delta:.1e}, allowed {allowed:g}")
  return worst, wrong


def main():
  parser = argparse.ArgumentParser(prog="./dev libraries", description=__doc__)
  parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(NAMES))
  parser.add_argument("--platform", default="weft")
  parser.add_argument("--tolerance", type=float, default=2e-3, help="relative, of losses after training (2e-3)")
  parser.add_argument("--timeout", type=float, default=300, metavar="S")
  options = parser.parse_args()
  if unknown := set(options.names) - set(NAMES):
    parser.error(f"no such test: {' '.join(sorted(unknown))}; there are {' '.join(NAMES)}")

  failed = 0
  print(f"{'':18}{'XLA:CPU s':>10}{options.platform + ' s':>10}{'difference':>12}")
  for name in options.names or NAMES:
    theirs, their_seconds, error = run(name, "cpu", options.timeout)
    if theirs is None:
      failed += 1
      print(f"{name:18}{their_seconds:10.1f}   XLA:CPU: {error}", flush=True)
      continue
    ours, our_seconds, error = run(name, options.platform, options.timeout)
    if ours is None:
      failed += 1
      print(f"{name:18}{their_seconds:10.1f}{our_seconds:10.1f}      FAILED: {error}", flush=True)
      continue
    worst, wrong = compare(ours, theirs, options.tolerance)
    failed += bool(wrong)
    print(f"{name:18}{their_seconds:10.1f}{our_seconds:10.1f}{worst:12.1e}  {'WRONG: ' + '; '.join(wrong) if wrong else 'equal'}", flush=True)
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()

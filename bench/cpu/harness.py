"""Times programs on Weft, on JAX's own CPU backend and, where there is one, on their version in C: in one process, interleaved.

A suite is a list of `Program`s. Every result is compared with that of the reference platform before anything is timed. A
platform whose first call takes longer than the cap (found out in a process of its own, which can be stopped) is shown as slow.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "weft,cpu")

import jax
import numpy as np

import plot
import probe

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"


@dataclasses.dataclass(frozen=True)
class Program:
  """One program of a suite.

  `make` returns a function of JAX and its arguments (NumPy arrays, in pytrees). `tolerance` bounds the largest error relative
  to the largest magnitude of the result (0 where results must be equal). `c` is a function of NumPy arrays that calls the C
  version and returns the same results. `flops`: of one call, where they are what counts.
  """
  name: str
  kind: str
  make: object
  tolerance: float = 1e-5
  x64: bool = False
  c: object = None
  quick: bool = False
  flops: float = 0

  def context(self):
    return jax.enable_x64(True) if self.x64 else contextlib.nullcontext()


def program_list():
  """A list and the decorator that adds to it: @program(kind, tolerance=...) def name(): return function, arguments."""
  programs = []

  def program(kind, **options):
    def add(make):
      programs.append(Program(name=make.__name__, kind=kind, make=make, **options))
      return make
    return add
  return programs, program


# Comparison.


def difference(got, want):
  """The largest error of `got` relative to the largest magnitude in `want`; infinite where they cannot be compared."""
  got, want = jax.tree.leaves(got), jax.tree.leaves(want)
  if len(got) != len(want):
    return math.inf
  worst = 0.0
  for a, b in zip(got, want):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
      return math.inf
    if a.size == 0:
      continue
    wide = np.complex128 if np.iscomplexobj(b) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
      return math.inf
    same = (a == b) | np.isnan(b)
    if same.all():
      continue
    scale = np.max(np.abs(b), where=np.isfinite(b), initial=0.0) or 1.0
    error = float(np.max(np.abs(a - b)[~same])) / scale
    worst = max(worst, error if math.isfinite(error) else math.inf)
  return worst


def to_numpy(tree):
  return jax.tree.map(np.asarray, tree)


def byte_count(tree):
  return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))


# Timing.


def on_device(program, device):
  """The function compiled for the device, as a call without arguments that waits for its results."""
  function, arguments = program.make()
  with jax.default_device(device):
    jitted = jax.jit(function)
    placed = jax.device_put(arguments, device)
  return lambda: jax.block_until_ready(jitted(*placed))


clock = time.perf_counter  # or the processor time of all threads (--clock cpu)


def seconds(call, count):
  begin = clock()
  for _ in range(count):
    call()
  return (clock() - begin) / count


def interleaved(calls, repeats, budget=4.0):
  """For every call a list of seconds, taken turn by turn; repeats of about 5 ms, fewer where all of them exceed the budget."""
  once = [seconds(call, 1) for call in calls]
  once = [t if t > 0.1 else min(t, seconds(call, 1)) for t, call in zip(once, calls)]
  counts = [max(1, min(1000, int(0.005 / max(t, 1e-7)))) for t in once]
  turn = sum(c * t for c, t in zip(counts, once))
  times = [[] for _ in calls]
  for _ in range(max(3 if turn < budget else 1, min(repeats, int(budget / max(turn, 1e-9))))):
    for row, call, count in zip(times, calls, counts):
      row.append(seconds(call, count))
  return times


def quartiles(values):
  if len(values) == 1:
    return values * 3
  low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
  return [low, middle, high]


def ratio_of(times, others):
  """Median and quartiles of the ratios of runs that stand side by side."""
  return quartiles([a / b for a, b in zip(times, others)])


class Copy:
  """Copies memory with as many threads as there are cores: the bandwidth that the programs' bytes are compared with."""

  def __init__(self, megabytes=64):
    from concurrent.futures import ThreadPoolExecutor
    self.threads = os.cpu_count()
    self.pool = ThreadPoolExecutor(self.threads)
    size = (megabytes << 20) // self.threads
    self.pairs = [(np.ones(size, np.uint8), np.zeros(size, np.uint8)) for _ in range(self.threads)]
    self.bytes = 2 * size * self.threads
    self.best = 0.0

  def measure(self):
    begin = time.perf_counter()
    list(self.pool.map(lambda pair: np.copyto(pair[1], pair[0]), self.pairs))
    self.best = max(self.best, self.bytes / (time.perf_counter() - begin))


# Suites.


def geometric_mean(values):
  values = list(values)
  return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def by_kind(programs, values):
  """The geometric mean of the kinds' geometric means, of the first two programs of a kind at most."""
  kinds = {}
  for program in programs:
    value = values.get(program.name)
    row = kinds.setdefault(program.kind, [])
    if value is not None and len(row) < 2:
      row.append(value)
  return geometric_mean(geometric_mean(row) for row in kinds.values() if row)


def arguments_of(description, extend=lambda parser: None, suite_has_clock=False):
  parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--platforms", default="weft,cpu", help="the one measured and the one it is compared with")
  parser.add_argument("--only", default="", help="programs whose name or kind contains one of these words, comma-separated")
  parser.add_argument("--quick", action="store_true", help="a few programs, a few repeats; writes no file")
  parser.add_argument("--repeats", type=int, default=0, help="runs of each (default 21, quick 5)")
  parser.add_argument("--cap", type=float, default=0, help="seconds a call may take before it counts as slow (default 10, quick 1)")
  parser.add_argument("--list", action="store_true", help="name the programs and exit")
  parser.add_argument("--no-json", action="store_true", help="do not write bench/results")
  if suite_has_clock:
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="what seconds are: cpu is the processor time of all threads, which other work on the machine changes little")
  parser.add_argument("--probe", default="", help=argparse.SUPPRESS)
  extend(parser)
  options = parser.parse_args()
  options.repeats = options.repeats or (5 if options.quick else 21)
  options.cap = options.cap or (1.0 if options.quick else 10.0)
  options.platforms = [name for name in options.platforms.split(",") if name]
  return options


def chosen(programs, options):
  words = [word for word in options.only.split(",") if word]
  return [p for p in programs
          if (not options.quick or p.quick or words)
          and (not words or any(word in p.name or word in p.kind for word in words))]


def measure(program, platforms, devices, slow, options):
  """One row: seconds by platform (and "C"), errors, ratios. `slow` has the platforms left out, with the reason."""
  row = {"kind": program.kind, "tolerance": program.tolerance}
  with program.context():
    want, calls, names = None, [], []
    for name in reversed(platforms):  # The reference comes first.
      if name in slow:
        row[name] = slow[name]
        continue
      try:
        call = on_device(program, devices[name])
        got = to_numpy(call())
      except Exception as error:  # pylint: disable=broad-except
        row[name] = f"failed: {str(error).splitlines()[0][:120]}"
        continue
      if want is None:
        want = got
        row["bytes"] = byte_count(program.make()[1]) + byte_count(want)
        if program.flops:
          row["flops"] = program.flops
      else:
        row["error"] = difference(got, want)
        if not row["error"] <= program.tolerance:
          row[name] = "wrong"
          continue
      calls.append(call)
      names.append(name)
    if program.c is not None and want is not None:
      arguments = program.make()[1]
      row["C error"] = difference(program.c(*arguments), want)
      if row["C error"] <= program.tolerance:
        calls.append(lambda: program.c(*arguments))
        names.append("C")
      else:
        row["C"] = "wrong"
    times = dict(zip(names, interleaved(calls, options.repeats))) if calls else {}
  for name, values in times.items():
    row[name] = quartiles(values)
  add_ratios(row, times, platforms)
  return row


def add_ratios(row, times, platforms):
  pairs = [(platforms[-1], platforms[0])] if len(platforms) > 1 else []
  pairs += [(name, "C") for name in platforms]
  for over, under in pairs:
    if over in times and under in times:
      row[f"{over}:{under}"] = ratio_of(times[over], times[under])


def cell(value, width=10):
  if value is None:
    return f"{'-':>{width}}"
  if isinstance(value, str):
    return f"{value.split(':')[0]:>{width}}"
  return f"{1e3 * value[1]:{width}.3f}"


def ratio_cell(value):
  return f"{value[1]:10.3g} [{value[0]:.3g}, {value[2]:.3g}]".ljust(27) if value else f"{'-':>10}" + " " * 17


def say(text):
  """What is being measured, on a terminal: a line that the next one replaces; the empty one clears."""
  if sys.stderr.isatty():
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def run(suite, programs, description, compiled_c="", extend=lambda parser: None, summarize=lambda table, platforms: None):
  options = arguments_of(description, extend, suite_has_clock=True)
  global clock
  clock = time.process_time if options.clock == "cpu" else time.perf_counter
  platforms = options.platforms
  if options.probe:
    return probe.serve({p.name: p for p in programs}, jax.devices(options.probe)[0], on_device)
  programs = chosen(programs, options)
  if options.list:
    for program in programs:
      print(f"{program.name:28} {program.kind}")
    return 0
  devices = {name: jax.devices(name)[0] for name in platforms}
  probes = {name: probe.Probe(name, options.cap) for name in platforms if name != "cpu"}
  columns = [*platforms, *(["C"] if compiled_c else [])]
  ratios = [f"{platforms[-1]}:{platforms[0]}"] if len(platforms) > 1 else []
  ratios += [f"{name}:C" for name in platforms] if compiled_c else []

  if compiled_c:
    print(f"C: {compiled_c}")
  print(f"{'ms a call':32}" + "".join(f"{name:>10}" for name in columns) +
        "".join(f"{name:>10} [quartiles]".ljust(27) for name in ratios) + f"{'error':>10}{'GB/s':>8}" + (f"{'GFLOP/s':>10}" if any(p.flops for p in programs) else ""), flush=True)
  table, copy = {}, Copy()
  for number, program in enumerate(programs):
    say(f"{number + 1} of {len(programs)} {program.name}")
    slow = {}
    for name, worker in probes.items():
      answer = worker.ask(program.name)
      if answer:
        slow[name] = answer
    copy.measure()
    row = table[program.name] = measure(program, platforms, devices, slow, options)
    shown = row.get(platforms[0])
    speed = row["bytes"] / shown[1] / 1e9 if "bytes" in row and isinstance(shown, list) else None
    say("")
    print(f"{program.name:32}" + "".join(cell(row.get(name)) for name in columns) +
          "".join(ratio_cell(row.get(name)) for name in ratios) +
          (f"{row['error']:10.1e}" if "error" in row else f"{'-':>10}") +
          (f"{speed:8.2f}" if speed is not None else f"{'-':>8}") +
          (f"{program.flops / shown[1] / 1e9:10.1f}" if program.flops and isinstance(shown, list) else ""), flush=True)
  for worker in probes.values():
    worker.close()
  means = {name: by_kind(programs, {key: row[name][1] for key, row in table.items() if name in row}) for name in ratios}
  report(suite, programs, table, means, copy, compiled_c, options)
  summarize(table, platforms)
  for key, row in table.items():
    for name in columns:
      if isinstance(row.get(name), str):
        print(f"{key}: {name} {row[name]}")
  bad = [key for key, row in table.items() if "wrong" in row.values()]
  if bad:
    print(f"wrong results: {' '.join(bad)}")
  return 1 if bad else 0


def report(suite, programs, table, means, copy, compiled_c, options):
  for name, mean in means.items():
    count = sum(name in row for row in table.values())
    kinds = len({row["kind"] for row in table.values() if name in row})
    if count:
      print(f"geometric mean of {kinds} kinds, {name}: {mean:.3g} ({count} of {len(programs)} programs)")
  print(f"copying memory: {copy.best / 1e9:.1f} GB/s on {copy.threads} threads")
  bars = {name: {key: row[name][1] for key, row in table.items() if name in row} for name in means}
  for name, values in bars.items():
    if values:
      print(plot.text_bars(f"{name} (above 1: {name.split(':')[1]} is faster)", values))
  if options.no_json or options.quick or options.only:
    return
  today = datetime.date.today().isoformat()
  stem = f"{today}-{suite}-{platform.machine()}-{os.cpu_count()}core"
  write_json(stem, {
      "date": today, "machine": f"{platform.machine()}, {os.cpu_count()} cores", "jax": jax.__version__,
      "unit": "seconds a call as [lower quartile, median, upper quartile] of interleaved runs; ratios of neighbouring runs likewise",
      **({"C": compiled_c} if compiled_c else {}), "copy GB/s": copy.best / 1e9, "rows": table,
      "geometric means by kind": {name: mean for name, mean in means.items() if not math.isnan(mean)}})
  for name, values in bars.items():
    if values:
      over, under = name.split(":")
      plot.write_bars(RESULTS / f"{stem}-{over}-over-{under}.svg", f"{suite}: time of {over} over {under}", values)


def rounded(value):
  """Numbers to four digits; those that JSON has no word for as text."""
  if isinstance(value, dict):
    return {key: rounded(item) for key, item in value.items()}
  if isinstance(value, (list, tuple)):
    return [rounded(item) for item in value]
  if isinstance(value, float):
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)
  return value


def write_json(stem, content):
  """One line for every row of the tables inside."""
  line = lambda value: json.dumps(rounded(value), ensure_ascii=False)
  parts = []
  for key, value in content.items():
    if isinstance(value, dict) and value:
      rows = ",\n".join(f"    {line(name)}: {line(item)}" for name, item in value.items())
      parts.append(f"  {line(key)}: {{\n{rows}\n  }}")
    else:
      parts.append(f"  {line(key)}: {line(value)}")
  path = RESULTS / f"{stem}.json"
  path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
  print(f"wrote bench/results/{path.name}", file=sys.stderr)

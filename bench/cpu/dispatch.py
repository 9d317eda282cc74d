"""What one call costs: eight small programs on Weft and on XLA:CPU in one process, interleaved; medians, in microseconds.

XLA:CPU is built into JAX's own library and is not called through the PJRT C ABI; Weft, a plugin, is. `--through` also times
another plugin that was registered under a name of its own, which shows what the ABI itself costs.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import time

os.environ.setdefault("JAX_PLATFORMS", "weft,cpu")

import jax
import jax.numpy as jnp
import numpy as np

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"


def chain(device):
  """An asynchronous chain of scalar adds: only the last one is waited for."""
  add = jax.jit(lambda x: x + 1.0)
  start = jax.device_put(np.float32(0), device)

  def run(count):
    x = start
    for _ in range(count):
      x = add(x)
    x.block_until_ready()
  return run


def blocking_add(device):
  add = jax.jit(lambda x: x + 1.0)
  x = jax.device_put(np.float32(0), device)

  def run(count):
    for _ in range(count):
      add(x).block_until_ready()
  return run


def many_arguments(device):
  total = jax.jit(lambda *xs: sum(xs))
  xs = [jax.device_put(np.float32(k), device) for k in range(50)]

  def run(count):
    for _ in range(count):
      total(*xs).block_until_ready()
  return run


def many_results(device):
  spread = jax.jit(lambda x: tuple(x + float(k) for k in range(50)))
  x = jax.device_put(np.float32(0), device)

  def run(count):
    for _ in range(count):
      jax.block_until_ready(spread(x))
  return run


def numpy_input(device):
  add = jax.jit(lambda x, y: x + y)
  x = jax.device_put(np.float32(0), device)
  host = np.ones((), np.float32)

  def run(count):
    for _ in range(count):
      add(x, host).block_until_ready()
  return run


def numpy_result(device):
  add = jax.jit(lambda x: x + 1.0)
  x = jax.device_put(np.float32(0), device)

  def run(count):
    for _ in range(count):
      np.asarray(add(x))
  return run


def megabyte(device):
  """1 MB to the device and back."""
  host = np.ones(1 << 18, np.float32)

  def run(count):
    for _ in range(count):
      np.asarray(jax.device_put(host, device))
  return run


def donated_update(device):
  """One element of 1 MB, updated in place."""
  update = jax.jit(lambda x: x.at[0].add(1.0), donate_argnums=0)

  def run(count):
    x = jax.device_put(jnp.zeros(1 << 18, jnp.float32), device)
    x.block_until_ready()
    begin = time.perf_counter()
    for _ in range(count):
      x = update(x)
    x.block_until_ready()
    return time.perf_counter() - begin
  return run


ROWS = {
    "asynchronous chain of scalar adds": chain,
    "blocking add": blocking_add,
    "50 arguments": many_arguments,
    "50 results": many_results,
    "NumPy input each call": numpy_input,
    "np.asarray of each result": numpy_result,
    "1 MB there and back": megabyte,
    "donated one-element update": donated_update,
}


def seconds(run, count):
  begin = time.perf_counter()
  inner = run(count)
  return inner if inner is not None else time.perf_counter() - begin


def measure(runs, repeats):
  """Medians of interleaved repeats, each of about 10 ms, in seconds a call."""
  counts = []
  for run in runs:
    run(3)  # Compiles.
    counts.append(max(5, int(0.01 / (seconds(run, 20) / 20))))
  times = [[] for _ in runs]
  for _ in range(repeats):
    for k, run in enumerate(runs):
      times[k].append(seconds(run, counts[k]) / counts[k])
  return [statistics.median(row) for row in times]


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--platforms", default="weft,cpu", help="the one measured and the one it is compared with")
  parser.add_argument("--through", default="", help="one more platform")
  parser.add_argument("--repeats", type=int, default=0, help="runs of each (default 31, quick 7)")
  parser.add_argument("--only", default="", help="rows whose name contains this")
  parser.add_argument("--quick", action="store_true", help="a few repeats; writes no file")
  parser.add_argument("--no-json", action="store_true", help="do not write bench/results")
  options = parser.parse_args()
  options.repeats = options.repeats or (7 if options.quick else 31)
  names = [*options.platforms.split(","), *filter(None, [options.through])]
  devices = [jax.devices(name)[0] for name in names]

  print(f"{'µs a call':36}" + "".join(f"{name:>10}" for name in names) + f"{'ratio':>8}")
  table, ratios = {}, []
  for row, make in ROWS.items():
    if options.only not in row:
      continue
    runs = []
    for device in devices:
      with jax.default_device(device):
        runs.append(make(device))
    times = measure(runs, options.repeats)
    ratios.append(times[0] / times[1])
    table[row] = {name: round(1e6 * value, 2) for name, value in zip(names, times)} | {"ratio": round(ratios[-1], 3)}
    print(f"{row:36}" + "".join(f"{1e6 * value:10.2f}" for value in times) + f"{ratios[-1]:8.2f}", flush=True)
  mean = math.exp(statistics.fmean(map(math.log, ratios)))
  print(f"{'geometric mean':36}" + " " * (10 * len(names)) + f"{mean:8.2f}")

  if not (options.no_json or options.only or options.quick):
    today = datetime.date.today().isoformat()
    path = RESULTS / f"{today}-dispatch-{platform.machine()}-{os.cpu_count()}core.json"
    path.write_text(json.dumps({
        "date": today, "machine": f"{platform.machine()}, {os.cpu_count()} cores", "jax": jax.__version__,
        "unit": "µs a call, medians of interleaved runs", "rows": table, "geometric mean of ratios": round(mean, 3)},
        indent=2, ensure_ascii=False) + "\n")
    print(f"wrote {path.relative_to(pathlib.Path.cwd()) if path.is_relative_to(pathlib.Path.cwd()) else path}")


if __name__ == "__main__":
  main()

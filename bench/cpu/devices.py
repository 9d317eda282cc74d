"""Programs split over 8 devices of one process: what a call costs, all-reduces beside copying, whole programs beside one device.

Every row says what is wanted of it. Times are medians of interleaved runs. The bandwidth of copying is measured in the same run, on as
many threads as there are cores; an all-reduce of N bytes on each of 8 devices counts 2·8·N bytes. `--clock cpu` counts processor time of all
threads, for machines that are busy with something else. Of a call on 8 devices two thirds are JAX's own: it makes and frees 8 buffers, events and futures.
"""

import argparse
import concurrent.futures
import functools
import math
import os
import statistics
import time

os.environ.setdefault("JAX_PLATFORMS", "weft")
os.environ.setdefault("WEFT_CPU_DEVICES", "8")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

DEVICES = 8
LOOP = 2000  # all-reduces of one call
clock = time.perf_counter


def timed(run):
  begin = clock()
  run()
  return clock() - begin


def medians(runs, repeats, least=0.0):
  """Seconds a call of each, turn by turn; `least`: a turn is so many calls that it takes so long."""
  counts = []
  for run in runs:
    run()
    run()
    counts.append(max(1, int(least / max(timed(run), 1e-7))))
  times = [[] for _ in runs]
  for _ in range(repeats):
    for k, run in enumerate(runs):
      begin = clock()
      for _ in range(counts[k]):
        run()
      times[k].append((clock() - begin) / counts[k])
  return [statistics.median(row) for row in times]


def calls(mesh, repeats):
  """A program that does nothing, one that does next to nothing, and one that sums four bytes."""
  one = jax.device_put(np.zeros(1, np.float32), jax.devices()[0])
  cut = jax.device_put(np.zeros(DEVICES, np.float32), NamedSharding(mesh, P("x")))
  add = jax.jit(lambda x: x + 1)
  nothing = jax.jit(lambda x: (), keep_unused=True)
  total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
  again = lambda _, x: jax.lax.pcast(jax.lax.psum(x, "x") * (1 / DEVICES), ("x",), to="varying")
  many = jax.jit(jax.shard_map(lambda x: jax.lax.fori_loop(0, LOOP, again, x), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
  empty, all_empty, alone, all_devices, summed, looped = medians(
      [lambda: nothing(one), lambda: nothing(cut), lambda: add(one).block_until_ready(), lambda: add(cut).block_until_ready(),
       lambda: total(cut).block_until_ready(), lambda: many(cut).block_until_ready()], repeats, least=0.01)
  print(f"an argument, no result: {1e6 * empty:.1f} µs on one device, {1e6 * all_empty:.1f} on {DEVICES}: {all_empty / empty:.2f}× (wanted: 2)")
  print(f"one element + 1: {1e6 * alone:.1f} µs on one device, {1e6 * all_devices:.1f} on {DEVICES}: {all_devices / alone:.2f}× (2.6 with a plugin that does nothing)")
  print(f"psum of 4 B over {DEVICES} devices, in a loop: {1e6 * looped / LOOP:.1f} µs (wanted: 20); a call of one: {1e6 * summed:.1f} µs")


def all_reduces(mesh, repeats, megabytes):
  for dtype in (jnp.float32, jnp.bfloat16):
    count = (megabytes << 20) // jnp.dtype(dtype).itemsize
    x = jax.device_put(jnp.ones((DEVICES, count), dtype), NamedSharding(mesh, P("x")))
    reduce = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
    arrays = [(np.ones(megabytes << 20, np.uint8), np.zeros(megabytes << 20, np.uint8)) for _ in range(DEVICES)]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
      copy = lambda: list(threads.map(lambda pair: np.copyto(pair[1], pair[0]), arrays))
      reduced, copied = medians([lambda: reduce(x).block_until_ready(), copy], repeats)
    moved = 2 * DEVICES * (megabytes << 20)
    print(f"all-reduce of {megabytes} MiB {jnp.dtype(dtype).name}: {moved / reduced / 1e9:.1f} GB/s, copying {moved / copied / 1e9:.1f}: "
          f"{100 * copied / reduced:.0f} % (wanted: 60)")


def attention(q, k, v):
  scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
  return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def mlp(x, *weights):
  for w in weights:
    x = jnp.tanh(x @ w)
  return x


def mlp_step(x, *weights):
  loss = lambda ws: jnp.mean(mlp(x, *ws) ** 2)
  return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))


def recurrence(x, w):
  return jax.lax.scan(lambda h, _: (jnp.tanh(h @ w + x), None), x, None, length=16)[0]


def layer_norm(x):
  return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


# Name: function, shapes, how each argument is cut.
PROGRAMS = {
    "matrix product, rows": (jnp.matmul, [(1024, 1024), (1024, 1024)], [P("x"), P()]),
    "matrix product, contracting": (jnp.matmul, [(1024, 1024), (1024, 1024)], [P(None, "x"), P("x")]),
    "mlp, data parallel step": (mlp_step, [(2048, 512), (512, 512), (512, 512)], [P("x"), P(), P()]),
    "mlp, fully sharded step": (mlp_step, [(2048, 512), (512, 512), (512, 512)], [P("x"), P("x"), P("x")]),
    "mlp, tensor parallel": (mlp, [(1024, 512), (512, 1024), (1024, 512)], [P(), P(None, "x"), P("x")]),
    "attention, heads": (attention, [(2, 8, 512, 64)] * 3, [P(None, "x")] * 3),
    "layer norm": (layer_norm, [(8192, 1024)], [P("x")]),
    "elementwise": (lambda x, y: jnp.exp(-x * x) * jnp.sin(y) + x, [(4096, 1024)] * 2, [P("x")] * 2),
    "recurrence": (recurrence, [(1024, 256), (256, 256)], [P("x"), P()]),
    "sort of rows": (functools.partial(jnp.sort, axis=-1), [(2048, 1024)], [P("x")]),
}


def programs(mesh, repeats, only):
  ratios = []
  for name, (fn, shapes, specs) in PROGRAMS.items():
    if only not in name:
      continue
    random = np.random.default_rng(0)
    values = [random.standard_normal(shape).astype(np.float32) / math.sqrt(shape[-1]) for shape in shapes]
    whole = [jax.device_put(value, jax.devices()[0]) for value in values]
    parts = [jax.device_put(value, NamedSharding(mesh, spec)) for value, spec in zip(values, specs)]
    run = jax.jit(fn)
    for a, b in zip(jax.tree.leaves(run(*whole)), jax.tree.leaves(run(*parts))):
      np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-3, atol=1e-3)
    one, split = medians([lambda: jax.block_until_ready(run(*whole)), lambda: jax.block_until_ready(run(*parts))], repeats, least=0.02)
    ratios.append(split / one)
    print(f"{name:30} {1e3 * one:8.2f} ms on one device, {1e3 * split:8.2f} on {DEVICES}: {ratios[-1]:.2f}×", flush=True)
  print(f"geometric mean: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}× (wanted: 1.15)")


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--quick", action="store_true", help="a few repeats, small all-reduces")
  parser.add_argument("--only", default="", help="calls, all-reduces, programs, or programs whose name contains this")
  parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
  options = parser.parse_args()
  if options.clock == "cpu":
    global clock
    clock = time.process_time
  repeats = 5 if options.quick else 15
  mesh = jax.make_mesh((DEVICES,), ("x",), devices=jax.devices()[:DEVICES], axis_types=(jax.sharding.AxisType.Auto,))
  parts = {"calls": lambda: calls(mesh, repeats), "all-reduces": lambda: all_reduces(mesh, repeats, 16 if options.quick else 64),
           "programs": lambda: programs(mesh, repeats, "")}
  if options.only and options.only not in parts:
    return programs(mesh, repeats, options.only)
  for name, part in parts.items():
    if options.only in ("", name):
      part()


if __name__ == "__main__":
  main()

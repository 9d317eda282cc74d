"""How programs speed up with threads on Weft: 20 programs on 1, 2, 4, 8, 16 threads (as many as there are cores), in milliseconds.

Every number of threads is a process of its own (WEFT_THREADS), all of them measured turn by turn. Compute-bound programs should reach
0.7 times the cores. Those that memory bounds should reach 0.85 of the bandwidth of copying on as many threads: arguments and results
are counted once each. The last column is what was reached of that.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time

COUNTS = [1, 2, 4, 8, 16]
OF_CORES, OF_COPY = 0.7, 0.85  # what programs should reach, bound by compute or by memory


def programs():
  """Name: (whether memory bounds it, a function of JAX, a function that makes its arguments)."""
  import jax
  import jax.numpy as jnp
  import numpy as np
  random = np.random.default_rng(0)
  f32 = lambda *shape: random.standard_normal(shape, np.float32)
  image = lambda: f32(8, 56, 56, 64)
  heads = lambda: tuple(f32(1, 1024, 8, 64) for _ in range(3))
  attend = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True)
  conv = lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
  layers = lambda: [f32(1024, 1024) / 32 for _ in range(4)]
  tensors = lambda: [f32(1 << 18) for _ in range(20)]

  def network(x, weights):
    for w in weights:
      x = jax.nn.gelu(x @ w)
    return (x ** 2).mean()

  return {
      "f32_1024": (False, lambda a, b: a @ b, lambda: (f32(1024, 1024), f32(1024, 1024))),
      "f32_768_deep": (False, lambda a, b: a @ b, lambda: (f32(2048, 768), f32(768, 2048))),
      "bf16_1024": (False, lambda a, b: a @ b, lambda: (f32(1024, 1024).astype(jnp.bfloat16), f32(1024, 1024).astype(jnp.bfloat16))),
      "batched_1024x64": (False, lambda a, b: a @ b, lambda: (f32(1024, 64, 64), f32(1024, 64, 64))),
      "few_rows": (True, lambda a, b: a @ b, lambda: (f32(16, 4096), f32(4096, 4096))),
      "matrix_vector": (True, lambda a, b: a @ b, lambda: (f32(4096, 4096), f32(4096))),
      "mlp_forward": (False, network, lambda: (f32(512, 1024), layers())),
      "mlp_gradient": (False, jax.grad(network, 1), lambda: (f32(512, 1024), layers())),
      "attention": (False, attend, heads),
      "attention_gradient": (False, jax.grad(lambda *x: (attend(*x) ** 2).sum(), (0, 1, 2)), heads),
      "convolution": (False, conv, lambda: (image(), f32(3, 3, 64, 64))),
      "convolution_gradient": (False, jax.grad(lambda x, w: (conv(x, w) ** 2).sum(), 1), lambda: (image(), f32(3, 3, 64, 64))),
      "max_pool": (True, lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), lambda: (f32(32, 56, 56, 64),)),
      "gelu": (False, jax.nn.gelu, lambda: (f32(4096, 1024),)),
      "sum_of_four": (True, lambda a, b, c, d: a + b * c - d, lambda: tuple(f32(1 << 23) for _ in range(4))),
      "softmax_rows": (False, lambda x: jax.nn.softmax(x, axis=-1), lambda: (f32(4096, 1024),)),
      "layer_norm": (True, lambda x: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), lambda: (f32(4096, 1024),)),
      "optimizer_step": (True, lambda p, g: [a - 0.01 * b / (jnp.abs(b) + 1e-8) for a, b in zip(p, g)], lambda: (tensors(), tensors())),
      "sort_rows": (False, lambda x: jnp.sort(x, axis=-1), lambda: (f32(1024, 1024),)),
      "transpose": (True, lambda x: jnp.swapaxes(x, 0, 1) + 1, lambda: (f32(4096, 4096),)),
  }


def seconds_of(call, least=0.02):
  """Of one call among as many as take `least` seconds."""
  count = 1
  while True:
    begin = time.perf_counter()
    for _ in range(count):
      call()
    taken = time.perf_counter() - begin
    if taken >= least:
      return taken / count
    count *= 2


def serve():
  """One line a program's name, answered with the milliseconds of a call and its bytes."""
  import jax
  import numpy as np
  device = jax.devices("weft")[0]
  known, ready = programs(), {}
  big = np.ones(1 << 25, np.float32)
  for line in sys.stdin:
    name = line.strip()
    if name not in ready:
      function, arguments = ((lambda x: x + 1), lambda: (big,)) if name == "copy" else known[name][1:]
      jitted, placed = jax.jit(function), jax.device_put(arguments(), device)
      call = lambda jitted=jitted, placed=placed: jax.block_until_ready(jitted(*placed))
      ready[name] = call, sum(x.nbytes for x in jax.tree.leaves((placed, call())))
    call, size = ready[name]
    print(json.dumps([1e3 * seconds_of(call), size]), flush=True)


class Worker:
  def __init__(self, threads):
    environment = {**os.environ, "WEFT_THREADS": str(threads), "JAX_PLATFORMS": "weft"}
    self.process = subprocess.Popen([sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

  def ask(self, name):
    self.process.stdin.write(name + "\n")
    self.process.stdin.flush()
    answer = self.process.stdout.readline()
    if not answer:
      raise RuntimeError(f"the process that measures {name} ended")
    return json.loads(answer)

  def close(self):
    self.process.stdin.close()
    self.process.wait()


def row_of(memory_bound, medians, size, copies):
  """Of a program: its speedup, its bandwidth on all threads, and both as a part of what it should reach."""
  first, last, cores = *(list(medians.values())[i] for i in (0, -1)), int(list(medians)[-1])
  bandwidth = size / last / 1e6
  reached = bandwidth / (copies or bandwidth) / OF_COPY if memory_bound else first / last / cores / OF_CORES
  return {"bound by": "memory" if memory_bound else "compute", "threads": medians, "speedup": first / last, "GB/s": bandwidth, "reached": reached}


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--only", default="", help="programs whose name contains one of these words, comma-separated")
  parser.add_argument("--repeats", type=int, default=7)
  parser.add_argument("--quick", action="store_true", help="three programs, two repeats; writes no file")
  parser.add_argument("--no-json", action="store_true", help="do not write bench/results")
  parser.add_argument("--list", action="store_true", help="name the programs and exit")
  parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
  options = parser.parse_args()
  if options.serve:
    return serve()
  words = [word for word in options.only.split(",") if word]
  names = {name: bound for name, (bound, *_) in programs().items() if not words or any(word in name for word in words)}
  if options.quick and not words:
    names = {name: names[name] for name in ("f32_1024", "gelu", "sum_of_four")}
  if options.list:
    print("\n".join(names))
    return 0
  counts = [n for n in COUNTS if n <= os.cpu_count()]
  workers = {n: Worker(n) for n in counts}
  print(f"{'ms a call, by threads':24}" + "".join(f"{n:>9}" for n in counts) + f"{'speedup':>9}{'GB/s':>8}{'reached':>9}")
  rows, copies = {}, None
  for name, bound in [("copy", True), *names.items()]:
    times, size = {n: [] for n in counts}, 0
    for _ in range(2 if options.quick else options.repeats):
      for n, worker in workers.items():
        taken, size = worker.ask(name)
        times[n].append(taken)
    medians = {str(n): statistics.median(values) for n, values in times.items()}
    rows[name] = row_of(bound, medians, size, copies)
    copies = copies or rows[name]["GB/s"]
    print(f"{name:24}" + "".join(f"{ms:9.2f}" for ms in medians.values()) +
          f"{rows[name]['speedup']:9.2f}{rows[name]['GB/s']:8.1f}{100 * rows[name]['reached']:7.0f} %", flush=True)
  for worker in workers.values():
    worker.close()
  if options.no_json or options.quick or words:
    return 0
  import harness
  import plot
  today = datetime.date.today().isoformat()
  stem = f"{today}-scaling-{platform.machine()}-{os.cpu_count()}core"
  harness.write_json(stem, {"date": today, "machine": f"{platform.machine()}, {os.cpu_count()} cores",
                            "unit": "milliseconds a call by threads, medians of interleaved runs; reached: of 0.7 x threads or 0.85 of copying", "rows": rows})
  plot.write_bars(harness.RESULTS / f"{stem}.svg", f"reached on {counts[-1]} threads, of 0.7 x threads or of 0.85 of copying",
                  {name: row["reached"] for name, row in rows.items() if name != "copy"})
  for kind in ("compute", "memory"):
    speedups = {name: [(int(n), row["threads"]["1"] / ms) for n, ms in row["threads"].items()] for name, row in rows.items() if row["bound by"] == kind}
    plot.write_lines(harness.RESULTS / f"{stem}-{kind}.svg", f"speedup, bound by {kind}", "threads", "times one thread", speedups)
  return 0


if __name__ == "__main__":
  sys.exit(main())

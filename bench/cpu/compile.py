"""Cold compilation, `lowered.compile()`, on Weft and on XLA:CPU in one process, interleaved, all caches off; medians, in seconds.

cpu:weft is XLA:CPU's time over Weft's. The last part compiles chains of 10² to 10⁵ operations: seconds against operations.
`--clock cpu` counts the processor time of all threads instead, which a busy machine changes little.
Large models are read as HLO text from the folder `--corpus`, where it is there.
"""

import os

os.environ["WEFT_CACHE"] = "0"

import datetime
import pathlib
import platform
import sys
import time

import harness
import jax
import jax.numpy as jnp
import numpy as np

import fused_programs
import loop_programs
import networks
import plot

jax.config.update("jax_enable_compilation_cache", False)

now = time.perf_counter
ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGE_MODELS = ["resnet50_keras_jax_f32", "mobilenet_v2", "dlrm_keras_jax_f32_train_step", "diffrax.b380012920"]
DEFAULT_SIZES = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]


def chain_of(count):
  """`count` elementwise operations, each on the one before, with a constant of its own."""
  def run(x):
    for k in range(count):
      x = [lambda v: v * (1 + 1e-3 * k), lambda v: v + 1e-3 * k, lambda v: jnp.maximum(v, -float(k)), jnp.tanh][k % 4](x)
    return x
  return run, (np.zeros((128, 128), np.float32),)


def lowered(program, device):
  """The program, traced and lowered anew."""
  function, arguments = program.make()
  with jax.default_device(device):
    return jax.jit(lambda *a: function(*a)).lower(*arguments)


class Single:
  """Compiles one program."""

  def __init__(self, program, quick=False):
    self.name, self.kind, self.program, self.quick = program.name, program.kind, program, quick

  def seconds(self, device):
    with self.program.context():
      low = lowered(self.program, device)
      begin = now()
      low.compile()
      return now() - begin


class Many:
  """Compiles 200 small programs, no two of which are alike."""
  name, kind, quick, count = "200 distinct tiny programs", "tiny program", False, 200

  def seconds(self, device):
    with jax.default_device(device):
      x = jnp.zeros(8, jnp.float32)
      ops = [jnp.sin, jnp.exp, jnp.abs, jnp.sqrt]
      low = [jax.jit(lambda v, k=k: ops[k % 4](v) * (k + 1) + jnp.sum(v[: k % 7 + 1])).lower(x) for k in range(self.count)]
      begin = now()
      for one in low:
        one.compile()
      return now() - begin


class Model:
  """Compiles a module read as HLO text, through the StableHLO that JAX's library makes of it."""
  kind, quick = "large model", False

  def __init__(self, path):
    self.name, self.path, self.bytes = path.stem, path, None

  def seconds(self, device):
    from jaxlib import _hlo, _jax
    from jax._src import compiler
    if self.bytes is None:
      module = _hlo.hlo_module_from_text(self.path.read_text())
      self.bytes = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    devices = _jax.DeviceList((device,))
    begin = now()
    device.client.compile_and_load(self.bytes, devices, options)
    return now() - begin


def items():
  def one(name, kind, make, quick=False):
    return Single(harness.Program(name=name, kind=kind, make=make), quick)
  tiny = lambda: (lambda x: x + 1.0, (np.float32(0),))
  ones = lambda: (lambda: jnp.ones((256, 256)), ())
  found = [one("scalar add", "tiny program", tiny, True), Many(), one("jnp.ones", "tiny program", ones, True),
           one("MLP training step", "small network", networks.mlp, True),
           one("transformer step, 12 layers", "deep network", networks.transformer),
           one("ResNet-18 training step", "deep network", networks.resnet18),
           one("chain of 1,000 operations", "elementwise chain", lambda: chain_of(1000), True),
           one("chain of 5,000 operations", "elementwise chain", lambda: chain_of(5000))]
  return found


def suites():
  return [Single(p, p.name in ("gru_gradient", "softmax")) for p in [*loop_programs.PROGRAMS, *fused_programs.PROGRAMS]]


def options_of(parser):
  parser.add_argument("--corpus", default=str(ROOT.parent / "shared/corpus/hlo/large"), help="folder of large models as HLO text")
  parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="what seconds are")
  parser.add_argument("--part", default="programs,models,suites,scaling", help="which parts, comma-separated")
  parser.add_argument("--sizes", default="", help="lengths of the chains of the last part, comma-separated")


def measure(item, devices, options):
  """Seconds of each platform, interleaved; one that exceeds the cap is compiled once."""
  row, times = {"kind": item.kind}, {name: [] for name in devices}
  for turn in range(options.repeats):
    for name, device in devices.items():
      if name in row or (turn and times[name][0] > options.cap):
        continue
      try:
        times[name].append(item.seconds(device))
      except Exception as error:  # pylint: disable=broad-except
        row[name] = f"failed: {str(error).splitlines()[0][:160]}"
  for name in devices:
    if name not in row:
      row[name] = harness.quartiles(times[name])
  first, last = list(devices)[0], list(devices)[-1]
  if first != last and isinstance(row[first], list) and isinstance(row[last], list):
    row[f"{last}:{first}"] = harness.ratio_of(times[last], times[first])
  return row


def show(name, row, devices):
  cells = "".join(f"{row[d][1]:12.4f}" if isinstance(row[d], list) else f"{'failed':>12}" for d in devices)
  ratio = row.get(f"{list(devices)[-1]}:{list(devices)[0]}")
  print(f"{name:32}{cells}{harness.ratio_cell(ratio)}", flush=True)
  for device in devices:
    if isinstance(row[device], str):
      print(f"    {device} {row[device]}")


def scaling(devices, options):
  """Chains that grow: a platform stops where the next one would exceed three times the cap if its time grew with the square."""
  sizes = [int(s) for s in options.sizes.split(",") if s] or (DEFAULT_SIZES[:3] if options.quick else DEFAULT_SIZES)
  curves = {name: [] for name in devices}
  for k, size in enumerate(sizes):
    item = Single(harness.Program(name=f"chain of {size}", kind="", make=lambda: chain_of(size)))
    cells = []
    for name, device in devices.items():
      curve = curves[name]
      if k and (len(curve) < k or curve[-1][1] * (size / curve[-1][0]) ** 1.5 > 3 * options.cap):
        cells.append(f"{'-':>12}")
        continue
      curve.append((size, item.seconds(device)))
      cells.append(f"{curve[-1][1]:12.4f}")
    print(f"{f'chain of {size:,}':32}" + "".join(cells), flush=True)
  return curves


def chosen_items(options):
  parts = options.part.split(",")
  found = items() if "programs" in parts else []
  if "models" in parts and not options.quick:
    folder = pathlib.Path(options.corpus)
    if folder.is_dir():
      found += [Model(folder / f"{name}.hlo") for name in LARGE_MODELS if (folder / f"{name}.hlo").exists()]
    else:
      print(f"no large models: there is no folder {options.corpus}")
  found += suites() if "suites" in parts else []
  return harness.chosen(found, options)


def main():
  options = harness.arguments_of(__doc__, options_of)
  options.repeats = min(options.repeats, 2 if options.quick else 3)
  options.cap = max(options.cap, 10)
  if options.clock == "cpu":
    global now
    now = time.process_time
  chosen = chosen_items(options)
  if options.list:
    print("\n".join(f"{item.name:32} {item.kind}" for item in chosen))
    return 0
  devices = {name: jax.devices(name)[0] for name in options.platforms}
  pair = f"{options.platforms[-1]}:{options.platforms[0]}"
  print(f"{'seconds to compile':32}" + "".join(f"{name:>12}" for name in devices) + f"{pair:>10} [quartiles]")
  table = {}
  for item in chosen:
    table[item.name] = measure(item, devices, options)
    show(item.name, table[item.name], devices)
  ratios = {name: row[pair][1] for name, row in table.items() if pair in row}
  if ratios:
    print(f"geometric mean by kind, {pair}: {harness.by_kind(chosen, ratios):.3g} ({len(ratios)} of {len(chosen)} programs)")
  curves = scaling(devices, options) if "scaling" in options.part.split(",") and not options.only else {}
  if not (options.no_json or options.quick or options.only):
    write(options, table, ratios, curves, harness.by_kind(chosen, ratios) if ratios else None)
  return 0


def write(options, table, ratios, curves, mean):
  today = datetime.date.today().isoformat()
  suite = "compile" if table else "compile-scaling"
  stem = f"{today}-{suite}-{platform.machine()}-{os.cpu_count()}core"
  harness.write_json(stem, {
      "date": today, "machine": f"{platform.machine()}, {os.cpu_count()} cores", "jax": jax.__version__,
      "unit": "seconds of lowered.compile() as [lower quartile, median, upper quartile] of interleaved runs, caches off",
      "clock": {"wall": "passing time", "cpu": "processor time of all threads"}[options.clock],
      "rows": table, **({"geometric mean by kind": mean} if mean else {}),
      "operations and seconds": curves})
  if curves:
    drawing = f"{today}-compile-scaling-{platform.machine()}-{os.cpu_count()}core.svg"
    plot.write_lines(harness.RESULTS / drawing, "compiling a chain of operations", "operations", "seconds", curves)
  if ratios:
    plot.write_bars(harness.RESULTS / f"{stem}.svg", f"compilation: time of {options.platforms[-1]} over {options.platforms[0]}", ratios)


if __name__ == "__main__":
  sys.exit(main())

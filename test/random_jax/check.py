"""Runs one random program on Weft and on XLA:CPU and says whether Weft's results are as good.

Integers and bools must be equal. Floats that are close pass at once; else the same program in float64 on XLA:CPU is the arbiter:
the error of Weft may be a few times that of XLA:CPU, plus what inputs changed by an eps change, plus a few eps of the largest
element. So an ill-conditioned program asks for less, and a step function whose argument is at the step for nothing. A program in
double precision has no wider arbiter: what values on the way changed by an eps change is allowed as well, so differences that cancel.
"""

import dataclasses
import inspect
import textwrap

import jax
import jax.numpy as jnp
import numpy as np

TYPES = dict(f32="float32", bf16="bfloat16", f16="float16", f64="float64", c64="complex64", c128="complex128",
             s8="int8", s16="int16", s32="int32", s64="int64", u8="uint8", u32="uint32", pred="bool_")
WIDE = dict(f32="f64", bf16="f64", f16="f64", c64="c128")
EPS = dict(f64=2.0**-52, c128=2.0**-52, f32=2.0**-23, c64=2.0**-23, f16=2.0**-10, bf16=2.0**-7)
PERTURBATIONS = 4
REPETITIONS = 3


def data(seed, k, shape, dtype, specials):
  """Input number k of a program."""
  rng = np.random.default_rng([seed, k])
  if dtype == "bool_":
    return rng.random(shape) < 0.5
  if "int" in dtype:
    return rng.integers(0 if dtype[0] == "u" else -9, 100 if seed % 7 == 0 else 10, shape).astype(dtype)
  x = rng.uniform(-1.5, 1.5, shape)
  if "complex" in dtype:
    return (x + 1j * rng.uniform(-1.5, 1.5, shape)).astype(dtype)
  if specials and x.size:
    x.flat[rng.integers(0, x.size, 3)] = rng.choice([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e30, -1e-30], 3)
  return x.astype(jnp.dtype(dtype))


def compiled(program, wide=False, moved=None):
  """The jitted function of a program; `wide`: with every float in double precision; `moved`: a function of the value of each statement."""
  names = {name: getattr(jnp, TYPES[WIDE.get(name, name) if wide else name]) for name in TYPES}
  names.update(jax=jax, jnp=jnp, lax=jax.lax, moved=moved)
  if moved:
    lines = [[*lines, f"{name} = moved({name})"] for lines, name in zip(program.statements, program.defines)]
    program = dataclasses.replace(program, statements=lines)
  exec(compile(program.function(), f"<seed {program.seed}>", "exec"), names)  # pylint: disable=exec-used
  return jax.jit(names["program"])


def inputs_of(program):
  return [data(program.seed, int(name[1:]), shape, TYPES[dtype], program.specials) for name, shape, dtype in program.inputs]


def run(function, inputs, platform, x64):
  with jax.enable_x64(x64):
    device = jax.devices(platform)[0]
    return [np.asarray(value) for value in function(*(jax.device_put(value, device) for value in inputs))]


def is_inexact(array):
  return array.dtype.kind in "fc" or array.dtype == jnp.bfloat16


def widened(array):
  return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def distance(a, b):
  """The largest difference of elements that are finite in both; infinite where only one is NaN, or infinities differ."""
  a, b = widened(a), widened(b)
  if a.size == 0:
    return 0.0
  with np.errstate(all="ignore"):
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gap = np.where(same, 0.0, np.abs(a - b))
  return float(np.max(np.where(np.isnan(gap), np.inf, gap)))


def largest(array):
  array = np.abs(widened(array))
  finite = array[np.isfinite(array)]
  return float(finite.max()) if finite.size else 0.0


class Arbiter:
  """Double precision, and inputs changed a little, of one program on XLA:CPU; made only when results differ."""

  def __init__(self, program, function, inputs, eps):
    wide, rng = compiled(program, wide=True), np.random.default_rng(program.seed)
    self.narrow, self.wide = [], []
    for k in range(1 + PERTURBATIONS):
      moved = [self._moved(array, eps * 2**k / 2, rng) if k else array for array in inputs]
      self.narrow.append(run(function, moved, "cpu", program.x64))
      # Op by op where NaN may be: XLA makes a select of a product with a mask, so that 0 * NaN is 0.
      with jax.disable_jit(program.specials):
        self.wide.append(run(wide, [widened(array) if is_inexact(array) else array for array in moved], "cpu", True))

    if eps == EPS["f64"]:
      function = compiled(program, moved=lambda value: self._rounded(value, eps, rng))
      self.wide += [run(function, inputs, "cpu", program.x64)]

  @staticmethod
  def _rounded(value, eps, rng):
    """A value on the way, as if it had been computed with another rounding."""
    return value * (1 + eps * rng.choice([-1, 1], value.shape)).astype(value.dtype) if is_inexact(value) else value

  @staticmethod
  def _moved(array, eps, rng):
    if not is_inexact(array):
      return array
    factor = 1 + eps * rng.uniform(-1, 1, array.shape)
    with np.errstate(all="ignore"):
      moved = (widened(array) * factor + eps * rng.uniform(-1, 1, array.shape) / 8).astype(array.dtype)
    return np.where(np.isfinite(widened(array)), moved, array).astype(array.dtype)

  def verdict(self, k, ours, eps):
    """Empty, or why output k is worse than it may be."""
    theirs, exact = self.narrow[0][k], self.wide[0][k]
    if not is_inexact(ours):
      unstable = any(np.any(run[k] != theirs) for run in (*self.narrow, *self.wide))
      where = np.argwhere(ours != theirs)
      return "" if unstable else f"{len(where)} of {ours.size} differ, first at {tuple(map(int, where[0]))}: " \
          f"{ours[tuple(where[0])]}, XLA:CPU {theirs[tuple(where[0])]}"
    error = distance(ours, exact)
    if np.array_equal(np.isnan(widened(ours)), np.isnan(widened(exact))) and not np.array_equal(np.isnan(widened(theirs)), np.isnan(widened(exact))):
      return ""  # Only XLA:CPU differs in what is NaN.
    allowed = max(distance(narrow[k], wide[k]) for narrow, wide in zip(self.narrow, self.wide))
    moves = max(distance(wide[k], exact) for wide in self.wide)
    limit = 8 * allowed + 8 * moves + (64 if eps < 1e-5 else 16) * eps * max(largest(exact), 1e-3)
    if error <= limit or not np.isfinite(limit):
      return ""
    return f"error {error:.3g}, XLA:CPU's {distance(theirs, exact):.3g}, allowed {limit:.3g}, largest {largest(exact):.3g}"


def close(ours, theirs, eps):
  if not is_inexact(ours):
    return np.array_equal(ours, theirs)
  return distance(ours, theirs) <= 24 * eps * max(largest(theirs), 1e-3)


def check(program):
  """(outcome, why): ok; rejected (JAX or XLA:CPU refuse it); error (only Weft refuses it); differs."""
  inputs = inputs_of(program)
  try:
    function = compiled(program)
    theirs = run(function, inputs, "cpu", program.x64)
  except Exception as error:  # pylint: disable=broad-except
    return "rejected", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
  try:
    ours = run(function, inputs, "weft", program.x64)
  except Exception as error:  # pylint: disable=broad-except
    return "error", f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
  eps = max([EPS[name] for name in program.dtypes if name in EPS], default=2.0**-23)
  wrong = [k for k in range(len(theirs)) if ours[k].shape != theirs[k].shape or not close(ours[k], theirs[k], eps)]
  if not wrong:
    return "ok", ""
  try:
    arbiter = Arbiter(program, function, inputs, eps)
  except Exception as error:  # pylint: disable=broad-except
    return "rejected", f"in double precision: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
  for k in wrong:
    if why := arbiter.verdict(k, ours[k], eps):
      return "differs", f"{program.outputs[k]}: {why}"
  return "ok", ""


def alone(program, platform):
  """Compiles and runs a program on one platform, REPETITIONS times, whatever comes of it: only that the process lives tells something."""
  for _ in range(REPETITIONS):
    try:
      run(compiled(program), inputs_of(program), platform, program.x64)
    except Exception as error:  # pylint: disable=broad-except
      return "rejected", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
  return "ok", ""


def reduced(program):
  """The first statement whose value is wrong, as a program of what it needs; the program itself when that is not wrong alone."""
  for name in program.defines:
    part = program.sliced([name])
    if check(part)[0] == "differs":
      return part
  return program


def script(program, why):
  """A program that stands alone."""
  arguments = "\n".join(f"    data({program.seed}, {int(name[1:])}, {shape}, \"{TYPES[dtype]}\", {program.specials})," for name, shape, dtype in program.inputs)
  types = "\n".join(f"{name} = jnp.{TYPES[name]}" for name in TYPES)
  return textwrap.dedent('''\
      """Random JAX program {seed}: {why}"""

      import os

      os.environ.setdefault("JAX_PLATFORMS", "weft,cpu")
      import jax
      import jax.numpy as jnp
      import numpy as np
      from jax import lax

      jax.config.update("jax_enable_x64", {x64})
      ''').format(seed=program.seed, why=why.replace('"""', "'''").replace("\\", "/"), x64=program.x64) + f"{types}\n\n\n{inspect.getsource(data)}\n\n{program.function()}\n\ninputs = [\n{arguments}\n]\n" + textwrap.dedent('''\
      for platform in os.environ["JAX_PLATFORMS"].split(","):
        device = jax.devices(platform)[0]
        print(platform, *jax.jit(program)(*(jax.device_put(value, device) for value in inputs)), sep="\\n")
      ''')

"""Matrix products: squares, few rows, outer products, batches, odd sizes, with bias and activation; in five types.

Operands of bf16 have results of f32, those of int8 results of int32. `_t` marks a product by a transpose.
"""

import jax
import jax.numpy as jnp
import numpy as np

import harness

TYPES = {
    "f32": dict(operand=np.float32, result=np.float32, tolerance=1e-5),
    "f64": dict(operand=np.float64, result=np.float64, tolerance=1e-14, x64=True),
    "bf16": dict(operand=jnp.bfloat16, result=np.float32, tolerance=1e-5),
    "s8": dict(operand=np.int8, result=np.int32, tolerance=0),
    "c64": dict(operand=np.complex64, result=np.complex64, tolerance=1e-5),
}
SQUARES = (64, 128, 256, 512, 1024, 2048, 4096)
ROWS = (1, 4, 16, 64, 512)  # times a matrix of 4096 x 4096
OUTER = (16, 64)  # the contraction of two matrices with 4096 rows
BATCHES = (32, 64, 128)  # 512 squares of that size
ODD = (1000, 777, 513)


def matrix(seed, dtype, *shape):
  random = np.random.default_rng(seed)
  if dtype == np.int8:
    return random.integers(-128, 128, shape, np.int8)
  values = random.standard_normal(shape, np.float32)
  if dtype == np.complex64:
    values = values + 1j * random.standard_normal(shape, np.float32)
  return values.astype(dtype)


def product(type_name, kind, name, shape, batch=(), transposed=False, bias=False, quick=False):
  """`shape`: m, n, k of op(a) op(b), where b is n x k when it is transposed."""
  form = TYPES[type_name]
  m, n, k = shape

  def multiply(a, b, *more):
    b = jnp.swapaxes(b, -1, -2) if transposed else b
    c = jnp.matmul(a, b, preferred_element_type=form["result"])
    return jax.nn.gelu(c + more[0]) if bias else c

  def make():
    b = (n, k) if transposed else (k, n)
    more = (matrix(2, form["result"], n),) if bias else ()
    return multiply, (matrix(0, form["operand"], *batch, m, k), matrix(1, form["operand"], *batch, *b), *more)
  flops = (8 if type_name == "c64" else 2) * m * n * k * int(np.prod(batch))
  return harness.Program(name=f"{type_name}_{name}", kind=f"{type_name} {kind}", make=make, flops=flops, quick=quick,
                         tolerance=form["tolerance"], x64=form.get("x64", False))


def products(t):
  for n in SQUARES:
    if n < 4096 or t not in ("f64", "c64"):
      yield product(t, "small squares" if n <= 256 else "squares", f"{n}", (n, n, n), quick=n in (64, 256, 1024, 2048))
  for m in ROWS:
    yield product(t, "few rows", f"{m}x4096x4096", (m, 4096, 4096), quick=m in (1, 16))
    yield product(t, "few rows", f"{m}x4096x4096_t", (m, 4096, 4096), transposed=True, quick=m == 16)
  for k in OUTER:
    yield product(t, "outer", f"4096x4096x{k}", (4096, 4096, k), quick=k == 16)
  for n in BATCHES:
    yield product(t, "batch", f"512_of_{n}", (n, n, n), batch=(512,), quick=n == 64)
  yield product(t, "odd", "{}x{}x{}".format(*ODD), ODD, quick=True)
  if t in ("f32", "f64", "bf16"):
    yield product(t, "bias and gelu", "512x2048x512_bias_gelu", (512, 2048, 512), bias=True, quick=t != "f64")


PROGRAMS = [p for t in TYPES for p in products(t)]

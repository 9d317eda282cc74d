"""Products by block-scaled weights (jax.lax.scaled_dot) on Weft and on XLA:CPU in one process, interleaved; medians, in milliseconds.

Weights are 4096 x 4096 numbers of 8 or 4 bits with a scale (a power of two) for every 32 along the contraction; the left side is
bf16, or scaled itself. Results are f32. `bf16` is the product by weights of bf16, to compare with.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import harness

N = 4096
BLOCK = 32
FORMATS = {"mxfp8": jnp.float8_e4m3fn, "mxfp8_e5m2": jnp.float8_e5m2, "mxfp4": jnp.float4_e2m1fn}
ROWS = (1, 16, 512)


def scaled(seed, rows, dtype):
  random = np.random.default_rng(seed)
  values = random.standard_normal((rows, N), np.float32).astype(dtype)
  scales = np.exp2(random.integers(-4, 5, (rows, N // BLOCK))).astype(jnp.float8_e8m0fnu)
  return values, scales


def plain(seed, rows):
  return np.random.default_rng(seed).standard_normal((rows, N), np.float32).astype(jnp.bfloat16)


def program(name, rows, dtype, both=False):
  dims = (((1,), (1,)), ((), ()))

  def multiply(a, w, w_scale, *a_scale):
    return jax.lax.scaled_dot(a, w, lhs_scale=a_scale[0] if both else None, rhs_scale=w_scale, dimension_numbers=dims,
                              preferred_element_type=jnp.float32)

  def make():
    weights = scaled(1, N, dtype)
    left = scaled(0, rows, dtype) if both else (plain(0, rows),)
    return multiply, (left[0], *weights, *left[1:])
  return harness.Program(name=f"{name}_{rows}x4096x4096", kind=f"{name} {'few' if rows <= 16 else 'many'} rows", make=make,
                         flops=2 * rows * N * N, quick=rows == 16, tolerance=1e-5)


def of_bf16(rows):
  def multiply(a, w):
    return jax.lax.dot_general(a, w, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
  return harness.Program(name=f"bf16_{rows}x4096x4096", kind=f"bf16 {'few' if rows <= 16 else 'many'} rows",
                         make=lambda: (multiply, (plain(0, rows), plain(1, N))), flops=2 * rows * N * N, quick=rows == 16,
                         tolerance=1e-5)


PROGRAMS = [of_bf16(rows) for rows in ROWS]
PROGRAMS += [program(name, rows, dtype) for name, dtype in FORMATS.items() for rows in ROWS]
PROGRAMS += [program(f"{name}_both", rows, dtype, both=True) for name, dtype in FORMATS.items() for rows in ROWS[1:]]


if __name__ == "__main__":
  sys.exit(harness.run("scaled", PROGRAMS, __doc__))

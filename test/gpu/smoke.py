#!/usr/bin/env python3
"""Small JAX programs on the platform `weft`, compared with NumPy; the last line is `N passed, M failed`."""

import sys
import traceback

import jax
import jax.numpy as jnp
import numpy as np

CASES = []


def case(function):
  CASES.append(function)
  return function


def close(got, want, tolerance=1e-5):
  np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=tolerance, atol=tolerance)


def numbers(*shape, seed=0):
  return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@case
def elementwise():
  x = numbers(1000)
  close(jax.jit(lambda x: jnp.tanh(x) * x + 1)(x), np.tanh(x.astype(np.float64)) * x + 1)


@case
def product():
  a, b = numbers(128, 64), numbers(64, 96, seed=1)
  close(jax.jit(jnp.dot)(a, b), a.astype(np.float64) @ b, 2e-2)  # TF32 is allowed


@case
def product_bf16():
  a, b = (jnp.asarray(x, jnp.bfloat16) for x in (numbers(64, 64), numbers(64, 64, seed=1)))
  want = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
  close(jax.jit(jnp.dot)(a, b), want, 6e-2 * 8)


@case
def softmax_gradient():
  x = numbers(32, 100)
  got = jax.jit(jax.grad(lambda x: jnp.sum(jax.nn.softmax(x)[:, 0])))(x)
  wide = x.astype(np.float64)
  p = np.exp(wide - wide.max(1, keepdims=True))
  p /= p.sum(1, keepdims=True)
  close(got, p * ((np.arange(100) == 0) - p[:, :1]))


@case
def reductions():
  x = numbers(257, 129)
  for axis in (None, 0, 1):
    close(jax.jit(lambda x: jnp.sum(x, axis))(x), x.astype(np.float64).sum(axis), 1e-4)
    close(jax.jit(lambda x: jnp.max(x, axis))(x), x.max(axis))


@case
def cumulative_sum():
  x = numbers(10000)
  close(jax.jit(jnp.cumsum)(x), np.cumsum(x.astype(np.float64)), 1e-3)


@case
def sorting():
  x = numbers(5000)
  close(jax.jit(jnp.sort)(x), np.sort(x))
  assert (np.asarray(jax.jit(jnp.argsort)(x)) == np.argsort(x, kind="stable")).all()


@case
def gather_and_scatter():
  table, rows = numbers(50, 8), np.random.default_rng(1).integers(0, 50, 300)
  close(jax.jit(lambda t, r: t[r])(table, rows), table[rows])
  want = table.astype(np.float64)
  np.add.at(want, rows, 1)
  close(jax.jit(lambda t, r: t.at[r].add(1))(table, rows), want, 1e-4)


@case
def loops():
  x = numbers(16)
  got = jax.jit(lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c), c.sum()), x, None, length=20))(x)[0]
  want = x.astype(np.float64)
  for _ in range(20):
    want = np.sin(want)
  close(got, want)
  assert int(jax.jit(lambda n: jax.lax.while_loop(lambda i: i * i < n, lambda i: i + 1, 0))(1000)) == 32


@case
def branches():
  f = jax.jit(lambda p, x: jax.lax.cond(p, lambda x: x * 2, lambda x: -x, x))
  x = numbers(5)
  close(f(True, x), x * 2)
  close(f(False, x), -x)


@case
def random_numbers():
  x = jax.random.normal(jax.random.key(0), (1000,))
  assert abs(float(x.mean())) < 0.2 and 0.8 < float(x.std()) < 1.2
  assert (np.asarray(x) == np.asarray(jax.random.normal(jax.random.key(0), (1000,)))).all()


@case
def training_step():
  weights = {"a": numbers(8, 16), "b": numbers(16, 1, seed=1)}
  x, y = numbers(64, 8, seed=2), numbers(64, 1, seed=3)

  def loss(w):
    return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2)

  step = jax.jit(lambda w: jax.tree.map(lambda p, g: p - 0.05 * g, w, jax.grad(loss)(w)), donate_argnums=0)
  weights = jax.tree.map(jnp.asarray, weights)
  before = float(loss(weights))
  for _ in range(50):
    weights = step(weights)
  assert float(loss(weights)) < 0.5 * before


@case
def convolution():
  x, w = numbers(2, 3, 10, 10), numbers(4, 3, 3, 3, seed=1)
  got = jax.jit(lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID"))(x, w)
  windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
  close(got, np.einsum("nchwij,ocij->nohw", windows, w), 3e-2)


def main():
  print("devices:", jax.devices())
  failed = 0
  for function in CASES:
    try:
      function()
    except Exception:  # each one is a finding; the others run on
      failed += 1
      print(f"{function.__name__}: failed")
      traceback.print_exc(limit=-3)
  print(f"{len(CASES) - failed} passed, {failed} failed")
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main())

"""Solvers and iterations per element in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Bisection: x^3 + x = a, for each a.


def halve(a, lo, hi):
  middle = 0.5 * (lo + hi)
  below = middle * middle * middle + middle < a
  return jnp.where(below, middle, lo), jnp.where(below, hi, middle)


def targets():
  return (np.abs(numbers(2048)) + 0.1,)


@spelling("bisection_each", tolerance=1e-5)
def vmapped_fori():
  def f(x):
    def one(a):
      return lax.fori_loop(0, 30, lambda _, s: halve(a, *s), (jnp.float32(0), jnp.float32(4)))[0]
    return jax.vmap(one)(x)
  return f, targets()


@spelling("bisection_each", tolerance=1e-5)
def mapped_conds():
  def f(x):
    def one(a):
      def step(_, s):
        lo, hi = s
        middle = 0.5 * (lo + hi)
        return lax.cond(middle * middle * middle + middle < a, lambda: (middle, hi), lambda: (lo, middle))
      return lax.fori_loop(0, 30, step, (jnp.float32(0), jnp.float32(4)))[0]
    return lax.map(one, x)
  return f, targets()


@spelling("bisection_each", tolerance=1e-5)
def interval_rows():
  def f(x):
    def step(s, _):
      return jnp.stack(halve(x, s[0], s[1])), None
    return lax.scan(step, jnp.stack([jnp.zeros_like(x), jnp.full_like(x, 4)]), None, length=30)[0][0]
  return f, targets()


@spelling("bisection_each", tolerance=1e-5)
def nested_at_set():
  def f(x):
    def one(i, out):
      s = lax.fori_loop(0, 30, lambda _, s: halve(x[i], *s), (jnp.float32(0), jnp.float32(4)))
      return out.at[i].set(s[0])
    return lax.fori_loop(0, x.shape[0], one, jnp.zeros_like(x))
  return f, targets()


# Polynomials by Horner's rule, each coefficient for all places or each place for all coefficients.


def polynomial():
  return (0.1 * numbers(24), 0.5 * numbers(4096, seed=2))


@spelling("horner", tolerance=1e-5)
def scan_coefficients():
  def f(c, x):
    return lax.scan(lambda y, a: (y * x + a, None), jnp.zeros_like(x), c)[0]
  return f, polynomial()


@spelling("horner", tolerance=1e-5)
def mapped_fori():
  def f(c, x):
    return lax.map(lambda v: lax.fori_loop(0, c.shape[0], lambda i, y: y * v + c[i], jnp.float32(0)), x)
  return f, polynomial()


@spelling("horner", tolerance=1e-5)
def polyval():
  return jnp.polyval, polynomial()


# Gauss-Seidel in red and black: each half reads the other one.


@spelling("red_black", tolerance=1e-4)
def masked():
  def f(b):
    i, j = jnp.indices(b.shape)
    red = (i + j) % 2 == 0
    def half(u, mask):
      p = jnp.pad(u, 1)
      return jnp.where(mask, 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + b), u)
    return lax.fori_loop(0, 30, lambda _, u: half(half(u, red), ~red), jnp.zeros_like(b))
  return f, (numbers(64, 64),)


@spelling("red_black", tolerance=1e-4)
def rolled_masked():
  def f(b):
    n = b.shape[0]
    i, j = jnp.indices(b.shape)
    red = ((i + j) % 2 == 0).astype(np.float32)
    def around(u):
      up, down = jnp.where(i == 0, 0, jnp.roll(u, 1, 0)), jnp.where(i == n - 1, 0, jnp.roll(u, -1, 0))
      left, right = jnp.where(j == 0, 0, jnp.roll(u, 1, 1)), jnp.where(j == n - 1, 0, jnp.roll(u, -1, 1))
      return 0.25 * (up + down + left + right + b)
    def sweep(u, _):
      u = red * around(u) + (1 - red) * u
      return (1 - red) * around(u) + red * u, None
    return lax.scan(sweep, jnp.zeros_like(b), None, length=30)[0]
  return f, (numbers(64, 64),)


@spelling("red_black", tolerance=1e-4)
def strided_sets():
  def f(b):
    n = b.shape[0]
    def part(u, i, j):
      rows, columns = slice(i, n + i, 2), slice(j, n + j, 2)
      v = u[i - 1:n + i - 1:2, columns] + u[i + 1:n + i + 1:2, columns]
      v = v + u[rows, j - 1:n + j - 1:2] + u[rows, j + 1:n + j + 1:2]
      # The last row and column lie beyond the square where it begins at 2.
      return u.at[rows, columns].set(0.25 * (v + b[i - 1::2, j - 1::2]))
    def sweep(_, u):
      return part(part(part(part(u, 1, 1), 2, 2), 1, 2), 2, 1)
    return lax.fori_loop(0, 30, sweep, jnp.zeros((n + 3, n + 3)))[1:n + 1, 1:n + 1]
  return f, (numbers(64, 64),)


# Successive over-relaxation, point by point in place.


@spelling("sor", tolerance=1e-4)
def nested_points():
  def f(b):
    n = b.shape[0]
    def sweep(_, u):
      def row(i, u):
        def point(j, u):
          around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
          return u.at[i, j].add(1.5 * (0.25 * (around + b[i - 1, j - 1]) - u[i, j]))
        return lax.fori_loop(1, n + 1, point, u)
      return lax.fori_loop(1, n + 1, row, u)
    return lax.fori_loop(0, 20, sweep, jnp.zeros((n + 2, n + 2)))
  return f, (numbers(32, 32),)


@spelling("sor", tolerance=1e-4)
def slices_of_nine():
  def f(b):
    n = b.shape[0]
    def sweep(_, u):
      def point(k, u):
        i, j = k // n, k % n
        w = lax.dynamic_slice(u, (i, j), (3, 3))
        new = w[1, 1] + 1.5 * (0.25 * (w[0, 1] + w[2, 1] + w[1, 0] + w[1, 2] + b[i, j]) - w[1, 1])
        return lax.dynamic_update_slice(u, new[None, None], (i + 1, j + 1))
      return lax.fori_loop(0, n * n, point, u)
    return lax.fori_loop(0, 20, sweep, jnp.zeros((n + 2, n + 2)))
  return f, (numbers(32, 32),)


@spelling("sor", tolerance=1e-4)
def scanned_rows():
  def f(b):
    n = b.shape[0]
    def row(above, item):
      here, below, rhs = item
      def point(left, x):
        up, old, right, down, q = x
        new = old + 1.5 * (0.25 * (up + down + left + right + q) - old)
        return new, new
      inner = lax.scan(point, jnp.float32(0), (above[1:-1], here[1:-1], here[2:], below[1:-1], rhs))[1]
      return (jnp.pad(inner, 1),) * 2
    def sweep(u, _):
      return jnp.concatenate([u[:1], lax.scan(row, u[0], (u[1:-1], u[2:], b))[1], u[-1:]]), None
    return lax.scan(sweep, jnp.zeros((n + 2, n + 2)), None, length=20)[0]
  return f, (numbers(32, 32),)


# A multigrid cycle in one dimension.


def cycles(b, laplace, narrow, widen):
  def smooth(u, b):
    return lax.fori_loop(0, 3, lambda _, u: u + 0.33 * (b - laplace(u)), u)
  def cycle(b, level):
    u = smooth(jnp.zeros_like(b), b)
    if level == 0:
      return u
    return smooth(u + widen(cycle(2 * narrow(b - laplace(u)), level - 1)), b)
  return lax.fori_loop(0, 5, lambda _, x: x + cycle(b - laplace(x), 5), jnp.zeros_like(b))


@spelling("multigrid", tolerance=1e-3)
def pads_and_strides():
  def f(b):
    laplace = lambda u: 2 * u - jnp.pad(u, 1)[:-2] - jnp.pad(u, 1)[2:]
    return cycles(b, laplace, lambda r: r[::2] + r[1::2], lambda e: jnp.repeat(e, 2))
  return f, (numbers(512),)


@spelling("multigrid", tolerance=1e-3)
def concatenations():
  def f(b):
    zero = jnp.zeros(1)
    laplace = lambda u: 2 * u - jnp.concatenate([zero, u[:-1]]) - jnp.concatenate([u[1:], zero])
    return cycles(b, laplace, lambda r: r.reshape(-1, 2).sum(1), lambda e: jnp.stack([e, e], 1).reshape(-1))
  return f, (numbers(512),)


@spelling("multigrid", tolerance=1e-3)
def convolutions():
  def f(b):
    laplace = lambda u: jnp.convolve(u, jnp.array([-1.0, 2.0, -1.0]), mode="same")
    return cycles(b, laplace, lambda r: r.reshape(-1, 2) @ jnp.ones(2), lambda e: jnp.broadcast_to(e[:, None], (e.shape[0], 2)).reshape(-1))
  return f, (numbers(512),)


# Sums that can be made of some of the weights: one item after the other.

MOST = 1000


def weights():
  return (integers(100, 50) + 1,)


@spelling("subset_sum")
def backwards_at_set():
  def f(weights):
    def item(reached, w):
      def place(t, reached):
        s = MOST - t
        return reached.at[s].set(reached[s] | ((s >= w) & reached[jnp.maximum(s - w, 0)]))
      return lax.fori_loop(0, MOST + 1, place, reached), None
    return lax.scan(item, jnp.zeros(MOST + 1, bool).at[0].set(True), weights)[0]
  return f, weights()


@spelling("subset_sum")
def gathered():
  def f(weights):
    s = jnp.arange(MOST + 1)
    def item(reached, w):
      return reached | ((s >= w) & reached[jnp.maximum(s - w, 0)]), None
    return lax.scan(item, jnp.zeros(MOST + 1, bool).at[0].set(True), weights)[0]
  return f, weights()


@spelling("subset_sum")
def rolled():
  def f(weights):
    s = jnp.arange(MOST + 1)
    def item(i, reached):
      return reached | (jnp.roll(reached, weights[i]) & (s >= weights[i]))
    return lax.fori_loop(0, weights.shape[0], item, jnp.zeros(MOST + 1, bool).at[0].set(True))
  return f, weights()


# Breadth-first search by masks of nodes.


def graph():
  return (np.random.default_rng(1).random((256, 256)) < 0.02,)


def levels(step, adjacent, front):
  def body(s):
    front, level, depth = s
    front = step(front, adjacent) & (level < 0)
    return front, jnp.where(front, depth, level), depth + 1
  return lax.while_loop(lambda s: jnp.any(s[0]), body, (front, jnp.where(front, 0, -1), jnp.int32(1)))[1]


@spelling("bfs_masks")
def any_of_rows():
  def f(adjacent):
    return levels(lambda front, a: jnp.any(a & front[:, None], axis=0), adjacent, jnp.arange(256) == 0)
  return f, graph()


@spelling("bfs_masks")
def products():
  def f(adjacent):
    return levels(lambda front, a: front.astype(np.float32) @ a > 0, adjacent.astype(np.float32), jnp.arange(256) == 0)
  return f, graph()


@spelling("bfs_masks")
def least_distances():
  def f(adjacent):
    far = 1 << 20
    cost = jnp.where(adjacent, 1, far)
    def body(s):
      new = jnp.minimum(s[0], jnp.min(s[0][:, None] + cost, axis=0))
      return new, jnp.any(new != s[0])
    distance = lax.while_loop(lambda s: s[1], body, (jnp.where(jnp.arange(256) == 0, 0, far), True))[0]
    return jnp.where(distance >= far, -1, distance)
  return f, graph()

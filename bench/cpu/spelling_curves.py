"""Curves, interpolation and searches for the least, in several spellings each."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import numbers, spelling

# De Boor's algorithm: a cubic B-spline at many places.

PLACES = 20000
CONTROLS = 64


def spline():
  t = np.sort(np.random.default_rng(1).uniform(0, CONTROLS - 3, PLACES)).astype(np.float32)
  return numbers(CONTROLS), np.minimum(t, CONTROLS - 3.001).astype(np.float32)


@spelling("de_boor", tolerance=2e-5)
def windows_then_levels():
  def f(c, t):
    k = jnp.floor(t).astype(jnp.int32)
    u = t - k
    d = c[k[:, None] + jnp.arange(4)]
    for r in range(1, 4):
      a = jnp.stack([(u + 3 - (j + r)) / (4 - r) for j in range(4 - r)], axis=1)
      d = (1 - a) * d[:, :-1] + a * d[:, 1:]
    return d[:, 0]
  return f, spline()


@spelling("de_boor", tolerance=2e-5)
def mapped_at_set():
  def f(c, t):
    def one(t):
      k = jnp.floor(t).astype(jnp.int32)
      u = t - k
      d = lax.dynamic_slice(c, (k,), (4,))
      for r in range(1, 4):
        for j in range(4 - r):
          a = (u + 3 - (j + r)) / (4 - r)
          d = d.at[j].set((1 - a) * d[j] + a * d[j + 1])
      return d[0]
    return lax.map(one, t)
  return f, spline()


@spelling("de_boor", tolerance=2e-5)
def vmapped_fori():
  def f(c, t):
    def one(t):
      k = jnp.floor(t).astype(jnp.int32)
      u = t - k
      d = lax.dynamic_slice(c, (k,), (4,))

      def level(r, d):
        a = (u + 3 - (jnp.arange(4) + r)) / (4 - r)
        return jnp.where(jnp.arange(4) < 4 - r, (1 - a) * d + a * jnp.roll(d, -1), d)
      return lax.fori_loop(1, 4, level, d)[0]
    return jax.vmap(one)(t)
  return f, spline()


@spelling("de_boor", tolerance=2e-5)
def scan_of_scalars():
  def f(c, t):
    def one(_, t):
      k = jnp.floor(t).astype(jnp.int32)
      u = t - k
      d0, d1, d2, d3 = c[k], c[k + 1], c[k + 2], c[k + 3]
      mix = lambda a, x, y: (1 - a) * x + a * y
      d0, d1, d2 = mix((u + 2) / 3, d0, d1), mix((u + 1) / 3, d1, d2), mix(u / 3, d2, d3)
      d0, d1 = mix((u + 1) / 2, d0, d1), mix(u / 2, d1, d2)
      return None, mix(u, d0, d1)
    return lax.scan(one, None, t)[1]
  return f, spline()


@spelling("de_boor", tolerance=2e-5)
def fori_writes():
  def f(c, t):
    def one(i, out):
      k = t[i].astype(jnp.int32)
      u = t[i] - k
      d = [c[k + j] for j in range(4)]
      for r in range(1, 4):
        d = [d[j] + (u + 3 - (j + r)) / (4 - r) * (d[j + 1] - d[j]) for j in range(4 - r)]
      return out.at[i].set(d[0])
    return lax.fori_loop(0, PLACES, one, jnp.zeros_like(t))
  return f, spline()


# Neville's scheme: the polynomial through given points, at many places.

KNOTS = 8
SPOTS = 4000


def table():
  x = np.linspace(-1, 1, KNOTS).astype(np.float32)
  return x, np.cos(2 * x).astype(np.float32), np.linspace(-1, 1, SPOTS).astype(np.float32)


@spelling("neville", tolerance=2e-5)
def unrolled_in_place():
  def f(x, y, at):
    p = [jnp.broadcast_to(y[i], at.shape) for i in range(KNOTS)]
    for level in range(1, KNOTS):
      for i in range(KNOTS - level):
        p[i] = ((at - x[i + level]) * p[i] + (x[i] - at) * p[i + 1]) / (x[i] - x[i + level])
    return p[0]
  return f, table()


@spelling("neville", tolerance=2e-5)
def vmapped_nested_fori():
  def f(x, y, at):
    def one(z):
      def level(m, p):
        def cell(i, p):
          return p.at[i].set(((z - x[i + m]) * p[i] + (x[i] - z) * p[i + 1]) / (x[i] - x[i + m]))
        return lax.fori_loop(0, KNOTS - m, cell, p)
      return lax.fori_loop(1, KNOTS, level, y)[0]
    return jax.vmap(one)(at)
  return f, table()


@spelling("neville", tolerance=2e-5)
def mapped_rolls():
  def f(x, y, at):
    def one(z):
      def level(p, m):
        other = jnp.roll(x, -m)
        new = ((z - other) * p + (x - z) * jnp.roll(p, -1)) / jnp.where(x == other, 1, x - other)
        return jnp.where(jnp.arange(KNOTS) < KNOTS - m, new, p), None
      return lax.scan(level, y, jnp.arange(1, KNOTS))[0][0]
    return lax.map(one, at)
  return f, table()


@spelling("neville", tolerance=2e-5)
def shrinking_slices():
  def f(x, y, at):
    p = jnp.broadcast_to(y[:, None], (KNOTS, SPOTS))
    for m in range(1, KNOTS):
      a, b = x[:-m, None], x[m:, None]
      p = ((at - b) * p[:-1] + (a - at) * p[1:]) / (a - b)
    return p[0]
  return f, table()


@spelling("neville", tolerance=2e-5)
def mapped_python_loops():
  def f(x, y, at):
    def one(z):
      p = y
      for m in range(1, KNOTS):
        for i in range(KNOTS - m):
          p = p.at[i].set(((z - x[i + m]) * p[i] + (x[i] - z) * p[i + 1]) / (x[i] - x[i + m]))
      return p[0]
    return lax.map(one, at)
  return f, table()


# Clenshaw's recurrence: a Chebyshev series at many places.

TERMS = 24
POINTS = 20000


def series():
  return numbers(TERMS), np.linspace(-1, 1, POINTS).astype(np.float32)


@spelling("clenshaw", tolerance=2e-5)
def scan_backwards():
  def f(c, x):
    def step(state, a):
      b1, b2 = state
      return (a + 2 * x * b1 - b2, b1), None
    zero = jnp.zeros_like(x)
    b1, b2 = lax.scan(step, (zero, zero), c[1:], reverse=True)[0]
    return c[0] + x * b1 - b2
  return f, series()


@spelling("clenshaw", tolerance=2e-5)
def stacked_pair():
  def f(c, x):
    def step(i, b):
      return jnp.stack([c[TERMS - 1 - i] + 2 * x * b[0] - b[1], b[0]])
    b = lax.fori_loop(0, TERMS - 1, step, jnp.zeros((2, POINTS), jnp.float32))
    return c[0] + x * b[0] - b[1]
  return f, series()


@spelling("clenshaw", tolerance=2e-5)
def vmapped_while():
  def f(c, x):
    def one(x):
      def step(state):
        k, b1, b2 = state
        return k - 1, c[k] + 2 * x * b1 - b2, b1
      _, b1, b2 = lax.while_loop(lambda s: s[0] > 0, step, (TERMS - 1, jnp.float32(0), jnp.float32(0)))
      return c[0] + x * b1 - b2
    return jax.vmap(one)(x)
  return f, series()


@spelling("clenshaw", tolerance=2e-5)
def all_terms_kept():
  def f(c, x):
    b = jnp.zeros((TERMS + 2, POINTS), jnp.float32)

    def step(j, b):
      k = TERMS - j
      return b.at[k].set(c[k] + 2 * x * b[k + 1] - b[k + 2])
    b = lax.fori_loop(1, TERMS, step, b)
    return c[0] + x * b[1] - b[2]
  return f, series()


@spelling("clenshaw", tolerance=2e-5)
def mapped_vector_of_two():
  def f(c, x):
    def one(x):
      def step(b, a):
        return jnp.array([a + 2 * x * b[0] - b[1], b[0]]), None
      b = lax.scan(step, jnp.zeros(2, jnp.float32), c[1:][::-1])[0]
      return c[0] + x * b[0] - b[1]
    return lax.map(one, x)
  return f, series()


# Golden section: the least of a function, for many parameters.

RATIO = 0.6180339887
FUNCTIONS = 6000


def valleys():
  return (np.random.default_rng(2).uniform(-1, 1, FUNCTIONS).astype(np.float32),)


def valley(x, a):
  return (x - a) ** 2 + 0.25 * jnp.abs(x - a)


@spelling("golden_section", tolerance=1e-3)
def vectors_of_ends():
  def f(a):
    low, high = jnp.full_like(a, -2), jnp.full_like(a, 2)

    def step(_, ends):
      low, high = ends
      c, d = high - RATIO * (high - low), low + RATIO * (high - low)
      left = valley(c, a) < valley(d, a)
      return jnp.where(left, low, c), jnp.where(left, d, high)
    low, high = lax.fori_loop(0, 30, step, (low, high))
    return (low + high) / 2
  return f, valleys()


@spelling("golden_section", tolerance=1e-3)
def vmapped_cond():
  def f(a):
    def one(a):
      def step(state):
        low, high, n = state
        c, d = high - RATIO * (high - low), low + RATIO * (high - low)
        low, high = lax.cond(valley(c, a) < valley(d, a), lambda: (low, d), lambda: (c, high))
        return low, high, n + 1
      low, high, _ = lax.while_loop(lambda s: s[2] < 30, step, (jnp.float32(-2), jnp.float32(2), 0))
      return (low + high) / 2
    return jax.vmap(one)(a)
  return f, valleys()


@spelling("golden_section", tolerance=1e-3)
def mapped_bracket_array():
  def f(a):
    def one(a):
      def step(_, e):
        c, d = e[1] - RATIO * (e[1] - e[0]), e[0] + RATIO * (e[1] - e[0])
        return lax.cond(valley(c, a) < valley(d, a), lambda e: e.at[1].set(d), lambda e: e.at[0].set(c), e)
      e = lax.fori_loop(0, 30, step, jnp.array([-2.0, 2.0], jnp.float32))
      return (e[0] + e[1]) / 2
    return lax.map(one, a)
  return f, valleys()


@spelling("golden_section", tolerance=1e-3)
def until_narrow():
  def f(a):
    def one(a):
      def step(ends):
        low, high = ends
        c, d = high - RATIO * (high - low), low + RATIO * (high - low)
        left = valley(c, a) < valley(d, a)
        return lax.select(left, low, c), lax.select(left, d, high)
      low, high = lax.while_loop(lambda e: e[1] - e[0] > 4e-6, step, (jnp.float32(-2), jnp.float32(2)))
      return (low + high) / 2
    return lax.map(one, a)
  return f, valleys()


# A natural cubic spline: the second derivatives by elimination, then its values between the knots.

STEMS = 2000
BETWEEN = 10


def stems():
  return (numbers(STEMS),)


def spline_values(y, m):
  u = (jnp.arange(BETWEEN, dtype=jnp.float32) / BETWEEN)[None, :]
  a, b, p, q = y[:-1, None], y[1:, None], m[:-1, None], m[1:, None]
  v = 1 - u
  return (a * v + b * u + ((v ** 3 - v) * p + (u ** 3 - u) * q) / 6).reshape(-1)


@spelling("cubic_spline", tolerance=1e-4)
def scans_there_and_back():
  def f(y):
    r = 6 * (y[2:] - 2 * y[1:-1] + y[:-2])

    def down(state, r):
      c, d = state
      w = 1 / (4 - c)
      new = (w, (r - d) * w)
      return new, new
    _, (c, d) = lax.scan(down, (jnp.float32(0), jnp.float32(0)), r)

    def up(x, cd):
      x = cd[1] - cd[0] * x
      return x, x
    m = lax.scan(up, jnp.float32(0), (c, d), reverse=True)[1]
    return spline_values(y, jnp.pad(m, 1))
  return f, stems()


@spelling("cubic_spline", tolerance=1e-4)
def fori_at_set():
  def f(y):
    n = STEMS

    def down(i, state):
      c, d = state
      w = 1 / (4 - c[i - 1])
      return c.at[i].set(w), d.at[i].set((6 * (y[i + 1] - 2 * y[i] + y[i - 1]) - d[i - 1]) * w)
    c, d = lax.fori_loop(1, n - 1, down, (jnp.zeros(n), jnp.zeros(n)))

    def up(j, m):
      i = n - 1 - j
      return m.at[i].set(d[i] - c[i] * m[i + 1])
    m = lax.fori_loop(1, n - 1, up, jnp.zeros(n))
    return spline_values(y, m)
  return f, stems()


@spelling("cubic_spline", tolerance=1e-4)
def rows_of_one_table():
  def f(y):
    n = STEMS
    t = jnp.stack([jnp.zeros(n), jnp.concatenate([jnp.zeros(1), 6 * (y[2:] - 2 * y[1:-1] + y[:-2]), jnp.zeros(1)]), jnp.zeros(n)], axis=1)

    def down(i, t):
      w = 1 / (4 - t[i - 1, 0])
      return lax.dynamic_update_slice(t, jnp.array([[w, (t[i, 1] - t[i - 1, 1]) * w]]), (i, 0))
    t = lax.fori_loop(1, n - 1, down, t)

    def up(state):
      i, t = state
      return i - 1, t.at[i, 2].set(t[i, 1] - t[i, 0] * t[i + 1, 2])
    t = lax.while_loop(lambda s: s[0] > 0, up, (n - 2, t))[1]
    return spline_values(y, t[:, 2])
  return f, stems()


@spelling("cubic_spline", tolerance=1e-4)
def tridiagonal_solve():
  def f(y):
    r = 6 * (y[2:] - 2 * y[1:-1] + y[:-2])
    one = jnp.ones_like(r)
    m = lax.linalg.tridiagonal_solve(one.at[0].set(0), 4 * one, one.at[-1].set(0), r[:, None])[:, 0]
    return spline_values(y, jnp.pad(m, 1))
  return f, stems()

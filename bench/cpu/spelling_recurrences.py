"""Recurrences: triangular systems, filters, compensated sums, tables, ratings, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import numbers, spelling

# A triangular system by forward substitution.

ROWS = 96


def triangle():
  return np.tril(numbers(ROWS, ROWS, seed=1) * np.float32(0.1)) + 2 * np.eye(ROWS, dtype=np.float32), numbers(ROWS, seed=2)


@spelling("substitution", tolerance=1e-4)
def whole_rows():
  def f(l, b):
    return lax.fori_loop(0, ROWS, lambda i, x: x.at[i].set((b[i] - l[i] @ x) / l[i, i]), jnp.zeros(ROWS))
  return f, triangle()


@spelling("substitution", tolerance=1e-4)
def by_columns():
  def f(l, b):
    def step(j, b):
      x = b[j] / l[j, j]
      return jnp.where(jnp.arange(ROWS) > j, b - l[:, j] * x, b.at[j].set(x))
    return lax.fori_loop(0, ROWS, step, b)
  return f, triangle()


@spelling("substitution", tolerance=1e-4)
def nested_loops():
  def f(l, b):
    def row(i, x):
      s = lax.fori_loop(0, i, lambda j, s: s - l[i, j] * x[j], b[i])
      return x.at[i].set(s / l[i, i])
    return lax.fori_loop(0, ROWS, row, jnp.zeros(ROWS))
  return f, triangle()


@spelling("substitution", tolerance=1e-4)
def masked_scan():
  def f(l, b):
    def step(x, row):
      i, r, t = row
      v = (t - jnp.sum(jnp.where(jnp.arange(ROWS) < i, r * x, 0))) / r[i]
      return lax.dynamic_update_slice(x, v[None], (i,)), None
    return lax.scan(step, jnp.zeros(ROWS), (jnp.arange(ROWS), l, b))[0]
  return f, triangle()


# Shares bought and sold with a day of rest: the best profit.

def prices():
  return (np.random.default_rng(2).uniform(1, 100, 2000).astype(np.float32),)


@spelling("shares", tolerance=1e-5)
def three_numbers():
  def f(p):
    def day(c, x):
      hold, sold, rest = c
      return (jnp.maximum(hold, rest - x), hold + x, jnp.maximum(rest, sold)), None
    hold, sold, rest = lax.scan(day, (-p[0], jnp.float32(0), jnp.float32(0)), p[1:])[0]
    return jnp.maximum(sold, rest)
  return f, prices()


@spelling("shares", tolerance=1e-5)
def array_of_three():
  def f(p):
    def day(i, c):
      return jnp.array([jnp.maximum(c[0], c[2] - p[i]), c[0] + p[i], jnp.maximum(c[2], c[1])])
    c = lax.fori_loop(1, 2000, day, jnp.array([-p[0], 0., 0.]))
    return jnp.maximum(c[1], c[2])
  return f, prices()


@spelling("shares", tolerance=1e-5)
def table_of_days():
  def f(p):
    def day(i, t):
      t = t.at[i, 0].set(jnp.maximum(t[i - 1, 0], t[i - 1, 2] - p[i]))
      t = t.at[i, 1].set(t[i - 1, 0] + p[i])
      return t.at[i, 2].set(jnp.maximum(t[i - 1, 2], t[i - 1, 1]))
    t = lax.fori_loop(1, 2000, day, jnp.zeros((2000, 3)).at[0, 0].set(-p[0]))
    return jnp.maximum(t[-1, 1], t[-1, 2])
  return f, prices()


# Goertzel's filter at several frequencies.

def tones():
  return (numbers(1000, seed=3), (2 * np.cos(2 * np.pi * np.arange(1, 9) / 50)).astype(np.float32))


@spelling("goertzel", tolerance=1e-3)
def mapped_scan():
  def f(x, k):
    def one(k):
      def step(c, v):
        return (v + k * c[0] - c[1], c[0]), None
      a, b = lax.scan(step, (jnp.float32(0), jnp.float32(0)), x)[0]
      return a * a + b * b - k * a * b
    return jax.vmap(one)(k)
  return f, tones()


@spelling("goertzel", tolerance=1e-3)
def rows_of_state():
  def f(x, k):
    def step(i, s):
      return s.at[i + 2].set(x[i] + k * s[i + 1] - s[i])
    s = lax.fori_loop(0, 1000, step, jnp.zeros((1002, 8)))
    a, b = s[-1], s[-2]
    return a * a + b * b - k * a * b
  return f, tones()


@spelling("goertzel", tolerance=1e-3)
def stacked_pair():
  def f(x, k):
    def step(i, s):
      return jnp.stack([x[i] + k * s[0] - s[1], s[0]])
    a, b = lax.fori_loop(0, 1000, step, jnp.zeros((2, 8)))
    return a * a + b * b - k * a * b
  return f, tones()


@spelling("goertzel", tolerance=1e-3)
def mapped_frequencies():
  def f(x, k):
    def one(k):
      def step(i, c):
        a, b = c
        return x[i] + k * a - b, a
      a, b = lax.fori_loop(0, 1000, step, (0.0, 0.0))
      return a * a + b * b - k * a * b
    return lax.map(one, k)
  return f, tones()


# Kahan's sum of a long list.

@spelling("kahan", tolerance=1e-6)
def scan_pair():
  def f(x):
    def step(c, v):
      s, e = c
      y = v - e
      t = s + y
      return (t, (t - s) - y), None
    return lax.scan(step, (jnp.float32(0), jnp.float32(0)), x)[0][0]
  return f, (np.abs(numbers(4000)),)


@spelling("kahan", tolerance=1e-6)
def fori_array():
  def f(x):
    def step(i, c):
      y = x[i] - c[1]
      t = c[0] + y
      return jnp.stack([t, (t - c[0]) - y])
    return lax.fori_loop(0, 4000, step, jnp.zeros(2))[0]
  return f, (np.abs(numbers(4000)),)


@spelling("kahan", tolerance=1e-6)
def set_in_place():
  def f(x):
    def step(i, c):
      y = x[i] - c[1]
      t = c[0] + y
      return c.at[1].set((t - c[0]) - y).at[0].set(t)
    return lax.fori_loop(0, 4000, step, jnp.zeros(2))[0]
  return f, (np.abs(numbers(4000)),)


# Stirling's numbers of the second kind, modulo a prime.

@spelling("stirling")
def table_by_cells():
  def f(p):
    def row(n, t):
      return lax.fori_loop(1, n + 1, lambda k, t: t.at[n, k].set((k * t[n - 1, k] + t[n - 1, k - 1]) % p), t)
    return lax.fori_loop(1, 100, row, jnp.zeros((100, 100), jnp.int32).at[0, 0].set(1))[99]
  return f, (np.int32(10007),)


@spelling("stirling")
def rows_shifted():
  def f(p):
    k = jnp.arange(100)
    def row(t, _):
      return (k * t + jnp.concatenate([jnp.zeros(1, jnp.int32), t[:-1]])) % p, None
    return lax.scan(row, jnp.zeros(100, jnp.int32).at[0].set(1), None, length=99)[0]
  return f, (np.int32(10007),)


@spelling("stirling")
def row_backwards():
  def f(p):
    def row(_, t):
      t = lax.fori_loop(0, 99, lambda j, t: t.at[99 - j].set(((99 - j) * t[99 - j] + t[98 - j]) % p), t)
      return t.at[0].set(0)
    return lax.fori_loop(0, 99, row, jnp.zeros(100, jnp.int32).at[0].set(1))
  return f, (np.int32(10007),)


@spelling("stirling")
def rolled():
  def f(p):
    k = jnp.arange(100, dtype=jnp.int32)
    return lax.fori_loop(0, 99, lambda _, t: jnp.where(k > 0, (k * t + jnp.roll(t, 1)) % p, 0), (k == 0).astype(jnp.int32))
  return f, (np.int32(10007),)


# Ratings of players after Elo, game by game.

def games():
  r = np.random.default_rng(5)
  a = r.integers(0, 100, 2000)
  return a.astype(np.int32), ((a + r.integers(1, 100, 2000)) % 100).astype(np.int32), r.integers(0, 2, 2000).astype(np.float32)


@spelling("elo", tolerance=1e-4)
def added_twice():
  def f(a, b, won):
    def game(k, r):
      d = 32 * (won[k] - 1 / (1 + 10**((r[b[k]] - r[a[k]]) / 400)))
      return r.at[a[k]].add(d).at[b[k]].add(-d)
    return lax.fori_loop(0, 2000, game, jnp.full(100, 1500.))
  return f, games()


@spelling("elo", tolerance=1e-4)
def two_at_once():
  def f(a, b, won):
    def game(r, g):
      i, j, w = g
      d = 32 * (w - 1 / (1 + 10**((r[j] - r[i]) / 400)))
      return r.at[jnp.array([i, j])].add(jnp.array([d, -d])), None
    return lax.scan(game, jnp.full(100, 1500.), (a, b, won))[0]
  return f, games()


@spelling("elo", tolerance=1e-4)
def one_hot():
  def f(a, b, won):
    def game(r, g):
      i, j, w = g
      d = 32 * (w - 1 / (1 + 10**((r[j] - r[i]) / 400)))
      return r + d * (jax.nn.one_hot(i, 100) - jax.nn.one_hot(j, 100)), None
    return lax.scan(game, jnp.full(100, 1500.), (a, b, won))[0]
  return f, games()


# Romberg's table of an integral.

@spelling("romberg", tolerance=1e-5)
def table_at_set():
  def f(a, b):
    def row(i, t):
      n = 1 << i
      h = (b - a) / n
      s = lax.fori_loop(0, n, lambda k, s: s + jnp.sin(jnp.exp(a + (k + 0.5) * h)), 0.0)
      t = t.at[i + 1, 0].set(0.5 * t[i, 0] + 0.5 * h * s)
      def column(j, t):
        return t.at[i + 1, j].set(t[i + 1, j - 1] + (t[i + 1, j - 1] - t[i, j - 1]) / (4.0**j - 1))
      return lax.fori_loop(1, i + 2, column, t)
    first = 0.5 * (b - a) * (jnp.sin(jnp.exp(a)) + jnp.sin(jnp.exp(b)))
    return lax.fori_loop(0, 10, row, jnp.zeros((11, 11)).at[0, 0].set(first))[10, 10]
  return f, (np.float32(0), np.float32(2))


@spelling("romberg", tolerance=1e-5)
def rows_of_samples():
  def f(a, b):
    row = [0.5 * (b - a) * (jnp.sin(jnp.exp(a)) + jnp.sin(jnp.exp(b)))]
    for i in range(10):
      n = 1 << i
      h = (b - a) / n
      new = [0.5 * row[0] + 0.5 * h * jnp.sum(jnp.sin(jnp.exp(a + (jnp.arange(n) + 0.5) * h)))]
      for j in range(1, i + 2):
        new.append(new[-1] + (new[-1] - row[j - 1]) / (4.0**j - 1))
      row = new
    return row[-1]
  return f, (np.float32(0), np.float32(2))


@spelling("romberg", tolerance=1e-5)
def while_samples():
  def f(a, b):
    def row(c):
      i, n, h, row = c
      s = lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + jnp.sin(jnp.exp(a + (c[0] + 0.5) * h))), (0, 0.0))[1]
      first = 0.5 * row[0] + 0.5 * h * s
      def column(v, x):
        j, old = x
        return v + (v - old) / (4.0**(j + 1) - 1), v
      last, rest = lax.scan(column, first, (jnp.arange(10), row[:10]))
      return i + 1, n * 2, h / 2, jnp.concatenate([rest, last[None]])
    first = 0.5 * (b - a) * (jnp.sin(jnp.exp(a)) + jnp.sin(jnp.exp(b)))
    return lax.while_loop(lambda c: c[0] < 10, row, (0, 1, b - a, jnp.zeros(11).at[0].set(first)))[3][10]
  return f, (np.float32(0), np.float32(2))

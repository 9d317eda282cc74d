"""Fields, series and tables of dynamic programming, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import numbers, spelling

# Waves in a cavity: electric and magnetic field on staggered points (Yee).

CAVITY = 400


def pulse():
  x = np.arange(CAVITY)
  return (np.exp(-((x - 100) / 10.0)**2).astype(np.float32),)


@spelling("cavity", tolerance=1e-4)
def halves_at_add():
  def f(e):
    def step(_, c):
      e, h = c
      h = h.at[:-1].add(0.5 * (e[1:] - e[:-1]))
      e = e.at[1:].add(0.5 * (h[1:] - h[:-1]))
      return e.at[0].set(0), h
    return lax.fori_loop(0, 300, step, (e, jnp.zeros(CAVITY)))[0]
  return f, pulse()


@spelling("cavity", tolerance=1e-4)
def padded_differences():
  def f(e):
    def step(c, _):
      e, h = c
      h = h + 0.5 * jnp.pad(jnp.diff(e), (0, 1))
      e = e + 0.5 * jnp.pad(jnp.diff(h), (1, 0))
      return (jnp.where(jnp.arange(CAVITY) == 0, 0, e), h), None
    return lax.scan(step, (e, jnp.zeros(CAVITY)), None, length=300)[0][0]
  return f, pulse()


@spelling("cavity", tolerance=1e-4)
def stacked_fields():
  def f(e):
    def step(_, s):
      h = s[1] + 0.5 * jnp.where(jnp.arange(CAVITY) < CAVITY - 1, jnp.roll(s[0], -1) - s[0], 0)
      e = s[0] + 0.5 * jnp.where(jnp.arange(CAVITY) > 0, h - jnp.roll(h, 1), 0)
      return jnp.stack([e.at[0].set(0), h])
    return lax.fori_loop(0, 300, step, jnp.stack([e, jnp.zeros(CAVITY)]))[0]
  return f, pulse()


@spelling("cavity", tolerance=1e-4)
def point_by_point():
  def f(e):
    def step(_, c):
      e, h = c
      h = lax.fori_loop(0, CAVITY - 1, lambda i, h: h.at[i].add(0.5 * (e[i + 1] - e[i])), h)
      e = lax.fori_loop(1, CAVITY, lambda i, e: e.at[i].add(0.5 * (h[i] - h[i - 1])), e)
      return e.at[0].set(0), h
    return lax.fori_loop(0, 300, step, (e, jnp.zeros(CAVITY)))[0]
  return f, pulse()


# A hidden Markov model: probabilities of states, scaled, forwards.

def model():
  r = np.random.default_rng(3)
  a, b = r.uniform(size=(24, 24)), r.uniform(size=(24, 50))
  a, b = a / a.sum(1, keepdims=True), b / b.sum(1, keepdims=True)
  return a.astype(np.float32), b.astype(np.float32), r.integers(0, 50, 400).astype(np.int32)


@spelling("hidden_states", tolerance=1e-4)
def columns_of_emissions():
  def f(a, b, seen):
    def step(t, c):
      p, total = c
      p = (p @ a) * b[:, seen[t]]
      s = jnp.sum(p)
      return p / s, total + jnp.log(s)
    return lax.fori_loop(0, 400, step, (jnp.full(24, 1 / 24.), 0.0))[1]
  return f, model()


@spelling("hidden_states", tolerance=1e-4)
def emissions_gathered_before():
  def f(a, b, seen):
    def step(p, e):
      p = jnp.dot(p, a) * e
      s = p.sum()
      return p / s, jnp.log(s)
    return lax.scan(step, jnp.full(24, 1 / 24.), b.T[seen])[1].sum()
  return f, model()


@spelling("hidden_states", tolerance=1e-4)
def table_of_states():
  def f(a, b, seen):
    def step(t, c):
      table, scale = c
      p = jnp.sum(table[t][:, None] * a, axis=0) * jnp.take(b, seen[t], axis=1)
      s = jnp.sum(p)
      return table.at[t + 1].set(p / s), scale.at[t].set(s)
    first = jnp.zeros((401, 24)).at[0].set(1 / 24.)
    return jnp.sum(jnp.log(lax.fori_loop(0, 400, step, (first, jnp.ones(400)))[1]))
  return f, model()


# The cheapest way through a table, right and down.

@spelling("path_sum", tolerance=1e-5)
def cell_by_cell():
  def f(x):
    n = x.shape[0]
    def cell(k, t):
      i, j = k // n + 1, k % n + 1
      return t.at[i, j].set(x[i - 1, j - 1] + jnp.minimum(t[i - 1, j], t[i, j - 1]))
    t = jnp.full((n + 1, n + 1), jnp.inf).at[0, 1].set(0)
    return lax.fori_loop(0, n * n, cell, t)[n, n]
  return f, (np.abs(numbers(100, 100)),)


@spelling("path_sum", tolerance=1e-5)
def scan_of_scans():
  def f(x):
    def row(above, r):
      def cell(left, c):
        v = c[0] + jnp.minimum(left, c[1])
        return v, v
      return lax.scan(cell, jnp.float32(jnp.inf), (r, above))[1], None
    return lax.scan(row, jnp.full(100, jnp.inf).at[0].set(0), x)[0][-1]
  return f, (np.abs(numbers(100, 100)),)


@spelling("path_sum", tolerance=1e-5)
def row_in_place():
  def f(x):
    def row(i, t):
      t = t.at[0].add(x[i, 0])
      return lax.fori_loop(1, 100, lambda j, t: t.at[j].set(x[i, j] + jnp.minimum(t[j], t[j - 1])), t)
    return lax.fori_loop(0, 100, row, jnp.full(100, jnp.inf).at[0].set(0))[-1]
  return f, (np.abs(numbers(100, 100)),)


@spelling("path_sum", tolerance=1e-5)
def diagonals():
  def f(x):
    k = jnp.arange(100)
    def diagonal(d, t):
      cost = jnp.where((d - k >= 0) & (d - k < 100), x[k, jnp.clip(d - k, 0, 99)], jnp.inf)
      best = jnp.minimum(t, jnp.concatenate([jnp.full(1, jnp.inf), t[:-1]]))
      return cost + best
    return lax.fori_loop(1, 199, diagonal, jnp.full(100, jnp.inf).at[0].set(x[0, 0]))[99]
  return f, (np.abs(numbers(100, 100)),)


# A bilateral filter: neighbours weigh by distance and by likeness.

def noisy():
  return (np.random.default_rng(1).uniform(size=(64, 64)).astype(np.float32),)


@spelling("bilateral", tolerance=1e-5)
def shifted_slices():
  def f(x):
    w = jnp.pad(x, 2, mode="edge")
    top, bottom = 0.0, 0.0
    for i in range(5):
      for j in range(5):
        y = w[i:i + 64, j:j + 64]
        k = float(np.exp(-((i - 2)**2 + (j - 2)**2) / 4.0)) * jnp.exp(-8 * (y - x)**2)
        top, bottom = top + k * y, bottom + k
    return top / bottom
  return f, noisy()


@spelling("bilateral", tolerance=1e-5)
def offsets_in_a_loop():
  def f(x):
    w = jnp.pad(x, 2, mode="edge")
    def step(n, c):
      i, j = n // 5, n % 5
      y = lax.dynamic_slice(w, (i, j), (64, 64))
      k = jnp.exp(-((i - 2)**2 + (j - 2)**2) / 4.0) * jnp.exp(-8 * (y - x)**2)
      return c[0] + k * y, c[1] + k
    top, bottom = lax.fori_loop(0, 25, step, (jnp.zeros((64, 64)), jnp.zeros((64, 64))))
    return top / bottom
  return f, noisy()


@spelling("bilateral", tolerance=1e-5)
def mapped_windows():
  def f(x):
    w = jnp.pad(x, 2, mode="edge")
    d = jnp.arange(5) - 2
    near = jnp.exp(-(d[:, None]**2 + d**2) / 4.0)
    def pixel(i, j):
      y = lax.dynamic_slice(w, (i, j), (5, 5))
      k = near * jnp.exp(-8 * (y - x[i, j])**2)
      return jnp.sum(k * y) / jnp.sum(k)
    return jax.vmap(lambda i: jax.vmap(lambda j: pixel(i, j))(jnp.arange(64)))(jnp.arange(64))
  return f, noisy()


@spelling("bilateral", tolerance=1e-5)
def rows_scanned():
  def f(x):
    w = jnp.pad(x, 2, mode="edge")
    d = jnp.arange(5) - 2
    near = jnp.exp(-(d[:, None]**2 + d**2) / 4.0)
    def row(_, i):
      band = lax.dynamic_slice(w, (i, 0), (5, 68))
      y = jnp.stack([band[:, j:j + 64] for j in range(5)], axis=1)
      k = near[:, :, None] * jnp.exp(-8 * (y - x[i])**2)
      return None, (k * y).sum((0, 1)) / k.sum((0, 1))
    return lax.scan(row, None, jnp.arange(64))[1]
  return f, noisy()


# A series of Chebyshev's polynomials at many points (Clenshaw).

def series():
  return numbers(40, seed=4) / np.arange(1, 41, dtype=np.float32), np.linspace(-1, 1, 400, dtype=np.float32)


@spelling("chebyshev", tolerance=1e-4)
def scan_backwards():
  def f(c, x):
    def step(s, c):
      return (2 * x * s[0] - s[1] + c, s[0]), None
    z = jnp.zeros_like(x)
    a, b = lax.scan(step, (z, z), c[1:], reverse=True)[0]
    return x * a - b + c[0]
  return f, series()


@spelling("chebyshev", tolerance=1e-4)
def mapped_points():
  def f(c, x):
    def one(x):
      def step(k, s):
        return jnp.stack([2 * x * s[0] - s[1] + c[39 - k], s[0]])
      s = lax.fori_loop(0, 39, step, jnp.zeros(2))
      return x * s[0] - s[1] + c[0]
    return jax.vmap(one)(x)
  return f, series()


@spelling("chebyshev", tolerance=1e-4)
def point_by_point():
  def f(c, x):
    def one(i, out):
      def step(k, s):
        a, b = s
        return 2 * x[i] * a - b + c[39 - k], a
      a, b = lax.fori_loop(0, 39, step, (0.0, 0.0))
      return out.at[i].set(x[i] * a - b + c[0])
    return lax.fori_loop(0, 400, one, jnp.zeros(400))
  return f, series()


@spelling("chebyshev", tolerance=1e-4)
def table_of_polynomials():
  def f(c, x):
    t = jnp.zeros((40, 400)).at[0].set(1).at[1].set(x)
    t = lax.fori_loop(2, 40, lambda k, t: t.at[k].set(2 * x * t[k - 1] - t[k - 2]), t)
    return c @ t
  return f, series()


# Level, trend and season of a series (Holt and Winters).

def sales():
  t = np.arange(1200)
  return ((10 + 0.01 * t + 3 * np.sin(t * 2 * np.pi / 12)).astype(np.float32) + numbers(1200, seed=3),)


@spelling("seasons", tolerance=1e-3)
def ring_at_set():
  def f(y):
    def step(c, x):
      level, trend, season, k = c
      new = 0.3 * (x - season[k]) + 0.7 * (level + trend)
      trend = 0.1 * (new - level) + 0.9 * trend
      season = season.at[k].set(0.2 * (x - new) + 0.8 * season[k])
      return (new, trend, season, (k + 1) % 12), new
    return lax.scan(step, (y[0], jnp.float32(0), jnp.zeros(12), 0), y)[1]
  return f, sales()


@spelling("seasons", tolerance=1e-3)
def seasons_rolled():
  def f(y):
    def step(c, x):
      level, trend, season = c
      new = 0.3 * (x - season[0]) + 0.7 * (level + trend)
      trend = 0.1 * (new - level) + 0.9 * trend
      season = jnp.concatenate([season[1:], (0.2 * (x - new) + 0.8 * season[0])[None]])
      return (new, trend, season), new
    return lax.scan(step, (y[0], jnp.float32(0), jnp.zeros(12)), y)[1]
  return f, sales()


@spelling("seasons", tolerance=1e-3)
def whole_history():
  def f(y):
    def step(t, c):
      level, trend, season = c
      new = 0.3 * (y[t] - season[t]) + 0.7 * (level[t] + trend[t])
      return (level.at[t + 1].set(new), trend.at[t + 1].set(0.1 * (new - level[t]) + 0.9 * trend[t]),
              season.at[t + 12].set(0.2 * (y[t] - new) + 0.8 * season[t]))
    z = jnp.zeros(1201)
    return lax.fori_loop(0, 1200, step, (z.at[0].set(y[0]), z, jnp.zeros(1212)))[0][1:]
  return f, sales()


# Transport by Sinkhorn's scaling.

def masses():
  r = np.random.default_rng(5)
  x = r.uniform(size=(64, 2))
  cost = ((x[:, None] - r.uniform(size=(48, 2)))**2).sum(-1)
  return np.exp(-cost / 0.1).astype(np.float32), np.full(64, 1 / 64, np.float32), np.full(48, 1 / 48, np.float32)


@spelling("sinkhorn", tolerance=1e-4)
def two_vectors():
  def f(k, a, b):
    def step(_, c):
      u, v = c
      u = a / (k @ v)
      return u, b / (k.T @ u)
    u, v = lax.fori_loop(0, 100, step, (jnp.ones(64), jnp.ones(48)))
    return u[:, None] * k * v
  return f, masses()


@spelling("sinkhorn", tolerance=1e-4)
def plan_scaled():
  def f(k, a, b):
    def step(p, _):
      p = p * (a / p.sum(1))[:, None]
      return p * (b / p.sum(0)), None
    return lax.scan(step, k, None, length=100)[0]
  return f, masses()


@spelling("sinkhorn", tolerance=1e-4)
def sums_of_products():
  def f(k, a, b):
    def step(_, v):
      u = a / jnp.sum(k * v, axis=1)
      return b / jnp.sum(k * u[:, None], axis=0)
    v = lax.fori_loop(0, 100, step, jnp.ones(48))
    u = a / jnp.sum(k * v, axis=1)
    v = b / jnp.sum(k * u[:, None], axis=0)
    return u[:, None] * k * v
  return f, masses()


# Two substances that react and spread (Gray and Scott).

def substances():
  r = np.random.default_rng(6)
  u, v = np.ones((48, 48)), np.zeros((48, 48))
  u[20:28, 20:28], v[20:28, 20:28] = 0.5, 0.25
  return (u + 0.01 * r.uniform(size=u.shape)).astype(np.float32), v.astype(np.float32)


def spread_of(x):
  return jnp.roll(x, 1, -1) + jnp.roll(x, -1, -1) + jnp.roll(x, 1, -2) + jnp.roll(x, -1, -2) - 4 * x


@spelling("gray_scott", tolerance=1e-4)
def two_arrays():
  def f(u, v):
    def step(_, c):
      u, v = c
      r = u * v * v
      return u + 0.16 * spread_of(u) - r + 0.035 * (1 - u), v + 0.08 * spread_of(v) + r - 0.095 * v
    return lax.fori_loop(0, 40, step, (u, v))
  return f, substances()


@spelling("gray_scott", tolerance=1e-4)
def one_array():
  def f(u, v):
    rates = jnp.array([0.16, 0.08])[:, None, None]
    def step(s, _):
      r = s[0] * s[1]**2
      gain = jnp.stack([-r + 0.035 * (1 - s[0]), r - 0.095 * s[1]])
      return s + rates * spread_of(s) + gain, None
    s = lax.scan(step, jnp.stack([u, v]), None, length=40)[0]
    return s[0], s[1]
  return f, substances()


@spelling("gray_scott", tolerance=1e-4)
def padded_slices():
  def f(u, v):
    def around(x):
      w = jnp.pad(x, 1, mode="wrap")
      return w[1:-1, :-2] + w[1:-1, 2:] + w[:-2, 1:-1] + w[2:, 1:-1] - 4 * x
    def step(_, s):
      u, v = s[0], s[1]
      r = u * v * v
      s = s.at[0].set(u + 0.16 * around(u) - r + 0.035 * (1 - u))
      return s.at[1].set(v + 0.08 * around(v) + r - 0.095 * v)
    s = lax.fori_loop(0, 40, step, jnp.stack([u, v]))
    return s[0], s[1]
  return f, substances()


# The cheapest search tree over keys asked for more or less often.

def asked():
  return (np.random.default_rng(7).integers(1, 50, 40).astype(np.int32),)


@spelling("best_tree")
def three_loops():
  def f(w):
    n = 40
    total = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(w)])
    def length(l, t):
      def begin(i, t):
        j = i + l
        def root(r, best):
          return jnp.minimum(best, t[i, r] + t[r + 1, j])
        best = lax.fori_loop(i, j, root, jnp.int32(10**8))
        return t.at[i, j].set(best + total[j] - total[i])
      return lax.fori_loop(0, n - l + 1, begin, t)
    return lax.fori_loop(1, n + 1, length, jnp.zeros((n + 1, n + 1), jnp.int32))[0, n]
  return f, asked()


@spelling("best_tree")
def masked_roots():
  def f(w):
    n = 40
    total = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(w)])
    r = jnp.arange(n)
    def length(l, t):
      def begin(i, t):
        j = i + l
        best = jnp.min(jnp.where((r >= i) & (r < j), t[i, :n] + t[1:, j], 10**8))
        return t.at[i, j].set(best + total[j] - total[i])
      return lax.fori_loop(0, n - l + 1, begin, t)
    return lax.fori_loop(1, n + 1, length, jnp.zeros((n + 1, n + 1), jnp.int32))[0, n]
  return f, asked()


@spelling("best_tree")
def rows_from_below():
  def f(w):
    n = 40
    total = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(w)])
    r = jnp.arange(n)
    def row(k, t):
      i = n - 1 - k
      def cell(j, t):
        best = jnp.min(jnp.where((r >= i) & (r < j), t[i, :n] + t[1:, j], 10**8))
        return lax.dynamic_update_slice(t, (best + total[j] - total[i])[None, None], (i, j))
      return lax.fori_loop(i + 1, n + 1, cell, t)
    return lax.fori_loop(0, n, row, jnp.zeros((n + 1, n + 1), jnp.int32))[0, n]
  return f, asked()


# Fine and coarse grids of 2^k + 1 points: values carried up by interpolation.

@spelling("prolongation", tolerance=1e-5)
def strided_sets():
  def f(x):
    def step(_, c):
      fine = jnp.zeros((65, 65)).at[::2, ::2].set(c)
      fine = fine.at[1::2, ::2].set(0.5 * (fine[:-1:2, ::2] + fine[2::2, ::2]))
      fine = fine.at[:, 1::2].set(0.5 * (fine[:, :-1:2] + fine[:, 2::2]))
      return 0.9 * fine[16:49, 16:49] + 0.1 * c
    return lax.fori_loop(0, 20, step, x)
  return f, (numbers(33, 33),)


@spelling("prolongation", tolerance=1e-5)
def interleaved_stacks():
  def f(x):
    def double(c):
      half = 0.5 * (c[:-1] + c[1:])
      return jnp.concatenate([jnp.stack([c[:-1], half], 1).reshape(64, -1), c[-1:]])
    def step(c, _):
      fine = double(double(c).T).T
      return 0.9 * fine[16:49, 16:49] + 0.1 * c, None
    return lax.scan(step, x, None, length=20)[0]
  return f, (numbers(33, 33),)


@spelling("prolongation", tolerance=1e-5)
def dilated_pads():
  def f(x):
    def double(c):
      even = lax.pad(c, jnp.float32(0), ((0, 0, 1), (0, 0, 0)))
      odd = lax.pad(0.5 * (c[:-1] + c[1:]), jnp.float32(0), ((1, 1, 1), (0, 0, 0)))
      return even + odd
    def step(_, c):
      fine = double(double(c).T).T
      return 0.9 * fine[16:49, 16:49] + 0.1 * c
    return lax.fori_loop(0, 20, step, x)
  return f, (numbers(33, 33),)

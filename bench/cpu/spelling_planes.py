"""Planes, pictures and decisions over them, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# A fluid by nine speeds a cell (lattice Boltzmann).

CELLS, MOVES = 64, 40
WAYS = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)])
PARTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)


def fluid():
  noise = 1 + 0.05 * numbers(9, CELLS, CELLS)
  return ((PARTS[:, None, None] * noise).astype(np.float32),)


def settled(n, density, u, v):
  along = WAYS[n, 0] * u + WAYS[n, 1] * v
  return PARTS[n] * density * (1 + 3 * along + 4.5 * along * along - 1.5 * (u * u + v * v))


@spelling("boltzmann_cells", tolerance=1e-4)
def rolls_stacked():
  def f(x):
    ways = jnp.array(WAYS, jnp.float32)
    def step(_, x):
      density = x.sum(0)
      u, v = (jnp.tensordot(ways[:, d], x, 1) / density for d in range(2))
      x = jnp.stack([x[n] + 0.6 * (settled(n, density, u, v) - x[n]) for n in range(9)])
      return jnp.stack([jnp.roll(x[n], tuple(WAYS[n]), (0, 1)) for n in range(9)])
    return lax.fori_loop(0, MOVES, step, x)
  return f, fluid()


@spelling("boltzmann_cells", tolerance=1e-4)
def carried_tuple():
  def f(x):
    def step(x, _):
      density = sum(x)
      u = sum(int(WAYS[n, 0]) * x[n] for n in range(9)) / density
      v = sum(int(WAYS[n, 1]) * x[n] for n in range(9)) / density
      return tuple(jnp.roll(x[n] + 0.6 * (settled(n, density, u, v) - x[n]), tuple(WAYS[n]), (0, 1)) for n in range(9)), None
    return jnp.stack(lax.scan(step, tuple(x), None, length=MOVES)[0])
  return f, fluid()


@spelling("boltzmann_cells", tolerance=1e-4)
def gathered_neighbours():
  def f(x):
    i = jnp.arange(CELLS)
    def step(s):
      x, k = s
      x = jnp.stack([x[n][(i - WAYS[n, 0]) % CELLS][:, (i - WAYS[n, 1]) % CELLS] for n in range(9)])
      return x, k + 1
    def collide(x):
      density = jnp.sum(x, axis=0)
      velocity = jnp.einsum("nd,nij->dij", WAYS.astype(np.float32), x) / density
      along = jnp.einsum("nd,dij->nij", WAYS.astype(np.float32), velocity)
      still = 1.5 * jnp.sum(velocity**2, axis=0)
      return x + 0.6 * (PARTS[:, None, None] * density * (1 + 3 * along + 4.5 * along**2 - still) - x)
    return lax.while_loop(lambda s: s[1] < MOVES, lambda s: step((collide(s[0]), s[1])), (x, 0))[0]
  return f, fluid()


@spelling("boltzmann_cells", tolerance=1e-4)
def planes_at_set():
  def f(x):
    def step(_, x):
      density = x.sum(0)
      u = (x[1] - x[2] + x[5] - x[6] + x[7] - x[8]) / density
      v = (x[3] - x[4] + x[5] - x[6] - x[7] + x[8]) / density
      for n in range(9):
        x = x.at[n].add(0.6 * (settled(n, density, u, v) - x[n]))
      for n in range(1, 9):
        x = x.at[n].set(jnp.roll(x[n], tuple(WAYS[n]), (0, 1)))
      return x
    return lax.fori_loop(0, MOVES, step, x)
  return f, fluid()


# Shallow water on a line (Lax and Friedrichs).

WATER, SPLASHES = 1024, 300


def splash():
  h = 1 + 0.3 * np.exp(-((np.arange(WATER) - 400) / 30.0)**2)
  return h.astype(np.float32), np.zeros(WATER, np.float32)


def flows(h, q):
  return q, q * q / h + 4.9 * h * h


@spelling("shallow_water", tolerance=1e-4)
def rolled():
  def f(h, q):
    def step(_, s):
      a, b = flows(*s)
      return tuple(0.5 * (jnp.roll(x, 1) + jnp.roll(x, -1)) - 0.05 * (jnp.roll(y, -1) - jnp.roll(y, 1)) for x, y in zip(s, (a, b)))
    return lax.fori_loop(0, SPLASHES, step, (h, q))
  return f, splash()


@spelling("shallow_water", tolerance=1e-4)
def stacked_and_padded():
  def f(h, q):
    def step(s, _):
      y = jnp.stack(flows(s[0], s[1]))
      x, y = (jnp.concatenate([v[:, -1:], v, v[:, :1]], axis=1) for v in (s, y))
      return 0.5 * (x[:, :-2] + x[:, 2:]) - 0.05 * (y[:, 2:] - y[:, :-2]), None
    s = lax.scan(step, jnp.stack([h, q]), None, length=SPLASHES)[0]
    return s[0], s[1]
  return f, splash()


@spelling("shallow_water", tolerance=1e-4)
def inner_at_set():
  def f(h, q):
    def moved(x, y):
      new = x.at[1:-1].set(0.5 * (x[:-2] + x[2:]) - 0.05 * (y[2:] - y[:-2]))
      new = new.at[0].set(0.5 * (x[-1] + x[1]) - 0.05 * (y[1] - y[-1]))
      return new.at[-1].set(0.5 * (x[-2] + x[0]) - 0.05 * (y[0] - y[-2]))
    def step(s):
      h, q, k = s
      a, b = flows(h, q)
      return moved(h, a), moved(q, b), k + 1
    return lax.while_loop(lambda s: s[2] < SPLASHES, step, (h, q, 0))[:2]
  return f, splash()


@spelling("shallow_water", tolerance=1e-4)
def pairs_in_rows():
  def f(h, q):
    left, right = (np.arange(WATER) - 1) % WATER, (np.arange(WATER) + 1) % WATER
    def step(_, s):
      y = jnp.stack(flows(s[:, 0], s[:, 1]), axis=1)
      return 0.5 * (s[left] + s[right]) - 0.05 * (y[right] - y[left])
    s = lax.fori_loop(0, SPLASHES, step, jnp.stack([h, q], axis=1))
    return s[:, 0], s[:, 1]
  return f, splash()


# Which ball a ray meets first, and how far away.

RAYS, BALLS = 4096, 64


def rays():
  d = numbers(RAYS, 3)
  return (d / np.linalg.norm(d, axis=1, keepdims=True)).astype(np.float32), 4 * numbers(BALLS, 3, seed=2), (np.abs(numbers(BALLS, seed=3)) + 0.2).astype(np.float32)


def met(d, c, r):
  along = d @ c
  inside = along * along - c @ c + r * r
  t = along - jnp.sqrt(jnp.maximum(inside, 0.0))
  return jnp.where((inside >= 0) & (t > 0), t, 1e9)


@spelling("rays", tolerance=1e-4)
def all_at_once():
  def f(d, c, r):
    t = jax.vmap(lambda d: jax.vmap(lambda c, r: met(d, c, r))(c, r))(d)
    return jnp.min(t, axis=1), jnp.argmin(t, axis=1).astype(jnp.int32)
  return f, rays()


@spelling("rays", tolerance=1e-4)
def scan_of_balls():
  def f(d, c, r):
    def ball(s, item):
      best, which = s
      k, c, r = item
      along = d @ c
      inside = along * along - jnp.sum(c * c) + r * r
      t = along - jnp.sqrt(jnp.maximum(inside, 0.0))
      t = jnp.where((inside >= 0) & (t > 0), t, 1e9)
      return (jnp.minimum(best, t), jnp.where(t < best, k, which)), None
    first = (jnp.full(RAYS, 1e9), jnp.zeros(RAYS, jnp.int32))
    return lax.scan(ball, first, (jnp.arange(BALLS), c, r))[0]
  return f, rays()


@spelling("rays", tolerance=1e-4)
def vmapped_fori():
  def f(d, c, r):
    def one(d):
      def ball(k, s):
        t = met(d, c[k], r[k])
        return lax.cond(t < s[0], lambda: (t, k), lambda: s)
      return lax.fori_loop(0, BALLS, ball, (jnp.float32(1e9), 0))
    return jax.vmap(one)(d)
  return f, rays()


@spelling("rays", tolerance=1e-4)
def mapped_at_set():
  def f(d, c, r):
    def one(k, s):
      t = jax.vmap(lambda c, r: met(d[k], c, r))(c, r)
      which = jnp.argmin(t)
      return s[0].at[k].set(t[which]), s[1].at[k].set(which.astype(jnp.int32))
    return lax.fori_loop(0, RAYS, one, (jnp.zeros(RAYS), jnp.zeros(RAYS, jnp.int32)))
  return f, rays()


# Triangles into a picture with depths.

SCREEN, TRIANGLES = 96, 60


def triangles():
  random = np.random.default_rng(11)
  corner = random.uniform(0, SCREEN, size=(TRIANGLES, 1, 2))
  return (corner + random.uniform(-15, 15, size=(TRIANGLES, 3, 2))).astype(np.float32), random.random(TRIANGLES).astype(np.float32)


def covered(p, x, y):
  def side(a, b):
    return (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0])
  s = [side(p[k], p[(k + 1) % 3]) for k in range(3)]
  return ((s[0] >= 0) & (s[1] >= 0) & (s[2] >= 0)) | ((s[0] <= 0) & (s[1] <= 0) & (s[2] <= 0))


def grid():
  return jnp.arange(SCREEN, dtype=jnp.float32)[None, :], jnp.arange(SCREEN, dtype=jnp.float32)[:, None]


@spelling("depths", tolerance=1e-6)
def whole_picture_where():
  def f(p, z):
    x, y = grid()
    def one(k, s):
      depth, which = s
      nearer = covered(p[k], x, y) & (z[k] < depth)
      return jnp.where(nearer, z[k], depth), jnp.where(nearer, k, which)
    return lax.fori_loop(0, TRIANGLES, one, (jnp.ones((SCREEN, SCREEN)), jnp.full((SCREEN, SCREEN), -1)))
  return f, triangles()


@spelling("depths", tolerance=1e-6)
def scan_of_selects():
  def f(p, z):
    x, y = grid()
    def one(s, item):
      k, p, z = item
      nearer = covered(p, x, y) & (z < s[0])
      depth = jnp.broadcast_to(z, nearer.shape)
      return (lax.select(nearer, depth, s[0]), lax.select(nearer, jnp.full(nearer.shape, k), s[1])), None
    first = (jnp.ones((SCREEN, SCREEN)), jnp.full((SCREEN, SCREEN), -1))
    return lax.scan(one, first, (jnp.arange(TRIANGLES), p, z))[0]
  return f, triangles()


@spelling("depths", tolerance=1e-6)
def all_then_argmin():
  def f(p, z):
    x, y = grid()
    inside = jax.vmap(lambda p: covered(p, x, y))(p)
    depth = jnp.where(inside, z[:, None, None], 1.0)
    best = jnp.min(depth, axis=0)
    return best, jnp.where(best < 1, jnp.argmin(depth, axis=0), -1).astype(jnp.int32)
  return f, triangles()


@spelling("depths", tolerance=1e-6)
def pixels_mapped():
  def f(p, z):
    def pixel(x, y):
      def one(k, s):
        nearer = covered(p[k], x, y) & (z[k] < s[0])
        return jnp.where(nearer, z[k], s[0]), jnp.where(nearer, k, s[1])
      return lax.fori_loop(0, TRIANGLES, one, (jnp.float32(1), -1))
    n = jnp.arange(SCREEN, dtype=jnp.float32)
    return jax.vmap(lambda y: jax.vmap(lambda x: pixel(x, y))(n))(n)
  return f, triangles()


# The largest square of ones.

ONES = 128


def ones():
  return ((np.random.default_rng(12).random((ONES, ONES)) < 0.9).astype(np.int32),)


@spelling("squares")
def table_at_set():
  def f(a):
    def row(i, t):
      def cell(j, t):
        least = jnp.minimum(jnp.minimum(t[i, j + 1], t[i + 1, j]), t[i, j])
        return t.at[i + 1, j + 1].set(jnp.where(a[i, j] > 0, least + 1, 0))
      return lax.fori_loop(0, ONES, cell, t)
    return jnp.max(lax.fori_loop(0, ONES, row, jnp.zeros((ONES + 1, ONES + 1), jnp.int32)))
  return f, ones()


@spelling("squares")
def scan_in_scan():
  def f(a):
    def row(above, r):
      def cell(s, item):
        left, corner = s
        up, one = item
        best = jnp.where(one > 0, jnp.minimum(jnp.minimum(left, corner), up) + 1, 0)
        return (best, up), best
      _, new = lax.scan(cell, (0, 0), (above, r))
      return new, new
    return jnp.max(lax.scan(row, jnp.zeros(ONES, jnp.int32), a)[1])
  return f, ones()


@spelling("squares")
def row_in_place():
  def f(a):
    def row(i, s):
      def cell(j, s):
        t, corner, best = s
        up = t[j + 1]
        new = lax.select(a[i, j] > 0, jnp.minimum(jnp.minimum(t[j], up), corner) + 1, 0)
        return lax.dynamic_update_slice(t, new[None], (j + 1,)), up, jnp.maximum(best, new)
      t, _, best = lax.fori_loop(0, ONES, cell, (s[0], 0, s[1]))
      return t, best
    return lax.fori_loop(0, ONES, row, (jnp.zeros(ONES + 1, jnp.int32), 0))[1]
  return f, ones()


@spelling("squares")
def layers_until_none():
  def f(a):
    def smaller(s):
      t, n = s
      return t[:-1, :-1] & t[1:, :-1] & t[:-1, 1:] & t[1:, 1:]
    def step(s):
      t, n = s
      inner = smaller((t, n))
      return jnp.pad(inner, ((0, 1), (0, 1))), n + 1
    return lax.while_loop(lambda s: jnp.any(s[0]), step, (a > 0, 0))[1]
  return f, ones()


# What a place in a maze is worth (value iteration).

MAZE, SWEEPS = 48, 60


def maze():
  return (numbers(MAZE, MAZE),)


@spelling("worth", tolerance=1e-5)
def padded_slices():
  def f(r):
    def sweep(_, v):
      p = jnp.pad(v, 1, mode="edge")
      return r + 0.9 * jnp.max(jnp.stack([p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]]), axis=0)
    return lax.fori_loop(0, SWEEPS, sweep, jnp.zeros_like(r))
  return f, maze()


@spelling("worth", tolerance=1e-5)
def concatenated():
  def f(r):
    def sweep(v, _):
      up, down = jnp.concatenate([v[:1], v[:-1]]), jnp.concatenate([v[1:], v[-1:]])
      left, right = jnp.concatenate([v[:, :1], v[:, :-1]], 1), jnp.concatenate([v[:, 1:], v[:, -1:]], 1)
      return r + 0.9 * jnp.maximum(jnp.maximum(up, down), jnp.maximum(left, right)), None
    return lax.scan(sweep, jnp.zeros_like(r), None, length=SWEEPS)[0]
  return f, maze()


@spelling("worth", tolerance=1e-5)
def gathered_moves():
  def f(r):
    i, j = np.meshgrid(np.arange(MAZE), np.arange(MAZE), indexing="ij")
    moves = np.stack([np.clip(i + a, 0, MAZE - 1) * MAZE + np.clip(j + b, 0, MAZE - 1) for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))])
    moves = jnp.array(moves.reshape(4, -1))
    def sweep(s):
      v, k = s
      return r.reshape(-1) + 0.9 * jnp.max(v[moves], axis=0), k + 1
    return lax.while_loop(lambda s: s[1] < SWEEPS, sweep, (jnp.zeros(MAZE * MAZE), 0))[0].reshape(MAZE, MAZE)
  return f, maze()


@spelling("worth", tolerance=1e-5)
def places_in_loops():
  def f(r):
    def sweep(_, v):
      def row(i, new):
        def place(j, new):
          best = jnp.maximum(jnp.maximum(v[jnp.maximum(i - 1, 0), j], v[jnp.minimum(i + 1, MAZE - 1), j]),
                             jnp.maximum(v[i, jnp.maximum(j - 1, 0)], v[i, jnp.minimum(j + 1, MAZE - 1)]))
          return new.at[i, j].set(r[i, j] + 0.9 * best)
        return lax.fori_loop(0, MAZE, place, new)
      return lax.fori_loop(0, MAZE, row, v)
    return lax.fori_loop(0, SWEEPS, sweep, jnp.zeros_like(r))
  return f, maze()


# Tables of many strings at once: how alike each is to one word.

STRINGS, LETTERS = 64, 24


def strings():
  return integers(4, STRINGS, LETTERS), integers(4, LETTERS, seed=2)


@spelling("many_edits")
def vmapped_tables():
  def f(many, word):
    def one(text):
      def row(i, t):
        def cell(j, t):
          least = jnp.minimum(jnp.minimum(t[i, j + 1], t[i + 1, j]) + 1, t[i, j] + (text[i] != word[j]))
          return t.at[i + 1, j + 1].set(least)
        return lax.fori_loop(0, LETTERS, cell, t)
      t = jnp.zeros((LETTERS + 1, LETTERS + 1), jnp.int32)
      t = t.at[0].set(jnp.arange(LETTERS + 1)).at[:, 0].set(jnp.arange(LETTERS + 1))
      return lax.fori_loop(0, LETTERS, row, t)[-1, -1]
    return jax.vmap(one)(many)
  return f, strings()


@spelling("many_edits")
def mapped_tables():
  def f(many, word):
    def one(text):
      def row(i, t):
        def cell(j, t):
          least = jnp.minimum(jnp.minimum(t[i, j + 1], t[i + 1, j]) + 1, t[i, j] + (text[i] != word[j]))
          return t.at[i + 1, j + 1].set(least)
        return lax.fori_loop(0, LETTERS, cell, t)
      t = jnp.zeros((LETTERS + 1, LETTERS + 1), jnp.int32)
      t = t.at[0].set(jnp.arange(LETTERS + 1)).at[:, 0].set(jnp.arange(LETTERS + 1))
      return lax.fori_loop(0, LETTERS, row, t)[-1, -1]
    return lax.map(one, many)
  return f, strings()


@spelling("many_edits")
def vmapped_scans():
  def f(many, word):
    def one(text):
      def row(above, item):
        c, i = item
        def cell(left, item):
          corner, up, w = item
          best = jnp.minimum(jnp.minimum(left, up) + 1, corner + (c != w))
          return best, best
        _, new = lax.scan(cell, i + 1, (above[:-1], above[1:], word))
        return jnp.concatenate([(i + 1)[None], new]), None
      return lax.scan(row, jnp.arange(LETTERS + 1), (text, jnp.arange(LETTERS)))[0][-1]
    return jax.vmap(one)(many)
  return f, strings()


@spelling("many_edits")
def vmapped_flat_table():
  def f(many, word):
    def one(text):
      n = LETTERS + 1
      def cell(k, t):
        i, j = k // LETTERS, k % LETTERS
        at = i * n + j
        best = jnp.minimum(jnp.minimum(t[at + 1], t[at + n]) + 1, t[at] + (text[i] != word[j]))
        return t.at[at + n + 1].set(best)
      t = jnp.zeros(n * n, jnp.int32).at[:n].set(jnp.arange(n)).at[::n].set(jnp.arange(n))
      return lax.fori_loop(0, LETTERS * LETTERS, cell, t)[-1]
    return jax.vmap(one)(many)
  return f, strings()


# Walks and sums of many at once, each kept in a table of its own.

WALKERS, PACES = 512, 100


def paces():
  return (numbers(WALKERS, PACES),)


@spelling("many_walks", tolerance=1e-4)
def vmapped_at_set():
  def f(x):
    def one(x):
      def pace(k, t):
        return t.at[k + 1].set(0.9 * t[k] + 0.05 * t[k - 1] + x[k])
      return lax.fori_loop(1, PACES, pace, jnp.zeros(PACES + 1))
    return jax.vmap(one)(x)
  return f, paces()


@spelling("many_walks", tolerance=1e-4)
def scan_of_columns():
  def f(x):
    def pace(s, v):
      new = 0.9 * s[1] + 0.05 * s[0] + v
      return (s[1], new), new
    zero = jnp.zeros(WALKERS)
    rows = lax.scan(pace, (zero, zero), x.T[1:])[1]
    return jnp.concatenate([jnp.zeros((2, WALKERS)), rows]).T
  return f, paces()


@spelling("many_walks", tolerance=1e-4)
def columns_at_set():
  def f(x):
    def pace(k, t):
      return t.at[:, k + 1].set(0.9 * t[:, k] + 0.05 * t[:, k - 1] + x[:, k])
    return lax.fori_loop(1, PACES, pace, jnp.zeros((WALKERS, PACES + 1)))
  return f, paces()


@spelling("many_walks", tolerance=1e-4)
def columns_updated():
  def f(x):
    def pace(s):
      k, t = s
      a, b = lax.dynamic_slice(t, (0, k), (WALKERS, 1)), lax.dynamic_slice(t, (0, k - 1), (WALKERS, 1))
      new = 0.9 * a + 0.05 * b + lax.dynamic_slice(x, (0, k), (WALKERS, 1))
      return k + 1, lax.dynamic_update_slice(t, new, (0, k + 1))
    return lax.while_loop(lambda s: s[0] < PACES, pace, (1, jnp.zeros((WALKERS, PACES + 1))))[1]
  return f, paces()


@spelling("many_walks", tolerance=1e-4)
def walker_by_walker():
  def f(x):
    def one(i, t):
      def pace(k, t):
        return t.at[i, k + 1].set(0.9 * t[i, k] + 0.05 * t[i, k - 1] + x[i, k])
      return lax.fori_loop(1, PACES, pace, t)
    return lax.fori_loop(0, WALKERS, one, jnp.zeros((WALKERS, PACES + 1)))
  return f, paces()

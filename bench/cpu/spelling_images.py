"""Images, wavelets and curves, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import numbers, spelling

# Clusters of a percolation: every open cell takes the least label around it until nothing changes.

GROUND = 48


def ground():
  return (np.random.default_rng(8).uniform(size=(GROUND, GROUND)) < 0.6,)


@spelling("clusters")
def rolls_and_masks():
  def f(is_open):
    first = jnp.where(is_open, jnp.arange(GROUND * GROUND).reshape(GROUND, GROUND), 9999)
    def step(c):
      x, _ = c
      wide = jnp.pad(x, 1, constant_values=9999)
      new = jnp.minimum(jnp.minimum(wide[2:, 1:-1], wide[:-2, 1:-1]), jnp.minimum(wide[1:-1, 2:], wide[1:-1, :-2]))
      new = jnp.where(is_open, jnp.minimum(x, new), 9999)
      return new, jnp.any(new != x)
    return lax.while_loop(lambda c: c[1], step, (first, True))[0]
  return f, ground()


@spelling("clusters")
def inside_at_min():
  def f(is_open):
    first = jnp.where(is_open, jnp.arange(GROUND * GROUND).reshape(GROUND, GROUND), 9999)
    def step(c):
      x, _ = c
      new = x.at[1:].min(x[:-1]).at[:-1].min(x[1:]).at[:, 1:].min(x[:, :-1]).at[:, :-1].min(x[:, 1:])
      new = jnp.where(is_open, new, 9999)
      return new, jnp.sum(jnp.abs(new - x)) > 0
    return lax.while_loop(lambda c: c[1], step, (first, jnp.bool_(True)))[0]
  return f, ground()


@spelling("clusters")
def before_carried():
  def f(is_open):
    first = jnp.where(is_open, jnp.arange(GROUND * GROUND).reshape(GROUND, GROUND), 9999)
    def step(c):
      x, _ = c
      side = jnp.full((1, GROUND), 9999)
      up, down = jnp.concatenate([x[1:], side]), jnp.concatenate([side, x[:-1]])
      left, right = jnp.concatenate([x[:, 1:], side.T], 1), jnp.concatenate([side.T, x[:, :-1]], 1)
      best = jnp.min(jnp.stack([x, up, down, left, right]), axis=0)
      return lax.select(is_open, best, x), x
    return lax.while_loop(lambda c: ~jnp.array_equal(c[0], c[1]), step, (first, first + 1))[0]
  return f, ground()


# Haar's wavelets of a signal, all levels.

@spelling("haar", tolerance=1e-5)
def masked_levels():
  def f(x):
    for level in range(9):
      n = 512 >> level
      a, b = x[:n:2], x[1:n:2]
      x = x.at[:n].set(jnp.concatenate([a + b, a - b]) * np.float32(0.70710678))
    return x
  return f, (numbers(512),)


@spelling("haar", tolerance=1e-5)
def while_halving():
  def f(x):
    k = jnp.arange(512)
    def step(c):
      n, x = c
      h = n // 2
      a, b = x[2 * (k % h) % 512], x[(2 * (k % h) + 1) % 512]
      return h, jnp.where(k < h, (a + b) * np.float32(0.70710678), jnp.where(k < n, (a - b) * np.float32(0.70710678), x))
    return lax.while_loop(lambda c: c[0] > 1, step, (512, x))[1]
  return f, (numbers(512),)


@spelling("haar", tolerance=1e-5)
def pair_by_pair():
  def f(x):
    def level(c):
      n, x = c
      h = n // 2
      def pair(i, out):
        a, b = x[2 * i], x[2 * i + 1]
        return out.at[i].set((a + b) * np.float32(0.70710678)).at[h + i].set((a - b) * np.float32(0.70710678))
      return h, lax.fori_loop(0, h, pair, x)
    return lax.while_loop(lambda c: c[0] > 1, level, (512, x))[1]
  return f, (numbers(512),)


# A curve of Bezier by de Casteljau's scheme.

def corners():
  return numbers(8, 2, seed=5), np.linspace(0, 1, 500, dtype=np.float32)


@spelling("bezier", tolerance=1e-5)
def mapped_rounds():
  def f(p, t):
    def one(t):
      q = p
      for _ in range(7):
        q = q[:-1] * (1 - t) + q[1:] * t
      return q[0]
    return jax.vmap(one)(t)
  return f, corners()


@spelling("bezier", tolerance=1e-5)
def in_place():
  def f(p, t):
    def one(i, out):
      def round(r, q):
        return lax.fori_loop(0, 7 - r, lambda k, q: q.at[k].set((1 - t[i]) * q[k] + t[i] * q[k + 1]), q)
      return out.at[i].set(lax.fori_loop(0, 7, round, p)[0])
    return lax.fori_loop(0, 500, one, jnp.zeros((500, 2)))
  return f, corners()


@spelling("bezier", tolerance=1e-5)
def rolled_whole():
  def f(p, t):
    q = jnp.broadcast_to(p[None], (500, 8, 2))
    s = t[:, None, None]
    return lax.fori_loop(0, 7, lambda _, q: (1 - s) * q + s * jnp.roll(q, -1, axis=1), q)[:, 0]
  return f, corners()


@spelling("bezier", tolerance=1e-5)
def scanned_points():
  def f(p, t):
    def point(_, t):
      q = lax.fori_loop(0, 7, lambda _, q: q.at[:-1].set((1 - t) * q[:-1] + t * q[1:]), p)
      return None, q[0]
    return lax.scan(point, None, t)[1]
  return f, corners()


# Dithering after Floyd and Steinberg: errors go to the right and down.

PICTURE = 48


def picture():
  return (np.random.default_rng(1).uniform(0, 1, (PICTURE, PICTURE)).astype(np.float32),)


@spelling("dither")
def added_at_four():
  def f(x):
    def pixel(k, x):
      i, j = k // PICTURE, k % PICTURE + 1
      new = jnp.where(x[i, j] > 0.5, 1.0, 0.0)
      e = (x[i, j] - new) / 16
      x = x.at[i, j].set(new).at[i, j + 1].add(7 * e)
      return x.at[i + 1, j - 1].add(3 * e).at[i + 1, j].add(5 * e).at[i + 1, j + 1].add(e)
    return lax.fori_loop(0, PICTURE * PICTURE, pixel, jnp.pad(x, ((0, 1), (1, 1))))[:-1, 1:-1]
  return f, picture()


@spelling("dither")
def rows_with_errors():
  def f(x):
    def row(below, r):
      def pixel(c, v):
        right, e1, e2 = c  # for the pixel to the right; below the last one, below this one
        v = v + right
        new = jnp.where(v > 0.5, 1.0, 0.0)
        e = (v - new) / 16
        return (7 * e, e2 + 5 * e, e), (new, e1 + 3 * e)
      z = jnp.float32(0)
      (_, last, _), (out, down) = lax.scan(pixel, (z, z, z), r + below)
      return jnp.concatenate([down[1:], last[None]]), out
    return lax.scan(row, jnp.zeros(PICTURE), x)[1]
  return f, picture()


@spelling("dither")
def nested_fori():
  def f(x):
    def row(i, x):
      def pixel(j, x):
        old = x[i, j]
        new = jnp.round(jnp.clip(old, 0, 1) - 1e-7)
        e = (old - new) / 16
        x = lax.dynamic_update_slice(x, jnp.stack([new, x[i, j + 1] + 7 * e])[None], (i, j))
        part = lax.dynamic_slice(x, (i + 1, j - 1), (1, 3))
        return lax.dynamic_update_slice(x, part + jnp.stack([3 * e, 5 * e, e])[None], (i + 1, j - 1))
      return lax.fori_loop(1, PICTURE + 1, pixel, x)
    return lax.fori_loop(0, PICTURE, row, jnp.pad(x, ((0, 1), (1, 1))))[:-1, 1:-1]
  return f, picture()


# A table of sums over rectangles.

@spelling("integral_image", tolerance=1e-5)
def two_cumsums():
  def f(x):
    return jnp.cumsum(jnp.cumsum(x, 0), 1)
  return f, (numbers(128, 128),)


@spelling("integral_image", tolerance=1e-5)
def rows_scanned():
  def f(x):
    def row(above, r):
      new = above + lax.scan(lambda s, v: (s + v, s + v), jnp.float32(0), r)[1]
      return new, new
    return lax.scan(row, jnp.zeros(128), x)[1]
  return f, (numbers(128, 128),)


@spelling("integral_image", tolerance=1e-5)
def cell_by_cell():
  def f(x):
    def cell(k, t):
      i, j = k // 128 + 1, k % 128 + 1
      return t.at[i, j].set(x[i - 1, j - 1] + t[i - 1, j] + t[i, j - 1] - t[i - 1, j - 1])
    return lax.fori_loop(0, 128 * 128, cell, jnp.zeros((129, 129)))[1:, 1:]
  return f, (numbers(128, 128),)


@spelling("integral_image", tolerance=1e-5)
def nested_and_row_sum():
  def f(x):
    def row(i, t):
      def cell(j, c):
        s, t = c
        s = s + x[i, j]
        return s, t.at[i, j].set(s + jnp.where(i > 0, t[i - 1, j], 0))
      return lax.fori_loop(0, 128, cell, (0.0, t))[1]
    return lax.fori_loop(0, 128, row, jnp.zeros((128, 128)))
  return f, (numbers(128, 128),)


# Distances to the nearest wall, in two sweeps.

def walls():
  return (np.random.default_rng(2).uniform(size=(64, 64)) < 0.02,)


@spelling("distance_map")
def sweeps_of_rows():
  def f(wall):
    d = jnp.where(wall, 0, 999)
    def across(r):
      f = lax.scan(lambda c, v: (jnp.minimum(c + 1, v),) * 2, 999, r)[1]
      return lax.scan(lambda c, v: (jnp.minimum(c + 1, v),) * 2, 999, f, reverse=True)[1]
    def row(above, r):
      new = across(jnp.minimum(r, above + 1))
      return new, new
    d = lax.scan(row, jnp.full(64, 999), d)[1]
    return lax.scan(row, jnp.full(64, 999), d, reverse=True)[1]
  return f, walls()


@spelling("distance_map")
def pixel_by_pixel():
  def f(wall):
    d = jnp.pad(jnp.where(wall, 0, 999), 1, constant_values=999)
    def there(k, d):
      i, j = k // 64 + 1, k % 64 + 1
      return d.at[i, j].set(jnp.minimum(d[i, j], jnp.minimum(d[i - 1, j], d[i, j - 1]) + 1))
    def back(k, d):
      i, j = 64 - k // 64, 64 - k % 64
      return d.at[i, j].set(jnp.minimum(d[i, j], jnp.minimum(d[i + 1, j], d[i, j + 1]) + 1))
    return lax.fori_loop(0, 4096, back, lax.fori_loop(0, 4096, there, d))[1:-1, 1:-1]
  return f, walls()


@spelling("distance_map")
def until_nothing_changes():
  def f(wall):
    def step(c):
      d, _ = c
      w = jnp.pad(d, 1, constant_values=999)
      new = jnp.minimum(jnp.minimum(w[2:, 1:-1], w[:-2, 1:-1]), jnp.minimum(w[1:-1, 2:], w[1:-1, :-2])) + 1
      new = jnp.minimum(d, new)
      return new, jnp.any(new < d)
    return lax.while_loop(lambda c: c[1], step, (jnp.where(wall, 0, 999), True))[0]
  return f, walls()


# An image opened: worn down three times, grown three times.

@spelling("opening")
def windows():
  def f(x):
    def least(x): return lax.reduce_window(x, jnp.inf, lax.min, (3, 3), (1, 1), "SAME")
    def most(x): return lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME")
    x = lax.fori_loop(0, 3, lambda _, x: least(x), x)
    return lax.fori_loop(0, 3, lambda _, x: most(x), x)
  return f, (numbers(64, 64),)


@spelling("opening")
def shifted_pads():
  def f(x):
    def around(x, edge, pick):
      w = jnp.pad(x, 1, constant_values=edge)
      w = pick(pick(w[:-2], w[1:-1]), w[2:])
      return pick(pick(w[:, :-2], w[:, 1:-1]), w[:, 2:])
    x = lax.scan(lambda x, _: (around(x, jnp.inf, jnp.minimum), None), x, None, length=3)[0]
    return lax.scan(lambda x, _: (around(x, -jnp.inf, jnp.maximum), None), x, None, length=3)[0]
  return f, (numbers(64, 64),)


@spelling("opening")
def nine_slices_stacked():
  def f(x):
    def around(x, edge, pick):
      w = jnp.pad(x, 1, constant_values=edge)
      return pick(jnp.stack([lax.dynamic_slice(w, (i, j), (64, 64)) for i in range(3) for j in range(3)]), axis=0)
    x = lax.fori_loop(0, 3, lambda _, x: around(x, jnp.inf, jnp.min), x)
    return lax.fori_loop(0, 3, lambda _, x: around(x, -jnp.inf, jnp.max), x)
  return f, (numbers(64, 64),)


@spelling("opening")
def rolled_where():
  def f(x):
    k = jnp.arange(64)
    def around(x, edge, pick):
      up, down = jnp.where(k[:, None] == 63, edge, jnp.roll(x, -1, 0)), jnp.where(k[:, None] == 0, edge, jnp.roll(x, 1, 0))
      x = pick(x, pick(up, down))
      left, right = jnp.where(k == 63, edge, jnp.roll(x, -1, 1)), jnp.where(k == 0, edge, jnp.roll(x, 1, 1))
      return pick(x, pick(left, right))
    x = lax.fori_loop(0, 3, lambda _, x: around(x, jnp.inf, jnp.minimum), x)
    return lax.fori_loop(0, 3, lambda _, x: around(x, -jnp.inf, jnp.maximum), x)
  return f, (numbers(64, 64),)

"""Pictures: edges, sizes, lines and layers, in several spellings each."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

SIDE = 192


def picture():
  return (integers(256, SIDE, SIDE).astype(np.uint8),)


# Sobel's operator on bytes: |gx| + |gy|, at most 255, the border 0.


def gradients(at):
  gx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1)
  gy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1)
  return jnp.minimum(jnp.abs(gx) + jnp.abs(gy), 255)


@spelling("sobel")
def shifted_slices():
  def f(p):
    x = p.astype(jnp.int32)
    inside = gradients(lambda i, j: x[1 + i:SIDE - 1 + i, 1 + j:SIDE - 1 + j])
    return jnp.pad(inside, 1).astype(jnp.uint8)
  return f, picture()


@spelling("sobel")
def rolled_and_masked():
  def f(p):
    x = p.astype(jnp.int32)
    g = gradients(lambda i, j: jnp.roll(x, (-i, -j), (0, 1)))
    i = jnp.arange(SIDE)
    inside = (i > 0) & (i < SIDE - 1)
    return jnp.where(inside[:, None] & inside, g, 0).astype(jnp.uint8)
  return f, picture()


@spelling("sobel")
def convolved():
  def f(p):
    x = p.astype(jnp.float32)[None, None]
    k = jnp.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], jnp.float32)
    g = lax.conv_general_dilated(x, jnp.stack([k, k.T])[:, None], (1, 1), "VALID")[0]
    return jnp.pad(jnp.minimum(jnp.abs(g[0]) + jnp.abs(g[1]), 255), 1).astype(jnp.uint8)
  return f, picture()


@spelling("sobel")
def pixels_in_loops():
  def f(p):
    x = p.astype(jnp.int32)

    def row(i, out):
      def pixel(j, out):
        return out.at[i, j].set(gradients(lambda a, b: x[i + a, j + b]).astype(jnp.uint8))
      return lax.fori_loop(1, SIDE - 1, pixel, out)
    return lax.fori_loop(1, SIDE - 1, row, jnp.zeros((SIDE, SIDE), jnp.uint8))
  return f, picture()


@spelling("sobel")
def windows_mapped():
  def f(p):
    x = p.astype(jnp.int32)

    def pixel(i, j):
      w = lax.dynamic_slice(x, (i, j), (3, 3))
      return gradients(lambda a, b: w[1 + a, 1 + b])
    at = jnp.arange(SIDE - 2)
    inside = jax.vmap(lambda i: jax.vmap(lambda j: pixel(i, j))(at))(at)
    return jnp.zeros((SIDE, SIDE), jnp.uint8).at[1:-1, 1:-1].set(inside.astype(jnp.uint8))
  return f, picture()


# A picture brought to another size by bilinear interpolation.

SMALL = 100


def small():
  return (numbers(SMALL, SMALL),)


LARGE = 250


@spelling("resize", tolerance=1e-4)
def gathered_corners():
  def f(x):
    at = (jnp.arange(LARGE) * ((SMALL - 1) / (LARGE - 1))).astype(jnp.float32)
    low = jnp.clip(jnp.floor(at).astype(jnp.int32), 0, SMALL - 2)
    t = at - low
    i, j = low[:, None], low[None, :]
    u, v = t[:, None], t[None, :]
    return (1 - u) * ((1 - v) * x[i, j] + v * x[i, j + 1]) + u * ((1 - v) * x[i + 1, j] + v * x[i + 1, j + 1])
  return f, small()


@spelling("resize", tolerance=1e-4)
def rows_then_columns():
  def f(x):
    at = (jnp.arange(LARGE) * ((SMALL - 1) / (LARGE - 1))).astype(jnp.float32)
    low = jnp.clip(jnp.floor(at).astype(jnp.int32), 0, SMALL - 2)
    t = (at - low)[:, None]
    rows = (1 - t) * x[low] + t * x[low + 1]
    return (1 - t.T) * rows[:, low] + t.T * rows[:, low + 1]
  return f, small()


@spelling("resize", tolerance=1e-4)
def matrices_of_weights():
  def f(x):
    at = (jnp.arange(LARGE) * ((SMALL - 1) / (LARGE - 1))).astype(jnp.float32)
    w = jnp.maximum(0, 1 - jnp.abs(at[:, None] - jnp.arange(SMALL)))
    return w @ x @ w.T
  return f, small()


@spelling("resize", tolerance=1e-4)
def mapped_pixels():
  def f(x):
    scale = jnp.float32((SMALL - 1) / (LARGE - 1))

    def pixel(n):
      a, b = (n // LARGE) * scale, (n % LARGE) * scale
      i, j = jnp.minimum(a.astype(jnp.int32), SMALL - 2), jnp.minimum(b.astype(jnp.int32), SMALL - 2)
      u, v = a - i, b - j
      w = lax.dynamic_slice(x, (i, j), (2, 2))
      return (1 - u) * ((1 - v) * w[0, 0] + v * w[0, 1]) + u * ((1 - v) * w[1, 0] + v * w[1, 1])
    return lax.map(pixel, jnp.arange(LARGE * LARGE)).reshape(LARGE, LARGE)
  return f, small()


@spelling("resize", tolerance=1e-4)
def scan_of_rows():
  def f(x):
    at = (jnp.arange(LARGE) * ((SMALL - 1) / (LARGE - 1))).astype(jnp.float32)
    low = jnp.clip(at.astype(jnp.int32), 0, SMALL - 2)
    t = at - low

    def row(_, it):
      i, u = it
      r = (1 - u) * x[i] + u * x[i + 1]
      return None, (1 - t) * r[low] + t * r[low + 1]
    return lax.scan(row, None, (low, t))[1]
  return f, small()


# Hough's transform: votes of points for lines.

DOTS = 400
ANGLES = 64
RADII = 128


def dots():
  return np.random.default_rng(3).uniform(-1, 1, (DOTS, 2)).astype(np.float32), np.linspace(0, np.pi, ANGLES, endpoint=False).astype(np.float32)


def radius(x, y, angle):
  r = x * jnp.cos(angle) + y * jnp.sin(angle)
  return jnp.floor((r + 1.5) * (RADII / 3)).astype(jnp.int32)


@spelling("hough", tolerance=0.1)
def one_scatter():
  def f(points, angles):
    r = radius(points[:, :1], points[:, 1:], angles)
    return jnp.zeros((ANGLES, RADII), jnp.int32).at[jnp.arange(ANGLES)[None, :], r].add(1)
  return f, dots()


@spelling("hough", tolerance=0.1)
def point_by_point():
  def f(points, angles):
    def vote(votes, p):
      return votes.at[jnp.arange(ANGLES), radius(p[0], p[1], angles)].add(1), None
    return lax.scan(vote, jnp.zeros((ANGLES, RADII), jnp.int32), points)[0]
  return f, dots()


@spelling("hough", tolerance=0.1)
def two_loops():
  def f(points, angles):
    def point(i, votes):
      def angle(k, votes):
        return votes.at[k, radius(points[i, 0], points[i, 1], angles[k])].add(1)
      return lax.fori_loop(0, ANGLES, angle, votes)
    return lax.fori_loop(0, DOTS, point, jnp.zeros((ANGLES, RADII), jnp.int32))
  return f, dots()


@spelling("hough", tolerance=0.1)
def vmapped_histograms():
  def f(points, angles):
    return jax.vmap(lambda a: jnp.bincount(radius(points[:, 0], points[:, 1], a), length=RADII))(angles).astype(jnp.int32)
  return f, dots()


@spelling("hough", tolerance=0.1)
def flattened_places():
  def f(points, angles):
    r = radius(points[:, :1], points[:, 1:], angles)
    flat = (jnp.arange(ANGLES) * RADII + r).reshape(-1)
    return jax.ops.segment_sum(jnp.ones_like(flat), flat, ANGLES * RADII).reshape(ANGLES, RADII)
  return f, dots()


# Layers over one another: transparent pictures from front to back.

LAYERS = 12
PIXELS = 6000


def layers():
  r = np.random.default_rng(6)
  return r.uniform(0, 1, (LAYERS, PIXELS, 3)).astype(np.float32), r.uniform(0, 0.6, (LAYERS, PIXELS)).astype(np.float32)


@spelling("composite", tolerance=1e-5)
def scan_front_to_back():
  def f(color, alpha):
    def step(state, layer):
      out, left = state
      c, a = layer
      return (out + (left * a)[:, None] * c, left * (1 - a)), None
    return lax.scan(step, (jnp.zeros((PIXELS, 3)), jnp.ones(PIXELS)), (color, alpha))[0][0]
  return f, layers()


@spelling("composite", tolerance=1e-5)
def back_to_front():
  def f(color, alpha):
    out = jnp.zeros((PIXELS, 3))
    for k in range(LAYERS - 1, -1, -1):
      a = alpha[k][:, None]
      out = a * color[k] + (1 - a) * out
    return out
  return f, layers()


@spelling("composite", tolerance=1e-5)
def running_products():
  def f(color, alpha):
    left = jnp.concatenate([jnp.ones((1, PIXELS)), jnp.cumprod(1 - alpha, axis=0)[:-1]])
    return jnp.einsum("lp,lpc->pc", left * alpha, color)
  return f, layers()


@spelling("composite", tolerance=1e-5)
def vmapped_while_opaque():
  def f(color, alpha):
    def pixel(c, a):
      def step(state):
        k, out, left = state
        return k + 1, out + left * a[k] * c[k], left * (1 - a[k])
      return lax.while_loop(lambda s: s[0] < LAYERS, step, (0, jnp.zeros(3), jnp.float32(1)))[1]
    return jax.vmap(pixel, in_axes=(1, 1))(color, alpha)
  return f, layers()


@spelling("composite", tolerance=1e-5)
def mapped_pixels_fori():
  def f(color, alpha):
    def pixel(i):
      def step(k, out):
        a = alpha[k, i]
        return a * color[k, i] + (1 - a) * out
      return lax.fori_loop(0, LAYERS, lambda n, out: step(LAYERS - 1 - n, out), jnp.zeros(3))
    return lax.map(pixel, jnp.arange(PIXELS))
  return f, layers()


# Lines on a grid, Bresenham's way: the steps of each.

LINES = 300
GRID = 128


def lines():
  return (integers(GRID, LINES, 4),)


@spelling("bresenham")
def while_per_line():
  def f(ends):
    def line(n, grid):
      x0, y0, x1, y1 = (ends[n, k] for k in range(4))
      dx, dy = jnp.abs(x1 - x0), -jnp.abs(y1 - y0)
      sx, sy = jnp.where(x0 < x1, 1, -1), jnp.where(y0 < y1, 1, -1)

      def step(state):
        x, y, err, grid, _ = state
        grid = grid.at[y, x].set(True)
        done = (x == x1) & (y == y1)
        e2 = 2 * err
        right, down = e2 >= dy, e2 <= dx
        err = err + jnp.where(right, dy, 0) + jnp.where(down, dx, 0)
        return x + jnp.where(right, sx, 0), y + jnp.where(down, sy, 0), err, grid, done
      return lax.while_loop(lambda s: ~s[4], step, (x0, y0, dx + dy, grid, False))[3]
    return lax.fori_loop(0, LINES, line, jnp.zeros((GRID, GRID), bool))
  return f, lines()


@spelling("bresenham")
def scan_with_conds():
  def f(ends):
    def line(grid, e):
      x0, y0, x1, y1 = e[0], e[1], e[2], e[3]
      dx, dy = jnp.abs(x1 - x0), -jnp.abs(y1 - y0)
      sx, sy = jnp.sign(x1 - x0), jnp.sign(y1 - y0)

      def step(_, state):
        x, y, err, grid = state
        grid = lax.dynamic_update_slice(grid, jnp.ones((1, 1), bool), (y, x))
        e2 = 2 * err
        x, err = lax.cond(e2 >= dy, lambda x, err: (x + sx, err + dy), lambda x, err: (x, err), x, err)
        y, err = lax.cond(e2 <= dx, lambda y, err: (y + sy, err + dx), lambda y, err: (y, err), y, err)
        return x, y, err, grid
      return lax.fori_loop(0, jnp.maximum(dx, -dy) + 1, step, (x0, y0, dx + dy, grid))[3], None
    return lax.scan(line, jnp.zeros((GRID, GRID), bool), ends)[0]
  return f, lines()


@spelling("bresenham")
def one_while():
  def f(ends):
    def step(state):
      n, x, y, err, grid = state
      x1, y1 = ends[n, 2], ends[n, 3]
      dx, dy = jnp.abs(x1 - ends[n, 0]), -jnp.abs(y1 - ends[n, 1])
      sx, sy = jnp.sign(x1 - ends[n, 0]), jnp.sign(y1 - ends[n, 1])
      grid = grid.at[y, x].set(True)
      done = (x == x1) & (y == y1)
      e2 = 2 * err
      x_next, y_next = jnp.where(e2 >= dy, x + sx, x), jnp.where(e2 <= dx, y + sy, y)
      err = err + jnp.where(e2 >= dy, dy, 0) + jnp.where(e2 <= dx, dx, 0)
      m = jnp.minimum(n + 1, LINES - 1)
      first = jnp.abs(ends[m, 2] - ends[m, 0]) - jnp.abs(ends[m, 3] - ends[m, 1])
      return (n + done, jnp.where(done, ends[m, 0], x_next), jnp.where(done, ends[m, 1], y_next),
              jnp.where(done, first, err), grid)
    first = jnp.abs(ends[0, 2] - ends[0, 0]) - jnp.abs(ends[0, 3] - ends[0, 1])
    return lax.while_loop(lambda s: s[0] < LINES, step, (0, ends[0, 0], ends[0, 1], first, jnp.zeros((GRID, GRID), bool)))[4]
  return f, lines()

"""Grids and pictures that change by rules, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Cars on a ring (Nagel and Schreckenberg): speeds up to five, no dice; cells hold a speed, or -1.

ROAD, RUSH = 2000, 100


def cars():
  return (np.where(integers(3, ROAD) == 0, integers(6, ROAD, seed=2), -1).astype(np.int32),)


def driven(gap, speed):
  return jnp.minimum(jnp.minimum(speed + 1, 5), gap)


@spelling("traffic")
def gaps_by_rolls():
  def f(road):
    def step(_, road):
      gap = jnp.full(ROAD, 5)
      for d in range(5, 0, -1):
        gap = jnp.where(jnp.roll(road, -d) >= 0, d - 1, gap)
      speed = jnp.where(road >= 0, driven(gap, road), -1)
      new = jnp.full(ROAD, -1)
      for v in range(6):
        new = jnp.where(jnp.roll(speed, v) == v, v, new)
      return new
    return lax.fori_loop(0, RUSH, step, road)
  return f, cars()


@spelling("traffic")
def places_scattered():
  def f(road):
    at = jnp.arange(ROAD)
    def step(road, _):
      gap = jnp.full(ROAD, 5)
      for d in range(5, 0, -1):
        gap = jnp.where(road[(at + d) % ROAD] >= 0, d - 1, gap)
      speed = driven(gap, road)
      to = jnp.where(road >= 0, (at + speed) % ROAD, ROAD)
      return jnp.full(ROAD, -1).at[to].set(speed, mode="drop"), None
    return lax.scan(step, road, None, length=RUSH)[0]
  return f, cars()


@spelling("traffic")
def gaps_by_scan():
  def f(road):
    def step(_, road):
      twice = jnp.concatenate([road, road[:6]])
      def back(gap, cell):
        return jnp.where(cell >= 0, 0, jnp.minimum(gap + 1, 5)), gap
      _, gap = lax.scan(back, jnp.int32(5), twice, reverse=True)
      gap = jnp.minimum(gap[:ROAD], 5)
      speed = jnp.where(road >= 0, driven(gap, road), -1)
      before = jnp.concatenate([speed[-5:], speed])
      new = jnp.full(ROAD, -1)
      for v in range(6):
        part = before[5 - v:5 - v + ROAD]
        new = lax.select(part == v, part, new)
      return new
    return lax.fori_loop(0, RUSH, step, road)
  return f, cars()


@spelling("traffic")
def windows_stacked():
  def f(road):
    def step(road):
      k, road = road
      ahead = jnp.stack([jnp.roll(road, -d) for d in range(1, 6)]) >= 0
      gap = jnp.where(jnp.any(ahead, 0), jnp.argmax(ahead, 0), 5)
      speed = jnp.where(road >= 0, driven(gap, road), -1)
      behind = jnp.stack([jnp.roll(speed, v) == v for v in range(6)])
      return k + 1, jnp.where(jnp.any(behind, 0), jnp.argmax(behind, 0), -1)
    return lax.while_loop(lambda s: s[0] < RUSH, step, (0, road))[1]
  return f, cars()


# The cheapest seam from top to bottom of a picture, and the places where it runs.

TALL, WIDE = 400, 600


def energy():
  return (np.abs(numbers(TALL, WIDE)),)


def followed(sums):
  def up(at, row):
    near = jnp.where(jnp.abs(jnp.arange(WIDE) - at) <= 1, row, jnp.inf)
    at = jnp.argmin(near)
    return at, at
  last = jnp.argmin(sums[-1])
  _, places = lax.scan(up, last, sums[:-1], reverse=True)
  return jnp.append(places, last)


@spelling("seam")
def scan_of_padded():
  def f(x):
    def step(before, row):
      p = jnp.pad(before, 1, constant_values=jnp.inf)
      row = row + jnp.minimum(jnp.minimum(p[:-2], p[1:-1]), p[2:])
      return row, row
    _, rest = lax.scan(step, x[0], x[1:])
    return followed(jnp.concatenate([x[:1], rest]))
  return f, energy()


@spelling("seam")
def rows_at_add():
  def f(x):
    def step(i, sums):
      b = sums[i - 1]
      left = jnp.concatenate([jnp.full(1, jnp.inf), b[:-1]])
      right = jnp.concatenate([b[1:], jnp.full(1, jnp.inf)])
      return sums.at[i].add(jnp.minimum(jnp.minimum(left, b), right))
    return followed(lax.fori_loop(1, TALL, step, x))
  return f, energy()


@spelling("seam")
def three_at_the_place():
  def f(x):
    def step(before, row):
      left = jnp.where(jnp.arange(WIDE) == 0, jnp.inf, jnp.roll(before, 1))
      right = jnp.where(jnp.arange(WIDE) == WIDE - 1, jnp.inf, jnp.roll(before, -1))
      ways = jnp.stack([left, before, right])
      row = row + jnp.min(ways, 0)
      return row, (row, jnp.argmin(ways, 0) - 1)
    last, (_, moves) = lax.scan(step, x[0], x[1:])
    at = jnp.argmin(last)
    def up(at, move):
      at = at + move[at]
      return at, at
    _, places = lax.scan(up, at, moves, reverse=True)
    return jnp.append(places, at)
  return f, energy()


@spelling("seam")
def cell_by_cell_at_set():
  def f(x):
    def row(i, s):
      def cell(j, s):
        best = s[i - 1, j]
        best = jnp.minimum(best, jnp.where(j > 0, s[i - 1, jnp.maximum(j - 1, 0)], jnp.inf))
        best = jnp.minimum(best, jnp.where(j < WIDE - 1, s[i - 1, jnp.minimum(j + 1, WIDE - 1)], jnp.inf))
        return s.at[i, j].add(best)
      return lax.fori_loop(0, WIDE, cell, s)
    return followed(lax.fori_loop(1, TALL, row, x))
  return f, energy()


# Edges stay, noise goes (Perona and Malik): differences with four neighbours, weighted by themselves.

FACE, SMOOTHINGS = 128, 40


def face():
  return (numbers(FACE, FACE),)


def weighted(d):
  return d / (1 + 4 * d * d)


@spelling("anisotropic", tolerance=1e-4)
def four_rolls():
  def f(x):
    def step(_, x):
      return x + 0.2 * sum(weighted(jnp.roll(x, s, a) - x) for a in (0, 1) for s in (1, -1))
    return lax.fori_loop(0, SMOOTHINGS, step, x)
  return f, face()


@spelling("anisotropic", tolerance=1e-4)
def wrapped_pad():
  def f(x):
    def step(x, _):
      p = jnp.pad(x, 1, mode="wrap")
      c = p[1:-1, 1:-1]
      return c + 0.2 * (weighted(p[:-2, 1:-1] - c) + weighted(p[2:, 1:-1] - c) + weighted(p[1:-1, :-2] - c) + weighted(p[1:-1, 2:] - c)), None
    return lax.scan(step, x, None, length=SMOOTHINGS)[0]
  return f, face()


@spelling("anisotropic", tolerance=1e-4)
def flows_once():
  def f(x):
    def step(_, x):
      down = weighted(jnp.roll(x, -1, 0) - x)
      right = weighted(jnp.roll(x, -1, 1) - x)
      return x + 0.2 * (down - jnp.roll(down, 1, 0) + right - jnp.roll(right, 1, 1))
    return lax.fori_loop(0, SMOOTHINGS, step, x)
  return f, face()


@spelling("anisotropic", tolerance=1e-4)
def stacked_neighbours():
  def f(x):
    def step(s):
      k, x = s
      near = jnp.stack([jnp.roll(x, 1, 0), jnp.roll(x, -1, 0), jnp.roll(x, 1, 1), jnp.roll(x, -1, 1)])
      return k + 1, x + 0.2 * jnp.sum(weighted(near - x), 0)
    return lax.while_loop(lambda s: s[0] < SMOOTHINGS, step, (0, x))[1]
  return f, face()


@spelling("anisotropic", tolerance=1e-4)
def mapped_pixels():
  def f(x):
    at = jnp.arange(FACE)
    def step(_, x):
      def pixel(i, j):
        c = x[i, j]
        near = (x[(i + 1) % FACE, j], x[(i - 1) % FACE, j], x[i, (j + 1) % FACE], x[i, (j - 1) % FACE])
        return c + 0.2 * sum(weighted(n - c) for n in near)
      return jax.vmap(lambda i: jax.vmap(lambda j: pixel(i, j))(at))(at)
    return lax.fori_loop(0, SMOOTHINGS, step, x)
  return f, face()


# A wave packet (Schroedinger's equation): real and imaginary part, each pushed by the other.

LINE, WAVES = 1000, 500


def packet():
  x = np.linspace(-10, 10, LINE)
  psi = np.exp(-(x + 3)**2 + 5j * x)
  return psi.real.astype(np.float32), psi.imag.astype(np.float32), (0.5 * (np.abs(x) < 1)).astype(np.float32)


@spelling("wave_packet", tolerance=1e-4)
def pair_of_padded():
  def f(re, im, v):
    def h(u):
      p = jnp.pad(u, 1)
      return -0.5 * (p[2:] - 2 * u + p[:-2]) + v * u
    def step(_, s):
      re, im = s
      re = re + 0.1 * h(im)
      return re, im - 0.1 * h(re)
    re, im = lax.fori_loop(0, WAVES, step, (re, im))
    return re * re + im * im
  return f, packet()


@spelling("wave_packet", tolerance=1e-4)
def rows_of_one():
  def f(re, im, v):
    def h(u):
      zero = jnp.zeros(1, u.dtype)
      return -0.5 * (jnp.concatenate([u[1:], zero]) - 2 * u + jnp.concatenate([zero, u[:-1]])) + v * u
    def step(s, _):
      s = s.at[0].add(0.1 * h(s[1]))
      return s.at[1].add(-0.1 * h(s[0])), None
    s = lax.scan(step, jnp.stack([re, im]), None, length=WAVES)[0]
    return jnp.sum(s * s, 0)
  return f, packet()


@spelling("wave_packet", tolerance=1e-4)
def complex_halves():
  def f(re, im, v):
    inside = (jnp.arange(LINE) > 0), (jnp.arange(LINE) < LINE - 1)
    def h(u):
      left = jnp.where(inside[0], jnp.roll(u, 1), 0)
      right = jnp.where(inside[1], jnp.roll(u, -1), 0)
      return -0.5 * (right - 2 * u + left) + v * u
    def step(_, z):
      z = z + 0.1 * h(z.imag)
      return z - 0.1j * h(z.real)
    z = lax.fori_loop(0, WAVES, step, lax.complex(re, im))
    return z.real**2 + z.imag**2
  return f, packet()


@spelling("wave_packet", tolerance=1e-4)
def convolved_rows():
  def f(re, im, v):
    taps = jnp.array([-0.5, 1, -0.5], jnp.float32)
    def h(u):
      return jnp.convolve(u, taps, mode="same") + v * u
    def step(s):
      k, re, im = s
      re = re + 0.1 * h(im)
      return k + 1, re, im - 0.1 * h(re)
    _, re, im = lax.while_loop(lambda s: s[0] < WAVES, step, (0, re, im))
    return re * re + im * im
  return f, packet()


# The largest rectangle below a row of heights, for every height.

HEIGHTS = 4000


def skyline():
  return (integers(1000, HEIGHTS),)


@spelling("rectangle")
def stack_of_places_while():
  def f(h):
    h = jnp.append(h, 0)
    def step(i, s):
      stack, top, best = s
      def pop(s):
        top, best = s
        left = jnp.where(top > 1, stack[top - 2] + 1, 0)
        return top - 1, jnp.maximum(best, h[stack[top - 1]] * (i - left))
      top, best = lax.while_loop(lambda s: (s[0] > 0) & (h[stack[s[0] - 1]] >= h[i]), pop, (top, best))
      return stack.at[top].set(i), top + 1, best
    return lax.fori_loop(0, HEIGHTS + 1, step, (jnp.zeros(HEIGHTS + 1, jnp.int32), 0, 0))[2]
  return f, skyline()


@spelling("rectangle")
def flat_loop_of_pushes():
  def f(h):
    h = jnp.append(h, 0)
    def step(s):
      i, top, stack, best = s
      pop = (top > 0) & (h[stack[top - 1]] >= h[i])
      left = jnp.where(top > 1, stack[top - 2] + 1, 0)
      best = jnp.where(pop, jnp.maximum(best, h[stack[top - 1]] * (i - left)), best)
      stack = lax.cond(pop, lambda s: s, lambda s: s.at[top].set(i), stack)
      return jnp.where(pop, i, i + 1), jnp.where(pop, top - 1, top + 1), stack, best
    return lax.while_loop(lambda s: s[0] <= HEIGHTS, step, (0, 0, jnp.zeros(HEIGHTS + 1, jnp.int32), 0))[3]
  return f, skyline()


@spelling("rectangle")
def jumps_left_and_right():
  def f(h):
    def lower(h):
      def step(i, at):
        j = lax.while_loop(lambda j: (j >= 0) & (h[j] >= h[i]), lambda j: at[j], i - 1)
        return at.at[i].set(j)
      return lax.fori_loop(0, HEIGHTS, step, jnp.zeros(HEIGHTS, jnp.int32))
    left = lower(h)
    right = HEIGHTS - 1 - lower(h[::-1])[::-1]
    return jnp.max(h * (right - left - 1))
  return f, skyline()


@spelling("rectangle")
def heights_kept_beside():
  def f(h):
    def step(s, x):
      starts, highs, top, i, best = s
      def pop(s):
        top, _, best = s
        return top - 1, starts[top - 1], jnp.maximum(best, highs[top - 1] * (i - starts[top - 1]))
      top, start, best = lax.while_loop(lambda s: (s[0] > 0) & (highs[jnp.maximum(s[0] - 1, 0)] >= x), pop, (top, i, best))
      return (starts.at[top].set(start), highs.at[top].set(x), top + 1, i + 1, best), None
    empty = jnp.zeros(HEIGHTS + 1, jnp.int32)
    return lax.scan(step, (empty, empty, 0, 0, 0), jnp.append(h, 0))[0][4]
  return f, skyline()

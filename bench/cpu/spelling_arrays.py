"""Loops over arrays in three spellings each: tables, grids, heaps, small matrices, recurrent networks, spins, particles."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# An array filled by a generator.

FILLED = 20000


def following(x):
  return x * 1103515245 + 12345


@spelling("fill")
def update_index():
  def f(x):
    def step(i, s):
      x = following(s[0])
      return x, lax.dynamic_update_index_in_dim(s[1], x, i, 0)
    return lax.fori_loop(0, FILLED, step, (x, jnp.zeros(FILLED, jnp.int32)))[1]
  return f, (np.int32(1),)


@spelling("fill")
def scan_stack():
  return lambda x: lax.scan(lambda x, _: (following(x),) * 2, x, None, length=FILLED)[1], (np.int32(1),)


@spelling("fill")
def from_before():
  def f(x):
    return lax.fori_loop(1, FILLED, lambda i, a: a.at[i].set(following(a[i - 1])), jnp.zeros(FILLED, jnp.int32).at[0].set(following(x)))
  return f, (np.int32(1),)


@spelling("fill")
def where_in_iota():
  def f(x):
    places = jnp.arange(FILLED)
    def step(i, s):
      x = following(s[0])
      return x, jnp.where(places == i, x, s[1])
    return lax.fori_loop(0, FILLED, step, (x, jnp.zeros(FILLED, jnp.int32)))[1]
  return f, (np.int32(1),)


# Running products.

FACTORS = 20000


def factors():
  return (np.exp(1e-3 * np.sin(np.arange(FACTORS))).astype(np.float32),)


@spelling("running_product", tolerance=1e-3)
def scan_products():
  return lambda v: lax.scan(lambda x, v: (x * v,) * 2, jnp.float32(1), v)[1], factors()


@spelling("running_product", tolerance=1e-3)
def fori_products():
  return lambda v: lax.fori_loop(1, FACTORS, lambda i, a: a.at[i].multiply(a[i - 1]), v), factors()


@spelling("running_product", tolerance=1e-3)
def cumprod():
  return lambda v: jnp.cumprod(v), factors()


@spelling("running_product", tolerance=1e-3)
def associative():
  return lambda v: lax.associative_scan(jnp.multiply, v), factors()


# The first place where a running maximum reaches a bound.

SOUGHT = 20000


def rising():
  return (np.arange(SOUGHT, dtype=np.int32), np.int32(SOUGHT - 1))


@spelling("first_reach")
def while_gather():
  def f(v, stop):
    return lax.while_loop(lambda s: s[0] < stop, lambda s: (jnp.maximum(s[0], v[s[1]]), s[1] + 1), (0, 0))[1]
  return f, rising()


@spelling("first_reach")
def while_slice():
  def f(v, stop):
    def step(s):
      most, i = s
      return jnp.maximum(most, lax.dynamic_slice(v, (i,), (1,))[0]), i + 1
    return lax.while_loop(lambda s: s[0] < stop, step, (jnp.int32(0), 0))[1]
  return f, rising()


@spelling("first_reach")
def scan_flag():
  def f(v, stop):
    def step(s, x):
      most, count = s
      count = jnp.where(most < stop, count + 1, count)
      return (jnp.maximum(most, x), count), None
    return lax.scan(step, (jnp.int32(0), jnp.int32(0)), v)[0][1]
  return f, rising()


# Heat on a line with fixed ends.

ROD, ROD_STEPS = 1000, 200


def rod():
  return (np.abs(numbers(ROD)),)


@spelling("heat", tolerance=1e-4)
def concatenated():
  def step(_, u):
    return jnp.concatenate([u[:1], u[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])
  return lambda u: lax.fori_loop(0, ROD_STEPS, step, u), rod()


@spelling("heat", tolerance=1e-4)
def at_interior():
  return lambda u: lax.fori_loop(0, ROD_STEPS, lambda _, u: u.at[1:-1].add(0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])), u), rod()


@spelling("heat", tolerance=1e-4)
def rolled_ends():
  def step(u, _):
    new = u + 0.25 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))
    return new.at[0].set(u[0]).at[-1].set(u[-1]), None
  return lambda u: lax.scan(step, u, None, length=ROD_STEPS)[0], rod()


@spelling("heat", tolerance=1e-4)
def masked_ends():
  k = np.arange(ROD)
  inside = (k > 0) & (k < ROD - 1)
  def step(_, u):
    return jnp.where(inside, u + 0.25 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)), u)
  return lambda u: lax.fori_loop(0, ROD_STEPS, step, u), rod()


@spelling("heat", tolerance=1e-4)
def convolved():
  def step(_, u):
    return u.at[1:-1].set(jnp.convolve(u, jnp.array([0.25, 0.5, 0.25]), mode="valid"))
  return lambda u: lax.fori_loop(0, ROD_STEPS, step, u), rod()


@spelling("heat", tolerance=1e-4)
def point_by_point():
  def step(_, u):
    def point(i, new):
      return new.at[i].set(u[i] + 0.25 * (u[i + 1] - 2 * u[i] + u[i - 1]))
    return lax.fori_loop(1, ROD - 1, point, u)
  return lambda u: lax.fori_loop(0, ROD_STEPS, step, u), rod()


# Life on a torus.

BOARD, LIVES = 64, 50


def board():
  return (integers(2, BOARD, BOARD).astype(np.uint8),)


def survives(u, near):
  return ((near == 3) | ((near == 2) & (u == 1))).astype(jnp.uint8)


@spelling("life")
def eight_rolls():
  def step(_, u):
    return survives(u, sum(jnp.roll(u, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j))
  return lambda u: lax.fori_loop(0, LIVES, step, u), board()


@spelling("life")
def rows_then_columns():
  def step(u, _):
    rows = jnp.roll(u, 1, 0) + u + jnp.roll(u, -1, 0)
    return survives(u, jnp.roll(rows, 1, 1) + rows + jnp.roll(rows, -1, 1) - u), None
  return lambda u: lax.scan(step, u, None, length=LIVES)[0], board()


@spelling("life")
def padded_slices():
  def step(_, u):
    p = jnp.pad(u, 1, mode="wrap")
    return survives(u, sum(p[i:i + BOARD, j:j + BOARD] for i in range(3) for j in range(3) if (i, j) != (1, 1)))
  return lambda u: lax.fori_loop(0, LIVES, step, u), board()


@spelling("life")
def selected():
  def step(_, u):
    p = jnp.pad(u, 1, mode="wrap")
    near = sum(lax.dynamic_slice(p, (i, j), (BOARD, BOARD)) for i in range(3) for j in range(3)) - u
    return lax.select(u == 1, ((near == 2) | (near == 3)).astype(jnp.uint8), (near == 3).astype(jnp.uint8))
  return lambda u: lax.fori_loop(0, LIVES, step, u), board()


# Lorenz's model of forty places.

PLACES, WEATHER = 40, 1000


def weather():
  return ((2 + 0.01 * numbers(PLACES)),)


def euler(slope):
  return lambda x: lax.fori_loop(0, WEATHER, lambda _, x: x + 0.01 * slope(x), x)


@spelling("lorenz96", tolerance=1e-3)
def rolls():
  return euler(lambda x: (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 2), weather()


@spelling("lorenz96", tolerance=1e-3)
def gathers():
  k = np.arange(PLACES)
  return euler(lambda x: (x[(k + 1) % PLACES] - x[k - 2]) * x[k - 1] - x + 2), weather()


@spelling("lorenz96", tolerance=1e-3)
def padded_line():
  def slope(x):
    p = jnp.concatenate([x[-2:], x, x[:1]])
    return (p[3:] - p[:-3]) * p[1:-2] - x + 2
  return euler(slope), weather()


@spelling("lorenz96", tolerance=1e-3)
def edges_at_set():
  def slope(x):
    d = jnp.zeros_like(x).at[2:-1].set((x[3:] - x[:-3]) * x[1:-2] - x[2:-1])
    d = d.at[0].set((x[1] - x[-2]) * x[-1] - x[0]).at[1].set((x[2] - x[-1]) * x[0] - x[1])
    return d.at[-1].set((x[0] - x[-3]) * x[-2] - x[-1]) + 2
  return euler(slope), weather()


# Roots by halving.

HALVED, HALVINGS = 4000, 30


def sought():
  return (np.random.default_rng(1).uniform(1, 60, HALVED).astype(np.float32),)


def halve(target):
  def step(_, s):
    low, high = s
    middle = 0.5 * (low + high)
    below = middle * middle * middle + middle < target
    return jnp.where(below, middle, low), jnp.where(below, high, middle)
  low, high = lax.fori_loop(0, HALVINGS, step, (jnp.zeros_like(target), jnp.full_like(target, 4)))
  return 0.5 * (low + high)


@spelling("bisect", tolerance=1e-5)
def vmap_scalar():
  return lambda t: jax.vmap(halve)(t), sought()


@spelling("bisect", tolerance=1e-5)
def arrays():
  return lambda t: halve(t), sought()


@spelling("bisect", tolerance=1e-5)
def two_rows_of_ends():
  def f(t):
    def step(ends, _):
      middle = 0.5 * (ends[0] + ends[1])
      below = middle ** 3 + middle < t
      return jnp.stack([jnp.where(below, middle, ends[0]), jnp.where(below, ends[1], middle)]), None
    ends = lax.scan(step, jnp.stack([jnp.zeros_like(t), jnp.full_like(t, 4)]), None, length=HALVINGS)[0]
    return 0.5 * (ends[0] + ends[1])
  return f, sought()


@spelling("bisect", tolerance=1e-5)
def width_carried():
  def f(t):
    def step(s):
      low, width = s
      middle = low + 0.5 * width
      return low + jnp.where(middle * middle * middle + middle < t, 0.5 * width, 0), 0.5 * width
    low, width = lax.while_loop(lambda s: s[1] > 4 * 0.5 ** (HALVINGS - 0.5), step, (jnp.zeros_like(t), jnp.float32(4)))
    return low + 0.5 * width
  return f, sought()


# Edit distance.

LETTERS = 200


def two_words():
  return integers(4, LETTERS), integers(4, LETTERS, seed=2)


def border():
  return jnp.arange(LETTERS + 1)


@spelling("edit_distance")
def scanned_rows():
  def f(a, b):
    def row(above, item):
      letter, i = item
      def cell(s, item):
        left, diagonal = s
        up, other = item
        best = jnp.minimum(jnp.minimum(up, left) + 1, diagonal + (letter != other))
        return (best, up), best
      rest = lax.scan(cell, (i + 1, above[0]), (above[1:], b))[1]
      return jnp.concatenate([(i + 1)[None], rest]), None
    return lax.scan(row, border(), (a, jnp.arange(LETTERS)))[0]
  return f, two_words()


@spelling("edit_distance")
def whole_table():
  def f(a, b):
    table = jnp.zeros((LETTERS + 1, LETTERS + 1), jnp.int32).at[0].set(border()).at[:, 0].set(border())
    def row(i, t):
      def cell(j, t):
        return t.at[i, j].set(jnp.minimum(jnp.minimum(t[i - 1, j], t[i, j - 1]) + 1, t[i - 1, j - 1] + (a[i - 1] != b[j - 1])))
      return lax.fori_loop(1, LETTERS + 1, cell, t)
    return lax.fori_loop(1, LETTERS + 1, row, table)[LETTERS]
  return f, two_words()


@spelling("edit_distance")
def row_in_place():
  def f(a, b):
    def row(i, line):
      def cell(j, s):
        line, diagonal = s
        up = line[j + 1]
        best = jnp.minimum(jnp.minimum(up, line[j]) + 1, diagonal + jnp.where(a[i] == b[j], 0, 1))
        return line.at[j + 1].set(best), up
      return lax.fori_loop(0, LETTERS, cell, (line.at[0].set(i + 1), line[0]))[0]
    return lax.fori_loop(0, LETTERS, row, border())
  return f, two_words()


@spelling("edit_distance")
def prefix_minimum():
  def f(a, b):
    def row(above, item):
      letter, i = item
      best = jnp.minimum(above[1:] + 1, above[:-1] + (b != letter))
      best = jnp.concatenate([(i + 1)[None], best]) - border()
      return lax.cummin(best) + border(), None
    return lax.scan(row, border(), (a, jnp.arange(LETTERS)))[0]
  return f, two_words()


# Viterbi's path through 16 states.

STATES, SEEN = 16, 500


def sixteenths(*shape, seed):
  return (np.random.default_rng(seed).integers(-64, 0, shape) / 16).astype(np.float32)


def chain():
  return sixteenths(STATES, STATES, seed=1), sixteenths(SEEN, STATES, seed=2)


def traced(delta, origins):
  last = jnp.argmax(delta).astype(jnp.int32)
  return lax.scan(lambda state, origin: (origin[state], state), last, origins, reverse=True)[1]


@spelling("viterbi")
def max_and_argmax():
  def f(moves, scores):
    def step(delta, score):
      all_moves = delta[:, None] + moves
      return jnp.max(all_moves, axis=0) + score, jnp.argmax(all_moves, axis=0).astype(jnp.int32)
    return traced(*lax.scan(step, jnp.zeros(STATES), scores))
  return f, chain()


@spelling("viterbi")
def taken_along():
  def f(moves, scores):
    def step(delta, score):
      all_moves = delta[None, :] + moves.T
      origin = jnp.argmax(all_moves, axis=1)
      return jnp.take_along_axis(all_moves, origin[:, None], 1)[:, 0] + score, origin.astype(jnp.int32)
    return traced(*lax.scan(step, jnp.zeros(STATES), scores))
  return f, chain()


@spelling("viterbi")
def tables_at_set():
  def f(moves, scores):
    def step(t, s):
      delta, origins = s
      all_moves = delta[:, None] + moves
      origins = origins.at[t].set(jnp.argmax(all_moves, axis=0).astype(jnp.int32))
      return all_moves.max(axis=0) + scores[t], origins
    delta, origins = lax.fori_loop(0, SEEN, step, (jnp.zeros(STATES), jnp.zeros((SEEN, STATES), jnp.int32)))
    def back(k, s):
      path, state = s
      t = SEEN - 1 - k
      return path.at[t].set(state), origins[t, state]
    return lax.fori_loop(0, SEEN, back, (jnp.zeros(SEEN, jnp.int32), jnp.argmax(delta).astype(jnp.int32)))[0]
  return f, chain()


# A heap from an array.

HEAP = 2048


def heap_values():
  return (integers(1 << 20, HEAP),)


@spelling("heapify")
def sift_where():
  def f(a):
    def sift(k, a):
      def down(s):
        i, a, _ = s
        left, right = 2 * i + 1, 2 * i + 2
        top = jnp.where((left < HEAP) & (a[jnp.minimum(left, HEAP - 1)] > a[i]), left, i)
        top = jnp.where((right < HEAP) & (a[jnp.minimum(right, HEAP - 1)] > a[top]), right, top)
        x, y = a[i], a[top]
        return top, a.at[i].set(y).at[top].set(x), top != i
      return lax.while_loop(lambda s: s[2], down, (HEAP // 2 - 1 - k, a, True))[1]
    return lax.fori_loop(0, HEAP // 2, sift, a)
  return f, heap_values()


@spelling("heapify")
def hole_moves_down():
  def f(a):
    def child(a, i):
      left = 2 * i + 1
      right = jnp.minimum(left + 1, HEAP - 1)
      return jnp.where(a[right] > a[left], right, left)
    def sift(a, start):
      value = a[start]
      def down(s):
        i, a = s
        c = child(a, i)
        return c, a.at[i].set(a[c])
      i, a = lax.while_loop(lambda s: (2 * s[0] + 1 < HEAP) & (s[1][child(s[1], s[0])] > value), down, (start, a))
      return a.at[i].set(value), None
    return lax.scan(sift, a, jnp.arange(HEAP // 2 - 1, -1, -1))[0]
  return f, heap_values()


@spelling("heapify")
def pairs_of_children():
  def f(a):
    low = jnp.iinfo(jnp.int32).min
    a = jnp.append(a, jnp.full(2, low))
    def sift(k, a):
      start = HEAP // 2 - 1 - k
      def down(s):
        i, a = s
        two = lax.dynamic_slice(a, (2 * i + 1,), (2,))
        c = 2 * i + 1 + jnp.argmax(two).astype(jnp.int32)
        return c, lax.dynamic_update_slice(lax.dynamic_update_slice(a, a[c][None], (i,)), a[i][None], (c,))
      def go_on(s):
        i, a = s
        return (2 * i + 1 < HEAP) & (jnp.max(lax.dynamic_slice(a, (2 * i + 1,), (2,))) > a[i])
      return lax.while_loop(go_on, down, (start, a))[1]
    return lax.fori_loop(0, HEAP // 2, sift, a)[:HEAP]
  return f, heap_values()

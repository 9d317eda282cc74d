"""Algorithms in the ways people spell them: one function each, several programs that do the same work.

Names are ALGORITHM__SPELLING. The spellings differ in how an element is written (at[].set, dynamic_update_slice of one or
several, where over an iota, scatter, lax.select), what is carried (one array, a tuple, a stacked array) and by which loop.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from harness import program_list

PROGRAMS, program = program_list()


def spelling(algorithm, tolerance=0.0):
  """Adds a program of the algorithm; the function's own name is the spelling's."""
  def add(make):
    name = make.__name__
    make.__name__ = f"{algorithm}__{name}"
    return program(algorithm, tolerance=tolerance)(make)
  return add


def numbers(*shape, seed=1, dtype=np.float32):
  return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def integers(high, *shape, seed=1):
  return np.random.default_rng(seed).integers(0, high, size=shape).astype(np.int32)


# Bubble sort: neighbours swapped in place, n passes.

SORTED = 256


def passes(inner):
  """n passes of `inner` over neighbours."""
  def sort(x):
    n = x.shape[0]
    return lax.fori_loop(0, n, lambda _, x: lax.fori_loop(0, n - 1, inner, x), x)
  return sort, (numbers(SORTED),)


@spelling("bubble_sort")
def at_set():
  def inner(j, x):
    a, b = x[j], x[j + 1]
    return x.at[j].set(jnp.minimum(a, b)).at[j + 1].set(jnp.maximum(a, b))
  return passes(inner)


@spelling("bubble_sort")
def slice_of_two():
  def inner(j, x):
    pair = lax.dynamic_slice(x, (j,), (2,))
    return lax.dynamic_update_slice(x, jnp.stack([jnp.min(pair), jnp.max(pair)]), (j,))
  return passes(inner)


@spelling("bubble_sort")
def slice_sorted():
  def inner(j, x):
    return lax.dynamic_update_slice(x, jnp.sort(lax.dynamic_slice(x, (j,), (2,))), (j,))
  return passes(inner)


@spelling("bubble_sort")
def slices_of_one():
  def inner(j, x):
    a, b = lax.dynamic_slice(x, (j,), (1,)), lax.dynamic_slice(x, (j + 1,), (1,))
    x = lax.dynamic_update_slice(x, jnp.minimum(a, b), (j,))
    return lax.dynamic_update_slice(x, jnp.maximum(a, b), (j + 1,))
  return passes(inner)


@spelling("bubble_sort")
def cond_swap():
  def inner(j, x):
    def swap(x):
      return x.at[j].set(x[j + 1]).at[j + 1].set(x[j])
    return lax.cond(x[j] > x[j + 1], swap, lambda x: x, x)
  return passes(inner)


@spelling("bubble_sort")
def gathered_pair():
  def inner(j, x):
    at = jnp.array([0, 1]) + j
    pair = x[at]
    return x.at[at].set(jnp.where(pair[0] > pair[1], pair[::-1], pair))
  return passes(inner)


@spelling("bubble_sort")
def while_loops():
  def sort(x):
    n = x.shape[0]

    def step(state):
      i, j, x = state
      a, b = x[j], x[j + 1]
      x = x.at[j].set(jnp.where(a > b, b, a)).at[j + 1].set(jnp.where(a > b, a, b))
      last = j == n - 2
      return jnp.where(last, i + 1, i), jnp.where(last, 0, j + 1), x
    return lax.while_loop(lambda s: s[0] < n, step, (0, 0, x))[2]
  return sort, (numbers(SORTED),)


@spelling("bubble_sort")
def carried_element():
  def sort(x):
    def one(x, _):
      def step(largest, b):
        return jnp.maximum(largest, b), jnp.minimum(largest, b)
      largest, rest = lax.scan(step, x[0], x[1:])
      return jnp.append(rest, largest), None
    return lax.scan(one, x, None, length=x.shape[0])[0]
  return sort, (numbers(SORTED),)


# Prefix sums of a linear recurrence, y[i] = a[i] y[i-1] + b[i].

LONG = 20000


@spelling("recurrence", tolerance=1e-5)
def scan():
  def f(a, b):
    return lax.scan(lambda y, ab: (ab[0] * y + ab[1],) * 2, jnp.float32(0), (a, b))[1]
  return f, (np.abs(numbers(LONG)) * 0.5, numbers(LONG, seed=2))


@spelling("recurrence", tolerance=1e-5)
def fori_at_set():
  def f(a, b):
    y = jnp.zeros_like(a).at[0].set(b[0])
    return lax.fori_loop(1, LONG, lambda i, y: y.at[i].set(a[i] * y[i - 1] + b[i]), y)
  return f, (np.abs(numbers(LONG)) * 0.5, numbers(LONG, seed=2))


@spelling("recurrence", tolerance=1e-5)
def carried_value():
  def f(a, b):
    def step(i, state):
      y, out = state
      y = a[i] * y + b[i]
      return y, lax.dynamic_update_slice(out, y[None], (i,))
    return lax.fori_loop(0, LONG, step, (jnp.float32(0), jnp.zeros_like(a)))[1]
  return f, (np.abs(numbers(LONG)) * 0.5, numbers(LONG, seed=2))


@spelling("recurrence", tolerance=1e-5)
def while_tuple():
  def f(a, b):
    def step(state):
      i, y, out = state
      y = a[i] * y + b[i]
      return i + 1, y, out.at[i].set(y)
    return lax.while_loop(lambda s: s[0] < LONG, step, (0, jnp.float32(0), jnp.zeros_like(a)))[2]
  return f, (np.abs(numbers(LONG)) * 0.5, numbers(LONG, seed=2))


@spelling("recurrence", tolerance=1e-5)
def scan_of_rows():
  def f(a, b):
    def step(y, row):
      y = row[0] * y + row[1]
      return y, y
    return lax.scan(step, jnp.float32(0), jnp.stack([a, b], axis=1))[1]
  return f, (np.abs(numbers(LONG)) * 0.5, numbers(LONG, seed=2))


# Histogram of integers.

BINS = 64


def keys():
  return (integers(BINS, LONG),)


@spelling("histogram")
def fori_at_add():
  def f(k):
    return lax.fori_loop(0, LONG, lambda i, h: h.at[k[i]].add(1), jnp.zeros(BINS, jnp.int32))
  return f, keys()


@spelling("histogram")
def scan_at_add():
  def f(k):
    return lax.scan(lambda h, x: (h.at[x].add(1), None), jnp.zeros(BINS, jnp.int32), k)[0]
  return f, keys()


@spelling("histogram")
def slices():
  def f(k):
    def step(i, h):
      old = lax.dynamic_slice(h, (k[i],), (1,))
      return lax.dynamic_update_slice(h, old + 1, (k[i],))
    return lax.fori_loop(0, LONG, step, jnp.zeros(BINS, jnp.int32))
  return f, keys()


@spelling("histogram")
def where_iota():
  def f(k):
    bins = jnp.arange(BINS)
    return lax.scan(lambda h, x: (jnp.where(bins == x, h + 1, h), None), jnp.zeros(BINS, jnp.int32), k)[0]
  return f, keys()


@spelling("histogram")
def one_hot():
  def f(k):
    return lax.scan(lambda h, x: (h + jax.nn.one_hot(x, BINS, dtype=jnp.int32), None), jnp.zeros(BINS, jnp.int32), k)[0]
  return f, keys()


@spelling("histogram")
def scatter():
  def f(k):
    return jnp.zeros(BINS, jnp.int32).at[k].add(1)
  return f, keys()


# Longest common subsequence, a table row by row.

WORD = 200


def words():
  return integers(4, WORD), integers(4, WORD, seed=2)


@spelling("subsequence")
def table_at_set():
  def f(a, b):
    def cell(t, c):
      i, j = t // WORD, t % WORD
      best = jnp.where(a[i] == b[j], c[i, j] + 1, jnp.maximum(c[i, j + 1], c[i + 1, j]))
      return c.at[i + 1, j + 1].set(best)
    return lax.fori_loop(0, WORD * WORD, cell, jnp.zeros((WORD + 1, WORD + 1), jnp.int32))[WORD, WORD]
  return f, words()


@spelling("subsequence")
def nested_fori():
  def f(a, b):
    def row(i, c):
      def cell(j, c):
        best = jnp.where(a[i] == b[j], c[i, j] + 1, jnp.maximum(c[i, j + 1], c[i + 1, j]))
        return c.at[i + 1, j + 1].set(best)
      return lax.fori_loop(0, WORD, cell, c)
    return lax.fori_loop(0, WORD, row, jnp.zeros((WORD + 1, WORD + 1), jnp.int32))[WORD, WORD]
  return f, words()


@spelling("subsequence")
def rows_by_scan():
  def f(a, b):
    def row(above, x):
      def cell(left, item):
        y, diagonal, up = item
        best = jnp.where(x == y, diagonal + 1, jnp.maximum(up, left))
        return best, best
      _, cells = lax.scan(cell, 0, (b, above[:-1], above[1:]))
      return jnp.concatenate([jnp.zeros(1, jnp.int32), cells]), None
    return lax.scan(row, jnp.zeros(WORD + 1, jnp.int32), a)[0][WORD]
  return f, words()


@spelling("subsequence")
def two_rows():
  def f(a, b):
    def row(i, above):
      def cell(j, below):
        best = jnp.where(a[i] == b[j], above[j] + 1, jnp.maximum(above[j + 1], below[j]))
        return lax.dynamic_update_slice(below, best[None], (j + 1,))
      return lax.fori_loop(0, WORD, cell, jnp.zeros_like(above))
    return lax.fori_loop(0, WORD, row, jnp.zeros(WORD + 1, jnp.int32))[WORD]
  return f, words()


@spelling("subsequence")
def slices_of_rows():
  def f(a, b):
    def row(i, c):
      above = lax.dynamic_index_in_dim(c, i, keepdims=False)
      def cell(left, item):
        y, diagonal, up = item
        best = lax.select(a[i] == y, diagonal + 1, jnp.maximum(up, left))
        return best, best
      _, cells = lax.scan(cell, 0, (b, above[:-1], above[1:]))
      return lax.dynamic_update_slice(c, cells[None], (i + 1, 1))
    return lax.fori_loop(0, WORD, row, jnp.zeros((WORD + 1, WORD + 1), jnp.int32))[WORD, WORD]
  return f, words()


# Sieve of Eratosthenes.

LIMIT = 20000


@spelling("sieve")
def inner_while():
  def f(start):
    def outer(p, prime):
      def strike(prime):
        return lax.while_loop(lambda s: s[0] < LIMIT, lambda s: (s[0] + p, s[1].at[s[0]].set(False)), (p * p, prime))[1]
      return lax.cond(prime[p], strike, lambda prime: prime, prime)
    return lax.fori_loop(2, 142, outer, start)
  return f, (np.arange(LIMIT) > 1,)


@spelling("sieve")
def where_multiples():
  def f(start):
    k = jnp.arange(LIMIT)
    def outer(p, prime):
      return jnp.where(prime[p] & (k >= p * p) & (k % p == 0), False, prime)
    return lax.fori_loop(2, 142, outer, start)
  return f, (np.arange(LIMIT) > 1,)


@spelling("sieve")
def one_loop():
  def f(start):
    def step(state):
      p, k, prime = state
      prime = prime.at[k].set(jnp.where(prime[p], False, prime[k]))
      done = (k + p >= LIMIT) | ~prime[p]
      return jnp.where(done, p + 1, p), jnp.where(done, (p + 1) * (p + 1), k + p), prime
    return lax.while_loop(lambda s: s[0] < 142, step, (2, 4, start))[2]
  return f, (np.arange(LIMIT) > 1,)


@spelling("sieve")
def updates_of_one():
  def f(start):
    def outer(p, prime):
      count = jnp.where(prime[p], (LIMIT - 1 - p * p) // p + 1, 0)
      def strike(i, prime):
        return lax.dynamic_update_slice(prime, jnp.zeros(1, bool), (p * p + i * p,))
      return lax.fori_loop(0, count, strike, prime)
    return lax.fori_loop(2, 142, outer, start)
  return f, (np.arange(LIMIT) > 1,)


# Knapsack without repetition: best value by weight.

ITEMS, CAPACITY = 60, 2000


def items():
  return integers(100, ITEMS) + 1, integers(1000, ITEMS, seed=2)


@spelling("knapsack")
def rolled_where():
  def f(weight, value):
    w = jnp.arange(CAPACITY + 1)
    def item(best, wv):
      taken = jnp.where(w >= wv[0], jnp.roll(best, wv[0]) + wv[1], 0)
      return jnp.maximum(best, taken), None
    return lax.scan(item, jnp.zeros(CAPACITY + 1, jnp.int32), (weight, value))[0]
  return f, items()


@spelling("knapsack")
def gathered():
  def f(weight, value):
    w = jnp.arange(CAPACITY + 1)
    def item(i, best):
      before = jnp.where(w >= weight[i], best[jnp.maximum(w - weight[i], 0)] + value[i], 0)
      return jnp.maximum(best, before)
    return lax.fori_loop(0, ITEMS, item, jnp.zeros(CAPACITY + 1, jnp.int32))
  return f, items()


@spelling("knapsack")
def backwards_at_set():
  def f(weight, value):
    def item(i, best):
      def cell(t, best):
        w = CAPACITY - t
        other = jnp.where(w >= weight[i], best[jnp.maximum(w - weight[i], 0)] + value[i], 0)
        return best.at[w].set(jnp.maximum(best[w], other))
      return lax.fori_loop(0, CAPACITY + 1, cell, best)
    return lax.fori_loop(0, ITEMS, item, jnp.zeros(CAPACITY + 1, jnp.int32))
  return f, items()


@spelling("knapsack")
def padded_slice():
  def f(weight, value):
    def item(best, wv):
      w, v = wv
      padded = jnp.concatenate([jnp.full(CAPACITY + 1, -(1 << 20), jnp.int32), best])
      shifted = lax.dynamic_slice(padded, (CAPACITY + 1 - w,), (CAPACITY + 1,))
      return jnp.maximum(best, shifted + v), None
    return lax.scan(item, jnp.zeros(CAPACITY + 1, jnp.int32), (weight, value))[0]
  return f, items()


# Tridiagonal solve.

ROWS = 4000


def bands():
  return (numbers(ROWS), 4 + np.abs(numbers(ROWS, seed=2)), numbers(ROWS, seed=3), numbers(ROWS, seed=4))


@spelling("tridiagonal", tolerance=1e-4)
def scans():
  def f(a, b, c, d):
    def forward(state, row):
      cp, dp = state
      a, b, c, d = row
      m = b - a * cp
      new = (c / m, (d - a * dp) / m)
      return new, new
    _, (cp, dp) = lax.scan(forward, (jnp.float32(0), jnp.float32(0)), (a, b, c, d))
    def back(x, row):
      x = row[1] - row[0] * x
      return x, x
    return lax.scan(back, jnp.float32(0), (cp, dp), reverse=True)[1]
  return f, bands()


@spelling("tridiagonal", tolerance=1e-4)
def in_place():
  def f(a, b, c, d):
    def forward(i, state):
      c, d = state
      before_c, before_d = jnp.where(i > 0, c[i - 1], 0), jnp.where(i > 0, d[i - 1], 0)
      m = b[i] - a[i] * before_c
      return c.at[i].set(c[i] / m), d.at[i].set((d[i] - a[i] * before_d) / m)
    c, d = lax.fori_loop(0, ROWS, forward, (c, d))
    def back(t, x):
      i = ROWS - 2 - t
      return x.at[i].set(x[i] - c[i] * x[i + 1])
    return lax.fori_loop(0, ROWS - 1, back, d)
  return f, bands()


@spelling("tridiagonal", tolerance=1e-4)
def stacked_rows():
  def f(a, b, c, d):
    rows = jnp.stack([a, b, c, d], axis=1)
    def forward(state, row):
      m = row[1] - row[0] * state[0]
      new = jnp.stack([row[2], row[3] - row[0] * state[1]]) / m
      return new, new
    _, eliminated = lax.scan(forward, jnp.zeros(2), rows)
    def back(x, row):
      x = row[1] - row[0] * x
      return x, x
    return lax.scan(back, jnp.float32(0), eliminated, reverse=True)[1]
  return f, bands()


@spelling("tridiagonal", tolerance=1e-4)
def while_in_matrix():
  def f(a, b, c, d):
    m = jnp.stack([a, b, c, d])
    def forward(state):
      i, m = state
      column = m[:, i]
      before = jnp.where(i > 0, m[2:, i - 1], 0)
      pivot = column[1] - column[0] * before[0]
      new = jnp.stack([column[2] / pivot, (column[3] - column[0] * before[1]) / pivot])
      return i + 1, lax.dynamic_update_slice(m, new[:, None], (2, i))
    m = lax.while_loop(lambda s: s[0] < ROWS, forward, (0, m))[1]
    def back(t, x):
      i = ROWS - 2 - t
      return x.at[i].set(x[i] - m[2, i] * x[i + 1])
    return lax.fori_loop(0, ROWS - 1, back, m[3])
  return f, bands()


# A random walk by a linear congruential generator.

WALK = 20000


@spelling("random_walk", tolerance=1e-5)
def fori_tuple():
  def f(seed):
    def step(i, state):
      s, x, out = state
      s = s * jnp.uint32(1664525) + jnp.uint32(1013904223)
      x = x + jnp.where(s >> 31 == 1, 1.0, -1.0)
      return s, x, out.at[i].set(x)
    return lax.fori_loop(0, WALK, step, (seed, jnp.float32(0), jnp.zeros(WALK)))[2]
  return f, (np.uint32(7),)


@spelling("random_walk", tolerance=1e-5)
def scan_outputs():
  def f(seed):
    def step(state, _):
      s, x = state
      s = s * jnp.uint32(1664525) + jnp.uint32(1013904223)
      x = x + jnp.where(s >> 31 == 1, 1.0, -1.0)
      return (s, x), x
    return lax.scan(step, (seed, jnp.float32(0)), None, length=WALK)[1]
  return f, (np.uint32(7),)


@spelling("random_walk", tolerance=1e-5)
def cond_step():
  def f(seed):
    def step(state, _):
      s, x = state
      s = s * jnp.uint32(1664525) + jnp.uint32(1013904223)
      x = lax.cond(s >> 31 == 1, lambda x: x + 1, lambda x: x - 1, x)
      return (s, x), x
    return lax.scan(step, (seed, jnp.float32(0)), None, length=WALK)[1]
  return f, (np.uint32(7),)


@spelling("random_walk", tolerance=1e-5)
def switch_step():
  def f(seed):
    def step(state, _):
      s, x = state
      s = s * jnp.uint32(1664525) + jnp.uint32(1013904223)
      x = lax.switch((s >> 31).astype(jnp.int32), [lambda x: x - 1, lambda x: x + 1], x)
      return (s, x), x
    return lax.scan(step, (seed, jnp.float32(0)), None, length=WALK)[1]
  return f, (np.uint32(7),)


@spelling("random_walk", tolerance=1e-5)
def array_of_state():
  def f(seed):
    def step(state, _):
      s = state[0].astype(jnp.uint32) * jnp.uint32(1664525) + jnp.uint32(1013904223)
      x = state[1] + jnp.where(s >> 31 == 1, 1, -1)
      return jnp.stack([s.astype(jnp.int32), x]), x.astype(jnp.float32)
    return lax.scan(step, jnp.stack([seed.astype(jnp.int32), 0]), None, length=WALK)[1]
  return f, (np.uint32(7),)


# Gauss-Seidel sweeps over a line.

LINE, SWEEPS = 500, 20


def line():
  return (numbers(LINE),)


@spelling("gauss_seidel", tolerance=1e-4)
def neighbours_at_set():
  def f(b):
    def sweep(_, x):
      return lax.fori_loop(1, LINE - 1, lambda i, x: x.at[i].set(0.5 * (x[i - 1] + x[i + 1] - b[i])), x)
    return lax.fori_loop(0, SWEEPS, sweep, jnp.zeros_like(b))
  return f, line()


@spelling("gauss_seidel", tolerance=1e-4)
def slice_of_three():
  def f(b):
    def sweep(_, x):
      def point(i, x):
        three = lax.dynamic_slice(x, (i - 1,), (3,))
        new = 0.5 * (three[0] + three[2] - b[i])
        return lax.dynamic_update_slice(x, new[None], (i,))
      return lax.fori_loop(1, LINE - 1, point, x)
    return lax.fori_loop(0, SWEEPS, sweep, jnp.zeros_like(b))
  return f, line()


@spelling("gauss_seidel", tolerance=1e-4)
def where_iota_point():
  def f(b):
    k = jnp.arange(LINE)
    def sweep(_, x):
      def point(i, x):
        return jnp.where(k == i, 0.5 * (x[i - 1] + x[i + 1] - b[i]), x)
      return lax.fori_loop(1, LINE - 1, point, x)
    return lax.fori_loop(0, SWEEPS, sweep, jnp.zeros_like(b))
  return f, line()


@spelling("gauss_seidel", tolerance=1e-4)
def scanned_sweep():
  def f(b):
    def sweep(x, _):
      def point(left, item):
        right, b = item
        new = 0.5 * (left + right - b)
        return new, new
      _, inner = lax.scan(point, x[0], (x[2:], b[1:-1]))
      return jnp.concatenate([x[:1], inner, x[-1:]]), None
    return lax.scan(sweep, jnp.zeros_like(b), None, length=SWEEPS)[0]
  return f, line()


@spelling("gauss_seidel", tolerance=1e-4)
def select_points():
  def f(b):
    def step(t, x):
      i = t % (LINE - 2) + 1
      new = 0.5 * (x[i - 1] + x[i + 1] - b[i])
      return x.at[i].set(lax.select(i > 0, new, x[i]))
    return lax.fori_loop(0, SWEEPS * (LINE - 2), step, jnp.zeros_like(b))
  return f, line()


# Gaussian elimination without pivots.

ORDER = 48


def system():
  return (numbers(ORDER, ORDER) + ORDER * np.eye(ORDER, dtype=np.float32),)


@spelling("elimination", tolerance=1e-4)
def rows_at_set():
  def f(m):
    def column(k, m):
      def row(i, m):
        return m.at[i].set(m[i] - m[k] * (m[i, k] / m[k, k]))
      return lax.fori_loop(k + 1, ORDER, row, m)
    return lax.fori_loop(0, ORDER, column, m)
  return f, system()


@spelling("elimination", tolerance=1e-4)
def outer_product():
  def f(m):
    i = jnp.arange(ORDER)
    def column(k, m):
      factors = jnp.where(i > k, m[:, k] / m[k, k], 0)
      return m - jnp.outer(factors, m[k])
    return lax.fori_loop(0, ORDER, column, m)
  return f, system()


@spelling("elimination", tolerance=1e-4)
def elements():
  def f(m):
    def column(k, m):
      def row(i, m):
        factor = m[i, k] / m[k, k]
        return lax.fori_loop(0, ORDER, lambda j, m: m.at[i, j].add(-factor * m[k, j]), m)
      return lax.fori_loop(k + 1, ORDER, row, m)
    return lax.fori_loop(0, ORDER, column, m)
  return f, system()


@spelling("elimination", tolerance=1e-4)
def masked_rows():
  def f(m):
    def column(m, k):
      pivot = lax.dynamic_slice(m, (k, 0), (1, ORDER))
      at = lax.dynamic_slice(m, (0, k), (ORDER, 1))
      below = lax.broadcasted_iota(jnp.int32, (ORDER, 1), 0) > k
      return jnp.where(below, m - at / pivot[0, k] * pivot, m), None
    return lax.scan(column, m, jnp.arange(ORDER))[0]
  return f, system()


# Cellular automaton, rule 110.

CELLS, GENERATIONS = 1000, 200


def cells():
  return (integers(2, CELLS),)


@spelling("automaton")
def rolled():
  def f(x):
    def step(_, x):
      code = 4 * jnp.roll(x, 1) + 2 * x + jnp.roll(x, -1)
      return (110 >> code) & 1
    return lax.fori_loop(0, GENERATIONS, step, x)
  return f, cells()


@spelling("automaton")
def table_lookup():
  def f(x):
    rule = jnp.array([0, 1, 1, 1, 0, 1, 1, 0], jnp.int32)
    def step(x, _):
      return rule[4 * jnp.roll(x, 1) + 2 * x + jnp.roll(x, -1)], None
    return lax.scan(step, x, None, length=GENERATIONS)[0]
  return f, cells()


@spelling("automaton")
def padded():
  def f(x):
    def step(_, x):
      p = jnp.pad(x, 1, mode="wrap")
      left, middle, right = p[:-2], p[1:-1], p[2:]
      return jnp.where(left == 1, middle ^ right, middle | right).astype(jnp.int32)
    return lax.fori_loop(0, GENERATIONS, step, x)
  return f, cells()


@spelling("automaton")
def cell_by_cell():
  def f(x):
    rule = jnp.array([0, 1, 1, 1, 0, 1, 1, 0], jnp.int32)
    def step(_, x):
      def cell(i, new):
        code = 4 * x[(i - 1) % CELLS] + 2 * x[i] + x[(i + 1) % CELLS]
        return new.at[i].set(rule[code])
      return lax.fori_loop(0, CELLS, cell, jnp.zeros_like(x))
    return lax.fori_loop(0, GENERATIONS, step, x)
  return f, cells()


@spelling("automaton")
def gathered_neighbours():
  def f(x):
    at = jnp.arange(CELLS)
    def step(_, x):
      code = 4 * x[(at - 1) % CELLS] + 2 * x + x[(at + 1) % CELLS]
      return (110 >> code) & 1
    return lax.fori_loop(0, GENERATIONS, step, x)
  return f, cells()


# A ball among walls: a small state, one step after the other.

STEPS = 20000


@spelling("ball", tolerance=1e-3)
def tuple_of_scalars():
  def f(start):
    def step(_, s):
      x, y, vx, vy = s
      vy = vy - 0.01
      x, y = x + 0.01 * vx, y + 0.01 * vy
      vx = jnp.where((x < 0) | (x > 1), -vx, vx)
      vy = jnp.where((y < 0) | (y > 1), -0.9 * vy, vy)
      return jnp.clip(x, 0, 1), jnp.clip(y, 0, 1), vx, vy
    return jnp.stack(lax.fori_loop(0, STEPS, step, tuple(start)))
  return f, (np.array([0.5, 0.5, 0.3, 0.1], np.float32),)


@spelling("ball", tolerance=1e-3)
def vectors():
  def f(start):
    def step(_, s):
      p, v = s
      v = v - jnp.array([0, 0.01])
      p = p + 0.01 * v
      v = jnp.where((p < 0) | (p > 1), v * jnp.array([-1, -0.9]), v)
      return jnp.clip(p, 0, 1), v
    p, v = lax.fori_loop(0, STEPS, step, (start[:2], start[2:]))
    return jnp.concatenate([p, v])
  return f, (np.array([0.5, 0.5, 0.3, 0.1], np.float32),)


@spelling("ball", tolerance=1e-3)
def one_array():
  def f(start):
    def step(s, _):
      s = s.at[3].add(-0.01)
      s = s.at[:2].add(0.01 * s[2:])
      s = s.at[2].set(jnp.where((s[0] < 0) | (s[0] > 1), -s[2], s[2]))
      s = s.at[3].set(jnp.where((s[1] < 0) | (s[1] > 1), -0.9 * s[3], s[3]))
      return s.at[:2].set(jnp.clip(s[:2], 0, 1)), None
    return lax.scan(step, start, None, length=STEPS)[0]
  return f, (np.array([0.5, 0.5, 0.3, 0.1], np.float32),)


@spelling("ball", tolerance=1e-3)
def conds():
  def f(start):
    def step(_, s):
      x, y, vx, vy = s
      vy = vy - 0.01
      x, y = x + 0.01 * vx, y + 0.01 * vy
      vx = lax.cond((x < 0) | (x > 1), lambda v: -v, lambda v: v, vx)
      vy = lax.cond((y < 0) | (y > 1), lambda v: -0.9 * v, lambda v: v, vy)
      return jnp.clip(x, 0, 1), jnp.clip(y, 0, 1), vx, vy
    return jnp.stack(lax.fori_loop(0, STEPS, step, tuple(start)))
  return f, (np.array([0.5, 0.5, 0.3, 0.1], np.float32),)

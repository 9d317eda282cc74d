"""Textbook algorithms that nothing was tuned for, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Shortest paths between all nodes (Floyd and Warshall).

NODES = 48


def distances():
  return (np.abs(numbers(NODES, NODES)) + 0.1,)


@spelling("all_paths")
def three_fori():
  def f(d):
    def cell(k, i, j, d):
      return d.at[i, j].set(jnp.minimum(d[i, j], d[i, k] + d[k, j]))
    def row(k, i, d):
      return lax.fori_loop(0, NODES, lambda j, d: cell(k, i, j, d), d)
    return lax.fori_loop(0, NODES, lambda k, d: lax.fori_loop(0, NODES, lambda i, d: row(k, i, d), d), d)
  return f, distances()


@spelling("all_paths")
def rows_at_set():
  def f(d):
    def row(k, i, d):
      return d.at[i].set(jnp.minimum(d[i], d[i, k] + d[k]))
    return lax.fori_loop(0, NODES, lambda k, d: lax.fori_loop(0, NODES, lambda i, d: row(k, i, d), d), d)
  return f, distances()


@spelling("all_paths")
def outer_sums():
  def f(d):
    return lax.fori_loop(0, NODES, lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :]), d)
  return f, distances()


@spelling("all_paths")
def scanned_slices():
  def f(d):
    def through(d, k):
      column = lax.dynamic_slice(d, (0, k), (NODES, 1))
      row = lax.dynamic_slice(d, (k, 0), (1, NODES))
      return lax.select(column + row < d, column + row, d), None
    return lax.scan(through, d, jnp.arange(NODES))[0]
  return f, distances()


# The longest increasing subsequence that ends at each place.

PLACES = 300


@spelling("increasing")
def nested_fori():
  def f(x):
    def place(i, best):
      def before(j, longest):
        return jnp.where((x[j] < x[i]) & (best[j] > longest), best[j], longest)
      return best.at[i].set(1 + lax.fori_loop(0, i, before, jnp.int32(0)))
    return lax.fori_loop(0, PLACES, place, jnp.zeros(PLACES, jnp.int32))
  return f, (numbers(PLACES),)


@spelling("increasing")
def masked_maximum():
  def f(x):
    at = jnp.arange(PLACES)
    def place(i, best):
      return best.at[i].set(1 + jnp.max(jnp.where((at < i) & (x < x[i]), best, 0)))
    return lax.fori_loop(0, PLACES, place, jnp.zeros(PLACES, jnp.int32))
  return f, (numbers(PLACES),)


@spelling("increasing")
def scanned_where_iota():
  def f(x):
    at = jnp.arange(PLACES)
    def place(best, i):
      longest = jnp.max((x < x[i]) * best)
      return jnp.where(at == i, longest + 1, best), None
    return lax.scan(place, jnp.zeros(PLACES, jnp.int32), at)[0]
  return f, (numbers(PLACES),)


@spelling("increasing")
def cells_at_max():
  def f(x):
    def place(i, best):
      def after(j, best):
        return best.at[j].max(jnp.where(x[i] < x[j], best[i] + 1, 1))
      return lax.fori_loop(i + 1, PLACES, after, best)
    return lax.fori_loop(0, PLACES, place, jnp.ones(PLACES, jnp.int32))
  return f, (numbers(PLACES),)


# The largest sum of neighbours (Kadane).

SERIES = 20000


@spelling("largest_run", tolerance=1e-5)
def scan_tuple():
  def f(x):
    def step(s, v):
      here = jnp.maximum(s[0] + v, v)
      return (here, jnp.maximum(s[1], here)), None
    return lax.scan(step, (x[0], x[0]), x[1:])[0][1]
  return f, (numbers(SERIES),)


@spelling("largest_run", tolerance=1e-5)
def fori_scalars():
  def f(x):
    def step(i, s):
      here, best = s
      here = jnp.where(here > 0, here + x[i], x[i])
      return here, jnp.where(here > best, here, best)
    return lax.fori_loop(1, SERIES, step, (x[0], x[0]))[1]
  return f, (numbers(SERIES),)


@spelling("largest_run", tolerance=1e-5)
def table_of_sums():
  def f(x):
    def step(i, s):
      return s.at[i].set(jnp.maximum(s[i - 1], 0) + x[i])
    return jnp.max(lax.fori_loop(1, SERIES, step, jnp.zeros_like(x).at[0].set(x[0])))
  return f, (numbers(SERIES),)


@spelling("largest_run", tolerance=1e-5)
def pair_in_array():
  def f(x):
    def step(s):
      i, pair = s
      here = jnp.maximum(pair[0], 0) + x[i]
      return i + 1, jnp.stack([here, jnp.maximum(pair[1], here)])
    return lax.while_loop(lambda s: s[0] < SERIES, step, (1, jnp.stack([x[0], x[0]])))[1][1]
  return f, (numbers(SERIES),)


# Lengths of the runs of equal values, one after the other, and how many there are.

VALUES = 8000


def runs():
  return (np.repeat(integers(7, VALUES), 1 + integers(4, VALUES, seed=2))[:VALUES],)


@spelling("run_lengths")
def scan_scatter():
  def f(x):
    def step(s, i):
      run, lengths = s
      run = run + (x[i] != x[i - 1]).astype(jnp.int32)
      return (run, lengths.at[run].add(1)), None
    (run, lengths), _ = lax.scan(step, (jnp.int32(0), jnp.zeros(VALUES, jnp.int32).at[0].set(1)), jnp.arange(1, VALUES))
    return run + 1, lengths
  return f, runs()


@spelling("run_lengths")
def cond_new_run():
  def f(x):
    def step(i, s):
      run, lengths = s
      def new():
        return run + 1, lengths.at[run + 1].set(1)
      def same():
        return run, lengths.at[run].set(lengths[run] + 1)
      return lax.cond(x[i] == x[i - 1], same, new)
    run, lengths = lax.fori_loop(1, VALUES, step, (jnp.int32(0), jnp.zeros(VALUES, jnp.int32).at[0].set(1)))
    return run + 1, lengths
  return f, runs()


@spelling("run_lengths")
def carried_length():
  def f(x):
    def step(s):
      i, run, length, lengths = s
      new = x[i] != x[i - 1]
      run, length = jnp.where(new, run + 1, run), jnp.where(new, 1, length + 1)
      return i + 1, run, length, lax.dynamic_update_slice(lengths, length[None], (run,))
    start = (jnp.int32(1), jnp.int32(0), jnp.int32(1), jnp.zeros(VALUES, jnp.int32).at[0].set(1))
    s = lax.while_loop(lambda s: s[0] < VALUES, step, start)
    return s[1] + 1, s[3]
  return f, runs()


@spelling("run_lengths")
def cumsum_scatter():
  def f(x):
    run = jnp.cumsum(jnp.concatenate([jnp.zeros(1, jnp.int32), (x[1:] != x[:-1]).astype(jnp.int32)]))
    return run[-1] + 1, jnp.zeros(VALUES, jnp.int32).at[run].add(1)
  return f, runs()


# Selection sort: the least of what is left is swapped to its front.


@spelling("selection_sort")
def inner_fori():
  def f(x):
    n = x.shape[0]
    def place(i, x):
      least = lax.fori_loop(i + 1, n, lambda j, k: jnp.where(x[j] < x[k], j, k), i)
      a, b = x[i], x[least]
      return x.at[i].set(b).at[least].set(a)
    return lax.fori_loop(0, n, place, x)
  return f, (numbers(256),)


@spelling("selection_sort")
def masked_argmin():
  def f(x):
    at = jnp.arange(x.shape[0])
    def place(i, x):
      least = jnp.argmin(jnp.where(at >= i, x, jnp.inf))
      return x.at[jnp.array([i, least])].set(x[jnp.array([least, i])])
    return lax.fori_loop(0, x.shape[0], place, x)
  return f, (numbers(256),)


@spelling("selection_sort")
def while_tuple():
  def f(x):
    n = x.shape[0]
    def place(s):
      i, x = s
      def look(t):
        j, k, least = t
        smaller = x[j] < least
        return j + 1, lax.select(smaller, j, k), lax.select(smaller, x[j], least)
      _, k, least = lax.while_loop(lambda t: t[0] < n, look, (i + 1, i, x[i]))
      x = lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i,), (1,)), (k,))
      return i + 1, lax.dynamic_update_slice(x, least[None], (i,))
    return lax.while_loop(lambda s: s[0] < n, place, (jnp.int32(0), x))[1]
  return f, (numbers(256),)


@spelling("selection_sort")
def where_iota():
  def f(x):
    at = jnp.arange(x.shape[0])
    def place(x, i):
      k = jnp.argmin(jnp.where(at < i, jnp.inf, x))
      return jnp.where(at == i, x[k], jnp.where(at == k, x[i], x)), None
    return lax.scan(place, x, at)[0]
  return f, (numbers(256),)


# Merging two sorted arrays.

HALF = 4000


def sorted_halves():
  return np.sort(numbers(HALF)), np.sort(numbers(HALF, seed=2))


@spelling("merge")
def while_pointers():
  def f(a, b):
    def step(s):
      i, j, out = s
      left = (j >= HALF) | ((i < HALF) & (a[jnp.minimum(i, HALF - 1)] <= b[jnp.minimum(j, HALF - 1)]))
      out = out.at[i + j].set(jnp.where(left, a[jnp.minimum(i, HALF - 1)], b[jnp.minimum(j, HALF - 1)]))
      return jnp.where(left, i + 1, i), jnp.where(left, j, j + 1), out
    return lax.while_loop(lambda s: s[0] + s[1] < 2 * HALF, step, (0, 0, jnp.zeros(2 * HALF, jnp.float32)))[2]
  return f, sorted_halves()


@spelling("merge")
def scan_outputs():
  def f(a, b):
    a, b = jnp.append(a, jnp.inf), jnp.append(b, jnp.inf)
    def step(s, _):
      i, j = s
      left = a[i] <= b[j]
      return (i + left, j + ~left), jnp.where(left, a[i], b[j])
    return lax.scan(step, (jnp.int32(0), jnp.int32(0)), None, length=2 * HALF)[1]
  return f, sorted_halves()


@spelling("merge")
def cond_pointers():
  def f(a, b):
    a, b = jnp.append(a, jnp.inf), jnp.append(b, jnp.inf)
    def step(k, s):
      i, j, out = s
      return lax.cond(a[i] <= b[j], lambda: (i + 1, j, out.at[k].set(a[i])), lambda: (i, j + 1, out.at[k].set(b[j])))
    return lax.fori_loop(0, 2 * HALF, step, (0, 0, jnp.zeros(2 * HALF, jnp.float32)))[2]
  return f, sorted_halves()


@spelling("merge")
def values_carried():
  def f(a, b):
    a, b = jnp.append(a, jnp.inf), jnp.append(b, jnp.inf)
    def step(s, _):
      i, j, u, v = s
      left = u <= v
      i, j = jnp.where(left, i + 1, i), jnp.where(left, j, j + 1)
      out = jnp.minimum(u, v)
      return (i, j, a[i], b[j]), out
    return lax.scan(step, (jnp.int32(0), jnp.int32(0), a[0], b[0]), None, length=2 * HALF)[1]
  return f, sorted_halves()


# Swapping each place with another that is drawn beforehand (Fisher and Yates).

CARDS = 3000


def cards():
  at = np.arange(CARDS)
  return numbers(CARDS), (np.random.default_rng(1).random(CARDS) * (at + 1)).astype(np.int32)


@spelling("shuffle")
def two_at_set():
  def f(x, other):
    def swap(i, x):
      j = other[i]
      a, b = x[i], x[j]
      return x.at[i].set(b).at[j].set(a)
    return lax.fori_loop(0, CARDS, swap, x)
  return f, cards()


@spelling("shuffle")
def pair_of_places():
  def f(x, other):
    def swap(x, i):
      pair = jnp.stack([i, other[i]])
      return x.at[pair].set(x[pair[::-1]]), None
    return lax.scan(swap, x, jnp.arange(CARDS))[0]
  return f, cards()


@spelling("shuffle")
def slices_of_one():
  def f(x, other):
    def swap(x, s):
      i, j = s
      a, b = lax.dynamic_slice(x, (i,), (1,)), lax.dynamic_slice(x, (j,), (1,))
      return lax.dynamic_update_slice(lax.dynamic_update_slice(x, b, (i,)), a, (j,)), None
    return lax.scan(swap, x, (jnp.arange(CARDS), other))[0]
  return f, cards()


@spelling("shuffle")
def nested_where():
  def f(x, other):
    at = jnp.arange(CARDS)
    def swap(i, x):
      j = other[i]
      return jnp.where(at == i, x[j], jnp.where(at == j, x[i], x))
    return lax.fori_loop(0, CARDS, swap, x)
  return f, cards()


# Smaller ones to the front (Lomuto's partition), in place.

ITEMS = 6000


@spelling("partition")
def cond_swap():
  def f(x):
    def step(i, s):
      k, x = s
      def swap():
        a, b = x[i], x[k]
        return k + 1, x.at[i].set(b).at[k].set(a)
      return lax.cond(x[i] < 0.3, swap, lambda: (k, x))
    return lax.fori_loop(0, ITEMS, step, (jnp.int32(0), x))
  return f, (numbers(ITEMS),)


@spelling("partition")
def where_swap():
  def f(x):
    def step(s, i):
      k, x = s
      a, b = x[i], x[k]
      small = a < 0.3
      x = x.at[i].set(jnp.where(small, b, a)).at[k].set(jnp.where(small, a, b))
      return (k + small, x), None
    return lax.scan(step, (jnp.int32(0), x), jnp.arange(ITEMS))[0]
  return f, (numbers(ITEMS),)


@spelling("partition")
def select_arrays():
  def f(x):
    def step(s):
      i, k, x = s
      small = x[i] < 0.3
      swapped = x.at[i].set(x[k]).at[k].set(x[i])
      return i + 1, jnp.where(small, k + 1, k), jnp.where(small, swapped, x)
    return lax.while_loop(lambda s: s[0] < ITEMS, step, (jnp.int32(0), jnp.int32(0), x))[1:]
  return f, (numbers(ITEMS),)


# The next greater value of each place, by a stack.


@spelling("next_greater")
def stack_of_places():
  def f(x):
    n = x.shape[0]
    def place(t, s):
      top, stack, out = s
      i = n - 1 - t
      top = lax.while_loop(lambda top: (top > 0) & (x[stack[top - 1]] <= x[i]), lambda top: top - 1, top)
      out = out.at[i].set(jnp.where(top > 0, stack[top - 1], n))
      return top + 1, stack.at[top].set(i), out
    empty = jnp.zeros(n, jnp.int32)
    return lax.fori_loop(0, n, place, (jnp.int32(0), empty, empty))[2]
  return f, (numbers(4000),)


@spelling("next_greater")
def links_followed():
  def f(x):
    n = x.shape[0]
    padded = jnp.append(x, jnp.inf)
    def place(out, i):
      j = lax.while_loop(lambda j: padded[j] <= x[i], lambda j: out[j], i + 1)
      return out.at[i].set(j), None
    return lax.scan(place, jnp.full(n + 1, n, jnp.int32), jnp.arange(n - 1, -1, -1))[0][:n]
  return f, (numbers(4000),)


@spelling("next_greater")
def one_flat_while():
  def f(x):
    n = x.shape[0]
    def step(s):
      i, top, stack, out = s
      pops = (top > 0) & (x[stack[jnp.maximum(top - 1, 0)]] < x[i])
      out = lax.cond(pops, lambda: out.at[stack[jnp.maximum(top - 1, 0)]].set(i), lambda: out)
      stack = lax.cond(pops, lambda: stack, lambda: stack.at[top].set(i))
      return jnp.where(pops, i, i + 1), jnp.where(pops, top - 1, top + 1), stack, out
    start = (jnp.int32(0), jnp.int32(0), jnp.zeros(n, jnp.int32), jnp.full(n, n, jnp.int32))
    return lax.while_loop(lambda s: s[0] < n, step, start)[3]
  return f, (numbers(4000),)


# The greatest so far.


@spelling("prefix_maximum")
def fori_at_set():
  def f(x):
    return lax.fori_loop(1, x.shape[0], lambda i, y: y.at[i].set(jnp.maximum(y[i - 1], y[i])), x)
  return f, (numbers(SERIES),)


@spelling("prefix_maximum")
def scan_maximum():
  def f(x):
    def step(m, v):
      m = lax.max(m, v)
      return m, m
    return lax.scan(step, -jnp.inf, x)[1]
  return f, (numbers(SERIES),)


@spelling("prefix_maximum")
def cond_copies():
  def f(x):
    def step(i, s):
      m, y = s
      m = lax.cond(x[i] > m, lambda: x[i], lambda: m)
      return m, lax.dynamic_update_index_in_dim(y, m, i, 0)
    return lax.fori_loop(0, x.shape[0], step, (-jnp.inf, jnp.zeros_like(x)))[1]
  return f, (numbers(SERIES),)


@spelling("prefix_maximum")
def cummax():
  return lax.cummax, (numbers(SERIES),)


# The best exchange of two edges of a round trip (2-opt): which, and what it saves.

TOWNS = 120


def towns():
  return numbers(TOWNS, 2), np.random.default_rng(3).permutation(TOWNS).astype(np.int32)


def saving(d, a, b, c, e):
  return d[a, b] + d[c, e] - d[a, c] - d[b, e]


def lengths(x):
  return jnp.sqrt(jnp.sum((x[:, None] - x[None]) ** 2, axis=-1))


@spelling("two_opt", tolerance=1e-5)
def nested_where():
  def f(x, tour):
    d = lengths(x)
    def pair(i, j, s):
      best, where = s
      now = saving(d, tour[i], tour[i + 1], tour[j], tour[j + 1])
      better = now > best
      return jnp.where(better, now, best), jnp.where(better, i * TOWNS + j, where)
    def row(i, s):
      return lax.fori_loop(i + 2, TOWNS - 1, lambda j, s: pair(i, j, s), s)
    return lax.fori_loop(0, TOWNS - 3, row, (jnp.float32(0), jnp.int32(-1)))
  return f, towns()


@spelling("two_opt", tolerance=1e-5)
def whole_table():
  def f(x, tour):
    d = lengths(x)
    a, b = tour[:-1], tour[1:]
    s = d[a, b][:, None] + d[a, b][None] - d[a[:, None], a[None]] - d[b[:, None], b[None]]
    at = jnp.arange(TOWNS - 1)
    s = jnp.where(at[:, None] + 2 <= at[None], s, 0)
    k = jnp.argmax(s)
    return s.reshape(-1)[k], (k // (TOWNS - 1) * TOWNS + k % (TOWNS - 1)).astype(jnp.int32)
  return f, towns()


@spelling("two_opt", tolerance=1e-5)
def flat_cond():
  def f(x, tour):
    d = lengths(x)
    def step(s):
      i, j, best, where = s
      now = saving(d, tour[i], tour[i + 1], tour[j], tour[j + 1])
      best, where = lax.cond(now > best, lambda: (now, i * TOWNS + j), lambda: (best, where))
      last = j == TOWNS - 2
      return jnp.where(last, i + 1, i), jnp.where(last, i + 3, j + 1), best, where
    start = (jnp.int32(0), jnp.int32(2), jnp.float32(0), jnp.int32(-1))
    return lax.while_loop(lambda s: s[0] < TOWNS - 3, step, start)[2:]
  return f, towns()


@spelling("two_opt", tolerance=1e-5)
def scanned_rows():
  def f(x, tour):
    d = lengths(x)
    at = jnp.arange(TOWNS - 1)
    def row(s, i):
      now = saving(d, tour[i], tour[i + 1], tour[:-1], tour[1:])
      now = jnp.where(at >= i + 2, now, -jnp.inf)
      j = jnp.argmax(now)
      better = now[j] > s[0]
      return (jnp.where(better, now[j], s[0]), jnp.where(better, i * TOWNS + j, s[1]).astype(jnp.int32)), None
    return lax.scan(row, (jnp.float32(0), jnp.int32(-1)), jnp.arange(TOWNS - 3))[0]
  return f, towns()


# Pascal's triangle modulo a prime, whole.

ROWS = 128


@spelling("pascal")
def cells_at_set():
  def f(p):
    def cell(i, j, t):
      return t.at[i, j].set((t[i - 1, j - 1] + t[i - 1, j]) % p)
    def row(i, t):
      return lax.fori_loop(1, i + 1, lambda j, t: cell(i, j, t), t)
    return lax.fori_loop(1, ROWS, row, jnp.zeros((ROWS, ROWS), jnp.int32).at[:, 0].set(1))
  return f, (np.int32(10007),)


@spelling("pascal")
def rows_by_scan():
  def f(p):
    def row(r, _):
      return (r + jnp.concatenate([jnp.zeros(1, jnp.int32), r[:-1]])) % p, r
    return lax.scan(row, jnp.zeros(ROWS, jnp.int32).at[0].set(1), None, length=ROWS)[1]
  return f, (np.int32(10007),)


@spelling("pascal")
def rows_at_set():
  def f(p):
    def row(i, t):
      return t.at[i].set((t[i - 1] + jnp.roll(t[i - 1], 1)) % p)
    return lax.fori_loop(1, ROWS, row, jnp.zeros((ROWS, ROWS), jnp.int32).at[0, 0].set(1))
  return f, (np.int32(10007),)


@spelling("pascal")
def row_in_place():
  def f(p):
    def row(r, i):
      def place(t, r):
        j = i - t
        return r.at[j].set((r[j] + r[j - 1]) % p)
      return lax.fori_loop(0, i, place, r), r
    rows = lax.scan(row, jnp.zeros(ROWS, jnp.int32).at[0].set(1), jnp.arange(1, ROWS + 1))[1]
    return rows
  return f, (np.int32(10007),)


# Water that stays between walls of given heights.


def heights():
  return (np.abs(numbers(4000)),)


@spelling("rain", tolerance=1e-4)
def two_ends():
  def f(h):
    def step(s):
      i, j, left, right, water = s
      low = h[i] < h[j]
      left, right = jnp.where(low, jnp.maximum(left, h[i]), left), jnp.where(low, right, jnp.maximum(right, h[j]))
      water = water + jnp.where(low, left - h[i], right - h[j])
      return jnp.where(low, i + 1, i), jnp.where(low, j, j - 1), left, right, water
    start = (jnp.int32(0), jnp.int32(h.shape[0] - 1), jnp.float32(0), jnp.float32(0), jnp.float32(0))
    return lax.while_loop(lambda s: s[0] < s[1], step, start)[4]
  return f, heights()


@spelling("rain", tolerance=1e-4)
def cond_ends():
  def f(h):
    def step(s):
      i, j, left, right, water = s
      def from_left():
        m = jnp.maximum(left, h[i])
        return i + 1, j, m, right, water + m - h[i]
      def from_right():
        m = jnp.maximum(right, h[j])
        return i, j - 1, left, m, water + m - h[j]
      return lax.cond(h[i] < h[j], from_left, from_right)
    start = (jnp.int32(0), jnp.int32(h.shape[0] - 1), jnp.float32(0), jnp.float32(0), jnp.float32(0))
    return lax.while_loop(lambda s: s[0] < s[1], step, start)[4]
  return f, heights()


@spelling("rain", tolerance=1e-4)
def two_scans():
  def f(h):
    def step(m, v):
      m = jnp.maximum(m, v)
      return m, m
    left = lax.scan(step, jnp.float32(0), h)[1]
    right = lax.scan(step, jnp.float32(0), h, reverse=True)[1]
    return jnp.sum(jnp.minimum(left, right) - h)
  return f, heights()


@spelling("rain", tolerance=1e-4)
def fori_tables():
  def f(h):
    n = h.shape[0]
    left = lax.fori_loop(1, n, lambda i, t: t.at[i].set(jnp.maximum(t[i - 1], h[i])), h)
    right = lax.fori_loop(1, n, lambda k, t: t.at[n - 1 - k].set(jnp.maximum(t[n - k], h[n - 1 - k])), h)
    return lax.fori_loop(0, n, lambda i, s: s + jnp.minimum(left[i], right[i]) - h[i], jnp.float32(0))
  return f, heights()

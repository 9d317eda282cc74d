"""Exercises of courses and interviews that nothing was tuned for, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Union-find over edges, roots looked for along the parents.

JOINED = 256


def edges():
  rng = np.random.default_rng(5)
  return (rng.integers(0, JOINED, (300, 2)).astype(np.int32),)


def root_of(parent, x):
  return lax.while_loop(lambda x: parent[x] != x, lambda x: parent[x], x)


@spelling("joined_sets")
def fori_at_set():
  def f(edges):
    def join(k, parent):
      a, b = root_of(parent, edges[k, 0]), root_of(parent, edges[k, 1])
      return parent.at[jnp.maximum(a, b)].set(jnp.minimum(a, b))
    return lax.fori_loop(0, edges.shape[0], join, jnp.arange(JOINED, dtype=jnp.int32))
  return f, edges()


@spelling("joined_sets")
def scan_cond():
  def f(edges):
    def join(parent, edge):
      a, b = root_of(parent, edge[0]), root_of(parent, edge[1])
      low, high = jnp.minimum(a, b), jnp.maximum(a, b)
      return lax.cond(a == b, lambda p: p, lambda p: p.at[high].set(low), parent), None
    return lax.scan(join, jnp.arange(JOINED, dtype=jnp.int32), edges)[0]
  return f, edges()


@spelling("joined_sets")
def flat_while():
  def f(edges):
    def step(state):
      k, a, b, parent = state
      up_a, up_b = parent[a], parent[b]
      done = (up_a == a) & (up_b == b)
      parent = jnp.where(done, parent.at[jnp.maximum(a, b)].set(jnp.minimum(a, b)), parent)
      k = k + done.astype(jnp.int32)
      return k, jnp.where(done, edges[k, 0], up_a), jnp.where(done, edges[k, 1], up_b), parent
    start = (jnp.int32(0), edges[0, 0], edges[0, 1], jnp.arange(JOINED, dtype=jnp.int32))
    return lax.while_loop(lambda s: s[0] < edges.shape[0], step, start)[3]
  return f, edges()


# The longest common subsequence of two texts.

TEXT = 160


def texts():
  return integers(4, TEXT), np.roll(integers(4, TEXT), 7) ^ 1


@spelling("common_subsequence")
def whole_table():
  def f(a, b):
    def cell(i, j, t):
      best = jnp.where(a[i] == b[j], t[i, j] + 1, jnp.maximum(t[i, j + 1], t[i + 1, j]))
      return t.at[i + 1, j + 1].set(best)
    table = jnp.zeros((TEXT + 1, TEXT + 1), jnp.int32)
    return lax.fori_loop(0, TEXT, lambda i, t: lax.fori_loop(0, TEXT, lambda j, t: cell(i, j, t), t), table)[-1, -1]
  return f, texts()


@spelling("common_subsequence")
def scanned_rows():
  def f(a, b):
    def row(above, x):
      def cell(carry, given):
        left, corner = carry
        y, up = given
        best = jnp.where(x == y, corner + 1, jnp.maximum(up, left))
        return (best, up), best
      zero = jnp.int32(0)
      return lax.scan(cell, (zero, zero), (b, above))[1], None
    return lax.scan(row, jnp.zeros(TEXT, jnp.int32), a)[0][-1]
  return f, texts()


@spelling("common_subsequence")
def row_in_place():
  def f(a, b):
    def row(i, t):
      def cell(j, state):
        t, corner = state
        up = t[j + 1]
        best = jnp.where(a[i] == b[j], corner + 1, jnp.maximum(up, t[j]))
        return t.at[j + 1].set(best), up
      return lax.fori_loop(0, TEXT, cell, (t, jnp.int32(0)))[0]
    return lax.fori_loop(0, TEXT, row, jnp.zeros(TEXT + 1, jnp.int32))[-1]
  return f, texts()


# Dynamic time warping of two series.


def series():
  return numbers(120), np.roll(numbers(120), 5) * np.float32(1.1)


@spelling("time_warping", tolerance=1e-5)
def table_of_cells():
  def f(x, y):
    n = x.shape[0]
    table = jnp.full((n + 1, n + 1), jnp.inf).at[0, 0].set(0.0)
    def cell(k, t):
      i, j = k // n, k % n
      least = jnp.minimum(jnp.minimum(t[i, j + 1], t[i + 1, j]), t[i, j])
      return t.at[i + 1, j + 1].set(jnp.abs(x[i] - y[j]) + least)
    return lax.fori_loop(0, n * n, cell, table)[-1, -1]
  return f, series()


@spelling("time_warping", tolerance=1e-5)
def scan_of_scans():
  def f(x, y):
    def row(above, xi):
      def cell(left, given):
        up, corner, yj = given
        now = jnp.abs(xi - yj) + jnp.minimum(jnp.minimum(up, left), corner)
        return now, now
      _, now = lax.scan(cell, jnp.inf, (above[1:], above[:-1], y))
      return jnp.concatenate([jnp.full(1, jnp.inf), now]), None
    first = jnp.full(y.shape[0] + 1, jnp.inf).at[0].set(0.0)
    return lax.scan(row, first, x)[0][-1]
  return f, series()


@spelling("time_warping", tolerance=1e-5)
def nested_fori_slices():
  def f(x, y):
    n = x.shape[0]
    def cell(i, j, t):
      block = lax.dynamic_slice(t, (i, j), (2, 2))
      least = jnp.minimum(jnp.minimum(block[0, 1], block[1, 0]), block[0, 0])
      return lax.dynamic_update_slice(t, (jnp.abs(x[i] - y[j]) + least)[None, None], (i + 1, j + 1))
    table = jnp.full((n + 1, n + 1), jnp.inf).at[0, 0].set(0.0)
    return lax.fori_loop(0, n, lambda i, t: lax.fori_loop(0, n, lambda j, t: cell(i, j, t), t), table)[-1, -1]
  return f, series()


# The greatest number since the last reset.


def resets():
  return numbers(4096), np.random.default_rng(3).random(4096) < 0.02


@spelling("maximum_since_reset")
def scanned():
  def f(x, reset):
    def step(most, given):
      value, again = given
      most = jnp.where(again, value, jnp.maximum(most, value))
      return most, most
    return lax.scan(step, -jnp.inf, (x, reset))[1]
  return f, resets()


@spelling("maximum_since_reset")
def fori_row_before():
  def f(x, reset):
    def step(i, out):
      return out.at[i].set(jnp.where(reset[i], x[i], jnp.maximum(out[i - 1], x[i])))
    return lax.fori_loop(1, x.shape[0], step, jnp.zeros_like(x).at[0].set(x[0]))
  return f, resets()


@spelling("maximum_since_reset")
def associative():
  def f(x, reset):
    def join(a, b):
      return jnp.where(b[1], b[0], jnp.maximum(a[0], b[0])), a[1] | b[1]
    return lax.associative_scan(join, (x, reset))[0]
  return f, resets()


@spelling("maximum_since_reset")
def while_with_cond():
  def f(x, reset):
    def step(s):
      i, most, out = s
      most = lax.cond(reset[i], lambda m: x[i], lambda m: jnp.maximum(m, x[i]), most)
      return i + 1, most, out.at[i].set(most)
    return lax.while_loop(lambda s: s[0] < x.shape[0], step, (0, -jnp.inf, jnp.zeros_like(x)))[2]
  return f, resets()


# Pairs of a sorted list whose sum is below a bound, by two pointers.


def sorted_list():
  return (np.sort(numbers(4000)),)


@spelling("two_pointers")
def while_tuple():
  def f(x):
    def step(s):
      low, high, count = s
      below = x[low] + x[high] < 0.25
      return jnp.where(below, low + 1, low), jnp.where(below, high, high - 1), jnp.where(below, count + high - low, count)
    return lax.while_loop(lambda s: s[0] < s[1], step, (jnp.int32(0), jnp.int32(x.shape[0] - 1), jnp.int32(0)))[2]
  return f, sorted_list()


@spelling("two_pointers")
def while_array():
  def f(x):
    def step(s):
      below = x[s[0]] + x[s[1]] < 0.25
      return jnp.where(below, s + jnp.array([1, 0, 0]) + jnp.array([0, 0, 1]) * (s[1] - s[0]), s - jnp.array([0, 1, 0]))
    return lax.while_loop(lambda s: s[0] < s[1], step, jnp.array([0, x.shape[0] - 1, 0], jnp.int32))[2]
  return f, sorted_list()


@spelling("two_pointers")
def while_cond():
  def f(x):
    def step(s):
      low, high, count = s
      return lax.cond(x[low] + x[high] < 0.25, lambda: (low + 1, high, count + high - low), lambda: (low, high - 1, count))
    return lax.while_loop(lambda s: s[0] < s[1], step, (jnp.int32(0), jnp.int32(x.shape[0] - 1), jnp.int32(0)))[2]
  return f, sorted_list()


@spelling("two_pointers")
def fori_all_steps():
  def f(x):
    def step(_, s):
      low, high, count = s
      below = x[low] + x[high] < 0.25
      more = low < high
      return (jnp.where(more & below, low + 1, low), jnp.where(more & ~below, high - 1, high),
              jnp.where(more & below, count + high - low, count))
    return lax.fori_loop(0, x.shape[0], step, (jnp.int32(0), jnp.int32(x.shape[0] - 1), jnp.int32(0)))[2]
  return f, sorted_list()


# Bits that are set.


def words():
  return (np.random.default_rng(9).integers(0, 1 << 32, 20000, dtype=np.uint32),)


@spelling("count_bits")
def fori_shift():
  def f(x):
    return lax.fori_loop(0, 32, lambda k, n: n + ((x >> jnp.uint32(k)) & 1), jnp.zeros_like(x))
  return f, words()


@spelling("count_bits")
def shifted_state():
  def f(x):
    step = lambda _, s: (s[0] >> 1, s[1] + (s[0] & 1))
    return lax.fori_loop(0, 32, step, (x, jnp.zeros_like(x)))[1]
  return f, words()


@spelling("count_bits")
def scan_of_masks():
  def f(x):
    masks = jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32)
    return lax.scan(lambda n, mask: (n + ((x & mask) != 0).astype(jnp.uint32), None), jnp.zeros_like(x), masks)[0]
  return f, words()


@spelling("count_bits")
def all_bits_summed():
  def f(x):
    return jnp.sum((x[:, None] >> jnp.arange(32, dtype=jnp.uint32)) & 1, axis=1, dtype=jnp.uint32)
  return f, words()


# A running mean over a ring buffer.

RING = 16


def stream():
  return (numbers(6000),)


@spelling("ring_buffer", tolerance=1e-5)
def scan_at_set():
  def f(x):
    def step(s, value):
      ring, k, total = s
      total = total + value - ring[k]
      return (ring.at[k].set(value), (k + 1) % RING, total), total / RING
    return lax.scan(step, (jnp.zeros(RING), jnp.int32(0), jnp.float32(0)), x)[1]
  return f, stream()


@spelling("ring_buffer", tolerance=1e-5)
def scan_rolled():
  def f(x):
    def step(s, value):
      ring, total = s
      total = total + value - ring[0]
      return (jnp.concatenate([ring[1:], value[None]]), total), total / RING
    return lax.scan(step, (jnp.zeros(RING), jnp.float32(0)), x)[1]
  return f, stream()


@spelling("ring_buffer", tolerance=1e-5)
def fori_modulo():
  def f(x):
    def step(i, s):
      ring, total, out = s
      total = total + x[i] - ring[i % RING]
      return ring.at[i % RING].set(x[i]), total, out.at[i].set(total / RING)
    return lax.fori_loop(0, x.shape[0], step, (jnp.zeros(RING), jnp.float32(0), jnp.zeros_like(x)))[2]
  return f, stream()


@spelling("ring_buffer", tolerance=1e-5)
def fori_wrapped_where():
  def f(x):
    def step(i, s):
      ring, k, total, out = s
      total = total + x[i] - ring[k]
      ring = jnp.where(jnp.arange(RING) == k, x[i], ring)
      return ring, jnp.where(k == RING - 1, 0, k + 1), total, out.at[i].set(total / RING)
    return lax.fori_loop(0, x.shape[0], step, (jnp.zeros(RING), jnp.int32(0), jnp.float32(0), jnp.zeros_like(x)))[3]
  return f, stream()


# A search tree in arrays: keys are put in one after the other.

KEYS = 300


def keys():
  return (numbers(KEYS),)


@spelling("search_tree")
def left_and_right():
  def f(x):
    def put(k, trees):
      def down(s):
        at, _ = s
        child = jnp.where(x[k] < x[at], trees[0][at], trees[1][at])
        return child, at
      _, parent = lax.while_loop(lambda s: s[0] >= 0, down, (jnp.int32(0), jnp.int32(0)))
      less = x[k] < x[parent]
      left, right = trees
      return left.at[parent].set(jnp.where(less, k, left[parent])), right.at[parent].set(jnp.where(less, right[parent], k))
    none = jnp.full(KEYS, -1, jnp.int32)
    return jnp.stack(lax.fori_loop(1, KEYS, put, (none, none)))
  return f, keys()


@spelling("search_tree")
def one_table():
  def f(x):
    def put(k, tree):
      def down(s):
        at, side = s
        at = tree[side, at]
        return at, (x[k] >= x[at]).astype(jnp.int32)
      more = lambda s: tree[s[1], s[0]] >= 0
      at, side = lax.while_loop(more, down, (jnp.int32(0), (x[k] >= x[0]).astype(jnp.int32)))
      return tree.at[side, at].set(k)
    return lax.fori_loop(1, KEYS, put, jnp.full((2, KEYS), -1, jnp.int32))
  return f, keys()


@spelling("search_tree")
def scan_cond_sides():
  def f(x):
    def put(trees, k):
      left, right = trees
      def down(s):
        at, _ = s
        return lax.cond(x[k] < x[at], lambda: left[at], lambda: right[at]), at
      _, parent = lax.while_loop(lambda s: s[0] >= 0, down, (jnp.int32(0), jnp.int32(0)))
      return lax.cond(x[k] < x[parent], lambda: (left.at[parent].set(k), right), lambda: (left, right.at[parent].set(k))), None
    none = jnp.full(KEYS, -1, jnp.int32)
    return jnp.stack(lax.scan(put, (none, none), jnp.arange(1, KEYS, dtype=jnp.int32))[0])
  return f, keys()

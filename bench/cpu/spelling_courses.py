"""Exercises with grids, solvers, trees and queues, in several spellings each, as in spelling_exercises.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import numbers, spelling

# Jacobi's iteration for a plate of which the edges are held.


def plate():
  return (numbers(96, 96),)


@spelling("plate", tolerance=1e-5)
def inner_at_set():
  def f(u):
    def step(_, u):
      return u.at[1:-1, 1:-1].set(0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))
    return lax.fori_loop(0, 40, step, u)
  return f, plate()


@spelling("plate", tolerance=1e-5)
def rolled_where():
  def f(u):
    n = u.shape[0]
    i = jnp.arange(n)
    inside = ((i > 0) & (i < n - 1))[:, None] & ((i > 0) & (i < n - 1))[None]
    def step(_, u):
      mean = 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1))
      return jnp.where(inside, mean, u)
    return lax.fori_loop(0, 40, step, u)
  return f, plate()


@spelling("plate", tolerance=1e-5)
def padded_scan():
  def f(u):
    edge = u * (1 - jnp.pad(jnp.ones((94, 94)), 1))
    def step(u, _):
      mean = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
      return edge + jnp.pad(mean, 1), None
    return lax.scan(step, u, None, length=40)[0]
  return f, plate()


@spelling("plate", tolerance=1e-5)
def while_update_slice():
  def f(u):
    def step(s):
      k, u = s
      mean = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
      return k + 1, lax.dynamic_update_slice(u, mean, (1, 1))
    return lax.while_loop(lambda s: s[0] < 40, step, (0, u))[1]
  return f, plate()


# Tridiagonal systems (Thomas).


def bands():
  a, c = numbers(2000) * np.float32(0.3), numbers(2000)[::-1] * np.float32(0.3)
  return a, np.full(2000, 2.5, np.float32), c, np.cos(np.arange(2000, dtype=np.float32))


@spelling("thomas", tolerance=1e-5)
def scan_both_ways():
  def f(a, b, c, d):
    def down(s, row):
      a, b, c, d = row
      scale = b - a * s[0]
      s = (c / scale, (d - a * s[1]) / scale)
      return s, s
    _, (cc, dd) = lax.scan(down, (jnp.float32(0), jnp.float32(0)), (a, b, c, d))
    def up(x, row):
      x = row[1] - row[0] * x
      return x, x
    return lax.scan(up, jnp.float32(0), (cc, dd), reverse=True)[1]
  return f, bands()


@spelling("thomas", tolerance=1e-5)
def fori_in_place():
  def f(a, b, c, d):
    n = a.shape[0]
    def down(i, s):
      c, d = s
      scale = b[i] - a[i] * c[i - 1]
      return c.at[i].set(c[i] / scale), d.at[i].set((d[i] - a[i] * d[i - 1]) / scale)
    c, d = lax.fori_loop(1, n, down, (c.at[0].set(c[0] / b[0]), d.at[0].set(d[0] / b[0])))
    return lax.fori_loop(1, n, lambda k, d: d.at[n - 1 - k].add(-c[n - 1 - k] * d[n - k]), d)
  return f, bands()


@spelling("thomas", tolerance=1e-5)
def fori_carried():
  def f(a, b, c, d):
    n = a.shape[0]
    def down(i, s):
      cp, dp, cs, ds = s
      scale = b[i] - a[i] * cp
      cp, dp = c[i] / scale, (d[i] - a[i] * dp) / scale
      return cp, dp, cs.at[i].set(cp), ds.at[i].set(dp)
    zero = jnp.float32(0)
    _, _, cs, ds = lax.fori_loop(0, n, down, (zero, zero, jnp.zeros(n), jnp.zeros(n)))
    def up(s):
      i, x, out = s
      x = ds[i] - cs[i] * x
      return i - 1, x, out.at[i].set(x)
    return lax.while_loop(lambda s: s[0] >= 0, up, (n - 1, zero, jnp.zeros(n)))[2]
  return f, bands()


# One step of k-means.


def points():
  return numbers(2000, 4), numbers(8, 4)


def nearest(x, c):
  return jnp.argmin(((x[:, None] - c[None]) ** 2).sum(-1), axis=1)


@spelling("k_means", tolerance=1e-5)
def one_hot_product():
  def f(x, c):
    member = jax.nn.one_hot(nearest(x, c), 8)
    return (member.T @ x) / jnp.maximum(member.sum(0), 1)[:, None]
  return f, points()


@spelling("k_means", tolerance=1e-5)
def segment_sums():
  def f(x, c):
    k = nearest(x, c)
    total = jax.ops.segment_sum(x, k, 8)
    return total / jnp.maximum(jax.ops.segment_sum(jnp.ones(x.shape[0]), k, 8), 1)[:, None]
  return f, points()


@spelling("k_means", tolerance=1e-5)
def fori_point_by_point():
  def f(x, c):
    def point(i, s):
      total, count = s
      k = jnp.argmin(((x[i] - c) ** 2).sum(-1))
      return total.at[k].add(x[i]), count.at[k].add(1)
    total, count = lax.fori_loop(0, x.shape[0], point, (jnp.zeros((8, 4)), jnp.zeros(8)))
    return total / jnp.maximum(count, 1)[:, None]
  return f, points()


@spelling("k_means", tolerance=1e-5)
def vmapped_masks():
  def f(x, c):
    k = nearest(x, c)
    mean = lambda j: jnp.where((k == j)[:, None], x, 0).sum(0) / jnp.maximum((k == j).sum(), 1)
    return jax.vmap(mean)(jnp.arange(8))
  return f, points()


# The value of a game, by the leaves of its tree.

PLIES = 12


def leaves():
  return (numbers(1 << PLIES),)


@spelling("game_tree")
def reshaped_levels():
  def f(x):
    for level in range(PLIES):
      pairs = x.reshape(-1, 2)
      x = pairs.max(1) if level % 2 == 0 else pairs.min(1)
    return x[0]
  return f, leaves()


@spelling("game_tree")
def heap_backwards():
  def f(x):
    n = x.shape[0]
    odd = np.array([(PLIES - int(np.log2(max(k, 1)))) % 2 == 1 for k in range(n)])
    def node(k, tree):
      at = n - 1 - k
      a, b = tree[2 * at], tree[2 * at + 1]
      return tree.at[at].set(jnp.where(jnp.asarray(odd)[at], jnp.maximum(a, b), jnp.minimum(a, b)))
    return lax.fori_loop(0, n - 1, node, jnp.concatenate([jnp.zeros(n), x]))[1]
  return f, leaves()


@spelling("game_tree")
def strided_halves():
  def f(x):
    for level in range(PLIES):
      join = jnp.maximum if level % 2 == 0 else jnp.minimum
      x = join(x[::2], x[1::2])
    return x[0]
  return f, leaves()


# Steps until one (Collatz), of many numbers.


def starts():
  return (np.arange(1, 2001, dtype=np.int32),)


@spelling("steps_to_one")
def vmapped_while():
  def f(x):
    def steps(n):
      step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
      return lax.while_loop(lambda s: s[0] != 1, step, (n, jnp.int32(0)))[1]
    return jax.vmap(steps)(x)
  return f, starts()


@spelling("steps_to_one")
def masked_while():
  def f(x):
    def step(s):
      n, count = s
      on = n != 1
      return jnp.where(on, jnp.where(n & 1 == 0, n >> 1, 3 * n + 1), n), count + on
    return lax.while_loop(lambda s: jnp.any(s[0] != 1), step, (x, jnp.zeros_like(x)))[1]
  return f, starts()


@spelling("steps_to_one")
def number_by_number():
  def f(x):
    def one(i, out):
      step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
      return out.at[i].set(lax.while_loop(lambda s: s[0] != 1, step, (x[i], jnp.int32(0)))[1])
    return lax.fori_loop(0, x.shape[0], one, jnp.zeros_like(x))
  return f, starts()


@spelling("steps_to_one")
def mapped():
  def f(x):
    def steps(n):
      step = lambda s: (lax.cond(s[0] & 1 == 0, lambda n: n >> 1, lambda n: 3 * n + 1, s[0]), s[1] + 1)
      return lax.while_loop(lambda s: s[0] > 1, step, (n, jnp.int32(0)))[1]
    return lax.map(steps, x)
  return f, starts()


# A filter written out.


def filtered():
  return numbers(8192), numbers(15)


@spelling("taps", tolerance=1e-5)
def fori_slices():
  def f(x, w):
    n = x.shape[0] - w.shape[0] + 1
    return lax.fori_loop(0, w.shape[0], lambda k, y: y + w[k] * lax.dynamic_slice(x, (k,), (n,)), jnp.zeros(n))
  return f, filtered()


@spelling("taps", tolerance=1e-5)
def gathered_windows():
  def f(x, w):
    n = x.shape[0] - w.shape[0] + 1
    return x[jnp.arange(n)[:, None] + jnp.arange(w.shape[0])[None]] @ w
  return f, filtered()


@spelling("taps", tolerance=1e-5)
def mapped_dots():
  def f(x, w):
    n = x.shape[0] - w.shape[0] + 1
    return jax.vmap(lambda i: jnp.dot(lax.dynamic_slice(x, (i,), w.shape), w))(jnp.arange(n))
  return f, filtered()


@spelling("taps", tolerance=1e-5)
def two_loops():
  def f(x, w):
    n = x.shape[0] - w.shape[0] + 1
    def place(i, y):
      return y.at[i].set(lax.fori_loop(0, w.shape[0], lambda k, t: t + w[k] * x[i + k], jnp.float32(0)))
    return lax.fori_loop(0, n, place, jnp.zeros(n))
  return f, filtered()


# Powers of a matrix by squaring.


@spelling("matrix_power", tolerance=1e-3)
def fori_bits():
  def f(a):
    def step(k, s):
      power, square = s
      return jnp.where((1000 >> k) & 1, power @ square, power), square @ square
    return lax.fori_loop(0, 10, step, (jnp.eye(12), a))[0]
  return f, (np.linalg.qr(numbers(12, 12))[0].astype(np.float32),)


@spelling("matrix_power", tolerance=1e-3)
def while_cond():
  def f(a):
    def step(s):
      n, power, square = s
      return n // 2, lax.cond(n % 2 == 1, lambda: power @ square, lambda: power), square @ square
    return lax.while_loop(lambda s: s[0] > 0, step, (1000, jnp.eye(12), a))[1]
  return f, (np.linalg.qr(numbers(12, 12))[0].astype(np.float32),)


@spelling("matrix_power", tolerance=1e-3)
def scan_of_bits():
  def f(a):
    def step(power, bit):
      power = power @ power
      return jnp.where(bit, power @ a, power), None
    bits = jnp.array([int(b) for b in f"{1000:b}"])
    return lax.scan(step, jnp.eye(12), bits)[0]
  return f, (np.linalg.qr(numbers(12, 12))[0].astype(np.float32),)


# A queue by priorities: all go in, then come out in order (a heap in an array).


def priorities():
  return (numbers(200),)


@spelling("priority_queue")
def sift_by_while():
  def f(x):
    n = x.shape[0]
    def push(k, heap):
      heap = heap.at[k].set(x[k])
      def up(s):
        i, heap = s
        p = (i - 1) // 2
        a, b = heap[i], heap[p]
        return p, heap.at[p].set(a).at[i].set(b)
      return lax.while_loop(lambda s: (s[0] > 0) & (s[1][s[0]] < s[1][(s[0] - 1) // 2]), up, (k, heap))[1]
    def pop(k, s):
      heap, out = s
      size = n - 1 - k
      out = out.at[k].set(heap[0])
      heap = heap.at[0].set(heap[size]).at[size].set(jnp.inf)
      def heap_at(h, i):
        return jnp.where(i < n, h[jnp.minimum(i, n - 1)], jnp.inf)
      def down(s):
        i, h = s
        c = jnp.where(heap_at(h, 2 * i + 2) < heap_at(h, 2 * i + 1), 2 * i + 2, 2 * i + 1)
        return c, h.at[i].set(h[c]).at[c].set(h[i])
      def more(s):
        i, h = s
        return jnp.minimum(heap_at(h, 2 * i + 1), heap_at(h, 2 * i + 2)) < h[i]
      return lax.while_loop(more, down, (jnp.int32(0), heap))[1], out
    heap = lax.fori_loop(0, n, push, jnp.full(n, jnp.inf))
    return lax.fori_loop(0, n, pop, (heap, jnp.zeros(n)))[1]
  return f, priorities()


@spelling("priority_queue")
def least_of_all():
  def f(x):
    def pop(k, s):
      queue, out = s
      at = jnp.argmin(queue)
      return queue.at[at].set(jnp.inf), out.at[k].set(queue[at])
    return lax.fori_loop(0, x.shape[0], pop, (x, jnp.zeros_like(x)))[1]
  return f, priorities()


@spelling("priority_queue")
def least_by_scan():
  def f(x):
    def pop(queue, _):
      least = jnp.min(queue)
      first = jnp.argmax(queue == least)
      return jnp.where(jnp.arange(x.shape[0]) == first, jnp.inf, queue), least
    return lax.scan(pop, x, None, length=x.shape[0])[1]
  return f, priorities()


# A walk by random steps.


@spelling("normal_walk", tolerance=1e-5)
def scan_of_keys():
  def f(seed):
    def step(at, key):
      at = at + jax.random.normal(key)
      return at, at
    return lax.scan(step, jnp.float32(0), jax.random.split(jax.random.key(seed), 300))[1]
  return f, (np.int32(7),)


@spelling("normal_walk", tolerance=1e-5)
def fori_split_before():
  def f(seed):
    keys = jax.random.split(jax.random.key(seed), 300)
    def step(i, s):
      at, out = s
      at = at + jax.random.normal(keys[i])
      return at, out.at[i].set(at)
    return lax.fori_loop(0, 300, step, (jnp.float32(0), jnp.zeros(300)))[1]
  return f, (np.int32(7),)


@spelling("normal_walk", tolerance=1e-5)
def while_split_before():
  def f(seed):
    keys = jax.random.split(jax.random.key(seed), 300)
    def step(s):
      i, at, out = s
      at = at + jax.random.normal(keys[i])
      return i + 1, at, out.at[i].set(at)
    return lax.while_loop(lambda s: s[0] < 300, step, (0, jnp.float32(0), jnp.zeros(300)))[2]
  return f, (np.int32(7),)

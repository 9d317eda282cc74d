"""Graphs, grids and small solvers that nothing was tuned for, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# LU without pivoting, both factors in one matrix.

LU = 64


def dominant():
  return (numbers(LU, LU, seed=41) + LU * np.eye(LU, dtype=np.float32),)


@spelling("lu", tolerance=1e-5)
def masked_outer():
  def f(a):
    i = jnp.arange(LU)
    def step(k, a):
      column = jnp.where(i > k, a[:, k] / a[k, k], 0)
      a = a - jnp.outer(column, jnp.where(i > k, a[k], 0))
      return a.at[:, k].set(jnp.where(i > k, column, a[:, k]))
    return lax.fori_loop(0, LU, step, a)
  return f, dominant()


@spelling("lu", tolerance=1e-5)
def rows_in_place():
  def f(a):
    i = jnp.arange(LU)
    def step(k, a):
      def row(r, a):
        m = a[r, k] / a[k, k]
        return a.at[r].set(jnp.where(i > k, a[r] - m * a[k], a[r])).at[r, k].set(m)
      return lax.fori_loop(k + 1, LU, row, a)
    return lax.fori_loop(0, LU, step, a)
  return f, dominant()


@spelling("lu", tolerance=1e-5)
def three_loops():
  def f(a):
    def step(k, a):
      def row(r, a):
        m = a[r, k] / a[k, k]
        return lax.fori_loop(k + 1, LU, lambda c, a: a.at[r, c].add(-m * a[k, c]), a.at[r, k].set(m))
      return lax.fori_loop(k + 1, LU, row, a)
    return lax.fori_loop(0, LU, step, a)
  return f, dominant()


@spelling("lu", tolerance=1e-5)
def crout_dots():
  def f(a):
    i = jnp.arange(LU)
    def step(a, k):
      row = a[k] - jnp.where(i < k, a[k], 0) @ a
      a = a.at[k].set(jnp.where(i >= k, row, a[k]))
      column = a[:, k] - a @ jnp.where(i < k, a[:, k], 0)
      return a.at[:, k].set(jnp.where(i > k, column / a[k, k], a[:, k])), None
    return lax.scan(step, a, i)[0]
  return f, dominant()


# Orthogonal columns (Gram and Schmidt, modified).


def columns():
  return (numbers(96, 48, seed=42),)


@spelling("gram_schmidt", tolerance=1e-4)
def one_by_one():
  def f(a):
    def outer(k, q):
      v = lax.fori_loop(0, k, lambda j, v: v - jnp.dot(q[:, j], v) * q[:, j], a[:, k])
      return q.at[:, k].set(v / jnp.linalg.norm(v))
    return lax.fori_loop(0, a.shape[1], outer, jnp.zeros_like(a))
  return f, columns()


@spelling("gram_schmidt", tolerance=1e-4)
def all_later_columns():
  def f(a):
    later = jnp.arange(a.shape[1])
    def step(k, a):
      q = a[:, k] / jnp.sqrt(jnp.sum(a[:, k] ** 2))
      a = a - jnp.where(later > k, jnp.outer(q, q @ a), 0)
      return a.at[:, k].set(q)
    return lax.fori_loop(0, a.shape[1], step, a)
  return f, columns()


@spelling("gram_schmidt", tolerance=1e-4)
def scan_of_columns():
  def f(a):
    def step(a, k):
      q = lax.dynamic_slice_in_dim(a, k, 1, 1)
      q = q / jnp.linalg.norm(q)
      rest = a - q @ (q.T @ a)
      return jnp.where(jnp.arange(a.shape[1]) > k, rest, a), q[:, 0]
    return lax.scan(step, a, jnp.arange(a.shape[1]))[1].T
  return f, columns()


# Newton's divided differences.

KNOTS = 128


def knots():
  x = np.linspace(-1, 1, KNOTS).astype(np.float32)
  return x, np.sin(3 * x)


@spelling("differences", tolerance=1e-4)
def backwards_in_place():
  def f(x, y):
    def level(k, c):
      def at(m, c):
        i = KNOTS - 1 - m
        return c.at[i].set((c[i] - c[i - 1]) * (x[k] - x[0]))
      return lax.fori_loop(0, KNOTS - k, at, c)
    return lax.fori_loop(1, KNOTS, level, y)
  return f, knots()


@spelling("differences", tolerance=1e-4)
def shifted_masked():
  def f(x, y):
    i = jnp.arange(KNOTS)
    def level(k, c):
      return jnp.where(i >= k, (c - jnp.roll(c, 1)) * (x[k] - x[0]), c)
    return lax.fori_loop(1, KNOTS, level, y)
  return f, knots()


@spelling("differences", tolerance=1e-4)
def scan_shifted():
  def f(x, y):
    i = jnp.arange(KNOTS)
    def level(c, given):
      k, step = given
      before = jnp.concatenate([c[:1], c[:-1]])
      return jnp.where(i < k, c, (c - before) * step), None
    return lax.scan(level, y, (i[1:], x[1:] - x[0]))[0]
  return f, knots()


# The Walsh and Hadamard transform.

WALSH = 1024


def signal():
  return (numbers(WALSH, seed=43),)


@spelling("hadamard", tolerance=1e-5)
def reshaped_levels():
  def f(x):
    h = 1
    while h < WALSH:
      p = x.reshape(-1, 2, h)
      x = jnp.stack([p[:, 0] + p[:, 1], p[:, 0] - p[:, 1]], 1).reshape(-1)
      h *= 2
    return x
  return f, signal()


@spelling("hadamard", tolerance=1e-5)
def xor_partner():
  def f(x):
    i = jnp.arange(WALSH)
    def level(x, h):
      other = x[i ^ h]
      return jnp.where((i & h) == 0, x + other, other - x), None
    return lax.scan(level, x, 1 << jnp.arange(10))[0]
  return f, signal()


@spelling("hadamard", tolerance=1e-5)
def butterflies():
  def f(x):
    def level(s):
      h, x = s
      def pair(k, x):
        i = (k // h) * 2 * h + k % h
        a, b = x[i], x[i + h]
        return x.at[i].set(a + b).at[i + h].set(a - b)
      return h * 2, lax.fori_loop(0, WALSH // 2, pair, x)
    return lax.while_loop(lambda s: s[0] < WALSH, level, (jnp.int32(1), x))[1]
  return f, signal()


@spelling("hadamard", tolerance=1e-5)
def halves_each_time():
  def f(x):
    def level(_, x):
      return jnp.concatenate([x[0::2] + x[1::2], x[0::2] - x[1::2]])
    return lax.fori_loop(0, 10, level, x)
  return f, signal()


# Bellman and Ford over a list of edges.

PLACES, ROADS = 100, 600


def roads():
  rng = np.random.default_rng(44)
  return (rng.integers(0, PLACES, ROADS).astype(np.int32), rng.integers(0, PLACES, ROADS).astype(np.int32),
          rng.uniform(1, 10, ROADS).astype(np.float32))


def far():
  return jnp.full(PLACES, jnp.inf).at[0].set(0.0)


@spelling("bellman_ford", tolerance=1e-6)
def at_min_rounds():
  def f(a, b, w):
    return lax.fori_loop(0, 12, lambda _, d: d.at[b].min(d[a] + w), far())
  return f, roads()


@spelling("bellman_ford", tolerance=1e-6)
def segments():
  def f(a, b, w):
    def step(d, _):
      return jnp.minimum(d, jax.ops.segment_min(d[a] + w, b, PLACES)), None
    return lax.scan(step, far(), None, length=12)[0]
  return f, roads()


@spelling("bellman_ford", tolerance=1e-6)
def edge_by_edge():
  def f(a, b, w):
    def edge(k, s):
      d, new = s
      return d, new.at[b[k]].set(jnp.minimum(new[b[k]], d[a[k]] + w[k]))
    return lax.fori_loop(0, 12, lambda _, d: lax.fori_loop(0, ROADS, edge, (d, d))[1], far())
  return f, roads()


@spelling("bellman_ford", tolerance=1e-6)
def scanned_edges():
  def f(a, b, w):
    def round_of(d, _):
      def edge(new, e):
        a, b, w = e
        better = d[a] + w
        return jnp.where(better < new[b], new.at[b].set(better), new), None
      return lax.scan(edge, d, (a, b, w))[0], None
    return lax.scan(round_of, far(), None, length=12)[0]
  return f, roads()


# The least spanning tree (Prim) of a dense graph: its weight.

TOWNS = 120


def towns():
  w = np.random.default_rng(45).uniform(1, 10, (TOWNS, TOWNS)).astype(np.float32)
  return (np.minimum(w, w.T),)


@spelling("spanning_tree", tolerance=1e-5)
def masked_argmin():
  def f(w):
    def step(_, s):
      near, inside, total = s
      at = jnp.argmin(jnp.where(inside, jnp.inf, near))
      return jnp.minimum(near, w[at]), inside.at[at].set(True), total + near[at]
    start = (w[0], jnp.zeros(TOWNS, bool).at[0].set(True), jnp.float32(0))
    return lax.fori_loop(0, TOWNS - 1, step, start)[2]
  return f, towns()


@spelling("spanning_tree", tolerance=1e-5)
def infinite_inside():
  def f(w):
    def step(s, _):
      near, inside = s
      at = jnp.argmin(near)
      inside = inside | (jnp.arange(TOWNS) == at)
      least = near[at]
      return (jnp.where(inside, jnp.inf, jnp.minimum(near, w[at])), inside), least
    inside = jnp.arange(TOWNS) == 0
    return lax.scan(step, (jnp.where(inside, jnp.inf, w[0]), inside), None, length=TOWNS - 1)[1].sum()
  return f, towns()


@spelling("spanning_tree", tolerance=1e-5)
def loop_over_towns():
  def f(w):
    def step(_, s):
      near, inside, total = s
      def look(k, best):
        better = ~inside[k] & (near[k] < best[0])
        return jnp.where(better, near[k], best[0]), jnp.where(better, k, best[1])
      least, at = lax.fori_loop(0, TOWNS, look, (jnp.float32(jnp.inf), 0))
      near = lax.fori_loop(0, TOWNS, lambda k, n: n.at[k].set(jnp.minimum(n[k], w[at, k])), near)
      return near, inside.at[at].set(True), total + least
    start = (w[0], jnp.zeros(TOWNS, bool).at[0].set(True), jnp.float32(0))
    return lax.fori_loop(0, TOWNS - 1, step, start)[2]
  return f, towns()


# Topological order (Kahn) with a queue.

TASKS = 200


def tasks():
  rng = np.random.default_rng(46)
  order = rng.permutation(TASKS)
  return (np.triu(rng.random((TASKS, TASKS)) < 0.04, 1)[order][:, order],)


@spelling("task_order")
def queue_of_masks():
  def f(edge):
    n = TASKS
    degree = edge.sum(0).astype(jnp.int32)
    def push(s, ready):
      queue, tail = s
      place = tail + jnp.cumsum(ready.astype(jnp.int32)) - 1
      return queue.at[jnp.where(ready, place, n)].set(jnp.arange(n), mode="drop"), tail + ready.sum()
    queue, tail = push((jnp.zeros(n, jnp.int32), jnp.int32(0)), degree == 0)
    def step(s):
      queue, head, tail, degree = s
      to = edge[queue[head]]
      degree = degree - to.astype(jnp.int32)
      queue, tail = push((queue, tail), to & (degree == 0))
      return queue, head + 1, tail, degree
    return lax.while_loop(lambda s: s[1] < s[2], step, (queue, jnp.int32(0), tail, degree))[0]
  return f, tasks()


@spelling("task_order")
def queue_in_loops():
  def f(edge):
    n = TASKS
    def count(i, d):
      return lax.fori_loop(0, n, lambda j, d: d.at[j].add(edge[i, j].astype(jnp.int32)), d)
    degree = lax.fori_loop(0, n, count, jnp.zeros(n, jnp.int32))
    def first(i, s):
      queue, tail = s
      return queue.at[tail].set(jnp.where(degree[i] == 0, i, queue[tail])), tail + (degree[i] == 0)
    queue, tail = lax.fori_loop(0, n, first, (jnp.zeros(n, jnp.int32), jnp.int32(0)))
    def step(s):
      queue, head, tail, degree = s
      at = queue[head]
      def look(j, s):
        queue, tail, degree = s
        degree = degree.at[j].add(-edge[at, j].astype(jnp.int32))
        ready = edge[at, j] & (degree[j] == 0)
        queue = queue.at[tail].set(jnp.where(ready, j, queue[jnp.minimum(tail, n - 1)]), mode="drop")
        return queue, tail + ready.astype(jnp.int32), degree
      queue, tail, degree = lax.fori_loop(0, n, look, (queue, tail, degree))
      return queue, head + 1, tail, degree
    return lax.while_loop(lambda s: s[1] < s[2], step, (queue, jnp.int32(0), tail, degree))[0]
  return f, tasks()


@spelling("task_order")
def scan_with_cond():
  def f(edge):
    n = TASKS
    degree = edge.sum(0, dtype=jnp.int32)
    def add(s, j, ready):
      return lax.cond(ready, lambda q, t: (q.at[t].set(j), t + 1), lambda q, t: (q, t), *s)
    start = lax.scan(lambda s, j: (add(s, j, degree[j] == 0), None), (jnp.zeros(n, jnp.int32), jnp.int32(0)), jnp.arange(n))[0]
    def step(s):
      queue, head, tail, degree = s
      row = edge[queue[head]]
      degree = degree - row
      ready = row & (degree == 0)
      queue, tail = lax.scan(lambda s, j: (add(s, j, ready[j]), None), (queue, tail), jnp.arange(n))[0]
      return queue, head + 1, tail, degree
    queue, tail = start
    return lax.while_loop(lambda s: s[1] < s[2], step, (queue, jnp.int32(0), tail, degree))[0]
  return f, tasks()

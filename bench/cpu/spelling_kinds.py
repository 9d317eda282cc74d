"""More kinds of loops of bench/cpu in three spellings each, as in spelling_programs.py: searches, tables, stencils, filters, chaos.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Insertion sort: an element is moved down until its left neighbour is not larger.


@spelling("insertion_sort")
def shift_while():
  def f(x):
    def insert(i, x):
      value = x[i]
      def shift(state):
        j, x = state
        return j - 1, x.at[j].set(x[j - 1])
      j, x = lax.while_loop(lambda s: (s[0] > 0) & (s[1][s[0] - 1] > value), shift, (i, x))
      return x.at[j].set(value)
    return lax.fori_loop(1, x.shape[0], insert, x)
  return f, (numbers(256),)


@spelling("insertion_sort")
def swap_while():
  def f(x):
    def insert(i, x):
      def swap(state):
        j, x = state
        pair = lax.dynamic_slice(x, (j - 1,), (2,))
        return j - 1, lax.dynamic_update_slice(x, pair[::-1], (j - 1,))
      return lax.while_loop(lambda s: (s[0] > 0) & (s[1][s[0] - 1] > s[1][s[0]]), swap, (i, x))[1]
    return lax.fori_loop(1, x.shape[0], insert, x)
  return f, (numbers(256),)


@spelling("insertion_sort")
def one_while():
  def f(x):
    def step(state):
      i, j, x = state
      a, b = x[j - 1], x[j]
      moves = (j > 0) & (a > b)
      x = x.at[j - 1].set(jnp.where(moves, b, a)).at[j].set(jnp.where(moves, a, b))
      return jnp.where(moves, i, i + 1), jnp.where(moves, j - 1, i + 1), x
    return lax.while_loop(lambda s: s[0] < x.shape[0], step, (1, 1, x))[2]
  return f, (numbers(256),)


# Borders of prefixes of a string (the table of Knuth, Morris and Pratt).

TEXT = 4096


@spelling("borders", tolerance=0)
def fori_while():
  def f(s):
    def step(i, state):
      table, k = state
      k = lax.while_loop(lambda k: (k > 0) & (s[k] != s[i]), lambda k: table[k - 1], k)
      k = jnp.where(s[k] == s[i], k + 1, k)
      return table.at[i].set(k), k
    return lax.fori_loop(1, TEXT, step, (jnp.zeros(TEXT, jnp.int32), 0))[0]
  return f, (integers(2, TEXT),)


@spelling("borders", tolerance=0)
def flat_while():
  def f(s):
    def step(state):
      i, k, table = state
      same = s[i] == s[k]
      back = ~same & (k > 0)
      table = table.at[i].set(jnp.where(back, table[i], jnp.where(same, k + 1, 0)))
      return jnp.where(back, i, i + 1), jnp.where(back, table[k - 1], jnp.where(same, k + 1, 0)), table
    return lax.while_loop(lambda s: s[0] < TEXT, step, (1, 0, jnp.zeros(TEXT, jnp.int32)))[2]
  return f, (integers(2, TEXT),)


@spelling("borders", tolerance=0)
def scan_table():
  def f(s):
    def step(state, i):
      table, k = state
      k = lax.while_loop(lambda k: (k > 0) & (s[k] != s[i]), lambda k: lax.dynamic_index_in_dim(table, k - 1, keepdims=False), k)
      k = k + (s[k] == s[i]).astype(jnp.int32)
      return (lax.dynamic_update_slice(table, k[None], (i,)), k), None
    return lax.scan(step, (jnp.zeros(TEXT, jnp.int32), jnp.int32(0)), jnp.arange(1, TEXT))[0][0]
  return f, (integers(2, TEXT),)


# A hash table with linear probing.

SLOTS, KEYS = 4096, 2048


def distinct_keys():
  return ((np.random.default_rng(3).permutation(1 << 20)[:KEYS] + 1).astype(np.int32),)


def slot_of(key):
  return (key * jnp.int32(-1640531527)).astype(jnp.uint32) >> 20


@spelling("hash_insert", tolerance=0)
def probe_while():
  def f(keys):
    def insert(i, table):
      at = lax.while_loop(lambda at: table[at] != 0, lambda at: (at + 1) % SLOTS, slot_of(keys[i]).astype(jnp.int32))
      return table.at[at].set(keys[i])
    return lax.fori_loop(0, KEYS, insert, jnp.zeros(SLOTS, jnp.int32))
  return f, distinct_keys()


@spelling("hash_insert", tolerance=0)
def probe_scan():
  def f(keys):
    def insert(table, key):
      def probe(at):
        return lax.select(at + 1 == SLOTS, 0, at + 1)
      at = lax.while_loop(lambda at: lax.dynamic_index_in_dim(table, at, keepdims=False) != 0, probe, slot_of(key).astype(jnp.int32))
      return lax.dynamic_update_index_in_dim(table, key, at, 0), None
    return lax.scan(insert, jnp.zeros(SLOTS, jnp.int32), keys)[0]
  return f, distinct_keys()


@spelling("hash_insert", tolerance=0)
def probe_flat():
  def f(keys):
    def step(state):
      i, at, table = state
      free = table[at] == 0
      table = table.at[at].set(jnp.where(free, keys[i], table[at]))
      i = jnp.where(free, i + 1, i)
      return i, jnp.where(free, slot_of(keys[jnp.minimum(i, KEYS - 1)]).astype(jnp.int32), (at + 1) % SLOTS), table
    return lax.while_loop(lambda s: s[0] < KEYS, step, (0, slot_of(keys[0]).astype(jnp.int32), jnp.zeros(SLOTS, jnp.int32)))[2]
  return f, distinct_keys()


# Breadth-first search with a queue, every node with four neighbours.

NODES = 2048


def neighbours():
  return (integers(NODES, NODES, 4),)


def search(visit):
  """Distances from node 0; `visit` takes (distance, queue, tail), a node and its neighbours."""
  def f(edges):
    def step(state):
      head, tail, queue, distance = state
      node = queue[head]
      distance, queue, tail = visit(distance, queue, tail, node, edges[node])
      return head + 1, tail, queue, distance
    start = (0, 1, jnp.zeros(NODES, jnp.int32), jnp.full(NODES, -1).at[0].set(0))
    return lax.while_loop(lambda s: s[0] < s[1], step, start)[3]
  return f, neighbours()


@spelling("graph_search", tolerance=0)
def cond_push():
  def visit(distance, queue, tail, node, edges):
    for k in range(4):
      def push(state, to=edges[k]):
        distance, queue, tail = state
        return distance.at[to].set(distance[node] + 1), queue.at[tail].set(to), tail + 1
      distance, queue, tail = lax.cond(distance[edges[k]] < 0, push, lambda s: s, (distance, queue, tail))
    return distance, queue, tail
  return search(visit)


@spelling("graph_search", tolerance=0)
def select_push():
  def visit(distance, queue, tail, node, edges):
    for k in range(4):
      to = edges[k]
      new = distance[to] < 0
      distance = distance.at[to].set(jnp.where(new, distance[node] + 1, distance[to]))
      queue = queue.at[tail].set(jnp.where(new, to, queue[tail]))
      tail = tail + new
    return distance, queue, tail
  return search(visit)


@spelling("graph_search", tolerance=0)
def loop_push():
  def visit(distance, queue, tail, node, edges):
    def push(k, state):
      distance, queue, tail = state
      to = edges[k]
      new = distance[to] < 0
      distance = lax.dynamic_update_slice(distance, jnp.where(new, distance[node] + 1, distance[to])[None], (to,))
      queue = lax.dynamic_update_slice(queue, jnp.where(new, to, queue[tail])[None], (tail,))
      return distance, queue, tail + new
    return lax.fori_loop(0, 4, push, (distance, queue, tail))
  return search(visit)


# Relaxation of edges (Bellman and Ford).

EDGES, ROUNDS = 2048, 8


def graph():
  return integers(256, EDGES, seed=1), integers(256, EDGES, seed=2), np.abs(numbers(EDGES))


@spelling("relaxation", tolerance=0)
def fori_at_min():
  def f(source, target, weight):
    def edge(e, d):
      return d.at[target[e]].min(d[source[e]] + weight[e])
    return lax.fori_loop(0, ROUNDS, lambda _, d: lax.fori_loop(0, EDGES, edge, d), jnp.full(256, 1e9).at[0].set(0))
  return f, graph()


@spelling("relaxation", tolerance=0)
def scan_at_set():
  def f(source, target, weight):
    def edge(d, e):
      s, t, w = e
      return d.at[t].set(jnp.minimum(d[t], d[s] + w)), None
    def one_round(d, _):
      return lax.scan(edge, d, (source, target, weight))[0], None
    return lax.scan(one_round, jnp.full(256, 1e9).at[0].set(0), length=ROUNDS)[0]
  return f, graph()


@spelling("relaxation", tolerance=0)
def cond_update():
  def f(source, target, weight):
    def edge(e, d):
      new = d[source[e]] + weight[e]
      return lax.cond(new < d[target[e]], lambda d: d.at[target[e]].set(new), lambda d: d, d)
    return lax.fori_loop(0, ROUNDS, lambda _, d: lax.fori_loop(0, EDGES, edge, d), jnp.full(256, 1e9).at[0].set(0))
  return f, graph()


# A digital filter of second order.


@spelling("biquad", tolerance=1e-5)
def scan_scalars():
  def f(x):
    def step(state, x):
      a, b = state
      y = 0.2 * x + a
      return (0.4 * x + 0.5 * y + b, 0.2 * x - 0.3 * y), y
    return lax.scan(step, (0.0, 0.0), x)[1]
  return f, (numbers(16384),)


@spelling("biquad", tolerance=1e-5)
def fori_state():
  def f(x):
    def step(i, state):
      s, out = state
      y = 0.2 * x[i] + s[0]
      return jnp.array([0.4, 0.2]) * x[i] + jnp.array([0.5, -0.3]) * y + jnp.array([1.0, 0.0]) * s[1], out.at[i].set(y)
    return lax.fori_loop(0, x.shape[0], step, (jnp.zeros(2), jnp.zeros_like(x)))[1]
  return f, (numbers(16384),)


@spelling("biquad", tolerance=1e-5)
def matrix_state():
  def f(x):
    a, b, c = jnp.array([[0.5, 1.0], [-0.3, 0.0]]), jnp.array([0.5, 0.14]), jnp.array([1.0, 0.0])
    def step(s, x):
      return a @ s + b * x, 0.2 * x + c @ s
    return lax.scan(step, jnp.zeros(2), x)[1]
  return f, (numbers(16384),)


# Iteration of complex numbers.

POINTS, TIMES = 4096, 60


def plane():
  return numbers(POINTS), numbers(POINTS, seed=2)


@spelling("mandelbrot", tolerance=0)
def masked_pair():
  def f(a, b):
    def step(_, state):
      x, y, n = state
      inside = x * x + y * y < 4
      return jnp.where(inside, x * x - y * y + a, x), jnp.where(inside, 2 * x * y + b, y), n + inside
    return lax.fori_loop(0, TIMES, step, (a * 0, b * 0, jnp.zeros(POINTS, jnp.int32)))[2]
  return f, plane()


@spelling("mandelbrot", tolerance=0)
def vmapped_while():
  def f(a, b):
    def point(a, b):
      def step(state):
        x, y, n = state
        return x * x - y * y + a, 2 * x * y + b, n + 1
      return lax.while_loop(lambda s: (s[2] < TIMES) & (s[0] * s[0] + s[1] * s[1] < 4), step, (a * 0, b * 0, 0))[2]
    return jax.vmap(point)(a, b)
  return f, plane()


@spelling("mandelbrot", tolerance=0)
def map_while():
  def f(a, b):
    def point(ab):
      a, b = ab
      def step(state):
        x, y, n = state
        return x * x - y * y + a, 2 * x * y + b, n + 1
      return lax.while_loop(lambda s: (s[2] < TIMES) & (s[0] * s[0] + s[1] * s[1] < 4), step, (a * 0, b * 0, 0))[2]
    return lax.map(point, (a, b))
  return f, plane()


# Jacobi's iteration on a square.

SIDE, SWEEPS = 96, 40


@spelling("jacobi", tolerance=1e-5)
def interior_at_set():
  def f(u):
    def sweep(_, u):
      return u.at[1:-1, 1:-1].set(0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]))
    return lax.fori_loop(0, SWEEPS, sweep, u)
  return f, (numbers(SIDE, SIDE),)


@spelling("jacobi", tolerance=1e-5)
def rolled_masked():
  def f(u):
    k = jnp.arange(SIDE)
    edge = (k == 0) | (k == SIDE - 1)
    fixed = edge[:, None] | edge[None, :]
    def sweep(_, u):
      return jnp.where(fixed, u, 0.25 * (jnp.roll(u, -1, 0) + jnp.roll(u, 1, 0) + jnp.roll(u, -1, 1) + jnp.roll(u, 1, 1)))
    return lax.fori_loop(0, SWEEPS, sweep, u)
  return f, (numbers(SIDE, SIDE),)


@spelling("jacobi", tolerance=1e-5)
def padded_interior():
  def f(u):
    def sweep(u, _):
      new = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
      rows = jnp.concatenate([u[1:-1, :1], new, u[1:-1, -1:]], axis=1)
      return jnp.concatenate([u[:1], rows, u[-1:]]), None
    return lax.scan(sweep, u, length=SWEEPS)[0]
  return f, (numbers(SIDE, SIDE),)

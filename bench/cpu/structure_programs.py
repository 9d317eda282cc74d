"""Loop programs over data structures and signals: heaps, graphs, strings, filters, chains of states."""

import jax.numpy as jnp
from jax import lax
import numpy as np

from c_versions import SIZES as N, version
from loop_programs import F32, I32, program, random, runge_kutta


@program("digital filter", c=version("biquad", (F32, (N["FILTER_SIZE"],))), tolerance=1e-4)
def biquad():
  def run(x, b, a):
    def step(state, x):
      y = b[0] * x + state[0]
      return (b[1] * x - a[0] * y + state[1], b[2] * x - a[1] * y), y
    return (lax.scan(step, (F32(0), F32(0)), x)[1],)
  return run, (random().standard_normal(N["FILTER_SIZE"]).astype(F32), np.array([0.1, 0.2, 0.1], F32), np.array([-1.2, 0.5], F32))


@program("heap", c=version("heapify", (I32, (N["HEAP_SIZE"],))), tolerance=0)
def heapify():
  size = N["HEAP_SIZE"]

  def run(a):
    def sift(k, a):
      def down(state):
        i, a, _ = state
        left, right = 2 * i + 1, 2 * i + 2
        largest = jnp.where((left < size) & (a[jnp.minimum(left, size - 1)] > a[i]), left, i)
        largest = jnp.where((right < size) & (a[jnp.minimum(right, size - 1)] > a[largest]), right, largest)
        x, y = a[i], a[largest]
        return largest, a.at[i].set(y).at[largest].set(x), largest != i
      return lax.while_loop(lambda s: s[2], down, (size // 2 - 1 - k, a, True))[1]
    return (lax.fori_loop(0, size // 2, sift, a),)
  return run, (random().integers(0, 1 << 20, size, dtype=I32),)


@program("graph relaxation", c=version("relax_edges", (F32, (N["GRAPH_NODES"],))), tolerance=0)
def relax_edges():
  """Shortest paths, one edge after the other."""
  nodes, edges, rounds = N["GRAPH_NODES"], N["GRAPH_EDGES"], N["GRAPH_ROUNDS"]

  def run(sources, targets, lengths):
    def edge(k, distance):
      e = k % edges
      a, b = sources[e], targets[e]
      return distance.at[b].set(jnp.minimum(distance[b], distance[a] + lengths[e]))
    start = jnp.full(nodes, 1e9, jnp.float32).at[0].set(0)
    return (lax.fori_loop(0, edges * rounds, edge, start),)
  r = random()
  return run, (r.integers(0, nodes, edges, dtype=I32), r.integers(0, nodes, edges, dtype=I32), r.uniform(0, 1, edges).astype(F32))


@program("string matching", c=version("borders", (I32, (N["STRING_SIZE"],))), tolerance=0)
def borders():
  """Of every prefix of a string: how long its longest beginning is that is also its end."""
  size = N["STRING_SIZE"]

  def run(text):
    def each(i, state):
      found, k = state
      k = lax.while_loop(lambda k: (k > 0) & (text[k] != text[i]), lambda k: found[k - 1], k)
      k = jnp.where(text[k] == text[i], k + 1, k)
      return found.at[i].set(k), k
    return (lax.fori_loop(1, size, each, (jnp.zeros(size, jnp.int32), jnp.int32(0)))[0],)
  return run, (random().integers(0, 2, size, dtype=I32),)


@program("hidden Markov model", c=version("hmm_forward", (F32, ())), tolerance=1e-3)
def hmm_forward():
  def run(moves, shows, seen):
    def step(chance, symbol):
      chance = (chance @ moves) * shows[:, symbol]
      total = jnp.sum(chance)
      return chance / total, jnp.log(total)
    return (jnp.sum(lax.scan(step, jnp.full(16, 1 / 16, jnp.float32), seen)[1]),)
  r = random()
  rows = lambda shape: (lambda a: (a / a.sum(1, keepdims=True)).astype(F32))(r.uniform(0.1, 1, shape))
  return run, (rows((16, 16)), rows((16, 8)), r.integers(0, 8, N["HMM_STEPS"], dtype=I32))


@program("ODE with adaptive steps", c=version("step_control", (I32, ())), tolerance=1e-2)
def step_control():
  """How many steps a method of third order takes for van der Pol's, each as long as a power of the last error says."""
  def slope(y):
    return jnp.stack([y[1], 5 * (1 - y[0] * y[0]) * y[1] - y[0]])

  def step(state):
    t, y, h, n = state
    fine = runge_kutta(slope, y, h)
    error = jnp.sqrt(jnp.mean(((fine - (y + h * slope(y + 0.5 * h * slope(y)))) / (1e-4 + 1e-3 * jnp.abs(y))) ** 2))
    accepted = error < 1
    h_next = h * jnp.clip(0.9 * error ** F32(-1 / 3), 0.2, 5.0)
    return jnp.where(accepted, t + h, t), jnp.where(accepted, fine, y), h_next, n + 1
  return (lambda y: (lax.while_loop(lambda s: s[0] < N["CONTROL_END"], step, (F32(0), y, F32(0.01), jnp.int32(0)))[3],),
          (np.array([2, 0], F32),))


@program("dynamic programming", c=version("matrix_chain", (I32, (N["CHAIN_LENGTH"], N["CHAIN_LENGTH"]))), tolerance=0)
def matrix_chain():
  """The cheapest order of a product of matrices: loops whose bounds are counters of those around them."""
  size = N["CHAIN_LENGTH"]

  def run(sizes):
    def by_length(length, cost):
      def by_start(i, cost):
        j = i + length - 1
        cut = lambda k, best: jnp.minimum(best, cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1])
        return cost.at[i, j].set(lax.fori_loop(i, j, cut, jnp.int32(2**31 - 1)))
      return lax.fori_loop(0, size - length + 1, by_start, cost)
    return (lax.fori_loop(2, size + 1, by_length, jnp.zeros((size, size), jnp.int32)),)
  return run, (random().integers(1, 30, size + 1, dtype=I32),)


@program("graph components", c=version("union_find", (I32, (N["UNION_NODES"],))), tolerance=0)
def union_find():
  """An array of places in itself, followed and shortened."""
  nodes, edges = N["UNION_NODES"], N["UNION_EDGES"]

  def run(a, b):
    def find(parent, x):
      def step(state):
        parent, x = state
        above = parent[parent[x]]
        return parent.at[x].set(above), above
      return lax.while_loop(lambda s: s[0][s[1]] != s[1], step, (parent, x))

    def join(e, parent):
      parent, x = find(parent, a[e])
      parent, y = find(parent, b[e])
      return parent.at[x].set(y)
    return (lax.fori_loop(0, edges, join, jnp.arange(nodes, dtype=jnp.int32)),)
  r = random()
  return run, (r.integers(0, nodes, edges, dtype=I32), r.integers(0, nodes, edges, dtype=I32))


@program("hash table", c=version("hash_table", (I32, (N["TABLE_SIZE"],))), tolerance=0)
def hash_table():
  size = N["TABLE_SIZE"]

  def run(keys):
    def insert(i, table):
      key = keys[i]
      at = ((key.astype(jnp.uint32) * jnp.uint32(2654435761)) >> 16).astype(jnp.int32)
      taken = lambda at: (table[at] != -1) & (table[at] != key)
      return table.at[lax.while_loop(taken, lambda at: (at + 1) & (size - 1), at)].set(key)
    return (lax.fori_loop(0, N["TABLE_KEYS"], insert, jnp.full(size, -1, jnp.int32)),)
  return run, (random().integers(0, 1 << 30, N["TABLE_KEYS"], dtype=I32),)


@program("graph search", c=version("breadth_first", (I32, (N["SEARCH_NODES"],))), tolerance=0)
def breadth_first():
  nodes = N["SEARCH_NODES"]

  def run(first, neighbours):
    def visit(state):
      distance, queue, head, tail = state
      u = queue[head]

      def edge(e, state):
        distance, queue, tail = state
        v = neighbours[e]
        new = distance[v] < 0
        queue = queue.at[tail].set(jnp.where(new, v, queue[tail]))
        return distance.at[v].set(jnp.where(new, distance[u] + 1, distance[v])), queue, tail + new
      distance, queue, tail = lax.fori_loop(first[u], first[u + 1], edge, (distance, queue, tail))
      return distance, queue, head + 1, tail
    start = jnp.full(nodes, -1, jnp.int32).at[0].set(0), jnp.zeros(nodes, jnp.int32), jnp.int32(0), jnp.int32(1)
    return (lax.while_loop(lambda s: s[2] < s[3], visit, start)[0],)
  r = random()
  first = np.concatenate([[0], np.cumsum(r.integers(1, 9, nodes))]).astype(I32)
  return run, (first, r.integers(0, nodes, first[-1], dtype=I32))

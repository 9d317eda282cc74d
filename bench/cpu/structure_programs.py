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

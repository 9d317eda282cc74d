"""Sums, extremes and counts over places, in loops and at once."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import numbers, spelling

CELLS = 20000


@spelling("integral", tolerance=1e-4)
def at_once():
  def f(a, b):
    x = a + (b - a) * (jnp.arange(CELLS) + 0.5) / CELLS
    return jnp.sum(jnp.exp(-x * x) * jnp.sin(3 * x)) * (b - a) / CELLS
  return f, (np.float32(0), np.float32(2))


@spelling("integral", tolerance=1e-4)
def fori_sum():
  def f(a, b):
    h = (b - a) / CELLS

    def step(i, s):
      x = a + h * (i + 0.5)
      return s + jnp.exp(-x * x) * jnp.sin(3 * x)
    return h * lax.fori_loop(0, CELLS, step, jnp.float32(0))
  return f, (np.float32(0), np.float32(2))


@spelling("integral", tolerance=1e-4)
def scan_of_places():
  def f(a, b):
    h = (b - a) / CELLS

    def step(s, x):
      return s + h * jnp.exp(-x * x) * jnp.sin(3 * x), None
    return lax.scan(step, jnp.float32(0), a + h * (jnp.arange(CELLS) + 0.5))[0]
  return f, (np.float32(0), np.float32(2))


@spelling("integral", tolerance=1e-4)
def while_place_carried():
  def f(a, b):
    h = (b - a) / CELLS

    def step(state):
      i, s = state
      x = a + h * (i.astype(jnp.float32) + 0.5)
      return i + 1, s + jnp.exp(-x * x) * jnp.sin(3 * x)
    return h * lax.while_loop(lambda s: s[0] < CELLS, step, (0, jnp.float32(0)))[1]
  return f, (np.float32(0), np.float32(2))


# The place nearest to a point, and how far.

PLACES = 8000


def places():
  return np.random.default_rng(1).uniform(-1.5, 1.5, (PLACES, 2)).astype(np.float32), np.array([0.3, -0.2], np.float32)


def haversine(p, q):
  dlat, dlon = p[..., 0] - q[0], p[..., 1] - q[1]
  h = jnp.sin(dlat / 2) ** 2 + jnp.cos(p[..., 0]) * jnp.cos(q[0]) * jnp.sin(dlon / 2) ** 2
  return 2 * jnp.arcsin(jnp.sqrt(jnp.minimum(h, 1)))


@spelling("nearest_place", tolerance=1e-5)
def argmin_at_once():
  def f(p, q):
    d = haversine(p, q)
    k = jnp.argmin(d)
    return k.astype(jnp.int32), d[k]
  return f, places()


@spelling("nearest_place", tolerance=1e-5)
def fori_with_cond():
  def f(p, q):
    def step(i, best):
      d = haversine(p[i], q)
      return lax.cond(d < best[1], lambda: (i, d), lambda: best)
    return lax.fori_loop(0, PLACES, step, (0, jnp.float32(jnp.inf)))
  return f, places()


@spelling("nearest_place", tolerance=1e-5)
def scan_with_where():
  def f(p, q):
    def step(best, it):
      i, p = it
      d = haversine(p, q)
      near = d < best[1]
      return (jnp.where(near, i, best[0]), jnp.where(near, d, best[1])), None
    return lax.scan(step, (0, jnp.float32(jnp.inf)), (jnp.arange(PLACES), p))[0]
  return f, places()


@spelling("nearest_place", tolerance=1e-5)
def mapped_then_sorted():
  def f(p, q):
    d = lax.map(lambda p: haversine(p, q), p)
    v, k = lax.top_k(-d, 1)
    return k[0], -v[0]
  return f, places()


# Points inside of a circle, counted: numbers from a hash of the place.

THROWS = 20000


def hashed(i):
  x = i.astype(jnp.uint32) * jnp.uint32(2654435761)
  x = (x ^ (x >> 15)) * jnp.uint32(2246822519)
  x = (x ^ (x >> 13)) * jnp.uint32(3266489917)
  return x ^ (x >> 16)


def inside(i):
  x = (hashed(2 * i) >> 8).astype(jnp.float32) / (1 << 24)
  y = (hashed(2 * i + 1) >> 8).astype(jnp.float32) / (1 << 24)
  return x * x + y * y < 1


@spelling("throws")
def counted_at_once():
  def f(first):
    return jnp.sum(inside(first + jnp.arange(THROWS)).astype(jnp.int32))
  return f, (np.int32(7),)


@spelling("throws")
def fori_counts():
  def f(first):
    return lax.fori_loop(0, THROWS, lambda i, n: n + inside(first + i).astype(jnp.int32), 0)
  return f, (np.int32(7),)


@spelling("throws")
def cond_counts():
  def f(first):
    return lax.fori_loop(0, THROWS, lambda i, n: lax.cond(inside(first + i), lambda n: n + 1, lambda n: n, n), 0)
  return f, (np.int32(7),)


@spelling("throws")
def scan_where():
  def f(first):
    return lax.scan(lambda n, i: (jnp.where(inside(i), n + 1, n), None), 0, first + jnp.arange(THROWS))[0]
  return f, (np.int32(7),)


@spelling("throws")
def while_two_counts():
  def f(first):
    def step(state):
      i, n, out = state
      hit = inside(first + i)
      return i + 1, lax.select(hit, n + 1, n), lax.select(hit, out, out + 1)
    return lax.while_loop(lambda s: s[0] < THROWS, step, (0, 0, 0))[1]
  return f, (np.int32(7),)


# The logarithm of a likelihood, sample by sample, with its gradient.

ROWS = 3000


def data():
  return numbers(ROWS, 4), (numbers(ROWS, seed=2) > 0).astype(np.float32), numbers(4, seed=3)


def loss(w, x, y):
  z = jnp.sum(x * w, -1)
  return jnp.logaddexp(0, z) - y * z


@spelling("likelihood", tolerance=1e-4)
def all_samples():
  def f(x, y, w):
    return jax.value_and_grad(lambda w: jnp.sum(loss(w, x, y)))(w)
  return f, data()


@spelling("likelihood", tolerance=1e-4)
def fori_value_and_grad():
  def f(x, y, w):
    def step(i, state):
      v, g = jax.value_and_grad(loss)(w, x[i], y[i])
      return state[0] + v, state[1] + g
    return lax.fori_loop(0, ROWS, step, (jnp.float32(0), jnp.zeros(4)))
  return f, data()


@spelling("likelihood", tolerance=1e-4)
def scan_by_hand():
  def f(x, y, w):
    def step(state, it):
      x, y = it
      z = jnp.dot(x, w)
      p = jax.nn.sigmoid(z)
      return (state[0] + jnp.logaddexp(0, z) - y * z, state[1] + (p - y) * x), None
    return lax.scan(step, (jnp.float32(0), jnp.zeros(4)), (x, y))[0]
  return f, data()


@spelling("likelihood", tolerance=1e-4)
def mapped_then_summed():
  def f(x, y, w):
    v, g = lax.map(lambda it: jax.value_and_grad(loss)(w, it[0], it[1]), (x, y))
    return v.sum(), g.sum(0)
  return f, data()


@spelling("likelihood", tolerance=1e-4)
def gradient_of_scan():
  def f(x, y, w):
    def total(w):
      return lax.scan(lambda s, it: (s + loss(w, *it), None), jnp.float32(0), (x, y))[0]
    return jax.value_and_grad(total)(w)
  return f, data()

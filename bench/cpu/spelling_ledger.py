"""Prices, statistics and learning by hand, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# An American option on a binomial tree, from its end back.

LEAVES = 256


def terms():
  return np.float32(100), np.float32(105)


UP, DOWN, CHANCE, DISCOUNT = np.float32(1.01), np.float32(1 / 1.01), np.float32(0.51), np.float32(0.9999)


@spelling("option", tolerance=1e-4)
def shrinking_rolled():
  def f(s, k):
    i = jnp.arange(LEAVES + 1)
    price = s * UP**i.astype(jnp.float32) * DOWN**(LEAVES - i).astype(jnp.float32)
    v = jnp.maximum(k - price, 0)
    def back(_, c):
      v, price = c
      price = price * UP
      hold = DISCOUNT * (CHANCE * jnp.roll(v, -1) + (1 - CHANCE) * v)
      return jnp.maximum(hold, k - price), price
    return lax.fori_loop(0, LEAVES, back, (v, price))[0][0]
  return f, terms()


@spelling("option", tolerance=1e-4)
def scanned_slices():
  def f(s, k):
    i = jnp.arange(LEAVES + 1, dtype=jnp.float32)
    v = jnp.maximum(k - s * UP**i * DOWN**(LEAVES - i), 0)
    def back(v, n):
      hold = DISCOUNT * (CHANCE * v[1:] + (1 - CHANCE) * v[:-1])
      now = k - s * UP**i[:-1] * DOWN**(n - i[:-1])
      return jnp.append(jnp.maximum(hold, now), 0), None
    return lax.scan(back, v, jnp.arange(LEAVES - 1, -1, -1, dtype=jnp.float32))[0][0]
  return f, terms()


@spelling("option", tolerance=1e-4)
def nodes_in_place():
  def f(s, k):
    i = jnp.arange(LEAVES + 1, dtype=jnp.float32)
    prices = s * UP**i * DOWN**(LEAVES - i)
    v = jnp.maximum(k - prices, 0)
    def back(t, c):
      n = LEAVES - 1 - t
      def node(j, c):
        v, p = c
        now = p[j] * UP
        hold = DISCOUNT * (CHANCE * v[j + 1] + (1 - CHANCE) * v[j])
        return v.at[j].set(jnp.maximum(hold, k - now)), p.at[j].set(now)
      return lax.fori_loop(0, n + 1, node, c)
    return lax.fori_loop(0, LEAVES, back, (v, prices))[0][0]
  return f, terms()


# Means and variances that run.

TICKS_SEEN = 4000


@spelling("welford", tolerance=1e-4)
def scan_tuple():
  def f(x):
    def add(s, x):
      n, m, q = s
      n = n + 1
      d = x - m
      m = m + d / n
      q = q + d * (x - m)
      return (n, m, q), q / n
    return lax.scan(add, (jnp.float32(0), jnp.float32(0), jnp.float32(0)), x)[1]
  return f, (numbers(TICKS_SEEN),)


@spelling("welford", tolerance=1e-4)
def fori_array_of_three():
  def f(x):
    def add(i, c):
      s, out = c
      n = s[0] + 1
      d = x[i] - s[1]
      m = s[1] + d / n
      q = s[2] + d * (x[i] - m)
      return jnp.array([n, m, q]), out.at[i].set(q / n)
    return lax.fori_loop(0, TICKS_SEEN, add, (jnp.zeros(3), jnp.zeros(TICKS_SEEN)))[1]
  return f, (numbers(TICKS_SEEN),)


@spelling("welford", tolerance=1e-4)
def while_set_elements():
  def f(x):
    def add(c):
      i, s, out = c
      s = s.at[0].add(1)
      d = x[i] - s[1]
      s = s.at[1].add(d / s[0])
      s = s.at[2].add(d * (x[i] - s[1]))
      return i + 1, s, out.at[i].set(s[2] / s[0])
    return lax.while_loop(lambda c: c[0] < TICKS_SEEN, add, (0, jnp.zeros(3), jnp.zeros(TICKS_SEEN)))[2]
  return f, (numbers(TICKS_SEEN),)


# Sums over a window that moves.

WINDOW = 32


@spelling("moving", tolerance=1e-3)
def by_cumsum():
  def f(x):
    s = jnp.concatenate([jnp.zeros(1), jnp.cumsum(x)])
    return (s[WINDOW:] - s[:-WINDOW]) / WINDOW
  return f, (numbers(TICKS_SEEN),)


@spelling("moving", tolerance=1e-3)
def by_convolution():
  return lambda x: jnp.convolve(x, jnp.ones(WINDOW) / WINDOW, mode="valid"), (numbers(TICKS_SEEN),)


@spelling("moving", tolerance=1e-3)
def by_reduce_window():
  return lambda x: lax.reduce_window(x, 0.0, lax.add, (WINDOW,), (1,), "VALID") / WINDOW, (numbers(TICKS_SEEN),)


@spelling("moving", tolerance=1e-3)
def by_gathered_windows():
  def f(x):
    i = jnp.arange(TICKS_SEEN - WINDOW + 1)[:, None] + jnp.arange(WINDOW)
    return x[i].mean(axis=1)
  return f, (numbers(TICKS_SEEN),)


@spelling("moving", tolerance=1e-3)
def by_scan():
  def f(x):
    def step(s, i):
      s = s + x[i + WINDOW] - x[i]
      return s, s / WINDOW
    first = jnp.sum(x[:WINDOW])
    rest = lax.scan(step, first, jnp.arange(TICKS_SEEN - WINDOW))[1]
    return jnp.concatenate([first[None] / WINDOW, rest])
  return f, (numbers(TICKS_SEEN),)


# Trees of decisions, walked by many examples.

CASES, DEEP, ASKS = 600, 8, 12


def forest():
  nodes = 2**DEEP - 1
  return numbers(CASES, ASKS), integers(ASKS, nodes, seed=2), numbers(nodes, seed=3), numbers(nodes + 1, seed=4)


@spelling("decisions")
def all_at_once():
  def f(x, feature, limit, value):
    def level(_, n):
      right = jnp.take_along_axis(x, feature[n][:, None], 1)[:, 0] > limit[n]
      return 2 * n + 1 + right
    n = lax.fori_loop(0, DEEP, level, jnp.zeros(CASES, jnp.int32))
    return value[n - (2**DEEP - 1)]
  return f, forest()


@spelling("decisions")
def vmapped_walk():
  def f(x, feature, limit, value):
    def walk(x):
      n = lax.while_loop(lambda n: n < 2**DEEP - 1, lambda n: 2 * n + 1 + (x[feature[n]] > limit[n]), jnp.int32(0))
      return value[n - (2**DEEP - 1)]
    return jax.vmap(walk)(x)
  return f, forest()


@spelling("decisions")
def mapped_walk():
  def f(x, feature, limit, value):
    def walk(x):
      n = lax.fori_loop(0, DEEP, lambda _, n: 2 * n + jnp.where(x[feature[n]] > limit[n], 2, 1), 0)
      return value[n - (2**DEEP - 1)]
    return lax.map(walk, x)
  return f, forest()


# A mixture of Gaussians learned by expectation and maximization.

DRAWS, GROUPS, CYCLES = 500, 4, 15


def draws():
  x = np.random.default_rng(1).normal(size=(DRAWS, 2)).astype(np.float32)
  return x + 3 * integers(2, DRAWS, 2, seed=2).astype(np.float32), np.array([[0, 0], [3, 0], [0, 3], [3, 3]], np.float32)


@spelling("mixture", tolerance=1e-3)
def broadcast():
  def f(x, m):
    def cycle(_, s):
      m, w = s
      d = jnp.sum((x[:, None] - m[None])**2, -1)
      r = jax.nn.softmax(jnp.log(w) - d / 2, axis=1)
      n = r.sum(0)
      return (r.T @ x) / n[:, None], n / DRAWS
    return lax.fori_loop(0, CYCLES, cycle, (m, jnp.full(GROUPS, 1.0 / GROUPS)))[0]
  return f, draws()


@spelling("mixture", tolerance=1e-3)
def vmapped_points():
  def f(x, m):
    def cycle(s, _):
      m, w = s
      def one(p):
        e = jnp.log(w) - 0.5 * jnp.sum((p - m)**2, axis=1)
        e = jnp.exp(e - e.max())
        return e / e.sum()
      r = jax.vmap(one)(x)
      n = jnp.sum(r, axis=0)
      return (jnp.einsum("ng,nd->gd", r, x) / n[:, None], n / DRAWS), None
    return lax.scan(cycle, (m, jnp.full(GROUPS, 1.0 / GROUPS)), None, length=CYCLES)[0][0]
  return f, draws()


@spelling("mixture", tolerance=1e-3)
def point_by_point():
  def f(x, m):
    def cycle(_, s):
      m, w = s
      def one(i, t):
        sums, n = t
        e = jnp.log(w) - 0.5 * jnp.sum((x[i] - m)**2, axis=1)
        r = jax.nn.softmax(e)
        return sums + r[:, None] * x[i], n + r
      sums, n = lax.fori_loop(0, DRAWS, one, (jnp.zeros((GROUPS, 2)), jnp.zeros(GROUPS)))
      return sums / n[:, None], n / DRAWS
    return lax.fori_loop(0, CYCLES, cycle, (m, jnp.full(GROUPS, 1.0 / GROUPS)))[0]
  return f, draws()


# A long short-term memory, written out.

SEQUENCE, CELLS = 200, 16


def memory():
  return numbers(SEQUENCE, CELLS), 0.3 * numbers(4 * CELLS, CELLS, seed=2), 0.3 * numbers(4 * CELLS, CELLS, seed=3)


@spelling("lstm", tolerance=1e-4)
def one_product_split():
  def f(x, w, u):
    def step(s, x):
      h, c = s
      i, g, o, k = jnp.split(w @ x + u @ h, 4)
      c = jax.nn.sigmoid(g) * c + jax.nn.sigmoid(i) * jnp.tanh(k)
      h = jax.nn.sigmoid(o) * jnp.tanh(c)
      return (h, c), h
    return lax.scan(step, (jnp.zeros(CELLS), jnp.zeros(CELLS)), x)[1]
  return f, memory()


@spelling("lstm", tolerance=1e-4)
def four_products():
  def f(x, w, u):
    w, u = w.reshape(4, CELLS, CELLS), u.reshape(4, CELLS, CELLS)
    def step(t, s):
      h, c, out = s
      i, g, o, k = [w[n] @ x[t] + u[n] @ h for n in range(4)]
      c = jax.nn.sigmoid(g) * c + jax.nn.sigmoid(i) * jnp.tanh(k)
      h = jax.nn.sigmoid(o) * jnp.tanh(c)
      return h, c, out.at[t].set(h)
    z = jnp.zeros(CELLS)
    return lax.fori_loop(0, SEQUENCE, step, (z, z, jnp.zeros((SEQUENCE, CELLS))))[2]
  return f, memory()


@spelling("lstm", tolerance=1e-4)
def stacked_state():
  def f(x, w, u):
    m = jnp.concatenate([w, u], axis=1)
    def step(s, x):
      z = m @ jnp.concatenate([x, s[0]])
      gates = jax.nn.sigmoid(z[:3 * CELLS].reshape(3, CELLS))
      c = gates[1] * s[1] + gates[0] * jnp.tanh(z[3 * CELLS:])
      s = jnp.stack([gates[2] * jnp.tanh(c), c])
      return s, s[0]
    return lax.scan(step, jnp.zeros((2, CELLS)), x)[1]
  return f, memory()


# Roots of a polynomial all at once (Durand and Kerner).

DEGREE, TURNS = 12, 60


def coefficients():
  return (np.concatenate([[1], numbers(DEGREE)]).astype(np.float32),)


@spelling("roots", tolerance=1e-2)
def outer_differences():
  def f(c):
    z = (0.4 + 0.9j)**jnp.arange(DEGREE)
    def turn(_, z):
      d = z[:, None] - z[None] + jnp.eye(DEGREE)
      return z - jnp.polyval(c, z) / jnp.prod(d, axis=1)
    z = lax.fori_loop(0, TURNS, turn, z.astype(jnp.complex64))
    return jnp.sort(jnp.abs(z))
  return f, coefficients()


@spelling("roots", tolerance=1e-2)
def vmapped_product():
  def f(c):
    z = (0.4 + 0.9j)**jnp.arange(DEGREE)
    i = jnp.arange(DEGREE)
    def turn(z, _):
      def one(k):
        value = lax.fori_loop(0, DEGREE + 1, lambda n, v: v * z[k] + c[n], 0j)
        return z[k] - value / jnp.prod(jnp.where(i == k, 1, z[k] - z))
      return jax.vmap(one)(i), None
    z, _ = lax.scan(turn, z.astype(jnp.complex64), None, length=TURNS)
    return jnp.sort(jnp.abs(z))
  return f, coefficients()


# Least squares by gradients over small batches, one after the other.

LINES, WIDTH, BATCH = 1024, 8, 16


def lines():
  x = numbers(LINES, WIDTH)
  return x, x @ numbers(WIDTH, seed=2) + 0.1 * numbers(LINES, seed=3)


@spelling("sgd", tolerance=1e-4)
def grad_of_slices():
  def f(x, y):
    loss = lambda w, x, y: jnp.mean((x @ w - y)**2)
    def step(k, w):
      xs = lax.dynamic_slice_in_dim(x, k * BATCH, BATCH)
      ys = lax.dynamic_slice_in_dim(y, k * BATCH, BATCH)
      return w - 0.05 * jax.grad(loss)(w, xs, ys)
    return lax.fori_loop(0, LINES // BATCH, step, jnp.zeros(WIDTH))
  return f, lines()


@spelling("sgd", tolerance=1e-4)
def scanned_batches():
  def f(x, y):
    def step(w, b):
      x, y = b
      return w - 0.05 * 2 / BATCH * (x.T @ (x @ w - y)), None
    return lax.scan(step, jnp.zeros(WIDTH), (x.reshape(-1, BATCH, WIDTH), y.reshape(-1, BATCH)))[0]
  return f, lines()


@spelling("sgd", tolerance=1e-4)
def gathered_batches():
  def f(x, y):
    def step(k, w):
      i = k * BATCH + jnp.arange(BATCH)
      error = jnp.sum(x[i] * w, axis=1) - y[i]
      return w - 0.05 * 2 / BATCH * jnp.sum(error[:, None] * x[i], axis=0)
    return lax.fori_loop(0, LINES // BATCH, step, jnp.zeros(WIDTH))
  return f, lines()


@spelling("sgd", tolerance=1e-4)
def example_by_example():
  def f(x, y):
    def step(k, w):
      def add(n, g):
        i = k * BATCH + n
        return g + (jnp.dot(x[i], w) - y[i]) * x[i]
      return w - 0.05 * 2 / BATCH * lax.fori_loop(0, BATCH, add, jnp.zeros(WIDTH))
    return lax.fori_loop(0, LINES // BATCH, step, jnp.zeros(WIDTH))
  return f, lines()


# Points drawn in a circle, counted: keys folded in, split or drawn at once.

DARTS = 4000


@spelling("darts")
def all_drawn():
  def f(key):
    p = jax.random.uniform(jax.random.wrap_key_data(key), (DARTS, 2))
    return jnp.sum(jnp.sum(p * p, 1) < 1)
  return f, (np.array([1, 2], np.uint32),)


@spelling("darts_one_by_one")
def folded_in():
  def f(key):
    key = jax.random.wrap_key_data(key)
    def throw(i, n):
      p = jax.random.uniform(jax.random.fold_in(key, i), (2,))
      return n + (p[0]**2 + p[1]**2 < 1)
    return lax.fori_loop(0, DARTS, throw, 0)
  return f, (np.array([1, 2], np.uint32),)


@spelling("darts_one_by_one")
def vmapped_keys():
  def f(key):
    key = jax.random.wrap_key_data(key)
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(DARTS))
    p = jax.vmap(lambda k: jax.random.uniform(k, (2,)))(keys)
    return jnp.sum(p[:, 0]**2 + p[:, 1]**2 < 1)
  return f, (np.array([1, 2], np.uint32),)


@spelling("darts_one_by_one")
def scanned_keys():
  def f(key):
    key = jax.random.wrap_key_data(key)
    def throw(n, i):
      x, y = jax.random.uniform(jax.random.fold_in(key, i), (2,))
      return n + jnp.where(x * x + y * y < 1, 1, 0), None
    return lax.scan(throw, 0, jnp.arange(DARTS))[0]
  return f, (np.array([1, 2], np.uint32),)

"""Loops over small matrices, networks and random fields in three spellings each."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Powers of a matrix applied to a vector, of length one after every eight.

POWERS = 500


def matrix_and_vector():
  return np.random.default_rng(1).uniform(0.05, 0.2, (8, 8)).astype(np.float32), np.ones(8, np.float32)


def normalized(x):
  return x / jnp.max(jnp.abs(x))


@spelling("power_iteration", tolerance=1e-4)
def nested_products():
  def f(a, x):
    return lax.fori_loop(0, POWERS, lambda _, x: normalized(lax.fori_loop(0, 8, lambda _, x: a @ x, x)), x)
  return f, matrix_and_vector()


@spelling("power_iteration", tolerance=1e-4)
def sums_of_products():
  def f(a, x):
    def outer(x, _):
      for _ in range(8):
        x = jnp.sum(a * x[None, :], axis=1)
      return normalized(x), None
    return lax.scan(outer, x, None, length=POWERS)[0]
  return f, matrix_and_vector()


@spelling("power_iteration", tolerance=1e-4)
def einsum():
  def f(a, x):
    def step(k, x):
      x = jnp.einsum("ij,j->i", a, x)
      return jnp.where(k % 8 == 7, normalized(x), x)
    return lax.fori_loop(0, 8 * POWERS, step, x)
  return f, matrix_and_vector()


@spelling("power_iteration", tolerance=1e-4)
def column_of_matrix():
  def f(a, x):
    def outer(_, x):
      return normalized(lax.fori_loop(0, 8, lambda _, x: jnp.dot(a, x), x))
    return lax.fori_loop(0, POWERS, outer, x[:, None])[:, 0]
  return f, matrix_and_vector()


# A chain of products of 4 x 4 matrices.

CHAIN = 4000


def rotations():
  return (np.linalg.qr(numbers(CHAIN, 4, 4))[0],)


@spelling("chain", tolerance=1e-3)
def scan_product():
  return lambda m: lax.scan(lambda a, b: (a @ b, None), jnp.eye(4), m)[0], rotations()


@spelling("chain", tolerance=1e-3)
def fori_index():
  return lambda m: lax.fori_loop(0, CHAIN, lambda i, a: a @ m[i], jnp.eye(4)), rotations()


@spelling("chain", tolerance=1e-3)
def broadcast_sums():
  def f(m):
    return lax.scan(lambda a, b: (jnp.sum(a[:, :, None] * b[None], axis=1), None), jnp.eye(4), m)[0]
  return f, rotations()


@spelling("chain", tolerance=1e-3)
def rows_of_chain():
  def f(m):
    def step(i, a):
      b = lax.dynamic_index_in_dim(m, i, keepdims=False)
      return jnp.stack([a[r] @ b for r in range(4)])
    return lax.fori_loop(0, CHAIN, step, jnp.eye(4))
  return f, rotations()


# A Kalman filter of position and velocity.

SEEN = 2000


def seen():
  return (np.cumsum(0.1 * numbers(SEEN), dtype=np.float32),)


@spelling("kalman", tolerance=1e-4)
def matrices():
  def f(z):
    move, look = jnp.array([[1, 0.1], [0, 0.99]]), jnp.array([[1.0, 0]])
    def step(s, z):
      x, p = s
      x, p = move @ x, move @ p @ move.T + 0.01 * jnp.eye(2)
      gain = p @ look.T / (look @ p @ look.T + 0.5)
      x = x + gain[:, 0] * (z - (look @ x)[0])
      return (x, (jnp.eye(2) - gain @ look) @ p), x
    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), z)[1]
  return f, seen()


@spelling("kalman", tolerance=1e-4)
def by_inverse():
  def f(z):
    move, look = jnp.array([[1, 0.1], [0, 0.99]]), jnp.array([[1.0, 0]])
    def step(i, s):
      x, p, out = s
      x, p = move @ x, move @ p @ move.T + 0.01 * jnp.eye(2)
      gain = p @ look.T @ jnp.linalg.inv(look @ p @ look.T + 0.5 * jnp.eye(1))
      x = x + gain @ (z[i] - look @ x)
      return x, p - gain @ look @ p, out.at[i].set(x)
    return lax.fori_loop(0, SEEN, step, (jnp.zeros(2), jnp.eye(2), jnp.zeros((SEEN, 2))))[2]
  return f, seen()


@spelling("kalman", tolerance=1e-4)
def scalars():
  def f(z):
    def step(s, z):
      x, v, a, b, c = s
      x, v = x + 0.1 * v, 0.99 * v
      a, b, c = a + 0.2 * b + 0.01 * c + 0.01, 0.99 * (b + 0.1 * c), 0.99 * 0.99 * c + 0.01
      g, h = a / (a + 0.5), b / (a + 0.5)
      x, v, a, b, c = x + g * (z - x), v + h * (z - x), (1 - g) * a, (1 - g) * b, c - h * b
      return (x, v, a, b, c), jnp.stack([x, v])
    zero, one = jnp.float32(0), jnp.float32(1)
    return lax.scan(step, (zero, zero, one, zero, one), z)[1]
  return f, seen()


# The covariance of recursive least squares.

LEAST = 4000


def rows():
  return (numbers(LEAST, 3),)


@spelling("covariance", tolerance=1e-4)
def outer():
  def step(p, a):
    pa = p @ a
    p = p - jnp.outer(pa, pa) / (1 + a @ pa) + 0.01 * jnp.eye(3)
    return p, jnp.trace(p)
  return lambda a: lax.scan(step, jnp.eye(3), a)[1], rows()


@spelling("covariance", tolerance=1e-4)
def broadcast():
  def f(a):
    def step(i, s):
      p, out = s
      pa = jnp.sum(p * a[i], axis=1)
      p = p - pa[:, None] * pa[None, :] / (1 + jnp.sum(a[i] * pa)) + 0.01 * jnp.eye(3)
      return p, out.at[i].set(p[0, 0] + p[1, 1] + p[2, 2])
    return lax.fori_loop(0, LEAST, step, (jnp.eye(3), jnp.zeros(LEAST)))[1]
  return f, rows()


@spelling("covariance", tolerance=1e-4)
def einsums():
  def step(p, a):
    pa = jnp.einsum("ij,j->i", p, a)
    p = p - jnp.einsum("i,j->ij", pa, pa) / (1 + jnp.einsum("i,i->", a, pa))
    p = p.at[jnp.arange(3), jnp.arange(3)].add(0.01)
    return p, jnp.einsum("ii->", p)
  return lambda a: lax.scan(step, jnp.eye(3), a)[1], rows()


# Solving 3 x 3 systems one after the other.


@spelling("inverse_3x3", tolerance=1e-2)
def cofactors():
  def step(x, m):
    c = jnp.stack([jnp.cross(m[1], m[2]), jnp.cross(m[2], m[0]), jnp.cross(m[0], m[1])], axis=1)
    return normalized(c @ x / jnp.dot(m[0], c[:, 0])), None
  return lambda m: lax.scan(step, jnp.array([1.0, 0, 0]), m)[0], systems()


@spelling("inverse_3x3", tolerance=1e-2)
def linalg_inv():
  return lambda m: lax.scan(lambda x, m: (normalized(jnp.linalg.inv(m) @ x), None), jnp.array([1.0, 0, 0]), m)[0], systems()


@spelling("inverse_3x3", tolerance=1e-2)
def linalg_solve():
  def f(m):
    return lax.fori_loop(0, m.shape[0], lambda i, x: normalized(jnp.linalg.solve(m[i], x)), jnp.array([1.0, 0, 0]))
  return f, systems()


def systems():
  return (np.linalg.qr(numbers(1000, 3, 3))[0] + 0.05 * numbers(1000, 3, 3, seed=2),)


# A gated recurrent unit, forward and its gradient.

UNITS, WORDS = 16, 300


def weights():
  return (0.3 * numbers(UNITS, 3 * UNITS), 0.3 * numbers(UNITS, 3 * UNITS, seed=2), numbers(WORDS, UNITS, seed=3))


def gated(h, x, u):
  state = h @ u
  reset = jax.nn.sigmoid(x[:UNITS] + state[:UNITS])
  update = jax.nn.sigmoid(x[UNITS:2 * UNITS] + state[UNITS:2 * UNITS])
  return (1 - update) * jnp.tanh(x[2 * UNITS:] + reset * state[2 * UNITS:]) + update * h


def gru_scan(w, u, xs):
  return lax.scan(lambda h, x: (gated(h, x @ w, u),) * 2, jnp.zeros(UNITS), xs)[1]


def gru_before(w, u, xs):
  return lax.scan(lambda h, x: (gated(h, x, u),) * 2, jnp.zeros(UNITS), xs @ w)[1]


def gru_three(w, u, xs):
  wr, wz, wn = jnp.split(w, 3, axis=1)
  ur, uz, un = jnp.split(u, 3, axis=1)
  def step(h, x):
    r, z = jax.nn.sigmoid(x @ wr + h @ ur), jax.nn.sigmoid(x @ wz + h @ uz)
    h = (1 - z) * jnp.tanh(x @ wn + r * (h @ un)) + z * h
    return h, h
  return lax.scan(step, jnp.zeros(UNITS), xs)[1]


@spelling("gru", tolerance=1e-4)
def inside():
  return gru_scan, weights()


@spelling("gru", tolerance=1e-4)
def inputs_before():
  return gru_before, weights()


@spelling("gru", tolerance=1e-4)
def three_matrices():
  return gru_three, weights()


def slope_of(forward):
  return jax.grad(lambda w, u, xs: jnp.mean(forward(w, u, xs) ** 2), argnums=(0, 1))


@spelling("gru_gradient", tolerance=1e-4)
def inside_slope():
  return slope_of(gru_scan), weights()


@spelling("gru_gradient", tolerance=1e-4)
def before_slope():
  return slope_of(gru_before), weights()


@spelling("gru_gradient", tolerance=1e-4)
def three_slope():
  return slope_of(gru_three), weights()


# Spins on a torus, red and black in turn.

SPINS, ROUNDS = 64, 20


def spins():
  return 2 * integers(2, SPINS, SPINS) - 1, np.random.default_rng(2).uniform(size=(ROUNDS, 2, SPINS, SPINS)).astype(np.float32)


COLORS = (np.add.outer(np.arange(SPINS), np.arange(SPINS)) % 2).astype(bool)
CHANCES = np.minimum(1, np.exp(-0.88 * np.arange(-4, 5))).astype(np.float32)


@spelling("ising")
def rolled_table():
  def sweep(s, u):
    for color in (0, 1):
      near = sum(jnp.roll(s, shift, axis) for shift in (-1, 1) for axis in (0, 1))
      s = jnp.where((u[color] < jnp.asarray(CHANCES)[s * near + 4]) & (COLORS == bool(color)), -s, s)
    return s, None
  return lambda s, u: lax.scan(sweep, s, u)[0], spins()


@spelling("ising")
def padded_selects():
  def sweep(i, state):
    s, u = state
    for color in (0, 1):
      p = jnp.pad(s, 1, mode="wrap")
      cost = s * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
      chance = jnp.select([cost <= 0, cost == 2], [jnp.float32(1), CHANCES[6]], CHANCES[8])
      s = s * jnp.where((u[i, color] < chance) & (COLORS == bool(color)), -1, 1)
    return s, u
  return lambda s, u: lax.fori_loop(0, ROUNDS, sweep, (s, u))[0], spins()


@spelling("ising")
def loop_of_colors():
  def f(s, u):
    def half(k, s):
      mask = (lax.broadcasted_iota(jnp.int32, s.shape, 0) + lax.broadcasted_iota(jnp.int32, s.shape, 1)) % 2 == k % 2
      near = sum(jnp.roll(s, shift, axis) for shift in (-1, 1) for axis in (0, 1))
      return jnp.where(mask & (u[k // 2, k % 2] < jnp.asarray(CHANCES)[s * near + 4]), -s, s)
    return lax.fori_loop(0, 2 * ROUNDS, half, s)
  return f, spins()


# The cheapest order of a product of matrices.

MATRICES = 48


def sizes():
  return (integers(29, MATRICES + 1) + 1,)


@spelling("matrix_chain")
def three_loops():
  def f(d):
    def by_length(length, cost):
      def by_start(i, cost):
        j = i + length - 1
        cut = lambda k, best: jnp.minimum(best, cost[i, k] + cost[k + 1, j] + d[i] * d[k + 1] * d[j + 1])
        return cost.at[i, j].set(lax.fori_loop(i, j, cut, jnp.int32(2**31 - 1)))
      return lax.fori_loop(0, MATRICES - length + 1, by_start, cost)
    return lax.fori_loop(2, MATRICES + 1, by_length, jnp.zeros((MATRICES, MATRICES), jnp.int32))
  return f, sizes()


@spelling("matrix_chain")
def while_cuts():
  def f(d):
    def by_length(cost, length):
      def by_start(s):
        i, cost = s
        j = i + length - 1
        def cut(s):
          k, best = s
          here = cost[i, k] + cost[k + 1, j] + d[i] * d[k + 1] * d[j + 1]
          return k + 1, lax.select(here < best, here, best)
        best = lax.while_loop(lambda s: s[0] < j, cut, (i, jnp.int32(2**31 - 1)))[1]
        return i + 1, lax.dynamic_update_slice(cost, best[None, None], (i, j))
      return lax.while_loop(lambda s: s[0] + length <= MATRICES, by_start, (0, cost))[1], None
    return lax.scan(by_length, jnp.zeros((MATRICES, MATRICES), jnp.int32), jnp.arange(2, MATRICES + 1))[0]
  return f, sizes()


@spelling("matrix_chain")
def masked_rows_of_cuts():
  def f(d):
    k = jnp.arange(MATRICES)
    def cell(t, cost):
      length, i = t // MATRICES + 2, t % MATRICES
      j = jnp.minimum(i + length - 1, MATRICES - 1)
      all_cuts = jnp.where((k >= i) & (k < j), cost[i] + jnp.roll(cost[:, j], -1) + d[i] * d[1:] * d[j + 1], 2**31 - 1)
      inside = i + length <= MATRICES
      return cost.at[i, j].set(jnp.where(inside, jnp.min(all_cuts), cost[i, j]))
    return lax.fori_loop(0, (MATRICES - 1) * MATRICES, cell, jnp.zeros((MATRICES, MATRICES), jnp.int32))
  return f, sizes()

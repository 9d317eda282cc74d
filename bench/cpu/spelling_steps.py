"""Loops over numbers, small vectors and small matrices in three spellings each, as in spelling_programs.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Lorenz' system by Runge and Kutta.

STEPS, DT = 2000, 0.01


def slope(x, y, z):
  return 10 * (y - x), x * (14 - z) - y, x * y - 8 / 3 * z


@spelling("lorenz", tolerance=1e-2)
def scalars():
  def f(x, y, z):
    def step(_, s):
      k1 = slope(*s)
      k2 = slope(*(a + DT / 2 * k for a, k in zip(s, k1)))
      return tuple(a + DT * k for a, k in zip(s, k2))
    return lax.fori_loop(0, STEPS, step, (x, y, z))
  return f, (np.float32(1), np.float32(1), np.float32(1))


@spelling("lorenz", tolerance=1e-2)
def stacked_vector():
  def f(x, y, z):
    def step(_, s):
      k1 = jnp.stack(slope(*s))
      return s + DT * jnp.stack(slope(*(s + DT / 2 * k1)))
    s = lax.fori_loop(0, STEPS, step, jnp.stack([x, y, z]))
    return s[0], s[1], s[2]
  return f, (np.float32(1), np.float32(1), np.float32(1))


@spelling("lorenz", tolerance=1e-2)
def array_at_set():
  def f(x, y, z):
    def slopes(s):
      a, b, c = slope(s[0], s[1], s[2])
      return jnp.zeros(3).at[0].set(a).at[1].set(b).at[2].set(c)
    def step(s, _):
      return s + DT * slopes(s + DT / 2 * slopes(s)), None
    s = lax.scan(step, jnp.array([x, y, z]), length=STEPS)[0]
    return s[0], s[1], s[2]
  return f, (np.float32(1), np.float32(1), np.float32(1))


# A turning frame: quaternions.


def turn():
  return np.array([0.999, 0.02, 0.03, 0.01], np.float32), np.array([1, 0, 0, 0], np.float32)


@spelling("quaternion", tolerance=1e-3)
def components():
  def f(p, q):
    def step(_, q):
      a, b, c, d = q
      q = (p[0] * a - p[1] * b - p[2] * c - p[3] * d, p[0] * b + p[1] * a + p[2] * d - p[3] * c,
           p[0] * c - p[1] * d + p[2] * a + p[3] * b, p[0] * d + p[1] * c - p[2] * b + p[3] * a)
      n = lax.rsqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
      return tuple(x * n for x in q)
    return jnp.stack(lax.fori_loop(0, STEPS, step, tuple(q)))
  return f, turn()


@spelling("quaternion", tolerance=1e-3)
def left_matrix():
  def f(p, q):
    m = jnp.array([[p[0], -p[1], -p[2], -p[3]], [p[1], p[0], -p[3], p[2]], [p[2], p[3], p[0], -p[1]], [p[3], -p[2], p[1], p[0]]])
    def step(_, q):
      q = m @ q
      return q / jnp.linalg.norm(q)
    return lax.fori_loop(0, STEPS, step, q)
  return f, turn()


@spelling("quaternion", tolerance=1e-3)
def gathered_signs():
  def f(p, q):
    at = jnp.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
    signs = jnp.array([[1, -1, -1, -1], [1, 1, -1, 1], [1, 1, 1, -1], [1, -1, 1, 1]], jnp.float32)
    def step(q, _):
      q = jnp.sum(signs * p[at] * q[None, :], axis=1)
      return q / jnp.sqrt(jnp.sum(q * q)), None
    return lax.scan(step, q, length=STEPS)[0]
  return f, turn()


# Bodies that attract each other.

BODIES, MOVES = 24, 100


def bodies():
  return numbers(BODIES, 3), numbers(BODIES, 3, seed=2) * 0.01


@spelling("bodies", tolerance=1e-3)
def broadcast_pairs():
  def f(x, v):
    def step(_, s):
      x, v = s
      d = x[None] - x[:, None]
      a = jnp.sum(d / ((d * d).sum(-1) + 0.1)[..., None] ** 1.5, axis=1)
      return x + 1e-3 * v, v + 1e-3 * a
    return lax.fori_loop(0, MOVES, step, (x, v))
  return f, bodies()


@spelling("bodies", tolerance=1e-3)
def vmapped_pairs():
  def f(x, v):
    def pull(a, b):
      d = b - a
      r = d @ d + 0.1
      return d / (r * jnp.sqrt(r))
    def step(s, _):
      x, v = s
      a = jax.vmap(lambda a: jax.vmap(lambda b: pull(a, b))(x).sum(0))(x)
      return (x + 1e-3 * v, v + 1e-3 * a), None
    return lax.scan(step, (x, v), length=MOVES)[0]
  return f, bodies()


@spelling("bodies", tolerance=1e-3)
def body_by_body():
  def f(x, v):
    def step(_, s):
      x, v = s
      def one(i, a):
        d = x - x[i]
        r = jnp.sum(d * d, axis=1) + 0.1
        return a.at[i].set(jnp.sum(d / (r * jnp.sqrt(r))[:, None], axis=0))
      return x + 1e-3 * v, v + 1e-3 * lax.fori_loop(0, BODIES, one, jnp.zeros_like(x))
    return lax.fori_loop(0, MOVES, step, (x, v))
  return f, bodies()


# The forward algorithm of a hidden Markov model.

STATES, SEEN = 16, 1000


def model():
  a, b = np.abs(numbers(STATES, STATES)), np.abs(numbers(8, STATES, seed=2))
  return a / a.sum(1, keepdims=True), b / b.sum(0, keepdims=True), integers(8, SEEN)


@spelling("markov", tolerance=1e-3)
def scan_vector():
  def f(a, b, seen):
    def step(p, o):
      p = (p @ a) * b[o]
      return p / p.sum(), jnp.log(p.sum())
    return lax.scan(step, jnp.full(STATES, 1 / STATES), seen)[1].sum()
  return f, model()


@spelling("markov", tolerance=1e-3)
def fori_sum():
  def f(a, b, seen):
    def step(i, s):
      p, total = s
      p = jnp.sum(p[:, None] * a, axis=0) * lax.dynamic_index_in_dim(b, seen[i], keepdims=False)
      n = jnp.sum(p)
      return p / n, total + jnp.log(n)
    return lax.fori_loop(0, SEEN, step, (jnp.full(STATES, 1 / STATES), 0.0))[1]
  return f, model()


@spelling("markov", tolerance=1e-3)
def rows_of_table():
  def f(a, b, seen):
    def step(i, s):
      table, total = s
      p = jnp.einsum("i,ij->j", table[i], a) * jnp.take(b, seen[i], axis=0)
      n = p.sum()
      return table.at[i + 1].set(p / n), total + jnp.log(n)
    return lax.fori_loop(0, SEEN, step, (jnp.full((SEEN + 1, STATES), 1 / STATES), 0.0))[1]
  return f, model()


# Random numbers by hand: xorshift.


@spelling("xorshift", tolerance=0)
def one_number():
  def f(x):
    def step(_, x):
      x ^= x << 13
      x ^= x >> 17
      return x ^ (x << 5)
    return lax.fori_loop(0, 10000, step, x)
  return f, (np.uint32(1),)


@spelling("xorshift", tolerance=0)
def sum_of_outputs():
  def f(x):
    def step(x, _):
      x = x ^ lax.shift_left(x, jnp.uint32(13))
      x = x ^ lax.shift_right_logical(x, jnp.uint32(17))
      x = x ^ lax.shift_left(x, jnp.uint32(5))
      return x, x
    return lax.scan(step, x, length=10000)[1][-1]
  return f, (np.uint32(1),)


@spelling("xorshift", tolerance=0)
def array_of_one():
  def f(x):
    def step(s):
      i, x = s
      y = x[0]
      y = y ^ (y << 13)
      y = y ^ (y >> 17)
      return i + 1, x.at[0].set(y ^ (y << 5))
    return lax.while_loop(lambda s: s[0] < 10000, step, (0, x[None]))[1][0]
  return f, (np.uint32(1),)


# Union-find.

NODES = 2048


def joins():
  return integers(NODES, NODES, seed=1), integers(NODES, NODES, seed=2)


@spelling("union_find", tolerance=0)
def find_while():
  def f(a, b):
    def root(parent, i):
      return lax.while_loop(lambda i: parent[i] != i, lambda i: parent[i], i)
    def join(k, parent):
      x, y = root(parent, a[k]), root(parent, b[k])
      return parent.at[jnp.maximum(x, y)].set(jnp.minimum(x, y))
    return lax.fori_loop(0, NODES, join, jnp.arange(NODES))
  return f, joins()


@spelling("union_find", tolerance=0)
def both_at_once():
  def f(a, b):
    def join(parent, ab):
      def up(xy):
        return parent[xy[0]], parent[xy[1]]
      x, y = lax.while_loop(lambda xy: (parent[xy[0]] != xy[0]) | (parent[xy[1]] != xy[1]), up, (ab[0], ab[1]))
      return lax.dynamic_update_slice(parent, jnp.minimum(x, y)[None], (jnp.maximum(x, y),)), None
    return lax.scan(join, jnp.arange(NODES), (a, b))[0]
  return f, joins()


@spelling("union_find", tolerance=0)
def cond_join():
  def f(a, b):
    def root(parent, i):
      return lax.while_loop(lambda s: s[0] != s[1], lambda s: (s[1], parent[s[1]]), (i, parent[i]))[0]
    def join(k, parent):
      x, y = root(parent, a[k]), root(parent, b[k])
      return lax.cond(x == y, lambda p: p, lambda p: p.at[jnp.maximum(x, y)].set(jnp.minimum(x, y)), parent)
    return lax.fori_loop(0, NODES, join, jnp.arange(NODES))
  return f, joins()


# One of two formulas a step.


@spelling("two_ways", tolerance=1e-4)
def cond_ways():
  def f(xs):
    def step(c, x):
      return lax.cond(x > 0, lambda c: c * 0.9 + x, lambda c: c * 0.5 - x * c, c), None
    return lax.scan(step, 0.0, xs)[0]
  return f, (numbers(8192),)


@spelling("two_ways", tolerance=1e-4)
def where_ways():
  def f(xs):
    def step(i, c):
      return jnp.where(xs[i] > 0, c * 0.9 + xs[i], c * 0.5 - xs[i] * c)
    return lax.fori_loop(0, xs.shape[0], step, 0.0)
  return f, (numbers(8192),)


@spelling("two_ways", tolerance=1e-4)
def switch_ways():
  def f(xs):
    def step(s):
      i, c = s
      x = xs[i]
      return i + 1, lax.switch((x > 0).astype(jnp.int32), [lambda: c * 0.5 - x * c, lambda: c * 0.9 + x])
    return lax.while_loop(lambda s: s[0] < xs.shape[0], step, (0, 0.0))[1]
  return f, (numbers(8192),)


# A wave on a square.

SIDE, TICKS = 64, 50


@spelling("wave", tolerance=1e-4)
def two_fields():
  def f(u, v):
    def step(_, s):
      u, v = s
      a = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u
      v = v + 0.1 * a
      return u + 0.1 * v, v
    return lax.fori_loop(0, TICKS, step, (u, v))
  return f, (numbers(SIDE, SIDE), numbers(SIDE, SIDE, seed=2))


@spelling("wave", tolerance=1e-4)
def one_stack():
  def f(u, v):
    def step(_, s):
      p = jnp.pad(s[0], 1, mode="wrap")
      v = s[1] + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * s[0])
      return s.at[1].set(v).at[0].add(0.1 * v)
    s = lax.fori_loop(0, TICKS, step, jnp.stack([u, v]))
    return s[0], s[1]
  return f, (numbers(SIDE, SIDE), numbers(SIDE, SIDE, seed=2))


@spelling("wave", tolerance=1e-4)
def gathered_rows():
  def f(u, v):
    k = jnp.arange(SIDE)
    up, down = (k + 1) % SIDE, (k - 1) % SIDE
    def step(s, _):
      u, v = s
      v = v + 0.1 * (u[up] + u[down] + u[:, up] + u[:, down] - 4 * u)
      return (u + 0.1 * v, v), None
    return lax.scan(step, (u, v), length=TICKS)[0]
  return f, (numbers(SIDE, SIDE), numbers(SIDE, SIDE, seed=2))

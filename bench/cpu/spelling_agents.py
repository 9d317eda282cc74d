"""Learning and deciding step by step, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# The delta rule: a memory of keys and values, corrected by what it got wrong (linear attention).

TOKENS, KEYS = 256, 32


def tokens():
  k = numbers(TOKENS, KEYS, seed=2)
  k = (k / np.linalg.norm(k, axis=1, keepdims=True)).astype(np.float32)
  return numbers(TOKENS, KEYS), k, numbers(TOKENS, KEYS, seed=3), np.abs(numbers(TOKENS, seed=4)).clip(0, 1)


@spelling("delta_rule", tolerance=1e-4)
def scan_of_memory():
  def f(q, k, v, b):
    def step(m, row):
      q, k, v, b = row
      m = m + b * jnp.outer(v - m @ k, k)
      return m, m @ q
    return lax.scan(step, jnp.zeros((KEYS, KEYS), q.dtype), (q, k, v, b))[1]
  return f, tokens()


@spelling("delta_rule", tolerance=1e-4)
def fori_answers_at_set():
  def f(q, k, v, b):
    def step(i, s):
      m, out = s
      wrong = v[i] - jnp.sum(m * k[i], 1)
      m = m + b[i] * wrong[:, None] * k[i][None, :]
      return m, out.at[i].set(jnp.sum(m * q[i], 1))
    return lax.fori_loop(0, TOKENS, step, (jnp.zeros((KEYS, KEYS), q.dtype), jnp.zeros_like(v)))[1]
  return f, tokens()


@spelling("delta_rule", tolerance=1e-4)
def rows_of_memory_mapped():
  def f(q, k, v, b):
    def of_one(v):
      def step(m, row):
        q, k, v, b = row
        m = m + b * (v - m @ k) * k
        return m, m @ q
      return lax.scan(step, jnp.zeros(KEYS, q.dtype), (q, k, v, b))[1]
    return jax.vmap(of_one, in_axes=1, out_axes=1)(v)
  return f, tokens()


@spelling("delta_rule", tolerance=1e-4)
def matrix_forgets_first():
  def f(q, k, v, b):
    def step(i, s):
      m, out = s
      one = lax.dynamic_slice(k, (i, 0), (1, KEYS))
      m = m @ (jnp.eye(KEYS) - b[i] * one.T @ one) + b[i] * lax.dynamic_slice(v, (i, 0), (1, KEYS)).T @ one
      return m, lax.dynamic_update_slice(out, (m @ q[i])[None], (i, 0))
    return lax.fori_loop(0, TOKENS, step, (jnp.zeros((KEYS, KEYS), q.dtype), jnp.zeros_like(v)))[1]
  return f, tokens()


# Attention with a memory of what was said: a token at a time.

SAID, HEADS, SIZE = 128, 4, 16


def sayings(dtype=np.float32):
  return tuple(numbers(SAID, HEADS, SIZE, seed=s).astype(dtype) for s in (1, 2, 3))


@spelling("said_before", tolerance=1e-4)
def memories_at_set():
  def f(q, k, v):
    def step(s, row):
      i, ks, vs = s
      q, k, v = row
      ks, vs = ks.at[i].set(k), vs.at[i].set(v)
      scores = jnp.einsum("hd,thd->ht", q, ks) / 4
      scores = jnp.where(jnp.arange(SAID) <= i, scores, -jnp.inf)
      return (i + 1, ks, vs), jnp.einsum("ht,thd->hd", jax.nn.softmax(scores), vs)
    return lax.scan(step, (0, jnp.zeros_like(k), jnp.zeros_like(v)), (q, k, v))[1]
  return f, sayings()


@spelling("said_before", tolerance=1e-4)
def memories_by_head():
  def f(q, k, v):
    empty = jnp.zeros((HEADS, SAID, SIZE), q.dtype)
    def step(i, s):
      ks, vs, out = s
      ks = lax.dynamic_update_slice(ks, k[i][:, None], (0, i, 0))
      vs = lax.dynamic_update_slice(vs, v[i][:, None], (0, i, 0))
      scores = jnp.sum(ks * q[i][:, None], -1) / 4
      w = jnp.where(jnp.arange(SAID)[None] <= i, jnp.exp(scores - jnp.max(scores, 1, keepdims=True)), 0)
      answer = jnp.sum(w[:, :, None] * vs, 1) / jnp.sum(w, 1, keepdims=True)
      return ks, vs, out.at[i].set(answer)
    return lax.fori_loop(0, SAID, step, (empty, empty, jnp.zeros_like(v)))[2]
  return f, sayings()


@spelling("said_before", tolerance=1e-4)
def all_rows_masked():
  def f(q, k, v):
    scores = jnp.einsum("shd,thd->hst", q, k) / 4
    scores = jnp.where(jnp.tril(jnp.ones((SAID, SAID), bool)), scores, -jnp.inf)
    return jnp.einsum("hst,thd->shd", jax.nn.softmax(scores), v)
  return f, sayings()


@spelling("said_before", tolerance=1e-4)
def running_maximum_and_sum():
  def f(q, k, v):
    def one(q, i):
      def step(j, s):
        m, total, acc = s
        score = jnp.sum(q * k[j], -1) / 4
        new = jnp.maximum(m, score)
        old, now = jnp.exp(m - new), jnp.exp(score - new)
        keep = j <= i
        acc = jnp.where(keep, acc * old[:, None] + now[:, None] * v[j], acc)
        return jnp.where(keep, new, m), jnp.where(keep, total * old + now, total), acc
      start = jnp.full(HEADS, -1e30), jnp.zeros(HEADS), jnp.zeros((HEADS, SIZE))
      _, total, acc = lax.fori_loop(0, SAID, step, start)
      return acc / total[:, None]
    return jax.vmap(one)(q, jnp.arange(SAID))
  return f, sayings()


@spelling("said_before", tolerance=1e-4)
def mask_added_later():
  def f(q, k, v):
    def step(i, out):
      w = jnp.exp(jnp.einsum("hd,thd->th", q[i], k) / 4) * (jnp.arange(SAID) <= i)[:, None]
      answer = jnp.einsum("th,thd->hd", w, v) / jnp.sum(w, 0)[:, None]
      return lax.dynamic_update_index_in_dim(out, answer, i, 0)
    return lax.fori_loop(0, SAID, step, jnp.zeros_like(v))
  return f, sayings()


# Adam on a line through points: moments of the slope, with their corrections.

POINTS, FEATURES, STEPS = 128, 16, 400


def cloud():
  x = numbers(POINTS, FEATURES)
  return x, (x @ np.arange(FEATURES) / 8 + 0.1 * numbers(POINTS, seed=2)).astype(np.float32)


def slope(x, y, w):
  return x.T @ (x @ w - y) / POINTS


@spelling("adam", tolerance=1e-3)
def three_vectors():
  def f(x, y):
    def step(i, s):
      w, m, v = s
      g = slope(x, y, w)
      m = 0.9 * m + 0.1 * g
      v = 0.999 * v + 0.001 * g * g
      t = (i + 1).astype(jnp.float32)
      return w - 0.01 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v
    zero = jnp.zeros(FEATURES)
    return lax.fori_loop(0, STEPS, step, (zero, zero, zero))[0]
  return f, cloud()


@spelling("adam", tolerance=1e-3)
def powers_carried():
  def f(x, y):
    loss = lambda w: 0.5 * jnp.mean((x @ w - y)**2)
    def step(s, _):
      w, m, v, a, b = s
      g = jax.grad(loss)(w)
      m, v, a, b = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g, a * 0.9, b * 0.999
      return (w - 0.01 * (m / (1 - a)) / (jnp.sqrt(v / (1 - b)) + 1e-8), m, v, a, b), None
    zero = jnp.zeros(FEATURES)
    return lax.scan(step, (zero, zero, zero, jnp.float32(1), jnp.float32(1)), None, length=STEPS)[0][0]
  return f, cloud()


@spelling("adam", tolerance=1e-3)
def state_of_three_rows():
  def f(x, y):
    def step(i, s):
      g = slope(x, y, s[0])
      s = s.at[1].set(0.9 * s[1] + 0.1 * g)
      s = s.at[2].set(0.999 * s[2] + 0.001 * g * g)
      t = (i + 1).astype(jnp.float32)
      return s.at[0].add(-0.01 * (s[1] / (1 - 0.9**t)) / (jnp.sqrt(s[2] / (1 - 0.999**t)) + 1e-8))
    return lax.fori_loop(0, STEPS, step, jnp.zeros((3, FEATURES)))[0]
  return f, cloud()


@spelling("adam", tolerance=1e-3)
def weights_and_bias_while():
  def f(x, y):
    def loss(p):
      return 0.5 * jnp.mean((x[:, 1:] @ p["w"] + x[:, 0] * p["b"] - y)**2)
    def step(s):
      i, p, m, v = s
      g = jax.grad(loss)(p)
      m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
      v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
      t = (i + 1).astype(jnp.float32)
      p = jax.tree.map(lambda p, m, v: p - 0.01 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), p, m, v)
      return i + 1, p, m, v
    zero = {"w": jnp.zeros(FEATURES - 1), "b": jnp.float32(0)}
    p = lax.while_loop(lambda s: s[0] < STEPS, step, (0, zero, zero, zero))[1]
    return jnp.append(p["b"], p["w"])
  return f, cloud()


# The worth of cells in a world of walls, where each step costs, by rounds.

WORLD, ROUNDS = 48, 60


def world():
  return (integers(4, WORLD, WORLD) == 0), np.eye(WORLD, dtype=np.float32)[::-1] * 5


@spelling("cells_worth", tolerance=1e-4)
def moves_padded():
  def f(walls, reward):
    def step(_, v):
      p = jnp.pad(v, 1, mode="edge")
      best = jnp.maximum(jnp.maximum(p[2:, 1:-1], p[:-2, 1:-1]), jnp.maximum(p[1:-1, 2:], p[1:-1, :-2]))
      return jnp.where(walls, -1, reward + 0.9 * best - 0.1)
    return lax.fori_loop(0, ROUNDS, step, jnp.zeros_like(reward))
  return f, world()


@spelling("cells_worth", tolerance=1e-4)
def moves_concatenated():
  def f(walls, reward):
    def step(v, _):
      ways = jnp.stack([jnp.concatenate([v[1:], v[-1:]]), jnp.concatenate([v[:1], v[:-1]]),
                        jnp.concatenate([v[:, 1:], v[:, -1:]], 1), jnp.concatenate([v[:, :1], v[:, :-1]], 1)])
      return jnp.where(walls, -1, reward + 0.9 * jnp.max(ways, 0) - 0.1), None
    return lax.scan(step, jnp.zeros_like(reward), None, length=ROUNDS)[0]
  return f, world()


@spelling("cells_worth", tolerance=1e-4)
def moves_gathered():
  def f(walls, reward):
    at = jnp.arange(WORLD)
    after, before = jnp.minimum(at + 1, WORLD - 1), jnp.maximum(at - 1, 0)
    def step(_, v):
      best = jnp.maximum(jnp.maximum(v[after], v[before]), jnp.maximum(v[:, after], v[:, before]))
      return jnp.where(walls, -1, reward + 0.9 * best - 0.1)
    return lax.fori_loop(0, ROUNDS, step, jnp.zeros_like(reward))
  return f, world()


@spelling("cells_worth", tolerance=1e-4)
def moves_of_a_table():
  def f(walls, reward):
    i, j = jnp.meshgrid(jnp.arange(WORLD), jnp.arange(WORLD), indexing="ij")
    table = jnp.stack([jnp.clip(i + a, 0, WORLD - 1) * WORLD + jnp.clip(j + b, 0, WORLD - 1) for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))], -1)
    table = table.reshape(-1, 4)
    def step(s):
      k, v = s
      best = jnp.max(v[table], 1)
      return k + 1, jnp.where(walls.reshape(-1), -1, reward.reshape(-1) + 0.9 * best - 0.1)
    return lax.while_loop(lambda s: s[0] < ROUNDS, step, (0, jnp.zeros(WORLD * WORLD)))[1].reshape(WORLD, WORLD)
  return f, world()


@spelling("cells_worth", tolerance=1e-4)
def moves_mapped():
  def f(walls, reward):
    at = jnp.arange(WORLD)
    def step(_, v):
      def cell(i, j):
        ways = [v[jnp.clip(i + a, 0, WORLD - 1), jnp.clip(j + b, 0, WORLD - 1)] for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))]
        return lax.select(walls[i, j], jnp.float32(-1), reward[i, j] + 0.9 * jnp.max(jnp.array(ways)) - 0.1)
      return jax.vmap(jax.vmap(cell, (None, 0)), (0, None))(at, at)
    return lax.fori_loop(0, ROUNDS, step, jnp.zeros_like(reward))
  return f, world()


# Advantages of steps, from the last one back, where games end (GAE), of several players.

TIMES, PLAYERS = 500, 32


def games():
  return numbers(TIMES, PLAYERS), numbers(TIMES + 1, PLAYERS, seed=2), integers(20, TIMES, PLAYERS) == 0


@spelling("advantages", tolerance=1e-4)
def scan_reversed():
  def f(r, v, done):
    def step(a, row):
      r, here, after, done = row
      go = 1.0 - done
      a = r + 0.99 * after * go - here + 0.95 * 0.99 * go * a
      return a, a
    return lax.scan(step, jnp.zeros(PLAYERS), (r, v[:-1], v[1:], done), reverse=True)[1]
  return f, games()


@spelling("advantages", tolerance=1e-4)
def fori_backwards_at_set():
  def f(r, v, done):
    def step(k, s):
      a, out = s
      t = TIMES - 1 - k
      a = jnp.where(done[t], r[t] - v[t], r[t] + 0.99 * v[t + 1] - v[t] + 0.95 * 0.99 * a)
      return a, out.at[t].set(a)
    return lax.fori_loop(0, TIMES, step, (jnp.zeros(PLAYERS), jnp.zeros_like(r)))[1]
  return f, games()


@spelling("advantages", tolerance=1e-4)
def player_by_player():
  def f(r, v, done):
    def one(r, v, done):
      delta = jnp.where(done, r - v[:-1], r + 0.99 * v[1:] - v[:-1])
      def step(a, row):
        d, end = row
        a = lax.cond(end, lambda: d, lambda: d + 0.95 * 0.99 * a)
        return a, a
      return lax.scan(step, jnp.float32(0), (delta, done), reverse=True)[1]
    return jax.vmap(one, 1, 1)(r, v, done)
  return f, games()


@spelling("advantages", tolerance=1e-4)
def in_place_while():
  def f(r, v, done):
    keep = jnp.where(done, 0, 0.99)
    delta = r + keep * v[1:] - v[:-1]
    def step(s):
      t, a = s
      return t - 1, a.at[t].add(0.95 * keep[t] * a[t + 1])
    return lax.while_loop(lambda s: s[0] >= 0, step, (TIMES - 2, delta))[1]
  return f, games()


@spelling("advantages", tolerance=1e-4)
def associative_of_pairs():
  def f(r, v, done):
    keep = jnp.where(done, 0, 0.99)
    delta = r + keep * v[1:] - v[:-1]
    def join(a, b):
      return a[0] * b[0], b[1] + b[0] * a[1]
    return lax.associative_scan(join, (0.95 * keep, delta), reverse=True)[1]
  return f, games()

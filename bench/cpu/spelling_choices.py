"""Learning, sampling, pictures and texts by choices at every step, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# A table of values that walks teach (Q-learning).

STATES, ACTIONS, LESSONS = 64, 4, 5000


def lessons():
  return integers(STATES, LESSONS), integers(ACTIONS, LESSONS, seed=2), numbers(LESSONS, seed=3), integers(STATES, LESSONS, seed=4)


@spelling("q_learning", tolerance=1e-4)
def scan_at_add():
  def f(s, a, r, t):
    def step(q, item):
      s, a, r, t = item
      return q.at[s, a].add(0.1 * (r + 0.9 * jnp.max(q[t]) - q[s, a])), None
    return lax.scan(step, jnp.zeros((STATES, ACTIONS)), (s, a, r, t))[0]
  return f, lessons()


@spelling("q_learning", tolerance=1e-4)
def rows_updated():
  def f(s, a, r, t):
    def step(k, q):
      row = lax.dynamic_slice(q, (s[k], 0), (1, ACTIONS))
      best = jnp.max(lax.dynamic_slice(q, (t[k], 0), (1, ACTIONS)))
      row = jnp.where(jnp.arange(ACTIONS) == a[k], row + 0.1 * (r[k] + 0.9 * best - row), row)
      return lax.dynamic_update_slice(q, row, (s[k], 0))
    return lax.fori_loop(0, LESSONS, step, jnp.zeros((STATES, ACTIONS)))
  return f, lessons()


@spelling("q_learning", tolerance=1e-4)
def masks_of_both():
  def f(s, a, r, t):
    rows, columns = jnp.arange(STATES)[:, None], jnp.arange(ACTIONS)[None, :]
    def step(k, q):
      here = (rows == s[k]) & (columns == a[k])
      return jnp.where(here, q + 0.1 * (r[k] + 0.9 * q[t[k]].max() - q), q)
    return lax.fori_loop(0, LESSONS, step, jnp.zeros((STATES, ACTIONS)))
  return f, lessons()


@spelling("q_learning", tolerance=1e-4)
def flat_table():
  def f(s, a, r, t):
    def step(c):
      k, q = c
      place = s[k] * ACTIONS + a[k]
      best = q[t[k] * ACTIONS]
      for n in range(1, ACTIONS):
        best = jnp.maximum(best, q[t[k] * ACTIONS + n])
      old = lax.dynamic_slice(q, (place,), (1,))
      return k + 1, lax.dynamic_update_slice(q, old + 0.1 * (r[k] + 0.9 * best - old), (place,))
    return lax.while_loop(lambda c: c[0] < LESSONS, step, (0, jnp.zeros(STATES * ACTIONS)))[1].reshape(STATES, ACTIONS)
  return f, lessons()


# Particles that follow a signal, drawn anew by their weights.

PARTICLES, SEEN = 256, 100


def followed():
  random = np.random.default_rng(13)
  return np.cumsum(numbers(SEEN) / 4).astype(np.float32), numbers(SEEN, PARTICLES, seed=2), random.random(SEEN).astype(np.float32)


def weights_of(x, y):
  w = jnp.exp(-0.5 * (x - y) ** 2)
  return w / jnp.sum(w)


@spelling("particles", tolerance=1e-3)
def searched_sums():
  def f(y, noise, start):
    def step(x, item):
      y, noise, u = item
      x = x + 0.3 * noise
      sums = jnp.cumsum(weights_of(x, y))
      places = (u + jnp.arange(PARTICLES)) / PARTICLES
      x = x[jnp.minimum(jnp.searchsorted(sums, places), PARTICLES - 1)]
      return x, jnp.mean(x)
    return lax.scan(step, jnp.zeros(PARTICLES), (y, noise, start))[1]
  return f, followed()


@spelling("particles", tolerance=1e-3)
def counted_sums():
  def f(y, noise, start):
    def step(k, s):
      x, means = s
      x = x + 0.3 * noise[k]
      sums = jnp.cumsum(weights_of(x, y[k]))
      places = (start[k] + jnp.arange(PARTICLES)) / PARTICLES
      which = jnp.sum(sums[None, :] < places[:, None], axis=1)
      x = jnp.take(x, which, mode="clip")
      return x, means.at[k].set(jnp.mean(x))
    return lax.fori_loop(0, SEEN, step, (jnp.zeros(PARTICLES), jnp.zeros(SEEN)))[1]
  return f, followed()


@spelling("particles", tolerance=1e-3)
def walked_sums():
  def f(y, noise, start):
    def step(x, item):
      y, noise, u = item
      x = x + 0.3 * noise
      w = weights_of(x, y)
      def draw(k, s):
        j, total, new = s
        place = (u + k) / PARTICLES
        j, total = lax.while_loop(lambda t: (t[1] < place) & (t[0] < PARTICLES - 1), lambda t: (t[0] + 1, t[1] + w[t[0] + 1]), (j, total))
        return j, total, new.at[k].set(x[j])
      x = lax.fori_loop(0, PARTICLES, draw, (0, w[0], jnp.zeros(PARTICLES)))[2]
      return x, jnp.mean(x)
    return lax.scan(step, jnp.zeros(PARTICLES), (y, noise, start))[1]
  return f, followed()


@spelling("particles", tolerance=1e-3)
def both_pointers_move():
  def f(y, noise, start):
    def step(x, item):
      y, noise, u = item
      x = x + 0.3 * noise
      sums = jnp.cumsum(weights_of(x, y))
      def move(s):
        k, j, new = s
        take = (sums[j] >= (u + k) / PARTICLES) | (j == PARTICLES - 1)
        new = new.at[k].set(jnp.where(take, x[j], new[k]))
        return jnp.where(take, k + 1, k), jnp.where(take, j, j + 1), new
      x = lax.while_loop(lambda s: s[0] < PARTICLES, move, (0, 0, jnp.zeros(PARTICLES)))[2]
      return x, jnp.mean(x)
    return lax.scan(step, jnp.zeros(PARTICLES), (y, noise, start))[1]
  return f, followed()


# Attention over blocks of keys with a running maximum.

QUERIES, KEYS, WIDTH, BLOCK = 128, 512, 32, 64


def queries():
  return numbers(QUERIES, WIDTH), numbers(KEYS, WIDTH, seed=2), numbers(KEYS, WIDTH, seed=3)


@spelling("running_softmax", tolerance=1e-4)
def fori_of_blocks():
  def f(q, k, v):
    def block(n, s):
      top, total, out = s
      kb, vb = (lax.dynamic_slice(x, (n * BLOCK, 0), (BLOCK, WIDTH)) for x in (k, v))
      logits = q @ kb.T / WIDTH**0.5
      new = jnp.maximum(top, jnp.max(logits, axis=1))
      p, scale = jnp.exp(logits - new[:, None]), jnp.exp(top - new)
      return new, total * scale + jnp.sum(p, axis=1), out * scale[:, None] + p @ vb
    first = (jnp.full(QUERIES, -jnp.inf), jnp.zeros(QUERIES), jnp.zeros((QUERIES, WIDTH)))
    _, total, out = lax.fori_loop(0, KEYS // BLOCK, block, first)
    return out / total[:, None]
  return f, queries()


@spelling("running_softmax", tolerance=1e-4)
def scan_of_reshaped():
  def f(q, k, v):
    def block(s, kv):
      kb, vb = kv
      logits = jnp.einsum("qd,kd->qk", q, kb) / WIDTH**0.5
      new = jnp.maximum(s[0], logits.max(1, keepdims=True))
      p, scale = jnp.exp(logits - new), jnp.exp(s[0] - new)
      return (new, s[1] * scale + p.sum(1, keepdims=True), s[2] * scale + jnp.einsum("qk,kd->qd", p, vb)), None
    first = (jnp.full((QUERIES, 1), -jnp.inf), jnp.zeros((QUERIES, 1)), jnp.zeros((QUERIES, WIDTH)))
    _, total, out = lax.scan(block, first, (k.reshape(-1, BLOCK, WIDTH), v.reshape(-1, BLOCK, WIDTH)))[0]
    return out / total
  return f, queries()


@spelling("running_softmax", tolerance=1e-4)
def vmapped_queries():
  def f(q, k, v):
    def one(q):
      def block(s, kv):
        top, total, out = s
        logits = kv[0] @ q / WIDTH**0.5
        new = jnp.maximum(top, logits.max())
        p, scale = jnp.exp(logits - new), jnp.exp(top - new)
        return (new, total * scale + p.sum(), out * scale + p @ kv[1]), None
      first = (-jnp.inf, jnp.float32(0), jnp.zeros(WIDTH))
      _, total, out = lax.scan(block, first, (k.reshape(-1, BLOCK, WIDTH), v.reshape(-1, BLOCK, WIDTH)))[0]
      return out / total
    return jax.vmap(one)(q)
  return f, queries()


@spelling("running_softmax", tolerance=1e-4)
def all_keys():
  def f(q, k, v):
    logits = q @ k.T / WIDTH**0.5
    p = jnp.exp(logits - logits.max(1, keepdims=True))
    return (p @ v) / p.sum(1, keepdims=True)
  return f, queries()


# Points in a polygon, by the edges that a ray crosses.

POINTS, EDGES = 4096, 48


def polygon():
  angle = np.linspace(0, 2 * np.pi, EDGES, endpoint=False)
  radius = 1 + 0.4 * np.cos(5 * angle)
  return numbers(POINTS, 2), np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype(np.float32)


def crossed(x, y, a, b):
  spans = (a[1] > y) != (b[1] > y)
  return spans & (x < (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]) + a[0])


@spelling("in_polygon")
def all_pairs():
  def f(p, v):
    w = jnp.roll(v, -1, axis=0)
    hits = crossed(p[:, 0:1], p[:, 1:2], (v[:, 0], v[:, 1]), (w[:, 0], w[:, 1]))
    return jnp.sum(hits, axis=1) % 2 == 1
  return f, polygon()


@spelling("in_polygon")
def scan_of_edges():
  def f(p, v):
    def edge(inside, ab):
      return inside ^ crossed(p[:, 0], p[:, 1], *ab), None
    return lax.scan(edge, jnp.zeros(POINTS, bool), (v, jnp.roll(v, -1, axis=0)))[0]
  return f, polygon()


@spelling("in_polygon")
def vmapped_fori():
  def f(p, v):
    def one(p):
      def edge(k, inside):
        return jnp.where(crossed(p[0], p[1], v[k], v[(k + 1) % EDGES]), ~inside, inside)
      return lax.fori_loop(0, EDGES, edge, False)
    return jax.vmap(one)(p)
  return f, polygon()


@spelling("in_polygon")
def points_at_set():
  def f(p, v):
    def one(i, out):
      def edge(s):
        k, j, inside = s
        return k + 1, k, inside ^ crossed(p[i, 0], p[i, 1], v[j], v[k])
      inside = lax.while_loop(lambda s: s[0] < EDGES, edge, (0, EDGES - 1, False))[2]
      return out.at[i].set(inside)
    return lax.fori_loop(0, POINTS, one, jnp.zeros(POINTS, bool))
  return f, polygon()


# Numbers out of a text of digits and spaces.

TEXT = 16000


def digits():
  random = np.random.default_rng(14)
  text = np.where(random.random(TEXT) < 0.2, 32, random.integers(48, 58, TEXT)).astype(np.uint8)
  return (text,)


@spelling("parse_numbers")
def scan_of_state():
  def f(text):
    def step(s, c):
      value, count = s
      digit = c >= 48
      new = jnp.where(digit, value * 10 + (c - 48).astype(jnp.int32), 0)
      return (new, count + (~digit & (value > 0))), jnp.where(digit, -1, value)
    (value, count), values = lax.scan(step, (0, 0), text)
    return jnp.sum(jnp.where(values > 0, values, 0)) + value, count + (value > 0)
  return f, digits()


@spelling("parse_numbers")
def while_in_while():
  def f(text):
    def number(s):
      k, total, count = s
      k, value = lax.while_loop(lambda t: (t[0] < TEXT) & (text[jnp.minimum(t[0], TEXT - 1)] >= 48),
                                lambda t: (t[0] + 1, t[1] * 10 + (text[t[0]] - 48).astype(jnp.int32)), (k, 0))
      return k + 1, total + jnp.maximum(value, 0), count + (value > 0)
    # Values wrap alike; negative ones are left out.
    _, total, count = lax.while_loop(lambda s: s[0] < TEXT, number, (0, 0, 0))
    return total, count
  return f, digits()


@spelling("parse_numbers")
def fori_with_cond():
  def f(text):
    def step(k, s):
      value, total, count = s
      def digit():
        return value * 10 + (text[k] - 48).astype(jnp.int32), total, count
      def end():
        return 0, total + jnp.maximum(value, 0), count + (value > 0)
      return lax.cond(text[k] >= 48, digit, end)
    value, total, count = lax.fori_loop(0, TEXT, step, (0, 0, 0))
    return total + jnp.maximum(value, 0), count + (value > 0)
  return f, digits()


@spelling("parse_numbers")
def array_of_three():
  def f(text):
    def step(s, c):
      digit = c >= 48
      value = s[0] * 10 + (c.astype(jnp.int32) - 48)
      ended = jnp.stack([0, s[1] + jnp.maximum(s[0], 0), s[2] + (s[0] > 0)])
      return jnp.where(digit, s.at[0].set(value), ended), None
    s = lax.scan(step, jnp.zeros(3, jnp.int32), text)[0]
    return s[1] + jnp.maximum(s[0], 0), s[2] + (s[0] > 0)
  return f, digits()


# Edges of a picture: Sobel's differences, thinned along them.

PICTURE = 160


@spelling("thin_edges", tolerance=1e-4)
def sliced():
  def f(a):
    p = jnp.pad(a, 1)
    dx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2])
    dy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:])
    m = jnp.sqrt(dx * dx + dy * dy)
    q = jnp.pad(m, 1)
    across = (m >= q[1:-1, :-2]) & (m >= q[1:-1, 2:])
    down = (m >= q[:-2, 1:-1]) & (m >= q[2:, 1:-1])
    return jnp.where(jnp.where(jnp.abs(dx) > jnp.abs(dy), across, down), m, 0.0)
  return f, (numbers(PICTURE, PICTURE),)


@spelling("thin_edges", tolerance=1e-4)
def convolved():
  def f(a):
    kernel = jnp.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], jnp.float32)
    def by(k):
      return lax.conv_general_dilated(a[None, None], k[None, None], (1, 1), "SAME")[0, 0]
    dx, dy = by(kernel), by(kernel.T)
    m = jnp.sqrt(dx * dx + dy * dy)
    def shifted(x, n, axis):
      edge = lax.broadcasted_iota(jnp.int32, x.shape, axis) == (0 if n > 0 else PICTURE - 1)
      return jnp.where(edge, 0.0, jnp.roll(x, n, axis))
    across = (m >= shifted(m, 1, 1)) & (m >= shifted(m, -1, 1))
    down = (m >= shifted(m, 1, 0)) & (m >= shifted(m, -1, 0))
    return jnp.where(jnp.where(jnp.abs(dx) > jnp.abs(dy), across, down), m, 0.0)
  return f, (numbers(PICTURE, PICTURE),)


@spelling("thin_edges", tolerance=1e-4)
def pixels_in_loops():
  def f(a):
    p = jnp.pad(a, 1)
    def strengths(i, s):
      def pixel(j, s):
        m, steep = s
        w = lax.dynamic_slice(p, (i, j), (3, 3))
        dx = jnp.sum((w[:, 2] - w[:, 0]) * jnp.array([1.0, 2.0, 1.0]))
        dy = jnp.sum((w[2] - w[0]) * jnp.array([1.0, 2.0, 1.0]))
        return m.at[i + 1, j + 1].set(jnp.sqrt(dx * dx + dy * dy)), steep.at[i, j].set(jnp.abs(dx) > jnp.abs(dy))
      return lax.fori_loop(0, PICTURE, pixel, s)
    m, steep = lax.fori_loop(0, PICTURE, strengths, (jnp.zeros((PICTURE + 2, PICTURE + 2)), jnp.zeros((PICTURE, PICTURE), bool)))
    def thin(i, j):
      here = m[i + 1, j + 1]
      other = jnp.where(steep[i, j], jnp.maximum(m[i + 1, j], m[i + 1, j + 2]), jnp.maximum(m[i, j + 1], m[i + 2, j + 1]))
      return jnp.where(here >= other, here, 0.0)
    n = jnp.arange(PICTURE)
    return jax.vmap(lambda i: jax.vmap(lambda j: thin(i, j))(n))(n)
  return f, (numbers(PICTURE, PICTURE),)


@spelling("thin_edges", tolerance=1e-4)
def stacked_windows():
  def f(a):
    def windows(x):
      p = jnp.pad(x, 1)
      return jnp.stack([p[i:i + PICTURE, j:j + PICTURE] for i in range(3) for j in range(3)], axis=-1)
    w = windows(a)
    dx = w @ jnp.array([-1, 0, 1, -2, 0, 2, -1, 0, 1], jnp.float32)
    dy = w @ jnp.array([-1, -2, -1, 0, 0, 0, 1, 2, 1], jnp.float32)
    m = jnp.sqrt(dx * dx + dy * dy)
    n = windows(m)
    other = jnp.where(jnp.abs(dx) > jnp.abs(dy), jnp.maximum(n[..., 3], n[..., 5]), jnp.maximum(n[..., 1], n[..., 7]))
    return jnp.where(m >= other, m, 0.0)
  return f, (numbers(PICTURE, PICTURE),)


# Who is left of a circle of which every seventh goes.

CIRCLE = 600


@spelling("josephus")
def mask_walked():
  def f(start):
    def leave(k, s):
      left, at = s
      def step(t):
        at, need = t
        at = (at + 1) % CIRCLE
        return at, need - left[at]
      at, _ = lax.while_loop(lambda t: t[1] > 0, step, (at, 7))
      return left.at[at].set(0), at
    left, _ = lax.fori_loop(0, CIRCLE - 1, leave, (jnp.ones(CIRCLE, jnp.int32), start))
    return jnp.argmax(left).astype(jnp.int32)
  return f, (np.int32(CIRCLE - 1),)


@spelling("josephus")
def links_followed():
  def f(start):
    def leave(_, s):
      after, before = s
      before = lax.fori_loop(0, 6, lambda _, b: after[b], before)
      return lax.dynamic_update_slice(after, after[after[before]][None], (before,)), before
    after, before = lax.fori_loop(0, CIRCLE - 1, leave, ((jnp.arange(CIRCLE) + 1) % CIRCLE, start))
    return after[before]
  return f, (np.int32(CIRCLE - 1),)


@spelling("josephus")
def list_shifted():
  def f(start):
    i = jnp.arange(CIRCLE)
    def leave(s):
      people, at, n = s
      at = (at + 6) % n
      return jnp.where(i >= at, jnp.roll(people, -1), people), at, n - 1
    return lax.while_loop(lambda s: s[2] > 1, leave, (i, (start + 1) % CIRCLE, CIRCLE))[0][0]
  return f, (np.int32(CIRCLE - 1),)


@spelling("josephus")
def counted_backwards():
  def f(start):
    place = lax.scan(lambda p, n: ((p + 7) % n, None), jnp.int32(0), jnp.arange(2, CIRCLE + 1))[0]
    return (place + start + 1) % CIRCLE
  return f, (np.int32(CIRCLE - 1),)

"""Layers of networks and small learners, in several spellings each."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import numbers, spelling

# A selective state space (Mamba's scan): h = a(t) h + b(t) x(t), y = c(t) . h.

STEPS = 256
WIDTH = 32
STATE = 8


def selective():
  r = np.random.default_rng(1)
  return (r.normal(size=(STEPS, WIDTH)).astype(np.float32), r.uniform(0.01, 0.2, (STEPS, WIDTH)).astype(np.float32),
          -r.uniform(0.5, 2, (WIDTH, STATE)).astype(np.float32), r.normal(size=(STEPS, STATE)).astype(np.float32),
          r.normal(size=(STEPS, STATE)).astype(np.float32))


@spelling("selective_scan", tolerance=2e-5)
def scan_of_rows():
  def f(x, dt, a, b, c):
    def step(h, t):
      x, dt, b, c = t
      h = jnp.exp(dt[:, None] * a) * h + (dt * x)[:, None] * b
      return h, h @ c
    return lax.scan(step, jnp.zeros((WIDTH, STATE)), (x, dt, b, c))[1]
  return f, selective()


@spelling("selective_scan", tolerance=2e-5)
def decays_first():
  def f(x, dt, a, b, c):
    decay = jnp.exp(dt[:, :, None] * a)
    inputs = (dt * x)[:, :, None] * b[:, None, :]

    def step(h, t):
      h = t[0] * h + t[1]
      return h, (h * t[2]).sum(1)
    return lax.scan(step, jnp.zeros((WIDTH, STATE)), (decay, inputs, c))[1]
  return f, selective()


@spelling("selective_scan", tolerance=2e-5)
def associative():
  def f(x, dt, a, b, c):
    decay = jnp.exp(dt[:, :, None] * a)
    inputs = (dt * x)[:, :, None] * b[:, None, :]
    h = lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (decay, inputs))[1]
    return jnp.einsum("tws,ts->tw", h, c)
  return f, selective()


@spelling("selective_scan", tolerance=2e-5)
def channels_vmapped():
  def f(x, dt, a, b, c):
    def channel(x, dt, a):
      def step(h, t):
        x, dt, b, c = t
        h = jnp.exp(dt * a) * h + dt * x * b
        return h, jnp.dot(h, c)
      return lax.scan(step, jnp.zeros(STATE), (x, dt, b, c))[1]
    return jax.vmap(channel, in_axes=(1, 1, 0), out_axes=1)(x, dt, a)
  return f, selective()


@spelling("selective_scan", tolerance=2e-5)
def fori_writes():
  def f(x, dt, a, b, c):
    def step(t, state):
      h, y = state
      h = jnp.exp(dt[t][:, None] * a) * h + jnp.outer(dt[t] * x[t], b[t])
      return h, y.at[t].set(jnp.sum(h * c[t], axis=1))
    return lax.fori_loop(0, STEPS, step, (jnp.zeros((WIDTH, STATE)), jnp.zeros((STEPS, WIDTH))))[1]
  return f, selective()


# Decoding with a cache of keys and values, one token after the other.

TOKENS = 64
HEADS = 4
SIZE = 16


def decoding():
  return numbers(TOKENS, HEADS, SIZE), numbers(TOKENS, HEADS, SIZE, seed=2), numbers(TOKENS, HEADS, SIZE, seed=3)


@spelling("cached_decoding", tolerance=2e-5)
def scan_updates_cache():
  def f(q, k, v):
    def step(cache, t):
      keys, values, n = cache
      q, k, v = t
      keys = lax.dynamic_update_slice(keys, k[None], (n, 0, 0))
      values = lax.dynamic_update_slice(values, v[None], (n, 0, 0))
      s = jnp.einsum("hd,thd->ht", q, keys) / np.sqrt(SIZE)
      s = jnp.where(jnp.arange(TOKENS) <= n, s, -jnp.inf)
      return (keys, values, n + 1), jnp.einsum("ht,thd->hd", jax.nn.softmax(s), values)
    empty = jnp.zeros((TOKENS, HEADS, SIZE))
    return lax.scan(step, (empty, empty, 0), (q, k, v))[1]
  return f, decoding()


@spelling("cached_decoding", tolerance=2e-5)
def heads_first_at_set():
  def f(q, k, v):
    def step(n, state):
      keys, values, out = state
      keys = keys.at[:, n].set(k[n])
      values = values.at[:, n].set(v[n])
      s = jnp.matmul(keys, q[n][:, :, None])[..., 0] / np.sqrt(SIZE)
      p = jax.nn.softmax(jnp.where(jnp.arange(TOKENS)[None] > n, -1e30, s), axis=-1)
      return keys, values, out.at[n].set(jnp.matmul(p[:, None], values)[:, 0])
    empty = jnp.zeros((HEADS, TOKENS, SIZE))
    return lax.fori_loop(0, TOKENS, step, (empty, empty, jnp.zeros((TOKENS, HEADS, SIZE))))[2]
  return f, decoding()


@spelling("cached_decoding", tolerance=2e-5)
def masked_at_once():
  def f(q, k, v):
    s = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(SIZE)
    s = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), s, -jnp.inf)
    return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(s), v)
  return f, decoding()


@spelling("cached_decoding", tolerance=2e-5)
def running_softmax_over_tokens():
  def f(q, k, v):
    def one(n):
      def step(t, state):
        m, total, out = state
        s = jnp.sum(q[n] * k[t], axis=-1) / np.sqrt(SIZE)
        new = jnp.maximum(m, s)
        old, p = jnp.exp(m - new), jnp.exp(s - new)
        return new, total * old + p, out * old[:, None] + p[:, None] * v[t]
      m, total, out = lax.fori_loop(0, n + 1, step, (jnp.full(HEADS, -1e30), jnp.zeros(HEADS), jnp.zeros((HEADS, SIZE))))
      return out / total[:, None]
    return lax.map(one, jnp.arange(TOKENS))
  return f, decoding()


# A causal convolution with gaps, over a long signal of a few channels.

LENGTH = 4000
CHANNELS = 8
TAPS = 3
GAP = 4


def signal():
  return numbers(LENGTH, CHANNELS), numbers(TAPS, CHANNELS, seed=2)


@spelling("dilated", tolerance=2e-5)
def padded_slices():
  def f(x, w):
    p = jnp.pad(x, ((GAP * (TAPS - 1), 0), (0, 0)))
    return sum(w[k] * p[GAP * k:GAP * k + LENGTH] for k in range(TAPS))
  return f, signal()


@spelling("dilated", tolerance=2e-5)
def convolution():
  def f(x, w):
    y = lax.conv_general_dilated(x.T[None], w.T[:, None], (1,), [(GAP * (TAPS - 1), 0)], rhs_dilation=(GAP,), feature_group_count=CHANNELS)
    return y[0].T
  return f, signal()


@spelling("dilated", tolerance=2e-5)
def scan_with_queue():
  def f(x, w):
    def step(queue, row):
      queue = jnp.concatenate([queue[1:], row[None]])
      return queue, w[0] * queue[0] + w[1] * queue[GAP] + w[2] * queue[2 * GAP]
    return lax.scan(step, jnp.zeros((2 * GAP + 1, CHANNELS)), x)[1]
  return f, signal()


@spelling("dilated", tolerance=2e-5)
def scan_with_ring():
  def f(x, w):
    size = 2 * GAP + 1

    def step(state, row):
      ring, n = state
      ring = ring.at[n % size].set(row)
      return (ring, n + 1), w[2] * row + w[1] * ring[(n - GAP) % size] + w[0] * ring[(n - 2 * GAP) % size]
    return lax.scan(step, (jnp.zeros((size, CHANNELS)), 0), x)[1]
  return f, signal()


@spelling("dilated", tolerance=2e-5)
def masked_reads():
  def f(x, w):
    def one(t):
      read = lambda s: jnp.where(s >= 0, x[jnp.maximum(s, 0)], 0.0)
      return w[2] * x[t] + w[1] * read(t - GAP) + w[0] * read(t - 2 * GAP)
    return lax.map(one, jnp.arange(LENGTH))
  return f, signal()


# A self-organizing map: the nearest unit and its neighbours move towards each sample.

SAMPLES = 300
UNITS = 64


def samples():
  return numbers(SAMPLES, 3), numbers(UNITS, 3, seed=2)


@spelling("self_organizing", tolerance=1e-3)
def scan_argmin():
  def f(x, w):
    place = jnp.arange(UNITS)

    def step(w, x):
      win = jnp.argmin(jnp.sum((w - x) ** 2, axis=1))
      h = 0.1 * jnp.exp(-0.125 * (place - win) ** 2)
      return w + h[:, None] * (x - w), None
    return lax.scan(step, w, x)[0]
  return f, samples()


@spelling("self_organizing", tolerance=1e-3)
def fori_three_rows():
  def f(x, w):
    place = jnp.arange(UNITS)

    def step(i, w):
      a, b, c = w
      d = (a - x[i, 0]) ** 2 + (b - x[i, 1]) ** 2 + (c - x[i, 2]) ** 2
      h = 0.1 * jnp.exp(-0.125 * (place - jnp.argmin(d)).astype(jnp.float32) ** 2)
      return a + h * (x[i, 0] - a), b + h * (x[i, 1] - b), c + h * (x[i, 2] - c)
    return jnp.stack(lax.fori_loop(0, SAMPLES, step, (w[:, 0], w[:, 1], w[:, 2])), axis=1)
  return f, samples()


@spelling("self_organizing", tolerance=1e-3)
def unit_by_unit():
  def f(x, w):
    def step(w, x):
      def look(u, best):
        d = jnp.sum((w[u] - x) ** 2)
        return lax.cond(d < best[0], lambda: (d, u), lambda: best)
      win = lax.fori_loop(0, UNITS, look, (jnp.float32(jnp.inf), 0))[1]

      def move(u, w):
        h = 0.1 * jnp.exp(-0.125 * ((u - win) ** 2).astype(jnp.float32))
        return w.at[u].add(h * (x - w[u]))
      return lax.fori_loop(0, UNITS, move, w), None
    return lax.scan(step, w, x)[0]
  return f, samples()


@spelling("self_organizing", tolerance=1e-3)
def vmapped_distances():
  def f(x, w):
    def step(w, x):
      d = jax.vmap(lambda u: jnp.dot(u - x, u - x))(w)
      win = jnp.argmin(d)
      move = jax.vmap(lambda n, u: u + 0.1 * jnp.exp(-0.125 * (n - win) ** 2) * (x - u))
      return move(jnp.arange(UNITS), w), None
    return lax.scan(step, w, x)[0]
  return f, samples()


# One expert for each token, the best of its gates.

MANY = 512
EXPERTS = 4
WIDE = 16


def gated():
  return numbers(MANY, WIDE), numbers(WIDE, EXPERTS, seed=2), numbers(EXPERTS, WIDE, WIDE, seed=3)


@spelling("experts", tolerance=2e-5)
def gathered_matrices():
  def f(x, g, w):
    gate = jax.nn.softmax(x @ g)
    best = jnp.argmax(gate, axis=1)
    y = jnp.einsum("tw,twv->tv", x, w[best])
    return jax.nn.relu(y) * jnp.take_along_axis(gate, best[:, None], 1)
  return f, gated()


@spelling("experts", tolerance=2e-5)
def all_then_chosen():
  def f(x, g, w):
    gate = jax.nn.softmax(x @ g)
    best = jnp.argmax(gate, axis=1)
    y = jnp.einsum("tw,ewv->tev", x, w)
    chosen = jax.nn.one_hot(best, EXPERTS)
    return jax.nn.relu(jnp.einsum("tev,te->tv", y, chosen)) * jnp.max(gate, axis=1, keepdims=True)
  return f, gated()


@spelling("experts", tolerance=2e-5)
def switch_by_token():
  def f(x, g, w):
    def token(x):
      gate = jax.nn.softmax(x @ g)
      best = jnp.argmax(gate)
      y = lax.switch(best, [lambda x, e=e: jax.nn.relu(x @ w[e]) for e in range(EXPERTS)], x)
      return y * gate[best]
    return lax.map(token, x)
  return f, gated()


@spelling("experts", tolerance=2e-5)
def masked_loop_of_experts():
  def f(x, g, w):
    gate = jax.nn.softmax(x @ g)
    best = jnp.argmax(gate, axis=1)

    def expert(e, out):
      mine = best == e
      return out + jnp.where(mine[:, None], jax.nn.relu(x @ w[e]), 0)
    out = lax.fori_loop(0, EXPERTS, expert, jnp.zeros((MANY, WIDE)))
    return out * gate[jnp.arange(MANY), best][:, None]
  return f, gated()

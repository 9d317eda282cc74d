"""Small programs in the styles of JAX's users that no pass was written for: tables, graphs, strings, solvers, simulations."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from harness import program_list

PROGRAMS, program = program_list()
F32, I32 = np.float32, np.int32


def numbers(*shape, seed=1):
  return np.random.default_rng(seed).normal(size=shape).astype(F32)


def integers(high, *shape, seed=1):
  return np.random.default_rng(seed).integers(0, high, size=shape).astype(I32)


# Dynamic programming.


@program("tables", tolerance=0)
def coin_change():
  def f(coins):
    def coin(ways, c):
      return lax.fori_loop(0, 2001, lambda a, w: w.at[a].add(jnp.where(a >= c, w[jnp.maximum(a - c, 0)], 0)), ways), None
    return lax.scan(coin, jnp.zeros(2001, jnp.int32).at[0].set(1), coins)[0]
  return f, (np.array([2, 3, 5, 7, 11, 50], I32),)


@program("tables", tolerance=0)
def longest_increasing():
  def f(x):
    k = jnp.arange(x.shape[0])
    def step(i, best):
      return best.at[i].set(1 + jnp.max(jnp.where((k < i) & (x < x[i]), best, 0)))
    return jnp.max(lax.fori_loop(0, x.shape[0], step, jnp.zeros(x.shape, jnp.int32)))
  return f, (integers(10000, 500),)


@program("tables", tolerance=0)
def floyd_warshall():
  def f(d):
    return lax.fori_loop(0, d.shape[0], lambda k, d: jnp.minimum(d, d[:, k][:, None] + d[k][None, :]), d)
  return f, (integers(1000, 96, 96),)


@program("tables", tolerance=1e-4)
def dynamic_time_warping():
  def f(a, b):
    cost = jnp.abs(a[:, None] - b[None, :])
    def row(above, c):
      def cell(left, item):
        up, diagonal, c = item
        here = c + jnp.minimum(jnp.minimum(left, up), diagonal)
        return here, here
      rest = lax.scan(cell, jnp.float32(1e9), (above[1:], above[:-1], c))[1]
      return jnp.concatenate([jnp.array([1e9]), rest]), None
    return lax.scan(row, jnp.full(b.shape[0] + 1, 1e9).at[0].set(0), cost)[0][-1]
  return f, (numbers(200), numbers(200, seed=2))


@program("tables", tolerance=1e-4)
def ctc_forward():
  def f(logits, labels):
    extended = jnp.zeros(2 * labels.shape[0] + 1, jnp.int32).at[1::2].set(labels)
    skip = (extended != jnp.roll(extended, 2)) & (extended != 0)
    def step(alpha, row):
      one = jnp.concatenate([jnp.array([-1e30]), alpha[:-1]])
      two = jnp.where(skip, jnp.concatenate([jnp.full(2, -1e30), alpha[:-2]]), -1e30)
      return jnp.logaddexp(jnp.logaddexp(alpha, one), two) + row[extended], None
    alpha = jnp.full(extended.shape, -1e30).at[0].set(logits[0, 0]).at[1].set(logits[0, labels[0]])
    alpha = lax.scan(step, alpha, logits[1:])[0]
    return jnp.logaddexp(alpha[-1], alpha[-2])
  return f, (numbers(100, 20), integers(19, 30) + 1)


# Graphs and data structures.


@program("structures", tolerance=0)
def dijkstra_dense():
  def f(w):
    n = w.shape[0]
    def step(_, s):
      distance, done = s
      u = jnp.argmin(jnp.where(done, jnp.inf, distance))
      done = done.at[u].set(True)
      return jnp.minimum(distance, distance[u] + w[u]), done
    return lax.fori_loop(0, n, step, (jnp.full(n, jnp.inf).at[0].set(0), jnp.zeros(n, bool)))[0]
  return f, (np.abs(numbers(200, 200)),)


@program("structures", tolerance=1e-5)
def pagerank():
  def f(source, target):
    n = 500
    degree = jnp.zeros(n).at[source].add(1.0)
    def step(_, r):
      return 0.15 / n + 0.85 * jnp.zeros(n).at[target].add(r[source] / degree[source])
    return lax.fori_loop(0, 30, step, jnp.full(n, 1 / n))
  return f, (integers(500, 4000), integers(500, 4000, seed=2))


@program("structures", tolerance=0)
def priority_queue():
  def f(x):
    n = x.shape[0]
    def push(heap, size, v):
      def up(s):
        i, h = s
        p = (i - 1) // 2
        return p, h.at[i].set(h[p])
      i, heap = lax.while_loop(lambda s: (s[0] > 0) & (s[1][(s[0] - 1) // 2] > v), up, (size, heap))
      return heap.at[i].set(v)
    def pop(heap, size):
      top, v = heap[0], heap[size - 1]
      def child(h, i):
        l = 2 * i + 1
        return jnp.where((l + 1 < size - 1) & (h[l + 1] < h[l]), l + 1, l)
      def down(s):
        i, h = s
        c = child(h, i)
        return c, h.at[i].set(h[c])
      i, heap = lax.while_loop(lambda s: (2 * s[0] + 1 < size - 1) & (s[1][child(s[1], s[0])] < v), down, (0, heap))
      return heap.at[i].set(v), top
    heap = lax.fori_loop(0, n, lambda i, h: push(h, i, x[i]), jnp.full(2 * n + 2, jnp.inf))
    def take(i, s):
      heap, out = s
      heap, top = pop(heap, n - i)
      return heap, out.at[i].set(top)
    return lax.fori_loop(0, n, take, (heap, jnp.zeros(n)))[1]
  return f, (numbers(1000),)


@program("structures", tolerance=0)
def segment_tree():
  def f(x, left, right):
    n = x.shape[0]
    tree = jnp.zeros(2 * n, jnp.int32).at[n:].set(x)
    tree = lax.fori_loop(0, n - 1, lambda k, t: t.at[n - 1 - k].set(t[2 * (n - 1 - k)] + t[2 * (n - 1 - k) + 1]), tree)
    def query(l, r):
      def step(s):
        l, r, total = s
        total = total + jnp.where(l & 1 == 1, tree[l], 0)
        l = l + (l & 1)
        r = r - (r & 1)
        total = total + jnp.where((s[1] & 1) == 1, tree[r], 0)
        return l >> 1, r >> 1, total
      return lax.while_loop(lambda s: s[0] < s[1], step, (l + n, r + n, jnp.int32(0)))[2]
    return lax.map(lambda lr: query(*lr), (left, right))
  return f, (integers(100, 1024), integers(512, 1000), integers(511, 1000, seed=2) + 513)


@program("structures", tolerance=0)
def run_length():
  def f(x):
    new = jnp.concatenate([jnp.array([True]), x[1:] != x[:-1]])
    group = jnp.cumsum(new) - 1
    return jnp.zeros_like(x).at[group].add(1), jnp.zeros_like(x).at[group].set(x), group[-1] + 1
  return f, (np.sort(integers(50, 4000)),)


@program("structures", tolerance=0)
def string_search():
  def f(text, word):
    m = word.shape[0]
    def at(i):
      return jnp.all(lax.dynamic_slice(text, (i,), (m,)) == word)
    return jnp.sum(jax.vmap(at)(jnp.arange(text.shape[0] - m + 1)))
  return f, (integers(4, 20000), integers(4, 6, seed=2))


@program("structures", tolerance=0)
def rolling_hash():
  def f(text):
    def step(h, i):
      h = (h * 31 + text[i] - jnp.where(i >= 16, text[i - 16], 0) * jnp.int32(pow(31, 16, 2**32) - 2**32 * (pow(31, 16, 2**32) >> 31))).astype(jnp.int32)
      return h, h
    return lax.scan(step, jnp.int32(0), jnp.arange(text.shape[0]))[1]
  return f, (integers(256, 10000),)


# Solvers.


@program("solvers", tolerance=1e-3)
def conjugate_gradient():
  def f(b):
    def laplace(x):
      p = jnp.pad(x, 1)
      return 4 * x - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]
    def step(_, s):
      x, r, p, rr = s
      q = laplace(p)
      alpha = rr / jnp.vdot(p, q)
      x, r = x + alpha * p, r - alpha * q
      new = jnp.vdot(r, r)
      return x, r, r + new / rr * p, new
    return lax.fori_loop(0, 50, step, (jnp.zeros_like(b), b, b, jnp.vdot(b, b)))[0]
  return f, (numbers(48, 48),)


@program("solvers", tolerance=1e-3)
def levinson():
  def f(r, y):
    n = y.shape[0]
    def step(k, s):
      a, x, e = s
      i = jnp.arange(n)
      past = jnp.where(i < k, r[jnp.clip(k - i, 0, n - 1)], 0)
      reflection = -jnp.dot(past, a) / e
      a = a + reflection * jnp.where(i <= k, a[jnp.clip(k - i, 0, n - 1)], 0)
      e = e * (1 - reflection ** 2)
      mu = (y[k] - jnp.dot(past, x)) / e
      return a, x + mu * jnp.where(i <= k, a[jnp.clip(k - i, 0, n - 1)], 0), e
    a = jnp.zeros(n).at[0].set(1)
    return lax.fori_loop(1, n, step, (a, jnp.zeros(n).at[0].set(y[0] / r[0]), r[0]))[1]
  return f, ((0.5 ** np.arange(100)).astype(F32), numbers(100))


@program("solvers", tolerance=1e-3)
def thomas_batched():
  def solve(a, b, c, d):
    def forward(s, row):
      a, b, c, d = row
      m = b - a * s[0]
      s = (c / m, (d - a * s[1]) / m)
      return s, s
    _, (c, d) = lax.scan(forward, (jnp.float32(0), jnp.float32(0)), (a, b, c, d))
    return lax.scan(lambda x, row: (row[1] - row[0] * x,) * 2, jnp.float32(0), (c, d), reverse=True)[1]
  return jax.vmap(solve), (numbers(64, 100), 4 + np.abs(numbers(64, 100, seed=2)), numbers(64, 100, seed=3), numbers(64, 100, seed=4))


@program("solvers", tolerance=1e-2)
def lanczos():
  def f(m, v):
    def step(s, _):
      v, before, beta = s
      w = m @ v - beta * before
      alpha = jnp.dot(w, v)
      w = w - alpha * v
      beta = jnp.linalg.norm(w)
      return (w / beta, v, beta), (alpha, beta)
    return lax.scan(step, (v / jnp.linalg.norm(v), jnp.zeros_like(v), jnp.float32(0)), None, length=12)[1]
  a = numbers(100, 100)
  return f, (a + a.T, numbers(100, seed=2))


@program("solvers", tolerance=1e-3)
def cholesky_by_hand():
  def f(m):
    n = m.shape[0]
    def column(j, l):
      s = m[:, j] - l @ l[j]
      d = jnp.sqrt(s[j])
      return l.at[:, j].set(jnp.where(jnp.arange(n) >= j, s / d, 0))
    return lax.fori_loop(0, n, column, jnp.zeros_like(m))
  a = numbers(48, 48)
  return f, (a @ a.T + 48 * np.eye(48, dtype=F32),)


@program("solvers", tolerance=1e-3)
def givens_qr():
  def f(m):
    n = m.shape[0]
    def rotate(t, m):
      j, i = t // n, t % n
      a, b = m[j, j], m[i, j]
      r = jnp.hypot(a, b)
      c, s = jnp.where(r > 0, a / r, 1.0), jnp.where(r > 0, b / r, 0.0)
      new_j, new_i = c * m[j] + s * m[i], c * m[i] - s * m[j]
      return lax.cond(i > j, lambda m: m.at[j].set(new_j).at[i].set(new_i), lambda m: m, m)
    return lax.fori_loop(0, n * n, rotate, m)
  return f, (numbers(24, 24),)


@program("solvers", tolerance=1e-3)
def jacobi_eigenvalues():
  def f(m):
    n = m.shape[0]
    p, q = np.triu_indices(n, 1)
    def rotate(m, pq):
      p, q = pq
      theta = 0.5 * jnp.arctan2(2 * m[p, q], m[q, q] - m[p, p])
      c, s = jnp.cos(theta), jnp.sin(theta)
      rp, rq = m[p], m[q]
      m = m.at[p].set(c * rp - s * rq).at[q].set(s * rp + c * rq)
      cp, cq = m[:, p], m[:, q]
      return m.at[:, p].set(c * cp - s * cq).at[:, q].set(s * cp + c * cq), None
    def sweep(_, m):
      return lax.scan(rotate, m, (jnp.asarray(p), jnp.asarray(q)))[0]
    return jnp.sort(jnp.diag(lax.fori_loop(0, 6, sweep, m)))
  a = numbers(12, 12)
  return f, (a + a.T,)


# Simulations.


@program("simulations", tolerance=1e-3)
def ray_marching():
  def f(rays):
    def distance(p):
      return jnp.minimum(jnp.linalg.norm(p - jnp.array([0, 0, 3.0])) - 1, p[1] + 1)
    def march(direction):
      def step(_, t):
        return t + jnp.where(t < 20, distance(t * direction), 0)
      return lax.fori_loop(0, 40, step, jnp.float32(0))
    return jax.vmap(march)(rays / jnp.linalg.norm(rays, axis=1, keepdims=True))
  return f, (np.concatenate([0.4 * numbers(4096, 2), np.ones((4096, 1), F32)], axis=1),)


@program("simulations", tolerance=1e-3)
def annealing():
  def f(seed, q):
    n = q.shape[0]
    def step(i, s):
      key, x, e = s
      key, a, b = jax.random.split(key, 3)
      k = jax.random.randint(a, (), 0, n)
      change = (1 - 2 * x[k]) * (q[k, k] + 2 * (jnp.dot(q[k], x) - q[k, k] * x[k]))
      accept = (change < 0) | (jax.random.uniform(b) < jnp.exp(-change / (5.0 * 0.998 ** i)))
      return key, x.at[k].set(jnp.where(accept, 1 - x[k], x[k])), jnp.where(accept, e + change, e)
    return lax.fori_loop(0, 1000, step, (jax.random.key(seed), jnp.zeros(n), jnp.float32(0)))[2]
  q = np.round(numbers(64, 64) * 16) / 16
  return f, (np.uint32(0), q + q.T)


@program("simulations", tolerance=1e-3)
def shallow_water():
  def f(h, u):
    def step(_, s):
      h, u = s
      u = u.at[1:-1].add(-0.1 * (h[1:] - h[:-1]))
      u = u.at[0].set(0).at[-1].set(0)
      return h - 0.1 * (u[1:] - u[:-1]), u
    return lax.fori_loop(0, 300, step, (h, u))
  return f, (1 + 0.1 * numbers(512), np.zeros(513, F32))


@program("simulations", tolerance=1e-3)
def reaction_diffusion():
  def f(u, v):
    def lap(x):
      return jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x
    def step(s, _):
      u, v = s
      uvv = u * v * v
      return (u + 0.16 * lap(u) - uvv + 0.06 * (1 - u), v + 0.08 * lap(v) + uvv - 0.122 * v), None
    return lax.scan(step, (u, v), None, length=50)[0]
  return f, (np.ones((64, 64), F32), np.abs(0.1 * numbers(64, 64)))


@program("simulations", tolerance=1e-3)
def dormand_prince():
  def f(y):
    def slope(y):
      return jnp.stack([10 * (y[1] - y[0]), y[0] * (14 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])
    def step(s):
      t, y, h = s
      k1 = slope(y)
      k2 = slope(y + h * k1 / 5)
      k3 = slope(y + h * (3 * k1 + 9 * k2) / 40)
      k4 = slope(y + h * (44 / 45 * k1 - 56 / 15 * k2 + 32 / 9 * k3))
      new = y + h * (0.1 * k1 + 0.3 * k3 + 0.6 * k4)
      error = jnp.linalg.norm(h * (k1 - k2 + k3 - k4)) + 1e-6
      ok = error < 1e-2
      h = h * jnp.clip(0.9 * (1e-2 / error) ** 0.25, 0.3, 3.0)
      return jnp.where(ok, t + s[2], t), jnp.where(ok, new, y), jnp.minimum(h, 0.05)
    return lax.while_loop(lambda s: s[0] < 30, step, (jnp.float32(0), y, jnp.float32(0.01)))[1]
  return f, (np.array([1, 2, 3], F32),)


@program("simulations", tolerance=0)
def elementary_automaton_history():
  def f(x, rule):
    table = (rule >> jnp.arange(8)) & 1
    def step(x, _):
      new = table[4 * jnp.roll(x, 1) + 2 * x + jnp.roll(x, -1)]
      return new, x
    return lax.scan(step, x, None, length=200)[1]
  return f, (integers(2, 400), np.int32(30))


@program("simulations", tolerance=1e-3)
def leapfrog_hmc():
  def f(seed, x):
    def energy(x):
      return 0.5 * jnp.sum(x * x) + 0.1 * jnp.sum(x[1:] * x[:-1])
    slope = jax.grad(energy)
    def sample(x, key):
      a, b = jax.random.split(key)
      p = jax.random.normal(a, x.shape)
      def leap(_, s):
        q, p = s
        p = p - 0.05 * slope(q)
        q = q + 0.1 * p
        return q, p - 0.05 * slope(q)
      q, r = lax.fori_loop(0, 10, leap, (x, p))
      accept = jnp.log(jax.random.uniform(b)) < energy(x) + 0.5 * p @ p - energy(q) - 0.5 * r @ r
      x = jnp.where(accept, q, x)
      return x, jnp.sum(x)
    return lax.scan(sample, x, jax.random.split(jax.random.key(seed), 100))[1]
  return f, (np.uint32(0), np.zeros(10, F32))


# Learning and signals.


@program("signals", tolerance=1e-3)
def kmeans():
  def f(x):
    def step(_, c):
      nearest = jnp.argmin(jnp.sum((x[:, None] - c[None]) ** 2, axis=-1), axis=1)
      member = jax.nn.one_hot(nearest, c.shape[0])
      return (member.T @ x) / jnp.maximum(member.sum(0)[:, None], 1)
    return lax.fori_loop(0, 10, step, x[:8])
  return f, (numbers(1000, 4),)


@program("signals", tolerance=0)
def beam_search():
  def f(scores):
    steps, v = scores.shape[0], scores.shape[2]
    def step(s, t):
      total, last = s
      all_scores = (total[:, None] + scores[t][last]).reshape(-1)
      top, at = lax.top_k(all_scores, 4)
      return (top, (at % v).astype(jnp.int32)), (at // v, at % v)
    return lax.scan(step, (jnp.zeros(4), jnp.arange(4)), jnp.arange(steps))
  return f, ((np.random.default_rng(1).permutation(50 * 16 * 16).reshape(50, 16, 16) / 64).astype(F32),)


@program("signals", tolerance=1e-4)
def moving_median():
  def f(x):
    def at(i):
      return jnp.median(lax.dynamic_slice(x, (i,), (5,)))
    return lax.map(at, jnp.arange(x.shape[0] - 4))
  return f, (numbers(2000),)


@program("signals", tolerance=1e-4)
def direct_convolution():
  def f(x, h):
    m = h.shape[0]
    p = jnp.pad(x, (m - 1, 0))
    return lax.map(lambda i: jnp.dot(lax.dynamic_slice(p, (i,), (m,)), h[::-1]), jnp.arange(x.shape[0]))
  return f, (numbers(4000), numbers(16, seed=2))


@program("signals", tolerance=1e-3)
def lms_filter():
  def f(x, d):
    def step(s, item):
      w, past = s
      x, d = item
      past = jnp.concatenate([x[None], past[:-1]])
      e = d - w @ past
      return (w + 0.01 * e * past, past), e
    return lax.scan(step, (jnp.zeros(16), jnp.zeros(16)), (x, d))[1]
  return f, (numbers(2000), numbers(2000, seed=2))


@program("signals", tolerance=1e-3)
def ema_and_variance():
  def f(x):
    def step(s, x):
      m, v, n = s
      n = n + 1
      d = x - m
      m = m + d / n
      v = v + d * (x - m)
      return (m, v, n), jnp.sqrt(v / n)
    return lax.scan(step, (jnp.float32(0), jnp.float32(0), jnp.float32(0)), x)[1]
  return f, (numbers(10000),)


@program("bits", tolerance=0)
def popcount_table():
  def f(x):
    def count(v):
      return lax.while_loop(lambda s: s[0] != 0, lambda s: (s[0] & (s[0] - 1), s[1] + 1), (v, jnp.int32(0)))[1]
    return lax.map(count, x)
  return f, (integers(1 << 20, 4000),)


@program("bits", tolerance=0)
def gray_and_reverse():
  def f(x):
    def reverse(v):
      return lax.fori_loop(0, 16, lambda i, r: (r << 1) | ((v >> i) & 1), jnp.int32(0))
    return jax.vmap(reverse)(x ^ (x >> 1))
  return f, (integers(1 << 16, 4000),)


@program("bits", tolerance=0)
def crc32():
  def f(data):
    def byte(crc, b):
      crc = crc ^ b
      def bit(_, c):
        return jnp.where(c & 1 == 1, (c >> 1) ^ jnp.uint32(0xEDB88320), c >> 1)
      return lax.fori_loop(0, 8, bit, crc), None
    return ~lax.scan(byte, jnp.uint32(0xFFFFFFFF), data)[0]
  return f, (integers(256, 4000).astype(np.uint32),)


@program("bits", tolerance=0)
def prefix_sums_by_doubling():
  def f(x):
    n = x.shape[0]
    k = jnp.arange(n)
    def step(i, x):
      shift = 1 << i
      return x + jnp.where(k >= shift, x[jnp.maximum(k - shift, 0)], 0)
    return lax.fori_loop(0, 12, step, x)
  return f, (integers(100, 4096),)

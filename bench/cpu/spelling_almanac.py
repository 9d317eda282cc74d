"""Solvers, graphs, images and neighbours that nothing was tuned for, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# PageRank over edges that come in no order.

PAGES, LINKS, ROUNDS = 600, 5000, 30


def links():
  return integers(PAGES, LINKS, seed=1), integers(PAGES, LINKS, seed=2)


@spelling("pagerank", tolerance=1e-5)
def segment_sums():
  def f(source, target):
    out = jnp.maximum(jax.ops.segment_sum(jnp.ones(LINKS), source, PAGES), 1)
    def step(_, r):
      return 0.15 / PAGES + 0.85 * jax.ops.segment_sum((r / out)[source], target, PAGES)
    return lax.fori_loop(0, ROUNDS, step, jnp.full(PAGES, 1.0 / PAGES))
  return f, links()


@spelling("pagerank", tolerance=1e-5)
def added_at():
  def f(source, target):
    out = jnp.maximum(jnp.zeros(PAGES).at[source].add(1.0), 1)
    def step(r, _):
      return jnp.full(PAGES, 0.15 / PAGES).at[target].add(0.85 * r[source] / out[source]), None
    return lax.scan(step, jnp.full(PAGES, 1.0 / PAGES), None, length=ROUNDS)[0]
  return f, links()


@spelling("pagerank", tolerance=1e-5)
def edge_by_edge():
  def f(source, target):
    out = jnp.maximum(jnp.bincount(source, length=PAGES), 1).astype(jnp.float32)
    def step(_, r):
      share = 0.85 * r / out
      return lax.fori_loop(0, LINKS, lambda e, s: s.at[target[e]].add(share[source[e]]), jnp.full(PAGES, 0.15 / PAGES))
    return lax.fori_loop(0, ROUNDS, step, jnp.full(PAGES, 1.0 / PAGES))
  return f, links()


@spelling("pagerank", tolerance=1e-5)
def sorted_links():
  def f(source, target):
    order = jnp.argsort(target)
    source, target = source[order], target[order]
    out = jnp.maximum(jax.ops.segment_sum(jnp.ones(LINKS), source, PAGES), 1)
    def step(_, r):
      return 0.15 / PAGES + 0.85 * jax.ops.segment_sum((r / out)[source], target, PAGES, indices_are_sorted=True)
    return lax.fori_loop(0, ROUNDS, step, jnp.full(PAGES, 1.0 / PAGES))
  return f, links()


# Conjugate gradients on a grid's Laplacian.

GRID, STEPS = 48, 60


def sources():
  return (numbers(GRID, GRID),)


def cg(apply):
  def f(b):
    def step(_, s):
      x, r, p, rr = s
      q = apply(p)
      alpha = rr / jnp.vdot(p, q)
      x, r = x + alpha * p, r - alpha * q
      new = jnp.vdot(r, r)
      return x, r, r + new / rr * p, new
    return lax.fori_loop(0, STEPS, step, (jnp.zeros_like(b), b, b, jnp.vdot(b, b)))[0]
  return f, sources()


@spelling("conjugate", tolerance=1e-3)
def padded():
  def apply(p):
    w = jnp.pad(p, 1)
    return 4 * p - w[:-2, 1:-1] - w[2:, 1:-1] - w[1:-1, :-2] - w[1:-1, 2:]
  return cg(apply)


@spelling("conjugate", tolerance=1e-3)
def added_slices():
  def apply(p):
    q = 4 * p
    q = q.at[1:].add(-p[:-1]).at[:-1].add(-p[1:])
    return q.at[:, 1:].add(-p[:, :-1]).at[:, :-1].add(-p[:, 1:])
  return cg(apply)


@spelling("conjugate", tolerance=1e-3)
def convolved():
  k = np.array([[0, -1, 0], [-1, 4, -1], [0, -1, 0]], np.float32)
  return cg(lambda p: jax.scipy.signal.convolve2d(p, k, mode="same"))


@spelling("conjugate", tolerance=1e-3)
def matrices():
  t = 2 * np.eye(GRID, dtype=np.float32) - np.eye(GRID, k=1, dtype=np.float32) - np.eye(GRID, k=-1, dtype=np.float32)
  return cg(lambda p: t @ p + p @ t)


@spelling("conjugate", tolerance=1e-3)
def rolled_masked():
  i = np.arange(GRID)
  def apply(p):
    up = jnp.where((i > 0)[:, None], jnp.roll(p, 1, 0), 0)
    down = jnp.where((i < GRID - 1)[:, None], jnp.roll(p, -1, 0), 0)
    left = jnp.where(i > 0, jnp.roll(p, 1, 1), 0)
    right = jnp.where(i < GRID - 1, jnp.roll(p, -1, 1), 0)
    return 4 * p - up - down - left - right
  return cg(apply)


# The k nearest of many points.

CROWD, ASKED, NEAREST = 500, 40, 8


def crowd():
  return integers(1000, CROWD, 2, seed=1).astype(np.float32), integers(1000, ASKED, 2, seed=2).astype(np.float32) + 0.25


def squares(points, asked):
  d = asked[:, None] - points[None]
  return jnp.sum(d * d, axis=-1)


@spelling("neighbours", tolerance=1e-6)
def top_k():
  return lambda p, q: -lax.top_k(-squares(p, q), NEAREST)[0], crowd()


@spelling("neighbours", tolerance=1e-6)
def sorted_rows():
  return lambda p, q: jnp.sort(squares(p, q), axis=1)[:, :NEAREST], crowd()


@spelling("neighbours", tolerance=1e-6)
def least_taken_out():
  def f(p, q):
    d = squares(p, q)
    def take(d, _):
      j = jnp.argmin(d, axis=1)
      least = jnp.take_along_axis(d, j[:, None], 1)[:, 0]
      return d.at[jnp.arange(ASKED), j].set(jnp.inf), least
    return lax.scan(take, d, None, length=NEAREST)[1].T
  return f, crowd()


@spelling("neighbours", tolerance=1e-6)
def inserted():
  def f(p, q):
    def one(q):
      def point(best, x):
        d = jnp.sum((x - q)**2)
        place = jnp.searchsorted(best, d)
        i = jnp.arange(NEAREST)
        moved = jnp.concatenate([best[:1], best[:-1]])
        return jnp.where(i < place, best, jnp.where(i == place, d, moved)), None
      return lax.scan(point, jnp.full(NEAREST, jnp.inf), p)[0]
    return jax.vmap(one)(q)
  return f, crowd()


# A dictionary as a trie: words walked down.

NODES, WORDS, LETTERS = 400, 300, 12


def trie():
  return integers(NODES, NODES, 4, seed=1), integers(4, WORDS, LETTERS, seed=2), integers(2, NODES, seed=3)


@spelling("trie")
def vmapped_scan():
  def f(child, words, ends):
    def walk(word):
      return ends[lax.scan(lambda n, c: (child[n, c], None), jnp.int32(0), word)[0]]
    return jax.vmap(walk)(words)
  return f, trie()


@spelling("trie")
def all_words_step_by_step():
  def f(child, words, ends):
    n = lax.fori_loop(0, LETTERS, lambda k, n: child[n, words[:, k]], jnp.zeros(WORDS, jnp.int32))
    return ends[n]
  return f, trie()


@spelling("trie")
def mapped_while():
  def f(child, words, ends):
    def walk(word):
      return ends[lax.while_loop(lambda s: s[0] < LETTERS, lambda s: (s[0] + 1, child[s[1], word[s[0]]]), (0, jnp.int32(0)))[1]]
    return lax.map(walk, words)
  return f, trie()


@spelling("trie")
def two_loops():
  def f(child, words, ends):
    def word(i, found):
      n = lax.fori_loop(0, LETTERS, lambda k, n: child[n][words[i, k]], jnp.int32(0))
      return found.at[i].set(ends[n])
    return lax.fori_loop(0, WORDS, word, jnp.zeros(WORDS, jnp.int32))
  return f, trie()


# Huffman's code lengths: the two least join, n - 1 times.

SYMBOLS = 64


def frequencies():
  return (integers(1000, SYMBOLS) + 1,)


@spelling("huffman")
def argmin_twice():
  def f(counts):
    big = jnp.int32(1 << 30)
    def join(_, s):
      weight, group, length = s
      a = jnp.argmin(weight)
      wa = weight[a]
      weight = weight.at[a].set(big)
      b = jnp.argmin(weight)
      weight = weight.at[b].add(wa)
      inside = (group == a) | (group == b)
      return weight, jnp.where(group == a, b, group), length + inside
    s = counts, jnp.arange(SYMBOLS), jnp.zeros(SYMBOLS, jnp.int32)
    return lax.fori_loop(0, SYMBOLS - 1, join, s)[2]
  return f, frequencies()


@spelling("huffman")
def two_by_top_k():
  def f(counts):
    big = jnp.int32(1 << 30)
    def join(s, _):
      weight, group, length = s
      least, place = lax.top_k(-weight, 2)
      a, b = place[0], place[1]
      weight = weight.at[b].set(-least[0] - least[1]).at[a].set(big)
      length = jnp.where((group == a) | (group == b), length + 1, length)
      return (weight, jnp.where(group == a, b, group), length), None
    s = counts, jnp.arange(SYMBOLS), jnp.zeros(SYMBOLS, jnp.int32)
    return lax.scan(join, s, None, length=SYMBOLS - 1)[0][2]
  return f, frequencies()


@spelling("huffman")
def sorted_each_round():
  def f(counts):
    big = jnp.int32(1 << 30)
    def join(_, s):
      weight, group, length = s
      order = jnp.argsort(weight)
      a, b = order[0], order[1]
      weight = weight.at[b].add(weight[a]).at[a].set(big)
      length = length + jnp.logical_or(group == a, group == b)
      return weight, jnp.where(group == a, b, group), length
    s = counts, jnp.arange(SYMBOLS), jnp.zeros(SYMBOLS, jnp.int32)
    return lax.fori_loop(0, SYMBOLS - 1, join, s)[2]
  return f, frequencies()


@spelling("huffman")
def parents_followed():
  def f(counts):
    big, nodes = jnp.int32(1 << 30), 2 * SYMBOLS - 1
    def join(k, s):
      weight, parent = s
      a = jnp.argmin(weight)
      w = weight[a]
      weight, parent = weight.at[a].set(big), parent.at[a].set(k)
      b = jnp.argmin(weight)
      w = w + weight[b]
      return weight.at[b].set(big).at[k].set(w), parent.at[b].set(k)
    weight = jnp.full(nodes, big).at[:SYMBOLS].set(counts)
    _, parent = lax.fori_loop(SYMBOLS, nodes, join, (weight, jnp.full(nodes, -1)))
    depth = jnp.zeros(nodes, jnp.int32)
    depth = lax.fori_loop(0, nodes - 1, lambda i, d: d.at[nodes - 2 - i].set(d[parent[nodes - 2 - i]] + 1), depth)
    return depth[:SYMBOLS]
  return f, frequencies()


# Rays that march through spheres.

PIXELS, MARCHES = 48, 40


def rays():
  y, x = np.mgrid[-1:1:PIXELS * 1j, -1:1:PIXELS * 1j].astype(np.float32)
  d = np.stack([x, y, np.full_like(x, 1.5)], -1)
  return (d / np.linalg.norm(d, axis=-1, keepdims=True),)


CENTERS = np.array([[0, 0, 4], [1, 0.5, 3], [-1, -0.5, 5]], np.float32)


@spelling("march", tolerance=1e-4)
def whole_picture():
  def f(d):
    def step(_, t):
      p = t[..., None] * d
      s = jnp.linalg.norm(p[:, :, None] - CENTERS, axis=-1) - 0.8
      return t + s.min(-1)
    return lax.fori_loop(0, MARCHES, step, jnp.zeros((PIXELS, PIXELS)))
  return lambda d: jnp.minimum(f(d), 10), rays()


@spelling("march", tolerance=1e-4)
def vmapped_pixels():
  def f(d):
    def ray(d):
      def step(t, _):
        p = t * d
        s = jnp.inf
        for c in CENTERS:
          s = jnp.minimum(s, jnp.sqrt(jnp.sum((p - c)**2)) - 0.8)
        return t + s, None
      return lax.scan(step, 0.0, None, length=MARCHES)[0]
    return jnp.minimum(jax.vmap(jax.vmap(ray))(d), 10)
  return f, rays()


@spelling("march", tolerance=1e-4)
def components():
  def f(d):
    x, y, z = d[..., 0], d[..., 1], d[..., 2]
    def step(_, t):
      s = jnp.full_like(t, jnp.inf)
      for a, b, c in CENTERS.tolist():
        s = jnp.minimum(s, jnp.sqrt((t * x - a)**2 + (t * y - b)**2 + (t * z - c)**2) - 0.8)
      return t + s
    return jnp.minimum(lax.fori_loop(0, MARCHES, step, jnp.zeros_like(x)), 10)
  return f, rays()


@spelling("march", tolerance=1e-4)
def mapped_while():
  def f(d):
    def ray(d):
      def step(s):
        t, k = s
        near = jnp.min(jnp.sqrt(jnp.sum((t * d - CENTERS)**2, axis=1))) - 0.8
        return t + near, k + 1
      return lax.while_loop(lambda s: s[1] < MARCHES, step, (jnp.float32(0), 0))[0]
    return jnp.minimum(lax.map(ray, d.reshape(-1, 3)).reshape(PIXELS, PIXELS), 10)
  return f, rays()


# Pictures made even: a histogram, its running sum, a lookup.

PICTURE = 128


def picture():
  return (np.clip(np.random.default_rng(1).normal(90, 30, (PICTURE, PICTURE)), 0, 255).astype(np.uint8),)


def by_sums(sums, x):
  first = jnp.min(jnp.where(sums > 0, sums, 1 << 30))
  return ((sums[x.astype(jnp.int32)] - first) * 255 // (x.size - first)).astype(jnp.uint8)


@spelling("equalize")
def bincount_cumsum():
  return lambda x: by_sums(jnp.cumsum(jnp.bincount(x.reshape(-1), length=256)), x), picture()


@spelling("equalize")
def fori_pixels():
  def f(x):
    flat = x.reshape(-1).astype(jnp.int32)
    h = lax.fori_loop(0, flat.size, lambda i, h: h.at[flat[i]].add(1), jnp.zeros(256, jnp.int32))
    sums = lax.fori_loop(1, 256, lambda i, h: h.at[i].add(h[i - 1]), h)
    return by_sums(sums, x)
  return f, picture()


@spelling("equalize")
def compared_with_all():
  def f(x):
    flat = x.reshape(-1)
    return by_sums(jnp.sum(flat[:, None] <= jnp.arange(256, dtype=jnp.uint8), axis=0, dtype=jnp.int32), x)
  return f, picture()


@spelling("equalize")
def sorted_and_searched():
  def f(x):
    s = jnp.sort(x.reshape(-1))
    return by_sums(jnp.searchsorted(s, jnp.arange(256, dtype=jnp.uint8), side="right").astype(jnp.int32), x)
  return f, picture()

"""Sequences, tables, images and small graphs, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# A triangular system by forward substitution.

ROWS = 96


def triangle():
  return np.tril(numbers(ROWS, ROWS, seed=1) * np.float32(0.1)) + 2 * np.eye(ROWS, dtype=np.float32), numbers(ROWS, seed=2)


@spelling("substitution", tolerance=1e-4)
def whole_rows():
  def f(l, b):
    return lax.fori_loop(0, ROWS, lambda i, x: x.at[i].set((b[i] - l[i] @ x) / l[i, i]), jnp.zeros(ROWS))
  return f, triangle()


@spelling("substitution", tolerance=1e-4)
def by_columns():
  def f(l, b):
    def step(j, b):
      x = b[j] / l[j, j]
      return jnp.where(jnp.arange(ROWS) > j, b - l[:, j] * x, b.at[j].set(x))
    return lax.fori_loop(0, ROWS, step, b)
  return f, triangle()


@spelling("substitution", tolerance=1e-4)
def nested_loops():
  def f(l, b):
    def row(i, x):
      s = lax.fori_loop(0, i, lambda j, s: s - l[i, j] * x[j], b[i])
      return x.at[i].set(s / l[i, i])
    return lax.fori_loop(0, ROWS, row, jnp.zeros(ROWS))
  return f, triangle()


@spelling("substitution", tolerance=1e-4)
def masked_scan():
  def f(l, b):
    def step(x, row):
      i, r, t = row
      v = (t - jnp.sum(jnp.where(jnp.arange(ROWS) < i, r * x, 0))) / r[i]
      return lax.dynamic_update_slice(x, v[None], (i,)), None
    return lax.scan(step, jnp.zeros(ROWS), (jnp.arange(ROWS), l, b))[0]
  return f, triangle()


# Shares bought and sold with a day of rest: the best profit.

def prices():
  return (np.random.default_rng(2).uniform(1, 100, 2000).astype(np.float32),)


@spelling("shares", tolerance=1e-5)
def three_numbers():
  def f(p):
    def day(c, x):
      hold, sold, rest = c
      return (jnp.maximum(hold, rest - x), hold + x, jnp.maximum(rest, sold)), None
    hold, sold, rest = lax.scan(day, (-p[0], jnp.float32(0), jnp.float32(0)), p[1:])[0]
    return jnp.maximum(sold, rest)
  return f, prices()


@spelling("shares", tolerance=1e-5)
def array_of_three():
  def f(p):
    def day(i, c):
      return jnp.array([jnp.maximum(c[0], c[2] - p[i]), c[0] + p[i], jnp.maximum(c[2], c[1])])
    c = lax.fori_loop(1, 2000, day, jnp.array([-p[0], 0., 0.]))
    return jnp.maximum(c[1], c[2])
  return f, prices()


@spelling("shares", tolerance=1e-5)
def table_of_days():
  def f(p):
    def day(i, t):
      t = t.at[i, 0].set(jnp.maximum(t[i - 1, 0], t[i - 1, 2] - p[i]))
      t = t.at[i, 1].set(t[i - 1, 0] + p[i])
      return t.at[i, 2].set(jnp.maximum(t[i - 1, 2], t[i - 1, 1]))
    t = lax.fori_loop(1, 2000, day, jnp.zeros((2000, 3)).at[0, 0].set(-p[0]))
    return jnp.maximum(t[-1, 1], t[-1, 2])
  return f, prices()


# Counting sort.

def keys():
  return (integers(64, 4000, seed=4),)


@spelling("counting_sort")
def counted_and_placed():
  def f(x):
    count = lax.fori_loop(0, 4000, lambda i, c: c.at[x[i]].add(1), jnp.zeros(64, jnp.int32))
    start = jnp.cumsum(count) - count
    def place(i, c):
      start, out = c
      k = x[i]
      return start.at[k].add(1), out.at[start[k]].set(k)
    return lax.fori_loop(0, 4000, place, (start, jnp.zeros(4000, jnp.int32)))[1]
  return f, keys()


@spelling("counting_sort")
def scans_of_keys():
  def f(x):
    count = lax.scan(lambda c, k: (c.at[k].add(1), None), jnp.zeros(64, jnp.int32), x)[0]
    start = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(count)[:-1]])
    def place(c, k):
      start, out = c
      out = lax.dynamic_update_slice(out, k[None], (start[k],))
      return (start + (jnp.arange(64) == k), out), None
    return lax.scan(place, (start, jnp.zeros(4000, jnp.int32)), x)[0][1]
  return f, keys()


@spelling("counting_sort")
def filled_by_while():
  def f(x):
    count = jnp.zeros(64, jnp.int32).at[x].add(1)
    def step(c):
      i, k, left, out = c
      def put():
        return i + 1, k, left - 1, out.at[i].set(k)
      def move():
        return i, k + 1, count[(k + 1) % 64], out
      return lax.cond(left > 0, put, move)
    return lax.while_loop(lambda c: c[0] < 4000, step, (0, 0, count[0], jnp.zeros(4000, jnp.int32)))[3]
  return f, keys()


# Cocktail sort: there and back.

@spelling("cocktail_sort")
def swaps_at_set():
  def f(x):
    def swap(i, x):
      a, b = x[i], x[i + 1]
      return x.at[i].set(jnp.minimum(a, b)).at[i + 1].set(jnp.maximum(a, b))
    def both(_, x):
      x = lax.fori_loop(0, 127, swap, x)
      return lax.fori_loop(0, 127, lambda k, x: swap(126 - k, x), x)
    return lax.fori_loop(0, 64, both, x)
  return f, (numbers(128),)


@spelling("cocktail_sort")
def extremes_carried():
  def f(x):
    def up(m, v):
      return jnp.maximum(m, v), jnp.minimum(m, v)
    def down(m, v):
      return jnp.minimum(m, v), jnp.maximum(m, v)
    def both(x, _):
      last, rest = lax.scan(up, x[0], x[1:])
      first, rest = lax.scan(down, last, rest, reverse=True)
      return jnp.concatenate([first[None], rest]), None
    return lax.scan(both, x, None, length=64)[0]
  return f, (numbers(128),)


@spelling("cocktail_sort")
def conds_until_sorted():
  def f(x):
    def swap(i, c):
      x, moved = c
      def exchange(x):
        return x.at[jnp.array([i, i + 1])].set(x[jnp.array([i + 1, i])])
      bad = x[i] > x[i + 1]
      return lax.cond(bad, exchange, lambda x: x, x), moved | bad
    def both(c):
      c = lax.fori_loop(0, 127, swap, (c[0], False))
      return lax.fori_loop(0, 127, lambda k, c: swap(126 - k, c), c)
    return lax.while_loop(lambda c: c[1], both, (x, True))[0]
  return f, (numbers(128),)


# Clusters of a percolation: every open cell takes the least label around it until nothing changes.

GROUND = 48


def ground():
  return (np.random.default_rng(8).uniform(size=(GROUND, GROUND)) < 0.6,)


@spelling("clusters")
def rolls_and_masks():
  def f(is_open):
    first = jnp.where(is_open, jnp.arange(GROUND * GROUND).reshape(GROUND, GROUND), 9999)
    def step(c):
      x, _ = c
      wide = jnp.pad(x, 1, constant_values=9999)
      new = jnp.minimum(jnp.minimum(wide[2:, 1:-1], wide[:-2, 1:-1]), jnp.minimum(wide[1:-1, 2:], wide[1:-1, :-2]))
      new = jnp.where(is_open, jnp.minimum(x, new), 9999)
      return new, jnp.any(new != x)
    return lax.while_loop(lambda c: c[1], step, (first, True))[0]
  return f, ground()


@spelling("clusters")
def inside_at_min():
  def f(is_open):
    first = jnp.where(is_open, jnp.arange(GROUND * GROUND).reshape(GROUND, GROUND), 9999)
    def step(c):
      x, _ = c
      new = x.at[1:].min(x[:-1]).at[:-1].min(x[1:]).at[:, 1:].min(x[:, :-1]).at[:, :-1].min(x[:, 1:])
      new = jnp.where(is_open, new, 9999)
      return new, jnp.sum(jnp.abs(new - x)) > 0
    return lax.while_loop(lambda c: c[1], step, (first, jnp.bool_(True)))[0]
  return f, ground()


@spelling("clusters")
def before_carried():
  def f(is_open):
    first = jnp.where(is_open, jnp.arange(GROUND * GROUND).reshape(GROUND, GROUND), 9999)
    def step(c):
      x, _ = c
      side = jnp.full((1, GROUND), 9999)
      up, down = jnp.concatenate([x[1:], side]), jnp.concatenate([side, x[:-1]])
      left, right = jnp.concatenate([x[:, 1:], side.T], 1), jnp.concatenate([side.T, x[:, :-1]], 1)
      best = jnp.min(jnp.stack([x, up, down, left, right]), axis=0)
      return lax.select(is_open, best, x), x
    return lax.while_loop(lambda c: ~jnp.array_equal(c[0], c[1]), step, (first, first + 1))[0]
  return f, ground()


# Goertzel's filter at several frequencies.

def tones():
  return (numbers(1000, seed=3), (2 * np.cos(2 * np.pi * np.arange(1, 9) / 50)).astype(np.float32))


@spelling("goertzel", tolerance=1e-3)
def mapped_scan():
  def f(x, k):
    def one(k):
      def step(c, v):
        return (v + k * c[0] - c[1], c[0]), None
      a, b = lax.scan(step, (jnp.float32(0), jnp.float32(0)), x)[0]
      return a * a + b * b - k * a * b
    return jax.vmap(one)(k)
  return f, tones()


@spelling("goertzel", tolerance=1e-3)
def rows_of_state():
  def f(x, k):
    def step(i, s):
      return s.at[i + 2].set(x[i] + k * s[i + 1] - s[i])
    s = lax.fori_loop(0, 1000, step, jnp.zeros((1002, 8)))
    a, b = s[-1], s[-2]
    return a * a + b * b - k * a * b
  return f, tones()


@spelling("goertzel", tolerance=1e-3)
def stacked_pair():
  def f(x, k):
    def step(i, s):
      return jnp.stack([x[i] + k * s[0] - s[1], s[0]])
    a, b = lax.fori_loop(0, 1000, step, jnp.zeros((2, 8)))
    return a * a + b * b - k * a * b
  return f, tones()


@spelling("goertzel", tolerance=1e-3)
def mapped_frequencies():
  def f(x, k):
    def one(k):
      def step(i, c):
        a, b = c
        return x[i] + k * a - b, a
      a, b = lax.fori_loop(0, 1000, step, (0.0, 0.0))
      return a * a + b * b - k * a * b
    return lax.map(one, k)
  return f, tones()


# Kahan's sum of a long list.

@spelling("kahan", tolerance=1e-6)
def scan_pair():
  def f(x):
    def step(c, v):
      s, e = c
      y = v - e
      t = s + y
      return (t, (t - s) - y), None
    return lax.scan(step, (jnp.float32(0), jnp.float32(0)), x)[0][0]
  return f, (np.abs(numbers(4000)),)


@spelling("kahan", tolerance=1e-6)
def fori_array():
  def f(x):
    def step(i, c):
      y = x[i] - c[1]
      t = c[0] + y
      return jnp.stack([t, (t - c[0]) - y])
    return lax.fori_loop(0, 4000, step, jnp.zeros(2))[0]
  return f, (np.abs(numbers(4000)),)


@spelling("kahan", tolerance=1e-6)
def set_in_place():
  def f(x):
    def step(i, c):
      y = x[i] - c[1]
      t = c[0] + y
      return c.at[1].set((t - c[0]) - y).at[0].set(t)
    return lax.fori_loop(0, 4000, step, jnp.zeros(2))[0]
  return f, (np.abs(numbers(4000)),)


# The Z function of a word.

WORD = 1000


def word():
  return (integers(2, WORD, seed=6),)


@spelling("z_function")
def while_inside():
  def f(s):
    def step(i, c):
      z, l, r = c
      k = jnp.where(i < r, jnp.minimum(r - i, z[i - l]), 0)
      k = lax.while_loop(lambda k: (i + k < WORD) & (s[jnp.minimum(i + k, WORD - 1)] == s[k]), lambda k: k + 1, k)
      further = i + k > r
      return z.at[i].set(k), jnp.where(further, i, l), jnp.where(further, i + k, r)
    return lax.fori_loop(1, WORD, step, (jnp.zeros(WORD, jnp.int32), 0, 0))[0]
  return f, word()


@spelling("z_function")
def one_flat_while():
  def f(s):
    def step(c):
      z, i, k, l, r = c
      grows = (i + k < WORD) & (s[jnp.minimum(i + k, WORD - 1)] == s[jnp.minimum(k, WORD - 1)])
      def grow():
        return z, i, k + 1, l, r
      def end():
        new = z.at[i].set(k)
        far = i + k > r
        l2, r2 = jnp.where(far, i, l), jnp.where(far, i + k, r)
        j = i + 1
        return new, j, jnp.where(j < r2, jnp.minimum(r2 - j, new[j - l2]), 0), l2, r2
      return lax.cond(grows, grow, end)
    return lax.while_loop(lambda c: c[1] < WORD, step, (jnp.zeros(WORD, jnp.int32), 1, 0, 0, 0))[0]
  return f, word()


@spelling("z_function")
def every_place_mapped():
  def f(s):
    def one(i):
      def more(k):
        return (i + k < WORD) & (s[jnp.minimum(i + k, WORD - 1)] == s[jnp.minimum(k, WORD - 1)])
      return lax.while_loop(more, lambda k: k + 1, 0)
    return jax.vmap(one)(jnp.arange(WORD)).at[0].set(0)
  return f, word()


# Stirling's numbers of the second kind, modulo a prime.

@spelling("stirling")
def table_by_cells():
  def f(p):
    def row(n, t):
      return lax.fori_loop(1, n + 1, lambda k, t: t.at[n, k].set((k * t[n - 1, k] + t[n - 1, k - 1]) % p), t)
    return lax.fori_loop(1, 100, row, jnp.zeros((100, 100), jnp.int32).at[0, 0].set(1))[99]
  return f, (np.int32(10007),)


@spelling("stirling")
def rows_shifted():
  def f(p):
    k = jnp.arange(100)
    def row(t, _):
      return (k * t + jnp.concatenate([jnp.zeros(1, jnp.int32), t[:-1]])) % p, None
    return lax.scan(row, jnp.zeros(100, jnp.int32).at[0].set(1), None, length=99)[0]
  return f, (np.int32(10007),)


@spelling("stirling")
def row_backwards():
  def f(p):
    def row(_, t):
      t = lax.fori_loop(0, 99, lambda j, t: t.at[99 - j].set(((99 - j) * t[99 - j] + t[98 - j]) % p), t)
      return t.at[0].set(0)
    return lax.fori_loop(0, 99, row, jnp.zeros(100, jnp.int32).at[0].set(1))
  return f, (np.int32(10007),)


@spelling("stirling")
def rolled():
  def f(p):
    k = jnp.arange(100, dtype=jnp.int32)
    return lax.fori_loop(0, 99, lambda _, t: jnp.where(k > 0, (k * t + jnp.roll(t, 1)) % p, 0), (k == 0).astype(jnp.int32))
  return f, (np.int32(10007),)


# The stream cipher RC4.

def secret():
  return (integers(256, 16, seed=9),)


@spelling("rc4")
def swaps_at_set():
  def f(key):
    def mix(i, c):
      s, j = c
      j = (j + s[i] + key[i % 16]) & 255
      return s.at[i].set(s[j]).at[j].set(s[i]), j
    s, _ = lax.fori_loop(0, 256, mix, (jnp.arange(256), 0))
    def draw(c, _):
      s, i, j = c
      i = (i + 1) & 255
      j = (j + s[i]) & 255
      a, b = s[i], s[j]
      return (s.at[i].set(b).at[j].set(a), i, j), s[(a + b) & 255]
    return lax.scan(draw, (s, 0, 0), None, length=1000)[1]
  return f, secret()


@spelling("rc4")
def pairs_scattered():
  def f(key):
    def swap(s, i, j):
      return s.at[jnp.stack([i, j])].set(s[jnp.stack([j, i])])
    def mix(c, i):
      s, j = c
      j = (j + s[i] + key[i % 16]) % 256
      return (swap(s, i, j), j), None
    (s, _), _ = lax.scan(mix, (jnp.arange(256), 0), jnp.arange(256))
    def draw(n, c):
      s, j, out = c
      i = (n + 1) % 256
      j = (j + s[i]) % 256
      total = (s[i] + s[j]) % 256
      s2 = swap(s, i, j)
      return s2, j, out.at[n].set(s[total])
    return lax.fori_loop(0, 1000, draw, (s, 0, jnp.zeros(1000, jnp.int32)))[2]
  return f, secret()


@spelling("rc4")
def where_over_iota():
  def f(key):
    k = jnp.arange(256)
    def swap(s, i, j):
      a, b = s[i], s[j]
      return jnp.where(k == i, b, jnp.where(k == j, a, s))
    def mix(i, c):
      s, j = c
      j = (j + s[i] + key[i % 16]) & 255
      return swap(s, i, j), j
    s, _ = lax.fori_loop(0, 256, mix, (k, 0))
    def draw(c):
      s, n, j, out = c
      i = (n + 1) & 255
      j = (j + s[i]) & 255
      total = (s[i] + s[j]) & 255
      return swap(s, i, j), n + 1, j, lax.dynamic_update_slice(out, s[total][None], (n,))
    return lax.while_loop(lambda c: c[1] < 1000, draw, (s, 0, 0, jnp.zeros(1000, jnp.int32)))[3]
  return f, secret()


# Haar's wavelets of a signal, all levels.

@spelling("haar", tolerance=1e-5)
def masked_levels():
  def f(x):
    for level in range(9):
      n = 512 >> level
      a, b = x[:n:2], x[1:n:2]
      x = x.at[:n].set(jnp.concatenate([a + b, a - b]) * np.float32(0.70710678))
    return x
  return f, (numbers(512),)


@spelling("haar", tolerance=1e-5)
def while_halving():
  def f(x):
    k = jnp.arange(512)
    def step(c):
      n, x = c
      h = n // 2
      a, b = x[2 * (k % h) % 512], x[(2 * (k % h) + 1) % 512]
      return h, jnp.where(k < h, (a + b) * np.float32(0.70710678), jnp.where(k < n, (a - b) * np.float32(0.70710678), x))
    return lax.while_loop(lambda c: c[0] > 1, step, (512, x))[1]
  return f, (numbers(512),)


@spelling("haar", tolerance=1e-5)
def pair_by_pair():
  def f(x):
    def level(c):
      n, x = c
      h = n // 2
      def pair(i, out):
        a, b = x[2 * i], x[2 * i + 1]
        return out.at[i].set((a + b) * np.float32(0.70710678)).at[h + i].set((a - b) * np.float32(0.70710678))
      return h, lax.fori_loop(0, h, pair, x)
    return lax.while_loop(lambda c: c[0] > 1, level, (512, x))[1]
  return f, (numbers(512),)


# A curve of Bezier by de Casteljau's scheme.

def corners():
  return numbers(8, 2, seed=5), np.linspace(0, 1, 500, dtype=np.float32)


@spelling("bezier", tolerance=1e-5)
def mapped_rounds():
  def f(p, t):
    def one(t):
      q = p
      for _ in range(7):
        q = q[:-1] * (1 - t) + q[1:] * t
      return q[0]
    return jax.vmap(one)(t)
  return f, corners()


@spelling("bezier", tolerance=1e-5)
def in_place():
  def f(p, t):
    def one(i, out):
      def round(r, q):
        return lax.fori_loop(0, 7 - r, lambda k, q: q.at[k].set((1 - t[i]) * q[k] + t[i] * q[k + 1]), q)
      return out.at[i].set(lax.fori_loop(0, 7, round, p)[0])
    return lax.fori_loop(0, 500, one, jnp.zeros((500, 2)))
  return f, corners()


@spelling("bezier", tolerance=1e-5)
def rolled_whole():
  def f(p, t):
    q = jnp.broadcast_to(p[None], (500, 8, 2))
    s = t[:, None, None]
    return lax.fori_loop(0, 7, lambda _, q: (1 - s) * q + s * jnp.roll(q, -1, axis=1), q)[:, 0]
  return f, corners()


@spelling("bezier", tolerance=1e-5)
def scanned_points():
  def f(p, t):
    def point(_, t):
      q = lax.fori_loop(0, 7, lambda _, q: q.at[:-1].set((1 - t) * q[:-1] + t * q[1:]), p)
      return None, q[0]
    return lax.scan(point, None, t)[1]
  return f, corners()


# Grundy's numbers of a game of taking stones (1, 3, 4 or 7).

@spelling("grundy")
def bits_of_reached():
  def f(moves):
    def step(n, g):
      reached = jnp.int32(0)
      for k in range(4):
        reached |= jnp.where(n >= moves[k], 1 << g[jnp.maximum(n - moves[k], 0)], 0)
      return g.at[n].set(lax.population_count((~reached & (reached + 1)) - 1))
    return lax.fori_loop(0, 1000, step, jnp.zeros(1000, jnp.int32))
  return f, (np.array([1, 3, 4, 7], np.int32),)


@spelling("grundy")
def flags_and_argmin():
  def f(moves):
    def step(g, n):
      from_ = jnp.where(n >= moves, g[jnp.maximum(n - moves, 0)], 9)
      seen = jnp.zeros(10, bool).at[from_].set(True)
      return g.at[n].set(jnp.argmin(seen).astype(jnp.int32)), None
    return lax.scan(step, jnp.zeros(1000, jnp.int32), jnp.arange(1000))[0]
  return f, (np.array([1, 3, 4, 7], np.int32),)


@spelling("grundy")
def while_counts_up():
  def f(moves):
    def step(n, g):
      from_ = jnp.where(n >= moves, g[n - moves], -1)
      mex = lax.while_loop(lambda m: jnp.any(from_ == m), lambda m: m + 1, 0)
      return lax.dynamic_update_slice(g, mex[None], (n,))
    return lax.fori_loop(0, 1000, step, jnp.zeros(1000, jnp.int32))
  return f, (np.array([1, 3, 4, 7], np.int32),)


# Bitonic sort.

@spelling("bitonic_sort")
def gathered_partner():
  def f(x):
    k = jnp.arange(512)
    def step(c):
      n, j, x = c
      other = x[k ^ j]
      keep_least = ((k & j) == 0) == ((k & n) == 0)
      x = jnp.where(keep_least, jnp.minimum(x, other), jnp.maximum(x, other))
      last = j == 1
      return jnp.where(last, n * 2, n), jnp.where(last, n, j // 2), x
    return lax.while_loop(lambda c: c[0] <= 512, step, (2, 1, x))[2]
  return f, (numbers(512),)


@spelling("bitonic_sort")
def reshaped_halves():
  def f(x):
    n = 2
    while n <= 512:
      j = n // 2
      while j:
        y = x.reshape(-1, 2, j)
        up = (((np.arange(512) & n) == 0).reshape(-1, 2, j))[:, 0]
        a, b = jnp.minimum(y[:, 0], y[:, 1]), jnp.maximum(y[:, 0], y[:, 1])
        x = jnp.stack([jnp.where(up, a, b), jnp.where(up, b, a)], axis=1).reshape(-1)
        j //= 2
      n *= 2
    return x
  return f, (numbers(512),)


@spelling("bitonic_sort")
def pairs_in_place():
  def f(x):
    def stage(c):
      n, j, x = c
      def pair(i, x):
        lo = (i // j) * 2 * j + i % j
        hi = lo + j
        a, b = x[lo], x[hi]
        up = (lo & n) == 0
        l, h = jnp.minimum(a, b), jnp.maximum(a, b)
        return x.at[lo].set(jnp.where(up, l, h)).at[hi].set(jnp.where(up, h, l))
      x = lax.fori_loop(0, 256, pair, x)
      last = j == 1
      return jnp.where(last, n * 2, n), jnp.where(last, n, j // 2), x
    return lax.while_loop(lambda c: c[0] <= 512, stage, (2, 1, x))[2]
  return f, (numbers(512),)


# Dithering after Floyd and Steinberg: errors go to the right and down.

PICTURE = 48


def picture():
  return (np.random.default_rng(1).uniform(0, 1, (PICTURE, PICTURE)).astype(np.float32),)


@spelling("dither")
def added_at_four():
  def f(x):
    def pixel(k, x):
      i, j = k // PICTURE, k % PICTURE + 1
      new = jnp.where(x[i, j] > 0.5, 1.0, 0.0)
      e = (x[i, j] - new) / 16
      x = x.at[i, j].set(new).at[i, j + 1].add(7 * e)
      return x.at[i + 1, j - 1].add(3 * e).at[i + 1, j].add(5 * e).at[i + 1, j + 1].add(e)
    return lax.fori_loop(0, PICTURE * PICTURE, pixel, jnp.pad(x, ((0, 1), (1, 1))))[:-1, 1:-1]
  return f, picture()


@spelling("dither")
def rows_with_errors():
  def f(x):
    def row(below, r):
      def pixel(c, v):
        right, e1, e2 = c  # for the pixel to the right; below the last one, below this one
        v = v + right
        new = jnp.where(v > 0.5, 1.0, 0.0)
        e = (v - new) / 16
        return (7 * e, e2 + 5 * e, e), (new, e1 + 3 * e)
      z = jnp.float32(0)
      (_, last, _), (out, down) = lax.scan(pixel, (z, z, z), r + below)
      return jnp.concatenate([down[1:], last[None]]), out
    return lax.scan(row, jnp.zeros(PICTURE), x)[1]
  return f, picture()


@spelling("dither")
def nested_fori():
  def f(x):
    def row(i, x):
      def pixel(j, x):
        old = x[i, j]
        new = jnp.round(jnp.clip(old, 0, 1) - 1e-7)
        e = (old - new) / 16
        x = lax.dynamic_update_slice(x, jnp.stack([new, x[i, j + 1] + 7 * e])[None], (i, j))
        part = lax.dynamic_slice(x, (i + 1, j - 1), (1, 3))
        return lax.dynamic_update_slice(x, part + jnp.stack([3 * e, 5 * e, e])[None], (i + 1, j - 1))
      return lax.fori_loop(1, PICTURE + 1, pixel, x)
    return lax.fori_loop(0, PICTURE, row, jnp.pad(x, ((0, 1), (1, 1))))[:-1, 1:-1]
  return f, picture()


# A table of sums over rectangles.

@spelling("integral_image", tolerance=1e-5)
def two_cumsums():
  def f(x):
    return jnp.cumsum(jnp.cumsum(x, 0), 1)
  return f, (numbers(128, 128),)


@spelling("integral_image", tolerance=1e-5)
def rows_scanned():
  def f(x):
    def row(above, r):
      new = above + lax.scan(lambda s, v: (s + v, s + v), jnp.float32(0), r)[1]
      return new, new
    return lax.scan(row, jnp.zeros(128), x)[1]
  return f, (numbers(128, 128),)


@spelling("integral_image", tolerance=1e-5)
def cell_by_cell():
  def f(x):
    def cell(k, t):
      i, j = k // 128 + 1, k % 128 + 1
      return t.at[i, j].set(x[i - 1, j - 1] + t[i - 1, j] + t[i, j - 1] - t[i - 1, j - 1])
    return lax.fori_loop(0, 128 * 128, cell, jnp.zeros((129, 129)))[1:, 1:]
  return f, (numbers(128, 128),)


@spelling("integral_image", tolerance=1e-5)
def nested_and_row_sum():
  def f(x):
    def row(i, t):
      def cell(j, c):
        s, t = c
        s = s + x[i, j]
        return s, t.at[i, j].set(s + jnp.where(i > 0, t[i - 1, j], 0))
      return lax.fori_loop(0, 128, cell, (0.0, t))[1]
    return lax.fori_loop(0, 128, row, jnp.zeros((128, 128)))
  return f, (numbers(128, 128),)


# Sums of a list that changes, by a Fenwick tree.

def changes():
  return integers(1000, 1500, seed=1) + 1, integers(10, 1500, seed=2)


@spelling("fenwick")
def two_whiles():
  def f(at, by):
    def step(tree, x):
      i, v = x
      tree = lax.while_loop(lambda c: c[0] <= 1000, lambda c: (c[0] + (c[0] & -c[0]), c[1].at[c[0]].add(v)), (i, tree))[1]
      s = lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - (c[0] & -c[0]), c[1] + tree[c[0]]), (i, 0))[1]
      return tree, s
    return lax.scan(step, jnp.zeros(1001, jnp.int32), (at, by))[1]
  return f, changes()


@spelling("fenwick")
def ten_steps():
  def f(at, by):
    def step(n, c):
      tree, out = c
      def up(_, c):
        i, tree = c
        return i + (i & -i), tree.at[jnp.where(i <= 1000, i, 1001)].add(by[n], mode="drop")
      _, tree = lax.fori_loop(0, 10, up, (at[n], tree))
      def down(_, c):
        i, s = c
        return i - (i & -i), s + jnp.where(i > 0, tree[i], 0)
      return tree, out.at[n].set(lax.fori_loop(0, 10, down, (at[n], 0))[1])
    return lax.fori_loop(0, 1500, step, (jnp.zeros(1001, jnp.int32), jnp.zeros(1500, jnp.int32)))[1]
  return f, changes()


@spelling("fenwick")
def list_itself():
  def f(at, by):
    def step(x, c):
      i, v = c
      x = x.at[i].add(v)
      return x, jnp.sum(jnp.where(jnp.arange(1001) <= i, x, 0))
    return lax.scan(step, jnp.zeros(1001, jnp.int32), (at, by))[1]
  return f, changes()


# Largest of every window of a list.

@spelling("window_maximum")
def queue_of_places():
  def f(x):
    n, w = 2000, 32
    def step(i, c):
      queue, head, tail, out = c
      head = jnp.where((head < tail) & (queue[head] <= i - w), head + 1, head)
      tail = lax.while_loop(lambda t: (t > head) & (x[queue[t - 1]] <= x[i]), lambda t: t - 1, tail)
      queue = queue.at[tail].set(i)
      return queue, head, tail + 1, out.at[i].set(x[queue[head]])
    return lax.fori_loop(0, n, step, (jnp.zeros(n + 1, jnp.int32), 0, 0, jnp.zeros(n)))[3][w - 1:]
  return f, (numbers(2000),)


@spelling("window_maximum")
def windows_sliced():
  def f(x):
    return lax.map(lambda i: jnp.max(lax.dynamic_slice(x, (i,), (32,))), jnp.arange(2000 - 31))
  return f, (numbers(2000),)


@spelling("window_maximum")
def window_carried():
  def f(x):
    def step(w, v):
      w = jnp.concatenate([w[1:], v[None]])
      return w, jnp.max(w)
    return lax.scan(step, jnp.full(32, -jnp.inf), x)[1][31:]
  return f, (numbers(2000),)


@spelling("window_maximum")
def doubled():
  def f(x):
    def step(k, y):
      s = 1 << k
      return jnp.maximum(y, lax.dynamic_slice(jnp.concatenate([y, jnp.full(32, -jnp.inf)]), (s,), (2000,)))
    return lax.fori_loop(0, 5, step, x)[:2000 - 31]
  return f, (numbers(2000),)


# Ratings of players after Elo, game by game.

def games():
  r = np.random.default_rng(5)
  a = r.integers(0, 100, 2000)
  return a.astype(np.int32), ((a + r.integers(1, 100, 2000)) % 100).astype(np.int32), r.integers(0, 2, 2000).astype(np.float32)


@spelling("elo", tolerance=1e-4)
def added_twice():
  def f(a, b, won):
    def game(k, r):
      d = 32 * (won[k] - 1 / (1 + 10**((r[b[k]] - r[a[k]]) / 400)))
      return r.at[a[k]].add(d).at[b[k]].add(-d)
    return lax.fori_loop(0, 2000, game, jnp.full(100, 1500.))
  return f, games()


@spelling("elo", tolerance=1e-4)
def two_at_once():
  def f(a, b, won):
    def game(r, g):
      i, j, w = g
      d = 32 * (w - 1 / (1 + 10**((r[j] - r[i]) / 400)))
      return r.at[jnp.array([i, j])].add(jnp.array([d, -d])), None
    return lax.scan(game, jnp.full(100, 1500.), (a, b, won))[0]
  return f, games()


@spelling("elo", tolerance=1e-4)
def one_hot():
  def f(a, b, won):
    def game(r, g):
      i, j, w = g
      d = 32 * (w - 1 / (1 + 10**((r[j] - r[i]) / 400)))
      return r + d * (jax.nn.one_hot(i, 100) - jax.nn.one_hot(j, 100)), None
    return lax.scan(game, jnp.full(100, 1500.), (a, b, won))[0]
  return f, games()


# Romberg's table of an integral.

@spelling("romberg", tolerance=1e-5)
def table_at_set():
  def f(a, b):
    def row(i, t):
      n = 1 << i
      h = (b - a) / n
      s = lax.fori_loop(0, n, lambda k, s: s + jnp.sin(jnp.exp(a + (k + 0.5) * h)), 0.0)
      t = t.at[i + 1, 0].set(0.5 * t[i, 0] + 0.5 * h * s)
      def column(j, t):
        return t.at[i + 1, j].set(t[i + 1, j - 1] + (t[i + 1, j - 1] - t[i, j - 1]) / (4.0**j - 1))
      return lax.fori_loop(1, i + 2, column, t)
    first = 0.5 * (b - a) * (jnp.sin(jnp.exp(a)) + jnp.sin(jnp.exp(b)))
    return lax.fori_loop(0, 10, row, jnp.zeros((11, 11)).at[0, 0].set(first))[10, 10]
  return f, (np.float32(0), np.float32(2))


@spelling("romberg", tolerance=1e-5)
def rows_of_samples():
  def f(a, b):
    row = [0.5 * (b - a) * (jnp.sin(jnp.exp(a)) + jnp.sin(jnp.exp(b)))]
    for i in range(10):
      n = 1 << i
      h = (b - a) / n
      new = [0.5 * row[0] + 0.5 * h * jnp.sum(jnp.sin(jnp.exp(a + (jnp.arange(n) + 0.5) * h)))]
      for j in range(1, i + 2):
        new.append(new[-1] + (new[-1] - row[j - 1]) / (4.0**j - 1))
      row = new
    return row[-1]
  return f, (np.float32(0), np.float32(2))


@spelling("romberg", tolerance=1e-5)
def while_samples():
  def f(a, b):
    def row(c):
      i, n, h, row = c
      s = lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + jnp.sin(jnp.exp(a + (c[0] + 0.5) * h))), (0, 0.0))[1]
      first = 0.5 * row[0] + 0.5 * h * s
      def column(v, x):
        j, old = x
        return v + (v - old) / (4.0**(j + 1) - 1), v
      last, rest = lax.scan(column, first, (jnp.arange(10), row[:10]))
      return i + 1, n * 2, h / 2, jnp.concatenate([rest, last[None]])
    first = 0.5 * (b - a) * (jnp.sin(jnp.exp(a)) + jnp.sin(jnp.exp(b)))
    return lax.while_loop(lambda c: c[0] < 10, row, (0, 1, b - a, jnp.zeros(11).at[0].set(first)))[3][10]
  return f, (np.float32(0), np.float32(2))


# Distances to the nearest wall, in two sweeps.

def walls():
  return (np.random.default_rng(2).uniform(size=(64, 64)) < 0.02,)


@spelling("distance_map")
def sweeps_of_rows():
  def f(wall):
    d = jnp.where(wall, 0, 999)
    def across(r):
      f = lax.scan(lambda c, v: (jnp.minimum(c + 1, v),) * 2, 999, r)[1]
      return lax.scan(lambda c, v: (jnp.minimum(c + 1, v),) * 2, 999, f, reverse=True)[1]
    def row(above, r):
      new = across(jnp.minimum(r, above + 1))
      return new, new
    d = lax.scan(row, jnp.full(64, 999), d)[1]
    return lax.scan(row, jnp.full(64, 999), d, reverse=True)[1]
  return f, walls()


@spelling("distance_map")
def pixel_by_pixel():
  def f(wall):
    d = jnp.pad(jnp.where(wall, 0, 999), 1, constant_values=999)
    def there(k, d):
      i, j = k // 64 + 1, k % 64 + 1
      return d.at[i, j].set(jnp.minimum(d[i, j], jnp.minimum(d[i - 1, j], d[i, j - 1]) + 1))
    def back(k, d):
      i, j = 64 - k // 64, 64 - k % 64
      return d.at[i, j].set(jnp.minimum(d[i, j], jnp.minimum(d[i + 1, j], d[i, j + 1]) + 1))
    return lax.fori_loop(0, 4096, back, lax.fori_loop(0, 4096, there, d))[1:-1, 1:-1]
  return f, walls()


@spelling("distance_map")
def until_nothing_changes():
  def f(wall):
    def step(c):
      d, _ = c
      w = jnp.pad(d, 1, constant_values=999)
      new = jnp.minimum(jnp.minimum(w[2:, 1:-1], w[:-2, 1:-1]), jnp.minimum(w[1:-1, 2:], w[1:-1, :-2])) + 1
      new = jnp.minimum(d, new)
      return new, jnp.any(new < d)
    return lax.while_loop(lambda c: c[1], step, (jnp.where(wall, 0, 999), True))[0]
  return f, walls()


# An image opened: worn down three times, grown three times.

@spelling("opening")
def windows():
  def f(x):
    def least(x): return lax.reduce_window(x, jnp.inf, lax.min, (3, 3), (1, 1), "SAME")
    def most(x): return lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME")
    x = lax.fori_loop(0, 3, lambda _, x: least(x), x)
    return lax.fori_loop(0, 3, lambda _, x: most(x), x)
  return f, (numbers(64, 64),)


@spelling("opening")
def shifted_pads():
  def f(x):
    def around(x, edge, pick):
      w = jnp.pad(x, 1, constant_values=edge)
      w = pick(pick(w[:-2], w[1:-1]), w[2:])
      return pick(pick(w[:, :-2], w[:, 1:-1]), w[:, 2:])
    x = lax.scan(lambda x, _: (around(x, jnp.inf, jnp.minimum), None), x, None, length=3)[0]
    return lax.scan(lambda x, _: (around(x, -jnp.inf, jnp.maximum), None), x, None, length=3)[0]
  return f, (numbers(64, 64),)


@spelling("opening")
def nine_slices_stacked():
  def f(x):
    def around(x, edge, pick):
      w = jnp.pad(x, 1, constant_values=edge)
      return pick(jnp.stack([lax.dynamic_slice(w, (i, j), (64, 64)) for i in range(3) for j in range(3)]), axis=0)
    x = lax.fori_loop(0, 3, lambda _, x: around(x, jnp.inf, jnp.min), x)
    return lax.fori_loop(0, 3, lambda _, x: around(x, -jnp.inf, jnp.max), x)
  return f, (numbers(64, 64),)


@spelling("opening")
def rolled_where():
  def f(x):
    k = jnp.arange(64)
    def around(x, edge, pick):
      up, down = jnp.where(k[:, None] == 63, edge, jnp.roll(x, -1, 0)), jnp.where(k[:, None] == 0, edge, jnp.roll(x, 1, 0))
      x = pick(x, pick(up, down))
      left, right = jnp.where(k == 63, edge, jnp.roll(x, -1, 1)), jnp.where(k == 0, edge, jnp.roll(x, 1, 1))
      return pick(x, pick(left, right))
    x = lax.fori_loop(0, 3, lambda _, x: around(x, jnp.inf, jnp.minimum), x)
    return lax.fori_loop(0, 3, lambda _, x: around(x, -jnp.inf, jnp.maximum), x)
  return f, (numbers(64, 64),)

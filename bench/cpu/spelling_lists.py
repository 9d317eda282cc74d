"""Sorts, words, trees over lists and games, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

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

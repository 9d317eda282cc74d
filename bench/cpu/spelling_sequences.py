"""Sorts, strings and tables over sequences that nothing was tuned for, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Shell sort with the gaps of a table.

SHELL = 300
GAPS = np.array([132, 57, 23, 10, 4, 1], np.int32)


def shell_values():
  return (numbers(SHELL, seed=31),)


@spelling("shell_sort")
def inner_while():
  def f(x):
    gaps = jnp.asarray(GAPS)
    def place(gap, i, x):
      value = x[i]
      def move(s):
        j, x = s
        return j - gap, x.at[j].set(x[j - gap])
      j, x = lax.while_loop(lambda s: (s[0] >= gap) & (s[1][s[0] - gap] > value), move, (i, x))
      return x.at[j].set(value)
    return lax.fori_loop(0, len(GAPS), lambda g, x: lax.fori_loop(gaps[g], SHELL, lambda i, x: place(gaps[g], i, x), x), x)
  return f, shell_values()


@spelling("shell_sort")
def swapped_pairs():
  def f(x):
    def by_gap(x, gap):
      def place(i, x):
        def swap(s):
          j, x = s
          a, b = x[j - gap], x[j]
          return j - gap, x.at[j - gap].set(b).at[j].set(a)
        return lax.while_loop(lambda s: (s[0] >= gap) & (s[1][s[0] - gap] > s[1][s[0]]), swap, (i, x))[1]
      return lax.fori_loop(gap, SHELL, place, x), None
    return lax.scan(by_gap, x, jnp.asarray(GAPS))[0]
  return f, shell_values()


@spelling("shell_sort")
def unrolled_gaps():
  def f(x):
    for gap in map(int, GAPS):
      def place(i, x, gap=gap):
        value = lax.dynamic_index_in_dim(x, i, keepdims=False)
        def move(s):
          j, x = s
          return j - gap, lax.dynamic_update_index_in_dim(x, x[j - gap], j, 0)
        j, x = lax.while_loop(lambda s: jnp.logical_and(s[0] >= gap, s[1][s[0] - gap] > value), move, (i, x))
        return lax.dynamic_update_index_in_dim(x, value, j, 0)
      x = lax.fori_loop(gap, SHELL, place, x)
    return x
  return f, shell_values()


# Radix sort of 16-bit keys, four bits a pass.

RADIX = 2000


def keys():
  return (integers(1 << 16, RADIX, seed=32),)


@spelling("radix_sort")
def one_by_one():
  def f(x):
    def by_digit(d, x):
      digit = (x >> (4 * d)) & 15
      count = lax.fori_loop(0, RADIX, lambda i, c: c.at[digit[i]].add(1), jnp.zeros(16, jnp.int32))
      start = jnp.cumsum(count) - count
      def place(i, s):
        start, out = s
        at = start[digit[i]]
        return start.at[digit[i]].add(1), out.at[at].set(x[i])
      return lax.fori_loop(0, RADIX, place, (start, jnp.zeros_like(x)))[1]
    return lax.fori_loop(0, 4, by_digit, x)
  return f, keys()


@spelling("radix_sort")
def ranks_by_cumsum():
  def f(x):
    def by_digit(x, shift):
      digit = (x >> shift) & 15
      one_hot = (digit[:, None] == jnp.arange(16)[None]).astype(jnp.int32)
      before = jnp.cumsum(one_hot, axis=0) - one_hot
      count = one_hot.sum(0)
      start = jnp.cumsum(count) - count
      place = start[digit] + jnp.take_along_axis(before, digit[:, None], 1)[:, 0]
      return jnp.zeros_like(x).at[place].set(x), None
    return lax.scan(by_digit, x, jnp.arange(4) * 4)[0]
  return f, keys()


@spelling("radix_sort")
def scanned_ranks():
  def f(x):
    def by_digit(d, x):
      digit = (x >> (4 * d)) & 15
      def count(c, v):
        return c.at[v].add(1), c[v]
      total, rank = lax.scan(count, jnp.zeros(16, jnp.int32), digit)
      start = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(total)[:-1]])
      return jnp.zeros_like(x).at[start[digit] + rank].set(x, unique_indices=True)
    return lax.fori_loop(0, 4, by_digit, x)
  return f, keys()


@spelling("radix_sort")
def stable_argsort():
  def f(x):
    for d in range(4):
      x = x[jnp.argsort((x >> (4 * d)) & 15, stable=True)]
    return x
  return f, keys()


# Heap sort.

HEAP = 256


def heap_values():
  return (integers(10000, HEAP, seed=33),)


def larger_child(x, i, n):
  left = 2 * i + 1
  right = jnp.minimum(left + 1, n - 1)
  return jnp.where(x[right] > x[jnp.minimum(left, n - 1)], right, left)


@spelling("heap_sort")
def nested_whiles():
  def f(x):
    def sift(x, i, n):
      def cond(s):
        i, x = s
        child = larger_child(x, i, n)
        return (2 * i + 1 < n) & (x[jnp.minimum(child, HEAP - 1)] > x[i])
      def body(s):
        i, x = s
        child = larger_child(x, i, n)
        a, b = x[i], x[child]
        return child, x.at[i].set(b).at[child].set(a)
      return lax.while_loop(cond, body, (i, x))[1]
    x = lax.fori_loop(0, HEAP // 2, lambda k, x: sift(x, HEAP // 2 - 1 - k, HEAP), x)
    def take(k, x):
      n = HEAP - 1 - k
      first, last = x[0], x[n]
      return sift(x.at[0].set(last).at[n].set(first), 0, n)
    return lax.fori_loop(0, HEAP - 1, take, x)
  return f, heap_values()


@spelling("heap_sort")
def done_flag():
  def f(x):
    def sift(x, i, n):
      def body(s):
        i, x, _ = s
        child = larger_child(x, i, n)
        inside = 2 * i + 1 < n
        child = jnp.where(inside, child, i)
        swap = inside & (x[child] > x[i])
        a, b = x[i], x[child]
        x = jnp.where(swap, x.at[i].set(b).at[child].set(a), x)
        return jnp.where(swap, child, i), x, ~swap
      return lax.while_loop(lambda s: ~s[2], body, (i, x, False))[1]
    x = lax.fori_loop(0, HEAP // 2, lambda k, x: sift(x, HEAP // 2 - 1 - k, HEAP), x)
    def take(x, n):
      first, last = x[0], x[n]
      return sift(x.at[0].set(last).at[n].set(first), jnp.int32(0), n), None
    return lax.scan(take, x, jnp.arange(HEAP - 1, 0, -1))[0]
  return f, heap_values()


@spelling("heap_sort")
def held_value():
  def f(x):
    def sift(x, value, i, n):
      def cond(s):
        return ~s[2]
      def body(s):
        i, x, _ = s
        child = larger_child(x, i, n)
        down = (2 * i + 1 < n) & (x[jnp.minimum(child, HEAP - 1)] > value)
        x = lax.cond(down, lambda x: x.at[i].set(x[child]), lambda x: x.at[i].set(value), x)
        return jnp.where(down, child, i), x, ~down
      return lax.while_loop(cond, body, (i, x, jnp.bool_(False)))[1]
    def build(k, x):
      i = HEAP // 2 - 1 - k
      return sift(x, x[i], i, HEAP)
    x = lax.fori_loop(0, HEAP // 2, build, x)
    def take(k, x):
      n = HEAP - 1 - k
      last = x[n]
      return sift(x.at[n].set(x[0]), last, jnp.int32(0), n)
    return lax.fori_loop(0, HEAP - 1, take, x)
  return f, heap_values()


# Odd-even transposition sort: neighbours in pairs, n rounds.

ODD_EVEN = 256


def odd_even_values():
  return (numbers(ODD_EVEN, seed=34),)


@spelling("odd_even_sort")
def reshaped_pairs():
  def f(x):
    def pairs(x):
      p = x.reshape(-1, 2)
      return jnp.stack([jnp.minimum(p[:, 0], p[:, 1]), jnp.maximum(p[:, 0], p[:, 1])], 1).reshape(-1)
    def two_rounds(_, x):
      x = pairs(x)
      return jnp.concatenate([x[:1], pairs(x[1:-1]), x[-1:]])
    return lax.fori_loop(0, ODD_EVEN // 2, two_rounds, x)
  return f, odd_even_values()


@spelling("odd_even_sort")
def strided_at_set():
  def f(x):
    def two_rounds(_, x):
      a, b = x[0::2], x[1::2]
      x = x.at[0::2].set(jnp.minimum(a, b)).at[1::2].set(jnp.maximum(a, b))
      a, b = x[1:-1:2], x[2::2]
      return x.at[1:-1:2].set(jnp.minimum(a, b)).at[2::2].set(jnp.maximum(a, b))
    return lax.fori_loop(0, ODD_EVEN // 2, two_rounds, x)
  return f, odd_even_values()


@spelling("odd_even_sort")
def rolled_where():
  def f(x):
    i = jnp.arange(ODD_EVEN)
    def one_round(x, r):
      lower = (i % 2 == r % 2) & (i < ODD_EVEN - 1)
      upper = (i % 2 != r % 2) & (i > 0)
      up, down = jnp.roll(x, -1), jnp.roll(x, 1)
      return jnp.where(lower, jnp.minimum(x, up), jnp.where(upper, jnp.maximum(x, down), x)), None
    return lax.scan(one_round, x, jnp.arange(ODD_EVEN))[0]
  return f, odd_even_values()


@spelling("odd_even_sort")
def gathered_partner():
  def f(x):
    i = jnp.arange(ODD_EVEN)
    def one_round(r, x):
      partner = jnp.clip(jnp.where((i + r) % 2 == 0, i + 1, i - 1), 0, ODD_EVEN - 1)
      other = x[partner]
      return jnp.where(partner > i, jnp.minimum(x, other), jnp.maximum(x, other))
    return lax.fori_loop(0, ODD_EVEN, one_round, x)
  return f, odd_even_values()


# Knuth, Morris and Pratt: how often a pattern of 12 letters stands in a text.

PATTERN, HAYSTACK = 12, 4000


def hay():
  return np.array([0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0], np.int32), integers(2, HAYSTACK, seed=35)


def borders_of(p):
  def at(i, s):
    border, k = s
    k = lax.while_loop(lambda k: (k > 0) & (p[k] != p[i]), lambda k: border[k - 1], k)
    k = k + (p[k] == p[i]).astype(jnp.int32)
    return border.at[i].set(k), k
  return lax.fori_loop(1, PATTERN, at, (jnp.zeros(PATTERN, jnp.int32), jnp.int32(0)))[0]


@spelling("text_search")
def fori_inner_while():
  def f(p, text):
    border = borders_of(p)
    def at(i, s):
      k, found = s
      k = lax.while_loop(lambda k: (k > 0) & (p[k] != text[i]), lambda k: border[k - 1], k)
      k = k + (p[k] == text[i]).astype(jnp.int32)
      full = k == PATTERN
      return jnp.where(full, border[PATTERN - 1], k), found + full.astype(jnp.int32)
    return lax.fori_loop(0, HAYSTACK, at, (jnp.int32(0), jnp.int32(0)))[1]
  return f, hay()


@spelling("text_search")
def scan_inner_while():
  def f(p, text):
    border = borders_of(p)
    def at(k, letter):
      k = lax.while_loop(lambda k: (k > 0) & (p[k] != letter), lambda k: border[k - 1], k)
      k = jnp.where(p[k] == letter, k + 1, k)
      full = k == PATTERN
      return jnp.where(full, border[PATTERN - 1], k), full
    return jnp.sum(lax.scan(at, jnp.int32(0), text)[1].astype(jnp.int32))
  return f, hay()


@spelling("text_search")
def flat_while():
  def f(p, text):
    border = borders_of(p)
    def step(s):
      i, k, found = s
      same = p[k] == text[i]
      full = same & (k == PATTERN - 1)
      back = border[jnp.maximum(k - 1, 0)]
      next_k = jnp.where(full, border[PATTERN - 1], jnp.where(same, k + 1, back))
      return i + (same | (k == 0)).astype(jnp.int32), jnp.where(same | (k > 0), next_k, 0), found + full.astype(jnp.int32)
    return lax.while_loop(lambda s: s[0] < HAYSTACK, step, (jnp.int32(0), jnp.int32(0), jnp.int32(0)))[2]
  return f, hay()


@spelling("text_search")
def cond_steps():
  def f(p, text):
    border = borders_of(p)
    def step(s):
      i, k, found = s
      def same(_):
        full = k == PATTERN - 1
        return i + 1, jnp.where(full, border[PATTERN - 1], k + 1), found + full.astype(jnp.int32)
      def other(_):
        return lax.cond(k == 0, lambda: (i + 1, k, found), lambda: (i, border[k - 1], found))
      return lax.cond(p[k] == text[i], same, other, None)
    return lax.while_loop(lambda s: s[0] < HAYSTACK, step, (jnp.int32(0), jnp.int32(0), jnp.int32(0)))[2]
  return f, hay()


# The longest palindromic subsequence.

PALINDROME = 120


def letters():
  return (integers(4, PALINDROME, seed=36),)


@spelling("palindrome")
def table_by_length():
  def f(s):
    n = PALINDROME
    def by_length(length, t):
      def start(i, t):
        j = i + length - 1
        inner = jnp.where(length > 2, t[i + 1, jnp.maximum(j - 1, 0)], 0)
        best = jnp.where(s[i] == s[j], inner + 2, jnp.maximum(t[i + 1, j], t[i, j - 1]))
        return t.at[i, j].set(best)
      return lax.fori_loop(0, n - length + 1, start, t)
    return lax.fori_loop(2, n + 1, by_length, jnp.eye(n, dtype=jnp.int32))[0, n - 1]
  return f, letters()


@spelling("palindrome")
def rows_from_below():
  def f(s):
    n = PALINDROME
    def row(k, t):
      i = n - 1 - k
      def cell(j, t):
        best = jnp.where(s[i] == s[j], t[i + 1, j - 1] + 2, jnp.maximum(t[i + 1, j], t[i, j - 1]))
        return t.at[i, j].set(best)
      return lax.fori_loop(i + 1, n, cell, t.at[i, i].set(1))
    return lax.fori_loop(0, n, row, jnp.zeros((n + 1, n), jnp.int32))[0, n - 1]
  return f, letters()


@spelling("palindrome")
def scanned_reverse():
  def f(s):
    def row(below, x):
      def cell(carry, given):
        left, corner = carry
        y, down = given
        best = jnp.where(x == y, corner + 1, jnp.maximum(down, left))
        return (best, down), best
      return lax.scan(cell, (jnp.int32(0), jnp.int32(0)), (s[::-1], below))[1], None
    return lax.scan(row, jnp.zeros(PALINDROME, jnp.int32), s)[0][-1]
  return f, letters()


# Global alignment (Needleman and Wunsch) with the path traced back.

ALIGNED = 100


def strands():
  return integers(4, ALIGNED, seed=37), np.roll(integers(4, ALIGNED, seed=37), 9) & 3


def start_table():
  n = ALIGNED + 1
  return jnp.zeros((n, n), jnp.int32).at[0].set(-jnp.arange(n)).at[:, 0].set(-jnp.arange(n))


@spelling("alignment")
def table_then_while():
  def f(a, b):
    def cell(i, j, t):
      diagonal = t[i, j] + jnp.where(a[i] == b[j], 1, -1)
      return t.at[i + 1, j + 1].set(jnp.maximum(diagonal, jnp.maximum(t[i, j + 1], t[i + 1, j]) - 1))
    t = lax.fori_loop(0, ALIGNED, lambda i, t: lax.fori_loop(0, ALIGNED, lambda j, t: cell(i, j, t), t), start_table())
    def back(s):
      i, j, k, path = s
      here = t[i, j]
      up, left = here == t[jnp.maximum(i - 1, 0), j] - 1, here == t[i, jnp.maximum(j - 1, 0)] - 1
      move = jnp.where((i > 0) & up, 1, jnp.where((j > 0) & left, 2, 0))
      return i - (move != 2).astype(jnp.int32), j - (move != 1).astype(jnp.int32), k + 1, path.at[k].set(move)
    start = (jnp.int32(ALIGNED), jnp.int32(ALIGNED), jnp.int32(0), jnp.full(2 * ALIGNED, -1, jnp.int32))
    return t[-1, -1], lax.while_loop(lambda s: (s[0] > 0) | (s[1] > 0), back, start)[3]
  return f, strands()


@spelling("alignment")
def scans_and_moves():
  def f(a, b):
    first = -jnp.arange(ALIGNED + 1)
    def row(above, given):
      x, edge = given
      def cell(left, given):
        y, corner, up = given
        diagonal = corner + jnp.where(x == y, 1, -1)
        best = jnp.maximum(diagonal, jnp.maximum(up, left) - 1)
        return best, (best, jnp.where(best == up - 1, 1, jnp.where(best == left - 1, 2, 0)))
      cells, moves = lax.scan(cell, edge, (b, above[:-1], above[1:]))[1]
      return jnp.concatenate([edge[None], cells]), moves
    last, moves = lax.scan(row, first, (a, -1 - jnp.arange(ALIGNED)))
    def back(s, _):
      i, j = s
      inside = moves[jnp.maximum(i - 1, 0), jnp.maximum(j - 1, 0)]
      move = jnp.where(i == 0, 2, jnp.where(j == 0, 1, inside))
      done = (i == 0) & (j == 0)
      i2 = jnp.where(done | (move == 2), i, i - 1)
      j2 = jnp.where(done | (move == 1), j, j - 1)
      return (i2, j2), jnp.where(done, -1, move)
    return last[-1], lax.scan(back, (jnp.int32(ALIGNED), jnp.int32(ALIGNED)), None, length=2 * ALIGNED)[1]
  return f, strands()


@spelling("alignment")
def two_tables():
  def f(a, b):
    n = ALIGNED
    def row(i, s):
      def cell(j, s):
        t, moves = s
        three = jnp.stack([t[i, j] + 2 * (a[i] == b[j]) - 1, t[i, j + 1] - 1, t[i + 1, j] - 1])
        best = three.max()
        move = jnp.where(three[1] == best, 1, jnp.where(three[2] == best, 2, 0))
        return lax.dynamic_update_slice(t, best[None, None], (i + 1, j + 1)), moves.at[i + 1, j + 1].set(move)
      return lax.fori_loop(0, n, cell, s)
    moves = jnp.zeros((n + 1, n + 1), jnp.int32).at[0].set(2).at[:, 0].set(1)
    t, moves = lax.fori_loop(0, n, row, (start_table(), moves))
    def back(k, s):
      i, j, path = s
      def move(s):
        i, j, path = s
        m = moves[i, j]
        return i - (m != 2), j - (m != 1), path.at[k].set(m)
      return lax.cond((i > 0) | (j > 0), move, lambda s: s, (i, j, path))
    start = (jnp.int32(n), jnp.int32(n), jnp.full(2 * n, -1, jnp.int32))
    return t[-1, -1], lax.fori_loop(0, 2 * n, back, start)[2]
  return f, strands()

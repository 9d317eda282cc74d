"""Algorithms of handbooks: transforms, factorizations, strings, streams of bits; in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Edit distance, and the way back through the table: which edits.

WORD = 80


def words():
  return integers(4, WORD, seed=1), integers(4, WORD, seed=2)


def way_back(a, b, d):
  def step(s):
    i, j, count, way = s
    up = jnp.where(i > 0, d[jnp.maximum(i - 1, 0), j], 10**6)
    left = jnp.where(j > 0, d[i, jnp.maximum(j - 1, 0)], 10**6)
    both = jnp.where((i > 0) & (j > 0), d[jnp.maximum(i - 1, 0), jnp.maximum(j - 1, 0)], 10**6)
    least = jnp.minimum(both, jnp.minimum(up, left))
    move = jnp.where(both == least, 0, jnp.where(up == least, 1, 2))
    way = way.at[count].set(move)
    return i - (move != 2), j - (move != 1), count + 1, way
  s = WORD, WORD, 0, jnp.full(2 * WORD, -1)
  return lax.while_loop(lambda s: (s[0] > 0) | (s[1] > 0), step, s)[3]


@spelling("edits")
def nested_at_set():
  def f(a, b):
    d = jnp.zeros((WORD + 1, WORD + 1), jnp.int32)
    d = d.at[0].set(jnp.arange(WORD + 1)).at[:, 0].set(jnp.arange(WORD + 1))
    def cell(i, j, d):
      cost = jnp.where(a[i - 1] == b[j - 1], 0, 1)
      return d.at[i, j].set(jnp.minimum(jnp.minimum(d[i - 1, j] + 1, d[i, j - 1] + 1), d[i - 1, j - 1] + cost))
    d = lax.fori_loop(1, WORD + 1, lambda i, d: lax.fori_loop(1, WORD + 1, lambda j, d: cell(i, j, d), d), d)
    return way_back(a, b, d)
  return f, words()


@spelling("edits")
def scanned_rows():
  def f(a, b):
    first = jnp.arange(WORD + 1)
    def row(above, x):
      i, letter = x
      def cell(left, x):
        up, both, other = x
        here = jnp.minimum(jnp.minimum(up, left) + 1, both + (letter != other))
        return here, here
      _, cells = lax.scan(cell, i, (above[1:], above[:-1], b))
      here = jnp.concatenate([i[None], cells])
      return here, here
    _, rows = lax.scan(row, first, (jnp.arange(1, WORD + 1), a))
    return way_back(a, b, jnp.concatenate([first[None], rows]))
  return f, words()


@spelling("edits")
def rows_by_cummin():
  def f(a, b):
    j = jnp.arange(WORD + 1)
    def row(above, x):
      i, letter = x
      best = jnp.minimum(above[1:] + 1, above[:-1] + (b != letter))
      best = jnp.concatenate([i[None], best])
      here = lax.cummin(best - j) + j
      return here, here
    _, rows = lax.scan(row, j, (jnp.arange(1, WORD + 1), a))
    return way_back(a, b, jnp.concatenate([j[None], rows]))
  return f, words()


@spelling("edits")
def diagonals():
  def f(a, b):
    i = jnp.arange(WORD + 1)
    def diagonal(k, s):
      d, before, last = s
      j = k - i
      same = a[jnp.clip(i - 1, 0, WORD - 1)] == b[jnp.clip(j - 1, 0, WORD - 1)]
      up, both = jnp.roll(last, 1), jnp.roll(before, 1)
      here = jnp.minimum(jnp.minimum(up, last) + 1, both + jnp.where(same, 0, 1))
      here = jnp.where(i == 0, k, jnp.where(j == 0, k, here))
      d = d.at[i, j].set(here, mode="drop")
      return d, last, here
    zero = jnp.zeros(WORD + 1, jnp.int32)
    d = lax.fori_loop(0, 2 * WORD + 1, diagonal, (jnp.zeros((WORD + 1, WORD + 1), jnp.int32), zero, zero))[0]
    return way_back(a, b, d)
  return f, words()


# Radix-2 FFT by hand.

POINTS = 1024


def signal():
  return (numbers(POINTS),)


def turns(n):
  return np.exp(-2j * np.pi * np.arange(n // 2) / n).astype(np.complex64)


def reversed_bits(n):
  bits = n.bit_length() - 1
  return np.array([int(f"{i:0{bits}b}"[::-1], 2) for i in range(n)], np.int32)


@spelling("fft_recursive", tolerance=1e-4)
def recursive():
  def fft(x):
    n = x.shape[0]
    if n == 1:
      return x
    even, odd = fft(x[0::2]), fft(x[1::2])
    t = jnp.exp(-2j * jnp.pi * jnp.arange(n // 2) / n) * odd
    return jnp.concatenate([even + t, even - t])
  return lambda x: fft(x[:64].astype(jnp.complex64)), signal()


@spelling("fft_stages", tolerance=1e-4)
def reshaped_stages():
  def f(x):
    x = x[reversed_bits(POINTS)].astype(jnp.complex64)
    size = 1
    while size < POINTS:
      x = x.reshape(-1, 2, size)
      t = turns(2 * size) * x[:, 1]
      x = jnp.concatenate([x[:, 0] + t, x[:, 0] - t], axis=1)
      size *= 2
    return x.reshape(-1)
  return f, signal()


@spelling("fft_stages", tolerance=1e-4)
def butterflies_in_place():
  def f(x):
    table = jnp.asarray(turns(POINTS))
    x = x[reversed_bits(POINTS)].astype(jnp.complex64)
    def stage(s, x):
      half = 1 << s
      def butterfly(k, x):
        group, place = k // half, k % half
        i = group * 2 * half + place
        t = table[place * (POINTS // (2 * half))] * x[i + half]
        a = x[i]
        return x.at[i].set(a + t).at[i + half].set(a - t)
      return lax.fori_loop(0, POINTS // 2, butterfly, x)
    return lax.fori_loop(0, POINTS.bit_length() - 1, stage, x)
  return f, signal()


@spelling("fft_stages", tolerance=1e-4)
def gathered_pairs():
  def f(x):
    table = jnp.asarray(turns(POINTS))
    x = x[reversed_bits(POINTS)].astype(jnp.complex64)
    k = jnp.arange(POINTS // 2)
    def stage(s, x):
      half = 1 << s
      i = (k // half) * 2 * half + k % half
      t = table[(k % half) * (POINTS // (2 * half))] * x[i + half]
      a = x[i]
      return x.at[i].set(a + t).at[i + half].set(a - t)
    return lax.fori_loop(0, POINTS.bit_length() - 1, stage, x)
  return f, signal()


@spelling("fft_stages", tolerance=1e-4)
def pairs_of_reals():
  def f(x):
    t = turns(POINTS)
    cosines, sines = jnp.asarray(t.real), jnp.asarray(t.imag)
    re, im = x[reversed_bits(POINTS)], jnp.zeros(POINTS)
    size = 1
    while size < POINTS:
      re, im = re.reshape(-1, 2, size), im.reshape(-1, 2, size)
      c, s = cosines[::POINTS // (2 * size)], sines[::POINTS // (2 * size)]
      tr, ti = c * re[:, 1] - s * im[:, 1], c * im[:, 1] + s * re[:, 1]
      re = jnp.stack([re[:, 0] + tr, re[:, 0] - tr], 1).reshape(-1)
      im = jnp.stack([im[:, 0] + ti, im[:, 0] - ti], 1).reshape(-1)
      size *= 2
    return re + 1j * im
  return f, signal()


# Gaussian elimination with partial pivoting, one right side.

EQUATIONS = 32


def equations():
  return numbers(EQUATIONS, EQUATIONS, seed=1) + 4 * np.eye(EQUATIONS, dtype=np.float32), numbers(EQUATIONS, seed=2)


@spelling("pivots", tolerance=1e-4)
def swapped_rows():
  def f(a, b):
    m = jnp.concatenate([a, b[:, None]], 1)
    rows = jnp.arange(EQUATIONS)
    def column(k, m):
      p = jnp.argmax(jnp.where(rows >= k, jnp.abs(m[:, k]), -1.0))
      rk, rp = m[k], m[p]
      m = m.at[k].set(rp).at[p].set(rk)
      factors = jnp.where(rows > k, m[:, k] / m[k, k], 0)
      return m - factors[:, None] * m[k]
    m = lax.fori_loop(0, EQUATIONS, column, m)
    def back(i, x):
      k = EQUATIONS - 1 - i
      return x.at[k].set((m[k, -1] - jnp.dot(m[k, :-1], x)) / m[k, k])
    return lax.fori_loop(0, EQUATIONS, back, jnp.zeros(EQUATIONS))
  return f, equations()


@spelling("pivots", tolerance=1e-4)
def permutation_carried():
  def f(a, b):
    rows = jnp.arange(EQUATIONS)
    def column(k, s):
      a, b, p = s
      q = jnp.argmax(jnp.where(rows >= k, jnp.abs(a[p, k]), -1.0))
      p = p.at[k].set(p[q]).at[q].set(p[k])
      def row(i, s):
        a, b = s
        factor = a[p[i], k] / a[p[k], k]
        return a.at[p[i]].add(-factor * a[p[k]]), b.at[p[i]].add(-factor * b[p[k]])
      a, b = lax.fori_loop(k + 1, EQUATIONS, row, (a, b))
      return a, b, p
    a, b, p = lax.fori_loop(0, EQUATIONS, column, (a, b, rows))
    def back(i, x):
      k = EQUATIONS - 1 - i
      return x.at[k].set((b[p[k]] - jnp.sum(a[p[k]] * x)) / a[p[k], k])
    return lax.fori_loop(0, EQUATIONS, back, jnp.zeros(EQUATIONS))
  return f, equations()


@spelling("pivots", tolerance=1e-4)
def scalar_loops():
  def f(a, b):
    n = EQUATIONS
    def column(k, s):
      a, b = s
      def larger(i, best):
        return jnp.where(jnp.abs(a[i, k]) > jnp.abs(a[best, k]), i, best)
      p = lax.fori_loop(k + 1, n, larger, k)
      def swap(j, a):
        x, y = a[k, j], a[p, j]
        return a.at[k, j].set(y).at[p, j].set(x)
      a = lax.fori_loop(k, n, swap, a)
      bk, bp = b[k], b[p]
      b = b.at[k].set(bp).at[p].set(bk)
      def row(i, s):
        a, b = s
        factor = a[i, k] / a[k, k]
        a = lax.fori_loop(k, n, lambda j, a: a.at[i, j].add(-factor * a[k, j]), a)
        return a, b.at[i].add(-factor * b[k])
      return lax.fori_loop(k + 1, n, row, (a, b))
    a, b = lax.fori_loop(0, n, column, (a, b))
    def back(i, x):
      k = n - 1 - i
      s = lax.fori_loop(k + 1, n, lambda j, s: s - a[k, j] * x[j], b[k])
      return x.at[k].set(s / a[k, k])
    return lax.fori_loop(0, n, back, jnp.zeros(n))
  return f, equations()


@spelling("pivots", tolerance=1e-4)
def unrolled_gauss_jordan():
  def f(a, b):
    m = jnp.concatenate([a, b[:, None]], 1)
    rows = jnp.arange(EQUATIONS)
    def column(m, k):
      p = jnp.argmax(jnp.where(rows >= k, jnp.abs(m[:, k]), -1.0))
      order = jnp.where(rows == k, p, jnp.where(rows == p, k, rows))
      m = m[order]
      pivot = m[k] / m[k, k]
      m = jnp.where((rows == k)[:, None], pivot, m - jnp.outer(m[:, k], pivot))
      return m, None
    m, _ = lax.scan(column, m, rows)
    return m[:, -1]
  return f, equations()


# Eigenvalues of a symmetric matrix by Jacobi's rotations, cyclic.

SIDE, SWEEPS = 12, 4


def symmetric():
  a = numbers(SIDE, SIDE)
  return (a + a.T,)


def angle(app, aqq, apq):
  theta = 0.5 * jnp.arctan2(2 * apq, aqq - app)
  return jnp.cos(theta), jnp.sin(theta)


@spelling("jacobi_eigen", tolerance=1e-4)
def rows_and_columns():
  pairs = np.array([(p, q) for p in range(SIDE) for q in range(p + 1, SIDE)] * SWEEPS, np.int32)
  def f(a):
    def rotate(a, pq):
      p, q = pq
      c, s = angle(a[p, p], a[q, q], a[p, q])
      rp, rq = a[p], a[q]
      a = a.at[p].set(c * rp - s * rq).at[q].set(s * rp + c * rq)
      cp, cq = a[:, p], a[:, q]
      return a.at[:, p].set(c * cp - s * cq).at[:, q].set(s * cp + c * cq), None
    a, _ = lax.scan(rotate, a, (pairs[:, 0], pairs[:, 1]))
    return jnp.sort(jnp.diag(a))
  return f, symmetric()


@spelling("jacobi_eigen", tolerance=1e-4)
def rotation_matrices():
  pairs = np.array([(p, q) for p in range(SIDE) for q in range(p + 1, SIDE)] * SWEEPS, np.int32)
  def f(a):
    def rotate(a, pq):
      p, q = pq[0], pq[1]
      c, s = angle(a[p, p], a[q, q], a[p, q])
      g = jnp.eye(SIDE).at[p, p].set(c).at[q, q].set(c).at[p, q].set(s).at[q, p].set(-s)
      return g.T @ a @ g, None
    return jnp.sort(jnp.diag(lax.scan(rotate, a, pairs)[0]))
  return f, symmetric()


@spelling("jacobi_eigen", tolerance=1e-4)
def nested_fori():
  def f(a):
    def rotate(q, s):
      p, a = s
      c, s = angle(a[p, p], a[q, q], a[p, q])
      def row(k, a):
        x, y = a[p, k], a[q, k]
        return a.at[p, k].set(c * x - s * y).at[q, k].set(s * x + c * y)
      a = lax.fori_loop(0, SIDE, row, a)
      def column(k, a):
        x, y = a[k, p], a[k, q]
        return a.at[k, p].set(c * x - s * y).at[k, q].set(s * x + c * y)
      return p, lax.fori_loop(0, SIDE, column, a)
    def sweep(_, a):
      return lax.fori_loop(0, SIDE - 1, lambda p, a: lax.fori_loop(p + 1, SIDE, rotate, (p, a))[1], a)
    return jnp.sort(jnp.diag(lax.fori_loop(0, SWEEPS, sweep, a)))
  return f, symmetric()


# Where a pattern is found: Knuth, Morris and Pratt.

TEXT, PATTERN = 2000, 7


def text():
  return integers(2, TEXT, seed=4), integers(2, PATTERN, seed=9)


def borders_of(p):
  def place(i, b):
    k = lax.while_loop(lambda k: (k > 0) & (p[k] != p[i]), lambda k: b[k - 1], b[i - 1])
    return b.at[i].set(k + (p[k] == p[i]))
  return lax.fori_loop(1, PATTERN, place, jnp.zeros(PATTERN, jnp.int32))


@spelling("kmp")
def scan_with_while():
  def f(t, p):
    b = borders_of(p)
    def letter(k, c):
      k = lax.while_loop(lambda k: (k > 0) & ((k == PATTERN) | (p[jnp.minimum(k, PATTERN - 1)] != c)), lambda k: b[k - 1], k)
      k = k + (p[jnp.minimum(k, PATTERN - 1)] == c)
      return k, k == PATTERN
    return lax.scan(letter, jnp.int32(0), t)[1]
  return f, text()


@spelling("kmp")
def automaton_table():
  def f(t, p):
    def state(i, s):
      table, x = s
      row = jnp.where(i < PATTERN, table[x].at[p[jnp.minimum(i, PATTERN - 1)]].set(i + 1), table[x])
      table = table.at[i].set(row)
      return table, jnp.where(i < PATTERN, table[x, p[jnp.minimum(i, PATTERN - 1)]], x)
    first = jnp.zeros((PATTERN + 1, 2), jnp.int32).at[0, p[0]].set(1)
    table, _ = lax.fori_loop(1, PATTERN + 1, state, (first, jnp.int32(0)))
    return lax.scan(lambda k, c: ((table[k, c],) * 2), jnp.int32(0), t)[1] == PATTERN
  return f, text()


@spelling("kmp")
def compared_windows():
  def f(t, p):
    i = jnp.arange(TEXT - PATTERN + 1)[:, None] + jnp.arange(PATTERN)
    found = jnp.all(t[i] == p, axis=1)
    return jnp.concatenate([jnp.zeros(PATTERN - 1, bool), found])
  return f, text()


@spelling("kmp")
def shifted_and():
  def f(t, p):
    masks = jnp.stack([jnp.sum(jnp.where(p == c, jnp.uint32(1) << jnp.arange(PATTERN, dtype=jnp.uint32), 0)) for c in range(2)])
    def letter(d, c):
      d = ((d << 1) | 1) & masks[c].astype(jnp.uint32)
      return d, (d >> (PATTERN - 1)) & 1 == 1
    return lax.scan(letter, jnp.uint32(0), t)[1]
  return f, text()


# Linear feedback: bits of a register.

BITS = 4000


@spelling("lfsr")
def scan_word():
  def f(seed):
    def step(s, _):
      bit = (s ^ (s >> 2) ^ (s >> 3) ^ (s >> 5)) & 1
      return (s >> 1) | (bit << 15), bit
    return lax.scan(step, seed, None, length=BITS)[1]
  return f, (np.uint32(0xACE1),)


@spelling("lfsr")
def array_of_bits():
  def f(seed):
    bits = (seed >> jnp.arange(16, dtype=jnp.uint32)) & 1
    def step(b, _):
      bit = b[0] ^ b[2] ^ b[3] ^ b[5]
      return jnp.concatenate([b[1:], bit[None]]), bit
    return lax.scan(step, bits, None, length=BITS)[1]
  return f, (np.uint32(0xACE1),)


@spelling("lfsr")
def rolled_bits():
  def f(seed):
    bits = (seed >> jnp.arange(16, dtype=jnp.uint32)) & 1
    def step(b, _):
      bit = (b[0] + b[2] + b[3] + b[5]) % 2
      return jnp.roll(b, -1).at[15].set(bit), bit
    return lax.scan(step, bits, None, length=BITS)[1]
  return f, (np.uint32(0xACE1),)


@spelling("lfsr")
def fori_history():
  def f(seed):
    history = jnp.zeros(BITS + 16, jnp.uint32).at[:16].set((seed >> jnp.arange(16, dtype=jnp.uint32)) & 1)
    def step(i, h):
      return h.at[i + 16].set(h[i] ^ h[i + 2] ^ h[i + 3] ^ h[i + 5])
    return lax.fori_loop(0, BITS, step, history)[16:]
  return f, (np.uint32(0xACE1),)

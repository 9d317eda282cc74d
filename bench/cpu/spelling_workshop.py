"""States of a few numbers, ciphers, checksums, machines and images, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# A planet's orbit by Runge and Kutta: position and velocity side by side.

ORBIT = 1000


def planet():
  return (np.array([1, 0, 0, 0.9], np.float32),)


def pull(p):
  return -p / jnp.sum(p * p)**1.5


@spelling("orbit", tolerance=1e-2)
def halves_of_four():
  def f(s):
    def slope(s):
      return jnp.concatenate([s[2:], pull(s[:2])])
    def step(s, _):
      a = slope(s)
      b = slope(s + 0.005 * a)
      c = slope(s + 0.005 * b)
      d = slope(s + 0.01 * c)
      return s + 0.01 / 6 * (a + 2 * b + 2 * c + d), None
    return lax.scan(step, s, None, length=ORBIT)[0]
  return f, planet()


@spelling("orbit", tolerance=1e-2)
def four_numbers():
  def f(s):
    def slope(x, y, u, v):
      r = (x * x + y * y)**1.5
      return u, v, -x / r, -y / r
    def step(_, s):
      a = slope(*s)
      b = slope(*(p + 0.005 * q for p, q in zip(s, a)))
      c = slope(*(p + 0.005 * q for p, q in zip(s, b)))
      d = slope(*(p + 0.01 * q for p, q in zip(s, c)))
      return tuple(p + 0.01 / 6 * (k + 2 * l + 2 * m + n) for p, k, l, m, n in zip(s, a, b, c, d))
    return jnp.stack(lax.fori_loop(0, ORBIT, step, tuple(s)))
  return f, planet()


@spelling("orbit", tolerance=1e-2)
def two_rows():
  def f(s):
    def slope(s):
      return jnp.stack([s[1], pull(s[0])])
    def step(_, s):
      a = slope(s)
      b = slope(s + 0.005 * a)
      c = slope(s + 0.005 * b)
      d = slope(s + 0.01 * c)
      return s + 0.01 / 6 * (a + 2 * b + 2 * c + d)
    return lax.fori_loop(0, ORBIT, step, s.reshape(2, 2)).reshape(4)
  return f, planet()


@spelling("orbit", tolerance=1e-2)
def elements_set():
  def f(s):
    def slope(s):
      r = (s[0]**2 + s[1]**2)**1.5
      return jnp.zeros(4).at[0].set(s[2]).at[1].set(s[3]).at[2].set(-s[0] / r).at[3].set(-s[1] / r)
    def step(t):
      s, k = t
      a = slope(s)
      b = slope(s + 0.005 * a)
      c = slope(s + 0.005 * b)
      d = slope(s + 0.01 * c)
      return s + 0.01 / 6 * (a + 2 * b + 2 * c + d), k + 1
    return lax.while_loop(lambda t: t[1] < ORBIT, step, (s, 0))[0]
  return f, planet()


# Leapfrog of many bodies on a line, positions and velocities in one array.

BODIES, LEAPS = 256, 300


@spelling("leapfrog", tolerance=1e-3)
def stacked_at_add():
  def f(x):
    s = jnp.stack([x, jnp.zeros_like(x)])
    def step(_, s):
      s = s.at[1].add(-0.01 * jnp.sin(s[0]))
      return s.at[0].add(0.01 * s[1])
    return lax.fori_loop(0, LEAPS, step, s)
  return f, (numbers(BODIES),)


@spelling("leapfrog", tolerance=1e-3)
def halves_of_one():
  def f(x):
    s = jnp.concatenate([x, jnp.zeros_like(x)])
    def step(s, _):
      v = s[BODIES:] - 0.01 * jnp.sin(s[:BODIES])
      return jnp.concatenate([s[:BODIES] + 0.01 * v, v]), None
    return lax.scan(step, s, None, length=LEAPS)[0].reshape(2, BODIES)
  return f, (numbers(BODIES),)


@spelling("leapfrog", tolerance=1e-3)
def two_arrays():
  def f(x):
    def step(_, s):
      x, v = s
      v = v - 0.01 * jnp.sin(x)
      return x + 0.01 * v, v
    return jnp.stack(lax.fori_loop(0, LEAPS, step, (x, jnp.zeros_like(x))))
  return f, (numbers(BODIES),)


@spelling("leapfrog", tolerance=1e-3)
def columns_of_pairs():
  def f(x):
    s = jnp.stack([x, jnp.zeros_like(x)], axis=1)
    def step(s, _):
      v = s[:, 1] - 0.01 * jnp.sin(s[:, 0])
      return jnp.stack([s[:, 0] + 0.01 * v, v], axis=1), None
    return lax.scan(step, s, None, length=LEAPS)[0].T
  return f, (numbers(BODIES),)


# ChaCha's block function, many times one after the other.

BLOCKS = 200


def key_words():
  return (np.random.default_rng(1).integers(0, 1 << 32, 16, dtype=np.uint64).astype(np.uint32),)


def left(x, n):
  return (x << n) | (x >> (32 - n))


def quarter(a, b, c, d):
  a = a + b
  d = left(d ^ a, 16)
  c = c + d
  b = left(b ^ c, 12)
  a = a + b
  d = left(d ^ a, 8)
  c = c + d
  b = left(b ^ c, 7)
  return a, b, c, d


@spelling("chacha")
def words_at_set():
  def f(s):
    def double(_, x):
      for a, b, c, d in [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]:
        p, q, r, t = quarter(x[a], x[b], x[c], x[d])
        x = x.at[a].set(p).at[b].set(q).at[c].set(r).at[d].set(t)
      return x
    return lax.fori_loop(0, BLOCKS, lambda _, s: s + lax.fori_loop(0, 10, double, s), s)
  return f, key_words()


@spelling("chacha")
def rows_of_four():
  def f(s):
    def double(_, rows):
      a, b, c, d = quarter(rows[0], rows[1], rows[2], rows[3])
      b, c, d = jnp.roll(b, -1), jnp.roll(c, -2), jnp.roll(d, -3)
      a, b, c, d = quarter(a, b, c, d)
      return jnp.stack([a, jnp.roll(b, 1), jnp.roll(c, 2), jnp.roll(d, 3)])
    def block(s, _):
      return s + lax.fori_loop(0, 10, double, s), None
    return lax.scan(block, s.reshape(4, 4), None, length=BLOCKS)[0].reshape(16)
  return f, key_words()


@spelling("chacha")
def sixteen_numbers():
  def f(s):
    def double(_, x):
      x = list(x)
      for a, b, c, d in [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]:
        x[a], x[b], x[c], x[d] = quarter(x[a], x[b], x[c], x[d])
      return tuple(x)
    def block(_, s):
      t = lax.fori_loop(0, 10, double, s)
      return tuple(a + b for a, b in zip(s, t))
    return jnp.stack(lax.fori_loop(0, BLOCKS, block, tuple(s)))
  return f, key_words()


# A cyclic redundancy check of bytes.

BYTES = 4000


def message():
  return (np.random.default_rng(2).integers(0, 256, BYTES).astype(np.uint8),)


POLYNOMIAL = np.uint32(0xEDB88320)


def crc_table():
  t = np.arange(256, dtype=np.uint32)
  for _ in range(8):
    t = np.where(t & 1, (t >> 1) ^ POLYNOMIAL, t >> 1)
  return t


@spelling("crc")
def table_scan():
  def f(x):
    table = jnp.asarray(crc_table())
    def byte(c, b):
      return table[(c ^ b) & 255] ^ (c >> 8), None
    return ~lax.scan(byte, jnp.uint32(0xFFFFFFFF), x.astype(jnp.uint32))[0]
  return f, message()


@spelling("crc")
def bit_by_bit():
  def f(x):
    def byte(i, c):
      c = c ^ x[i].astype(jnp.uint32)
      return lax.fori_loop(0, 8, lambda _, c: jnp.where(c & 1 == 1, (c >> 1) ^ POLYNOMIAL, c >> 1), c)
    return ~lax.fori_loop(0, BYTES, byte, jnp.uint32(0xFFFFFFFF))
  return f, message()


@spelling("crc")
def masks_in_while():
  def f(x):
    def byte(s):
      i, c = s
      c = c ^ x[i].astype(jnp.uint32)
      for _ in range(8):
        c = (c >> 1) ^ (POLYNOMIAL & (-(c & 1).astype(jnp.int32)).astype(jnp.uint32))
      return i + 1, c
    return ~lax.while_loop(lambda s: s[0] < BYTES, byte, (0, jnp.uint32(0xFFFFFFFF)))[1]
  return f, message()


# A machine with eight instructions that runs a program.

CYCLES = 3000


def machine():
  # Collatz' steps of 27 again and again: registers 0 to 3.
  code = np.array([[0, 0, 27, 0], [1, 1, 0, 1], [6, 1, 5, 0], [2, 0, 0, 0], [7, 7, 0, 0], [3, 0, 3, 0], [4, 0, 1, 0], [5, 0, 1, 0]], np.int32)
  return (code,)


def ops():
  return [lambda a, b, r: b, lambda a, b, r: r[a % 4] & 1, lambda a, b, r: r[0] // 2, lambda a, b, r: r[0] * b,
          lambda a, b, r: r[0] + b, lambda a, b, r: r[3] + b, lambda a, b, r: r[2] ^ a, lambda a, b, r: r[a % 4] - 1]


@spelling("machine")
def switched():
  def f(code):
    def cycle(s, _):
      pc, r = s
      op, a, b, d = code[pc]
      value = lax.switch(op, ops(), a, b, r)
      pc = jnp.where((op == 6) & (value > 0), a, pc + 1) % 8
      return (pc, r.at[d].set(value)), value
    return lax.scan(cycle, (0, jnp.zeros(4, jnp.int32)), None, length=CYCLES)[1]
  return f, machine()


@spelling("machine")
def selected():
  def f(code):
    def cycle(k, s):
      pc, r, out = s
      op, a, b, d = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3]
      value = lax.select_n(op, *[o(a, b, r) for o in ops()])
      pc = jnp.where((op == 6) & (value > 0), a, pc + 1) % 8
      return pc, r.at[d].set(value), out.at[k].set(value)
    return lax.fori_loop(0, CYCLES, cycle, (0, jnp.zeros(4, jnp.int32), jnp.zeros(CYCLES, jnp.int32)))[2]
  return f, machine()


@spelling("machine")
def registers_apart():
  def f(code):
    def cycle(s, _):
      pc, r = s[0], s[1:]
      op, a, b, d = code[pc]
      values = jnp.stack([jnp.asarray(o(a, b, jnp.stack(r)), jnp.int32) for o in ops()])
      value = values[op]
      pc = jnp.where((op == 6) & (value > 0), a, pc + 1) % 8
      return (pc, *(jnp.where(d == k, value, x) for k, x in enumerate(r))), value
    zero = jnp.int32(0)
    return lax.scan(cycle, (0, zero, zero, zero, zero), None, length=CYCLES)[1]
  return f, machine()


# Connected regions of a picture: each cell ends with the least number of its region.

FIELD = 48


def regions():
  return (np.random.default_rng(3).random((FIELD, FIELD)) < 0.6,)


def least(x, y):
  return jnp.minimum(x, y)


@spelling("regions")
def padded_rounds():
  def f(on):
    big = FIELD * FIELD
    start = jnp.where(on, jnp.arange(big).reshape(FIELD, FIELD), big)
    def round(s):
      x, _ = s
      p = jnp.pad(x, 1, constant_values=big)
      y = least(least(p[2:, 1:-1], p[:-2, 1:-1]), least(p[1:-1, 2:], p[1:-1, :-2]))
      y = jnp.where(on, least(x, y), big)
      return y, jnp.any(y != x)
    return lax.while_loop(lambda s: s[1], round, (start, True))[0]
  return f, regions()


@spelling("regions")
def rolled_rounds():
  def f(on):
    big, i = FIELD * FIELD, jnp.arange(FIELD)
    x = jnp.where(on, jnp.arange(big).reshape(FIELD, FIELD), big)
    def round(s):
      _, x = s
      y = x
      for axis, edge in ((0, i[:, None]), (1, i[None])):
        y = least(y, jnp.where(edge > 0, jnp.roll(x, 1, axis), big))
        y = least(y, jnp.where(edge < FIELD - 1, jnp.roll(x, -1, axis), big))
      return x, jnp.where(on, y, big)
    return lax.while_loop(lambda s: jnp.any(s[0] != s[1]), round, (x - 1, x))[1]
  return f, regions()


@spelling("regions")
def slices_at_min():
  def f(on):
    big = FIELD * FIELD
    x = jnp.where(on, jnp.arange(big).reshape(FIELD, FIELD), big)
    def round(s):
      x, _ = s
      y = x.at[1:].min(x[:-1]).at[:-1].min(x[1:]).at[:, 1:].min(x[:, :-1]).at[:, :-1].min(x[:, 1:])
      y = jnp.where(on, y, big)
      return y, (y != x).any()
    return lax.while_loop(lambda s: s[1], round, (x, True))[0]
  return f, regions()


# Learning from one example after the other.

SEEN, FEATURES = 1000, 16


def examples():
  x = numbers(SEEN, FEATURES)
  return x, np.sign(x @ numbers(FEATURES, seed=5)).astype(np.float32)


@spelling("perceptron", tolerance=1e-4)
def scan_where():
  def f(x, y):
    def one(w, e):
      x, y = e
      return jnp.where(y * jnp.dot(w, x) <= 0, w + 0.1 * y * x, w), None
    return lax.scan(one, jnp.zeros(FEATURES), (x, y))[0]
  return f, examples()


@spelling("perceptron", tolerance=1e-4)
def fori_cond():
  def f(x, y):
    def one(i, w):
      return lax.cond(y[i] * (w @ x[i]) <= 0, lambda w: w + 0.1 * y[i] * x[i], lambda w: w, w)
    return lax.fori_loop(0, SEEN, one, jnp.zeros(FEATURES))
  return f, examples()


@spelling("perceptron", tolerance=1e-4)
def weights_one_by_one():
  def f(x, y):
    def one(i, w):
      s = lax.fori_loop(0, FEATURES, lambda k, s: s + w[k] * x[i, k], jnp.float32(0))
      step = jnp.where(y[i] * s <= 0, 0.1 * y[i], 0.0)
      return lax.fori_loop(0, FEATURES, lambda k, w: w.at[k].add(step * x[i, k]), w)
    return lax.fori_loop(0, SEEN, one, jnp.zeros(FEATURES))
  return f, examples()


# Householder's triangular form.

ROWS = 24


@spelling("householder", tolerance=1e-4)
def masked_reflections():
  def f(a):
    i = jnp.arange(ROWS)
    def column(k, a):
      x = jnp.where(i >= k, a[:, k], 0)
      v = x.at[k].add(jnp.where(x[k] >= 0, 1, -1) * jnp.linalg.norm(x))
      return a - (2 / jnp.dot(v, v)) * jnp.outer(v, v @ a)
    return jnp.triu(lax.fori_loop(0, ROWS - 1, column, a))
  return f, (numbers(ROWS, ROWS),)


@spelling("householder", tolerance=1e-4)
def whole_matrices():
  def f(a):
    i = jnp.arange(ROWS)
    def column(a, k):
      x = jnp.where(i >= k, a[:, k], 0)
      v = x + jnp.where(i == k, jnp.sign(x[k]) * jnp.sqrt(jnp.sum(x * x)), 0)
      h = jnp.eye(ROWS) - 2 * jnp.outer(v, v) / jnp.sum(v * v)
      return h @ a, None
    return jnp.triu(lax.scan(column, a, jnp.arange(ROWS - 1))[0])
  return f, (numbers(ROWS, ROWS),)


@spelling("householder", tolerance=1e-4)
def three_loops():
  def f(a):
    def column(k, a):
      norm = jnp.sqrt(lax.fori_loop(k, ROWS, lambda i, s: s + a[i, k]**2, 0.0))
      head = a[k, k] + jnp.where(a[k, k] >= 0, norm, -norm)
      v = jnp.where(jnp.arange(ROWS) > k, a[:, k], 0).at[k].set(head)
      vv = lax.fori_loop(k, ROWS, lambda i, s: s + v[i]**2, 0.0)
      def each(j, a):
        s = lax.fori_loop(k, ROWS, lambda i, s: s + v[i] * a[i, j], 0.0) * 2 / vv
        return lax.fori_loop(k, ROWS, lambda i, a: a.at[i, j].add(-s * v[i]), a)
      return lax.fori_loop(k, ROWS, each, a)
    return jnp.triu(lax.fori_loop(0, ROWS - 1, column, a))
  return f, (numbers(ROWS, ROWS),)


# Merge sort from below, and a bitonic one.

SORTED = 256


@spelling("merging")
def runs_two_pointers():
  def f(x):
    def pass_(s):
      width, x = s
      def place(k, c):
        i, j, out = c
        start = (k // (2 * width)) * 2 * width
        fresh = k == start
        i, j = jnp.where(fresh, start, i), jnp.where(fresh, start + width, j)
        left = (j >= start + 2 * width) | ((i < start + width) & (x[jnp.minimum(i, SORTED - 1)] <= x[jnp.minimum(j, SORTED - 1)]))
        value = jnp.where(left, x[jnp.minimum(i, SORTED - 1)], x[jnp.minimum(j, SORTED - 1)])
        return i + left, j + ~left, out.at[k].set(value)
      return 2 * width, lax.fori_loop(0, SORTED, place, (0, 0, x))[2]
    return lax.while_loop(lambda s: s[0] < SORTED, pass_, (1, x))[1]
  return f, (numbers(SORTED),)


@spelling("merging")
def ranks_counted():
  def f(x):
    width = 1
    while width < SORTED:
      a = x.reshape(-1, 2, width)
      first = jnp.sum(a[:, 1, None, :] < a[:, 0, :, None], -1) + jnp.arange(width)
      second = jnp.sum(a[:, 0, None, :] <= a[:, 1, :, None], -1) + jnp.arange(width)
      rows = jnp.arange(a.shape[0])[:, None]
      out = jnp.zeros((a.shape[0], 2 * width)).at[rows, first].set(a[:, 0]).at[rows, second].set(a[:, 1])
      x, width = out.reshape(-1), 2 * width
    return x
  return f, (numbers(SORTED),)


@spelling("merging")
def bitonic():
  def f(x):
    i = jnp.arange(SORTED)
    size = 2
    while size <= SORTED:
      step = size // 2
      while step > 0:
        other = x[i ^ step]
        up = (i & size) == 0
        low = (i & step) == 0
        x = jnp.where(up == low, jnp.minimum(x, other), jnp.maximum(x, other))
        step //= 2
      size *= 2
    return x
  return f, (numbers(SORTED),)

"""Signals and series: filters that adapt, followers, series of polynomials, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# A filter that learns its taps from the error (LMS).

LEARNED, LEARNING = 16, 4000


def heard():
  x = numbers(LEARNING)
  return x, np.convolve(x, numbers(LEARNED, seed=2) / 4)[:LEARNING].astype(np.float32)


@spelling("lms", tolerance=1e-4)
def slices_of_the_past():
  def f(x, d):
    x = jnp.concatenate([jnp.zeros(LEARNED - 1), x])
    def step(w, k):
      past = lax.dynamic_slice(x, (k,), (LEARNED,))
      error = d[k] - jnp.dot(w, past)
      return w + 0.02 * error * past, error
    return lax.scan(step, jnp.zeros(LEARNED), jnp.arange(LEARNING))[1]
  return f, heard()


@spelling("lms", tolerance=1e-4)
def shifted_past():
  def f(x, d):
    def step(s, item):
      w, past = s
      past = jnp.concatenate([past[1:], item[0][None]])
      error = item[1] - jnp.sum(w * past)
      return (w + 0.02 * error * past, past), error
    return lax.scan(step, (jnp.zeros(LEARNED), jnp.zeros(LEARNED)), (x, d))[1]
  return f, heard()


@spelling("lms", tolerance=1e-4)
def rolled_past_fori():
  def f(x, d):
    def step(k, s):
      w, past, errors = s
      past = jnp.roll(past, -1).at[-1].set(x[k])
      error = d[k] - w @ past
      return w + 0.02 * error * past, past, errors.at[k].set(error)
    return lax.fori_loop(0, LEARNING, step, (jnp.zeros(LEARNED), jnp.zeros(LEARNED), jnp.zeros(LEARNING)))[2]
  return f, heard()


@spelling("lms", tolerance=1e-4)
def taps_one_by_one():
  def f(x, d):
    x = jnp.concatenate([jnp.zeros(LEARNED - 1), x])
    def step(k, s):
      w, errors = s
      heard = lax.fori_loop(0, LEARNED, lambda j, y: y + w[j] * x[k + j], jnp.float32(0))
      error = d[k] - heard
      w = lax.fori_loop(0, LEARNED, lambda j, w: w.at[j].add(0.02 * error * x[k + j]), w)
      return w, errors.at[k].set(error)
    return lax.fori_loop(0, LEARNING, step, (jnp.zeros(LEARNED), jnp.zeros(LEARNING)))[1]
  return f, heard()


# The level of a signal: up fast, down slowly.

LOUD = 20000


@spelling("envelope", tolerance=1e-5)
def scan_where():
  def f(x):
    def step(level, v):
      level = level + jnp.where(v > level, 0.3, 0.01) * (v - level)
      return level, level
    return lax.scan(step, jnp.float32(0), jnp.abs(x))[1]
  return f, (numbers(LOUD),)


@spelling("envelope", tolerance=1e-5)
def fori_at_set():
  def f(x):
    def step(k, y):
      v, level = jnp.abs(x[k]), jnp.where(k > 0, y[k - 1], 0.0)
      return y.at[k].set(level + lax.select(v > level, 0.3, 0.01) * (v - level))
    return lax.fori_loop(0, LOUD, step, jnp.zeros_like(x))
  return f, (numbers(LOUD),)


@spelling("envelope", tolerance=1e-5)
def while_cond():
  def f(x):
    def step(s):
      k, level, y = s
      v = jnp.abs(x[k])
      level = lax.cond(v > level, lambda: level + 0.3 * (v - level), lambda: level + 0.01 * (v - level))
      return k + 1, level, lax.dynamic_update_slice(y, level[None], (k,))
    return lax.while_loop(lambda s: s[0] < LOUD, step, (0, jnp.float32(0), jnp.zeros_like(x)))[2]
  return f, (numbers(LOUD),)


@spelling("envelope", tolerance=1e-5)
def array_of_level():
  def f(x):
    def step(s, v):
      v = jnp.abs(v)
      s = s.at[0].add(jnp.where(v > s[0], s[1], s[2]) * (v - s[0]))
      return s, s[0]
    return lax.scan(step, jnp.array([0, 0.3, 0.01]), x)[1]
  return f, (numbers(LOUD),)


# Legendre's polynomials at many places: each from the two before.

DEGREES, AT = 64, 4096


def places():
  return (np.linspace(-1, 1, AT, dtype=np.float32),)


@spelling("legendre", tolerance=1e-4)
def scan_of_two():
  def f(x):
    def step(s, n):
      p, q = s
      r = ((2 * n + 1) * x * q - n * p) / (n + 1)
      return (q, r), r
    first = (jnp.ones_like(x), x)
    return jnp.concatenate([jnp.stack(first), lax.scan(step, first, jnp.arange(1.0, DEGREES - 1))[1]])
  return f, places()


@spelling("legendre", tolerance=1e-4)
def rows_of_table_at_set():
  def f(x):
    def step(n, t):
      return t.at[n + 1].set(((2 * n + 1) * x * t[n] - n * t[n - 1]) / (n + 1))
    t = jnp.zeros((DEGREES, AT)).at[0].set(1.0).at[1].set(x)
    return lax.fori_loop(1, DEGREES - 1, step, t)
  return f, places()


@spelling("legendre", tolerance=1e-4)
def stacked_two():
  def f(x):
    def step(t):
      n, two, out = t
      r = ((2 * n + 1) * x * two[1] - n * two[0]) / (n + 1)
      two = jnp.stack([two[1], r])
      return n + 1, two, lax.dynamic_update_slice(out, r[None], (n + 1, 0))
    two = jnp.stack([jnp.ones_like(x), x])
    out = jnp.zeros((DEGREES, AT)).at[:2].set(two)
    return lax.while_loop(lambda t: t[0] < DEGREES - 1, step, (1, two, out))[2]
  return f, places()


@spelling("legendre", tolerance=1e-4)
def vmapped_places():
  def f(x):
    def one(x):
      def step(n, t):
        return t.at[n + 1].set(((2 * n + 1) * x * t[n] - n * t[n - 1]) / (n + 1))
      return lax.fori_loop(1, DEGREES - 1, step, jnp.zeros(DEGREES).at[0].set(1.0).at[1].set(x))
    return jax.vmap(one, out_axes=1)(x)
  return f, places()


# Angles by shifts and additions (CORDIC).

TURNS, ANGLES = 24, 8192
ARCS = np.arctan(2.0 ** -np.arange(TURNS)).astype(np.float32)
GAIN = np.float32(np.prod(1 / np.sqrt(1 + 4.0 ** -np.arange(TURNS))))


def angles():
  return (np.random.default_rng(1).uniform(-1.5, 1.5, ANGLES).astype(np.float32),)


@spelling("cordic", tolerance=1e-5)
def scan_over_table():
  def f(a):
    def turn(s, item):
      x, y, z = s
      arc, half = item
      d = jnp.where(z >= 0, half, -half)
      return (x - d * y, y + d * x, z - jnp.where(z >= 0, arc, -arc)), None
    first = (jnp.full_like(a, GAIN), jnp.zeros_like(a), a)
    return jnp.stack(lax.scan(turn, first, (jnp.array(ARCS), 2.0 ** -jnp.arange(TURNS)))[0][:2])
  return f, angles()


@spelling("cordic", tolerance=1e-5)
def stacked_state():
  def f(a):
    table = jnp.array(ARCS)
    def turn(k, s):
      d = jnp.sign(s[2]) + (s[2] == 0)
      half = d * 2.0 ** -k
      return jnp.stack([s[0] - half * s[1], s[1] + half * s[0], s[2] - d * table[k]])
    return lax.fori_loop(0, TURNS, turn, jnp.stack([jnp.full_like(a, GAIN), jnp.zeros_like(a), a]))[:2]
  return f, angles()


@spelling("cordic", tolerance=1e-5)
def vmapped_selects():
  def f(a):
    def one(a):
      def turn(t):
        k, x, y, z, half = t
        back = z < 0
        return (k + 1, lax.select(back, x + half * y, x - half * y), lax.select(back, y - half * x, y + half * x),
                lax.select(back, z + jnp.array(ARCS)[k], z - jnp.array(ARCS)[k]), half / 2)
      return jnp.stack(lax.while_loop(lambda t: t[0] < TURNS, turn, (0, GAIN, jnp.float32(0), a, jnp.float32(1)))[1:3])
    return jax.vmap(one, out_axes=1)(a)
  return f, angles()


@spelling("cordic", tolerance=1e-5)
def unrolled():
  def f(a):
    x, y, z = jnp.full_like(a, GAIN), jnp.zeros_like(a), a
    for k in range(TURNS):
      d = jnp.where(z >= 0, 1.0, -1.0)
      x, y, z = x - d * y * 2.0**-k, y + d * x * 2.0**-k, z - d * ARCS[k]
    return jnp.stack([x, y])
  return f, angles()


# A field of electricity and magnetism on a line (Yee).

YEE, TICKS = 1024, 500


def pulse():
  x = np.arange(YEE, dtype=np.float32)
  return np.exp(-((x - 300) / 20)**2).astype(np.float32), np.zeros(YEE - 1, np.float32)


@spelling("yee", tolerance=1e-5)
def inner_at_add():
  def f(e, h):
    def step(_, s):
      e, h = s
      h = h + 0.5 * (e[1:] - e[:-1])
      return e.at[1:-1].add(0.5 * (h[1:] - h[:-1])), h
    return lax.fori_loop(0, TICKS, step, (e, h))
  return f, pulse()


@spelling("yee", tolerance=1e-5)
def padded_differences():
  def f(e, h):
    def step(s, _):
      e, h = s
      h = h + 0.5 * jnp.diff(e)
      return (e + jnp.pad(0.5 * jnp.diff(h), 1), h), None
    return lax.scan(step, (e, h), None, length=TICKS)[0]
  return f, pulse()


@spelling("yee", tolerance=1e-5)
def rolls_and_where():
  def f(e, h):
    i = jnp.arange(YEE)
    def step(t):
      e, h, k = t
      h = h + jnp.where(i < YEE - 1, 0.5 * (jnp.roll(e, -1) - e), 0.0)
      return e + jnp.where((i > 0) & (i < YEE - 1), 0.5 * (h - jnp.roll(h, 1)), 0.0), h, k + 1
    e, h, _ = lax.while_loop(lambda t: t[2] < TICKS, step, (e, jnp.pad(h, (0, 1)), 0))
    return e, h[:-1]
  return f, pulse()


@spelling("yee", tolerance=1e-5)
def both_in_one_array():
  def f(e, h):
    def step(_, s):
      h = s[1].at[:-1].add(0.5 * (s[0, 1:] - s[0, :-1]))
      e = s[0].at[1:-1].add(0.5 * (h[1:-1] - h[:-2]))
      return jnp.stack([e, h])
    s = lax.fori_loop(0, TICKS, step, jnp.stack([e, jnp.pad(h, (0, 1))]))
    return s[0], s[1, :-1]
  return f, pulse()


@spelling("yee", tolerance=1e-5)
def points_in_place():
  def f(e, h):
    def step(_, s):
      e, h = s
      h = lax.fori_loop(0, YEE - 1, lambda i, h: h.at[i].add(0.5 * (e[i + 1] - e[i])), h)
      return lax.fori_loop(1, YEE - 1, lambda i, e: e.at[i].add(0.5 * (h[i] - h[i - 1])), e), h
    return lax.fori_loop(0, TICKS, step, (e, h))
  return f, pulse()


# How far below its highest value so far a price is, and the worst of it.

PRICES = 50000


def prices():
  return (np.exp(np.cumsum(numbers(PRICES)) / 100).astype(np.float32),)


@spelling("drawdown", tolerance=1e-5)
def cumulative_maximum():
  def f(x):
    d = 1 - x / lax.cummax(x)
    return d, jnp.max(d)
  return f, prices()


@spelling("drawdown", tolerance=1e-5)
def scan_of_peak_and_worst():
  def f(x):
    def step(s, v):
      peak = jnp.maximum(s[0], v)
      d = 1 - v / peak
      return (peak, jnp.maximum(s[1], d)), d
    (_, worst), d = lax.scan(step, (jnp.float32(0), jnp.float32(0)), x)
    return d, worst
  return f, prices()


@spelling("drawdown", tolerance=1e-5)
def fori_at_set_of_two():
  def f(x):
    def step(k, s):
      state, d = s
      peak = jnp.where(x[k] > state[0], x[k], state[0])
      now = 1 - x[k] / peak
      return jnp.array([peak, jnp.maximum(state[1], now)]), d.at[k].set(now)
    state, d = lax.fori_loop(0, PRICES, step, (jnp.zeros(2), jnp.zeros_like(x)))
    return d, state[1]
  return f, prices()


@spelling("drawdown", tolerance=1e-5)
def associative():
  def f(x):
    d = 1 - x / lax.associative_scan(jnp.maximum, x)
    return d, lax.reduce(d, jnp.float32(0), lax.max, (0,))
  return f, prices()


# Prediction from the autocorrelation (Levinson).

LEVINSON = 128


def correlation():
  return (np.exp(-np.arange(LEVINSON + 1) / 9).astype(np.float32) * np.cos(np.arange(LEVINSON + 1) / 3).astype(np.float32),)


@spelling("levinson", tolerance=1e-3)
def flipped_and_masked():
  def f(r):
    i = jnp.arange(LEVINSON + 1)
    def order(s, m):
      a, e = s
      k = -jnp.sum(jnp.where(i < m, a * r[jnp.abs(m - i)], 0.0)) / e
      a = a + k * jnp.where(i <= m, a[jnp.abs(m - i)], 0.0)
      return (a, e * (1 - k * k)), k
    first = (jnp.zeros(LEVINSON + 1).at[0].set(1.0), r[0])
    return lax.scan(order, first, jnp.arange(1, LEVINSON + 1))[0][0]
  return f, correlation()


@spelling("levinson", tolerance=1e-3)
def loops_over_coefficients():
  def f(r):
    def order(m, s):
      a, e = s
      k = -lax.fori_loop(0, m, lambda j, t: t + a[j] * r[m - j], jnp.float32(0)) / e
      b = lax.fori_loop(0, m + 1, lambda j, b: b.at[j].set(a[j] + k * a[m - j]), a)
      return b, e * (1 - k * k)
    return lax.fori_loop(1, LEVINSON + 1, order, (jnp.zeros(LEVINSON + 1).at[0].set(1.0), r[0]))[0]
  return f, correlation()


@spelling("levinson", tolerance=1e-3)
def slices_of_padded():
  def f(r):
    n = LEVINSON + 1
    backwards = jnp.concatenate([r[::-1], jnp.zeros(n)])
    def order(m, s):
      a, e = s
      k = -jnp.dot(a, lax.dynamic_slice(backwards, (n - 1 - m,), (n,))) / e
      turned = lax.dynamic_slice(jnp.concatenate([a[::-1], jnp.zeros(n)]), (n - 1 - m,), (n,))
      return a + k * turned, e * (1 - k * k)
    return lax.fori_loop(1, n, order, (jnp.zeros(n).at[0].set(1.0), r[0]))[0]
  return f, correlation()


@spelling("levinson", tolerance=1e-3)
def rolled_reverse():
  def f(r):
    n = LEVINSON + 1
    def order(t):
      a, b, e, m = t
      b = jnp.roll(b, 1)
      k = -jnp.vdot(jnp.where(jnp.arange(n) < m, jnp.roll(r[::-1], m - n + 1), 0.0), a) / e
      return a + k * b, b + k * a, e * (1 - k * k), m + 1
    first = jnp.zeros(n).at[0].set(1.0)
    return lax.while_loop(lambda t: t[3] <= LEVINSON, order, (first, first, r[0], 1))[0]
  return f, correlation()

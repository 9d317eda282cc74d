"""Sound and its codes, sample after sample, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# Karplus and Strong's string: a ring of samples, each the mean of two that were heard a period ago.

PERIOD, HEARD = 100, 8000


def plucked():
  return (numbers(PERIOD),)


@spelling("string", tolerance=1e-5)
def ring_of_a_period():
  def f(x):
    def step(n, s):
      ring, out = s
      here = ring[n % PERIOD]
      ring = ring.at[n % PERIOD].set(0.498 * (here + ring[(n + 1) % PERIOD]))
      return ring, out.at[n].set(here)
    return lax.fori_loop(0, HEARD, step, (x, jnp.zeros(HEARD, x.dtype)))[1]
  return f, plucked()


@spelling("string", tolerance=1e-5)
def whole_past():
  def f(x):
    out = jnp.zeros(HEARD, x.dtype).at[:PERIOD].set(x)
    def step(n, out):
      two = lax.dynamic_slice(out, (n - PERIOD,), (2,))
      return lax.dynamic_update_slice(out, 0.498 * jnp.sum(two, keepdims=True), (n,))
    return lax.fori_loop(PERIOD, HEARD, step, out)
  return f, plucked()


@spelling("string", tolerance=1e-5)
def scan_with_place():
  def f(x):
    def step(s, _):
      ring, at = s
      after = jnp.where(at + 1 == PERIOD, 0, at + 1)
      here = lax.dynamic_index_in_dim(ring, at, keepdims=False)
      new = 0.498 * (here + lax.dynamic_index_in_dim(ring, after, keepdims=False))
      return (lax.dynamic_update_index_in_dim(ring, new, at, 0), after), here
    return lax.scan(step, (x, 0), None, length=HEARD)[1]
  return f, plucked()


@spelling("string", tolerance=1e-5)
def ring_rolled():
  def f(x):
    def step(ring, _):
      new = 0.498 * (ring[0] + ring[1])
      return jnp.roll(ring, -1).at[-1].set(new), ring[0]
    return lax.scan(step, x, None, length=HEARD)[1]
  return f, plucked()


# Adaptive differences: a sample as four bits, by a step that grows and shrinks.

SAMPLES = 6000
PACE = np.clip((7 * 1.1**np.arange(89)), 7, 32767).astype(np.int32)
NEXT = np.array([-1, -1, -1, -1, 2, 4, 6, 8], np.int32)


def speech():
  t = np.arange(SAMPLES)
  return ((8000 * np.sin(t / 20) + 2000 * np.sin(t / 3.3) + 300 * numbers(SAMPLES)).astype(np.int32),)


def four_bits(difference, step):
  sign = jnp.where(difference < 0, 8, 0)
  size = jnp.minimum(4 * jnp.abs(difference) // step, 7)
  return sign, size


def coded(s, x):
  value, index = s
  step = jnp.asarray(PACE)[index]
  sign, size = four_bits(x - value, step)
  change = (2 * size + 1) * step // 8
  value = jnp.clip(value + jnp.where(sign > 0, -change, change), -32768, 32767)
  return (value, jnp.clip(index + jnp.asarray(NEXT)[size], 0, 88)), sign + size


@spelling("adpcm")
def scan_of_pair():
  def f(x):
    return lax.scan(coded, (jnp.int32(0), jnp.int32(0)), x)[1]
  return f, speech()


@spelling("adpcm")
def fori_codes_at_set():
  def f(x):
    def step(i, s):
      pair, out = s
      pair, code = coded(pair, x[i])
      return pair, out.at[i].set(code)
    return lax.fori_loop(0, SAMPLES, step, ((jnp.int32(0), jnp.int32(0)), jnp.zeros_like(x)))[1]
  return f, speech()


@spelling("adpcm")
def bits_by_cond():
  def f(x):
    def step(s, x):
      value, index = s
      pace = jnp.asarray(PACE)[index]
      left, code = 4 * jnp.abs(x - value), jnp.int32(0)
      for bit in (4, 2, 1):
        left, code = lax.cond(left >= bit * pace, lambda l, k: (l - bit * pace, k + bit), lambda l, k: (l, k), left, code)
      change = (2 * code + 1) * pace // 8
      change = lax.select(x < value, -change, change)
      code = jnp.where(x < value, code + 8, code)
      value = jnp.minimum(jnp.maximum(value + change, -32768), 32767)
      return (value, jnp.clip(index + jnp.asarray(NEXT)[code & 7], 0, 88)), code
    return lax.scan(step, (jnp.int32(0), jnp.int32(0)), x)[1]
  return f, speech()


@spelling("adpcm")
def state_of_two_while():
  def f(x):
    def step(s):
      i, state, out = s
      (value, index), code = coded((state[0], state[1]), x[i])
      return i + 1, jnp.stack([value, index]), lax.dynamic_update_slice(out, code[None], (i,))
    return lax.while_loop(lambda s: s[0] < SAMPLES, step, (0, jnp.zeros(2, jnp.int32), jnp.zeros_like(x)))[2]
  return f, speech()


# A compressor: the level follows the sound, fast up and slowly down; the gain follows the level.

LOUD = 20000


def loud():
  return (numbers(LOUD) * np.repeat(np.array([0.1, 1, 0.3, 2], np.float32), LOUD // 4),)


def gain(level):
  return jnp.where(level > 0.5, 0.5 + 0.25 * (level - 0.5), level) / jnp.maximum(level, 1e-6)


@spelling("compressor", tolerance=1e-4)
def level_scanned():
  def f(x):
    def step(level, x):
      a = jnp.abs(x)
      level = jnp.where(a > level, 0.9 * level + 0.1 * a, 0.999 * level + 0.001 * a)
      return level, x * gain(level)
    return lax.scan(step, jnp.zeros((), x.dtype), x)[1]
  return f, loud()


@spelling("compressor", tolerance=1e-4)
def levels_then_gains():
  def f(x):
    def step(level, a):
      k = lax.select(a > level, jnp.float32(0.1), jnp.float32(0.001))
      level = (1 - k) * level + k * a
      return level, level
    return x * gain(lax.scan(step, jnp.zeros((), x.dtype), jnp.abs(x))[1])
  return f, loud()


@spelling("compressor", tolerance=1e-4)
def level_by_cond():
  def f(x):
    def step(i, s):
      level, y = s
      a = jnp.abs(y[i])
      level = lax.cond(a > level, lambda: 0.9 * level + 0.1 * a, lambda: 0.999 * level + 0.001 * a)
      return level, y.at[i].multiply(gain(level))
    return lax.fori_loop(0, LOUD, step, (jnp.zeros((), x.dtype), x))[1]
  return f, loud()


@spelling("compressor", tolerance=1e-4)
def levels_in_place():
  def f(x):
    a = jnp.abs(x)
    levels = a.at[0].multiply(0.1)
    def step(i, levels):
      two = lax.dynamic_slice(levels, (i - 1,), (2,))
      up = two[1] > two[0]
      new = jnp.where(up, 0.9 * two[0] + 0.1 * two[1], 0.999 * two[0] + 0.001 * two[1])
      return lax.dynamic_update_slice(levels, jnp.array([two[0], new]), (i - 1,))
    return x * gain(lax.fori_loop(1, LOUD, step, levels))
  return f, loud()


# Lifted wavelets of integers, 5/3: odd samples less the mean of their neighbours, even ones more; seven levels.

LIFTED = 1 << 14


def whole():
  return (integers(4096, LIFTED),)


@spelling("lifting")
def strided_slices():
  def f(x):
    parts = []
    for _ in range(7):
      even, odd = x[::2], x[1::2]
      odd = odd - ((even + jnp.concatenate([even[1:], even[-1:]])) >> 1)
      x = even + ((jnp.concatenate([odd[:1], odd[:-1]]) + odd + 2) >> 2)
      parts.append(odd)
    return jnp.concatenate([x] + parts[::-1])
  return f, whole()


@spelling("lifting")
def strided_at_add():
  def f(x):
    for level in range(7):
      step = 2 << level
      half = step // 2
      even = x[::step]
      x = x.at[half::step].add(-((even + jnp.append(even[1:], even[-1])) >> 1))
      odd = x[half::step]
      x = x.at[::step].add((jnp.append(odd[0], odd[:-1]) + odd + 2) >> 2)
    parts = [x[1 << level::2 << level] for level in range(7)]
    return jnp.concatenate([x[::128]] + parts[::-1])
  return f, whole()


@spelling("lifting")
def rows_of_two():
  def f(x):
    parts = []
    for _ in range(7):
      pairs = x.reshape(-1, 2)
      even, odd = pairs[:, 0], pairs[:, 1]
      last = jnp.arange(even.size) == even.size - 1
      odd = odd - ((even + jnp.where(last, even, jnp.roll(even, -1))) >> 1)
      before = jnp.where(jnp.arange(odd.size) == 0, odd, jnp.roll(odd, 1))
      x = even + ((before + odd + 2) >> 2)
      parts.append(odd)
    return jnp.concatenate([x] + parts[::-1])
  return f, whole()


@spelling("lifting")
def gathered_halves():
  def f(x):
    n = LIFTED
    while n > LIFTED >> 7:
      h = n // 2
      i = jnp.arange(h)
      odd = x[2 * i + 1] - ((x[2 * i] + x[jnp.minimum(2 * i + 2, n - 2)]) >> 1)
      even = x[2 * i] + ((odd[jnp.maximum(i - 1, 0)] + odd + 2) >> 2)
      x = x.at[:h].set(even).at[h:n].set(odd)
      n = h
    return x
  return f, whole()


# Sigma and delta: a bit for each sample, errors carried on in two sums.


def tone():
  return (0.6 * np.sin(np.arange(LOUD) / 50).astype(np.float32),)


@spelling("sigma_delta")
def scan_of_two_sums():
  def f(x):
    def step(s, x):
      a, b, bit = s
      out = jnp.where(bit, 1.0, -1.0)
      a = a + x - out
      b = b + a - out
      return (a, b, b >= 0), bit
    return lax.scan(step, (jnp.float32(0), jnp.float32(0), jnp.bool_(True)), x)[1]
  return f, tone()


@spelling("sigma_delta")
def sums_in_one_array():
  def f(x):
    def step(i, s):
      sums, bits = s
      bit = sums[1] >= 0
      out = lax.select(bit, jnp.float32(1), jnp.float32(-1))
      sums = sums.at[0].set(sums[0] + x[i] - out)
      sums = sums.at[1].set(sums[1] + sums[0] - out)
      return sums, bits.at[i].set(bit)
    return lax.fori_loop(0, LOUD, step, (jnp.zeros(2, jnp.float32), jnp.zeros(LOUD, bool)))[1]
  return f, tone()


@spelling("sigma_delta")
def sums_by_cond():
  def f(x):
    def step(s, x):
      a, b = s
      bit = b >= 0
      return lax.cond(bit, lambda: (a + x - 1, b + (a + x - 1) - 1), lambda: (a + x + 1, b + (a + x + 1) + 1)), bit
    return lax.scan(step, (jnp.float32(0), jnp.float32(0)), x)[1]
  return f, tone()


@spelling("sigma_delta")
def bits_updated_while():
  def f(x):
    def step(s):
      i, a, b, bits = s
      bit = b >= 0
      out = 2 * bit.astype(jnp.float32) - 1
      a = a + lax.dynamic_slice(x, (i,), (1,))[0] - out
      return i + 1, a, b + a - out, lax.dynamic_update_slice(bits, bit[None], (i,))
    return lax.while_loop(lambda s: s[0] < LOUD, step, (0, jnp.float32(0), jnp.float32(0), jnp.zeros(LOUD, bool)))[3]
  return f, tone()

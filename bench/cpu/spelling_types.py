"""Words of two halves, f64, bf16 and masks of one bit: loops over other types than f32, in several spellings each."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import PROGRAMS, numbers, spelling

# PCG32: a generator of numbers, one state, 64 bits kept as two words.

DRAWS = 3000


@spelling("pcg")
def scan_two_words():
  def f(high, low):
    def step(state, _):
      high, low = state
      # The multiplier 6364136223846793005 in halves, by 16 bits for the carry.
      m_low, m_high = jnp.uint32(0x4C957F2D), jnp.uint32(0x5851F42D)
      a0, a1, b0, b1 = low & 0xFFFF, low >> 16, m_low & 0xFFFF, m_low >> 16
      middle = a1 * b0 + ((a0 * b0) >> 16)
      other = a0 * b1 + (middle & 0xFFFF)
      carry = a1 * b1 + (middle >> 16) + (other >> 16)
      new_low = low * m_low
      new_high = high * m_low + low * m_high + carry
      total = new_low + jnp.uint32(1442695041)
      new_high = new_high + (total < new_low) + jnp.uint32(335903614)
      # Output of the state before.
      x_high, x_low = high >> 18, (low >> 18) | (high << 14)
      y_high, y_low = high ^ x_high, low ^ x_low
      word = (y_low >> 27) | (y_high << 5)
      turn = high >> 27
      return (new_high, total), (word >> turn) | (word << ((32 - turn) & 31))
    return lax.scan(step, (high, low), None, length=DRAWS)[1]
  return f, (np.uint32(0x853C49E6), np.uint32(0x748FEA9B))


@spelling("pcg")
def fori_of_words():
  def f(high, low):
    def multiply(a, b):
      a0, a1, b0, b1 = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
      middle = a1 * b0 + ((a0 * b0) >> 16)
      other = a0 * b1 + (middle & 0xFFFF)
      return a1 * b1 + (middle >> 16) + (other >> 16), a * b

    def step(i, state):
      s, out = state
      high, low = s[0], s[1]
      carry, product = multiply(low, jnp.uint32(0x4C957F2D))
      upper = high * jnp.uint32(0x4C957F2D) + low * jnp.uint32(0x5851F42D) + carry
      total = product + jnp.uint32(1442695041)
      upper = upper + jnp.where(total < product, jnp.uint32(1), jnp.uint32(0)) + jnp.uint32(335903614)
      word = ((low ^ ((low >> 18) | (high << 14))) >> 27) | ((high ^ (high >> 18)) << 5)
      turn = high >> 27
      out = out.at[i].set((word >> turn) | (word << ((32 - turn) & 31)))
      return jnp.stack([upper, total]), out
    return lax.fori_loop(0, DRAWS, step, (jnp.stack([high, low]), jnp.zeros(DRAWS, jnp.uint32)))[1]
  return f, (np.uint32(0x853C49E6), np.uint32(0x748FEA9B))


@spelling("pcg")
def while_updates():
  def f(high, low):
    def step(state):
      i, high, low, out = state
      a0, a1 = low & 0xFFFF, low >> 16
      middle = a1 * jnp.uint32(0x7F2D) + ((a0 * jnp.uint32(0x7F2D)) >> 16)
      other = a0 * jnp.uint32(0x4C95) + (middle & 0xFFFF)
      carry = a1 * jnp.uint32(0x4C95) + (middle >> 16) + (other >> 16)
      product = low * jnp.uint32(0x4C957F2D)
      total = product + jnp.uint32(1442695041)
      upper = high * jnp.uint32(0x4C957F2D) + low * jnp.uint32(0x5851F42D) + carry + lax.convert_element_type(total < product, jnp.uint32) + jnp.uint32(335903614)
      word = ((low ^ ((low >> 18) | (high << 14))) >> 27) | ((high ^ (high >> 18)) << 5)
      turn = high >> 27
      value = lax.shift_right_logical(word, turn) | lax.shift_left(word, (32 - turn) & 31)
      return i + 1, upper, total, lax.dynamic_update_slice(out, value[None], (i,))
    return lax.while_loop(lambda s: s[0] < DRAWS, step, (0, high, low, jnp.zeros(DRAWS, jnp.uint32)))[3]
  return f, (np.uint32(0x853C49E6), np.uint32(0x748FEA9B))


# The arithmetic-geometric mean in f64 of many pairs, until it does not change.

PAIRS = 4000


def pairs():
  r = np.random.default_rng(4)
  return r.uniform(0.1, 10, PAIRS), r.uniform(0.1, 10, PAIRS)


def wide(algorithm, tolerance):
  """A spelling in f64."""
  def add(make):
    make = spelling(algorithm, tolerance=tolerance)(make)
    PROGRAMS[-1] = dataclasses.replace(PROGRAMS[-1], x64=True)
    return make
  return add


@wide("geometric_mean", 1e-12)
def vmapped_while():
  def f(a, b):
    def one(a, b):
      a, b = lax.while_loop(lambda s: jnp.abs(s[0] - s[1]) > 1e-14 * s[0], lambda s: ((s[0] + s[1]) / 2, jnp.sqrt(s[0] * s[1])), (a, b))
      return (a + b) / 2
    return jax.vmap(one)(a, b)
  return f, pairs()


@wide("geometric_mean", 1e-12)
def six_rounds():
  def f(a, b):
    a, b = lax.fori_loop(0, 6, lambda _, s: ((s[0] + s[1]) / 2, jnp.sqrt(s[0] * s[1])), (a, b))
    return (a + b) / 2
  return f, pairs()


@wide("geometric_mean", 1e-12)
def mapped_array_of_two():
  def f(a, b):
    def one(s):
      s = lax.while_loop(lambda s: jnp.abs(s[0] - s[1]) > 1e-14 * s[0], lambda s: jnp.stack([s.mean(), jnp.sqrt(s[0] * s[1])]), s)
      return s.mean()
    return lax.map(one, jnp.stack([a, b], axis=1))
  return f, pairs()


@wide("geometric_mean", 1e-12)
def mapped_at_set():
  def f(a, b):
    def one(p):
      def step(_, s):
        return s.at[0].set((s[0] + s[1]) / 2).at[1].set(jnp.sqrt(s[0] * s[1]))
      return lax.fori_loop(0, 6, step, jnp.array([p[0], p[1]])).sum() / 2
    return lax.map(one, (a, b))
  return f, pairs()


# A filter in bf16: an exponential mean of eight channels, and how far each sample is from it.

SAMPLES = 2000


def channels():
  return (numbers(SAMPLES, 8).astype(jnp.bfloat16),)


@spelling("bf16_mean", tolerance=3e-2)
def scan_rows():
  def f(x):
    def step(m, x):
      m = m + jnp.bfloat16(0.125) * (x - m)
      return m, x - m
    return lax.scan(step, jnp.zeros(8, jnp.bfloat16), x)[1]
  return f, channels()


@spelling("bf16_mean", tolerance=3e-2)
def fori_at_set():
  def f(x):
    def step(t, state):
      m, out = state
      m = m + jnp.bfloat16(0.125) * (x[t] - m)
      return m, out.at[t].set(x[t] - m)
    return lax.fori_loop(0, SAMPLES, step, (jnp.zeros(8, jnp.bfloat16), jnp.zeros_like(x)))[1]
  return f, channels()


@spelling("bf16_mean", tolerance=3e-2)
def vmapped_channels():
  def f(x):
    def channel(x):
      def step(m, x):
        m = m + jnp.bfloat16(0.125) * (x - m)
        return m, x - m
      return lax.scan(step, jnp.bfloat16(0), x)[1]
    return jax.vmap(channel, in_axes=1, out_axes=1)(x)
  return f, channels()


@spelling("bf16_mean", tolerance=3e-2)
def while_updates():
  def f(x):
    def step(state):
      t, m, out = state
      row = lax.dynamic_slice(x, (t, 0), (1, 8))
      m = m + jnp.bfloat16(0.125) * (row - m)
      return t + 1, m, lax.dynamic_update_slice(out, row - m, (t, 0))
    return lax.while_loop(lambda s: s[0] < SAMPLES, step, (0, jnp.zeros((1, 8), jnp.bfloat16), jnp.zeros_like(x)))[2]
  return f, channels()


# Water through a porous wall: from the top row to wherever holes touch, in masks.

WALL = 96


def wall():
  return (np.random.default_rng(7).random((WALL, WALL)) < 0.65,)


def spread(wet, holes):
  sides = wet.at[1:].max(wet[:-1]).at[:-1].max(wet[1:]).at[:, 1:].max(wet[:, :-1]).at[:, :-1].max(wet[:, 1:])
  return sides & holes


@spelling("percolation")
def until_still_at_max():
  def f(holes):
    first = jnp.zeros_like(holes).at[0].set(holes[0])
    return lax.while_loop(lambda s: s[1], lambda s: (new := spread(s[0], holes), jnp.any(new != s[0])), (first, True))[0]
  return f, wall()


@spelling("percolation")
def padded_slices():
  def f(holes):
    def step(state):
      wet, _ = state
      p = jnp.pad(wet, 1)
      new = (p[:-2, 1:-1] | p[2:, 1:-1] | p[1:-1, :-2] | p[1:-1, 2:] | wet) & holes
      return new, (new != wet).any()
    first = holes & (jnp.arange(WALL) == 0)[:, None]
    return lax.while_loop(lambda s: s[1], step, (first, jnp.array(True)))[0]
  return f, wall()


@spelling("percolation")
def masked_rolls():
  def f(holes):
    i = jnp.arange(WALL)

    def step(state):
      wet, _ = state
      down = jnp.roll(wet, 1, 0) & (i > 0)[:, None]
      up = jnp.roll(wet, -1, 0) & (i < WALL - 1)[:, None]
      right = jnp.roll(wet, 1, 1) & (i > 0)
      left = jnp.roll(wet, -1, 1) & (i < WALL - 1)
      new = (wet | down | up | left | right) & holes
      return new, jnp.sum(new) > jnp.sum(wet)
    first = jnp.where(i[:, None] == 0, holes, False)
    return lax.while_loop(lambda s: s[1], step, (first, jnp.array(True)))[0]
  return f, wall()


@spelling("percolation")
def window_of_crosses():
  def f(holes):
    def step(state):
      wet, before = state
      x = wet.astype(jnp.int32)
      n = lax.reduce_window(x, 0, lax.add, (3, 1), (1, 1), "SAME") + lax.reduce_window(x, 0, lax.add, (1, 3), (1, 1), "SAME")
      return (n > 0) & holes, wet
    first = jnp.zeros_like(holes).at[0].set(holes[0])
    return lax.while_loop(lambda s: jnp.any(s[0] != s[1]), step, (first, jnp.zeros_like(holes)))[0]
  return f, wall()

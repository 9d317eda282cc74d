"""Long numbers, series and tables of divisors, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# One over a power series, coefficient by coefficient.

TERMS = 512


def series_of_two():
  x = 0.3 * numbers(TERMS) / (1 + np.arange(TERMS))
  x[0] = 1.25
  return (x.astype(np.float32),)


@spelling("series_inverse", tolerance=1e-4)
def masked_products():
  def f(a):
    at = jnp.arange(TERMS)
    def step(n, b):
      terms = jnp.where((at >= 1) & (at <= n), a * b[jnp.maximum(n - at, 0)], 0)
      return b.at[n].set(-jnp.sum(terms) / a[0])
    return lax.fori_loop(1, TERMS, step, jnp.zeros_like(a).at[0].set(1 / a[0]))
  return f, series_of_two()


@spelling("series_inverse", tolerance=1e-4)
def backwards_slices():
  def f(a):
    back = jnp.concatenate([a[:0:-1], jnp.zeros(TERMS, a.dtype)])
    def step(n, b):
      return b.at[n].set(-jnp.dot(lax.dynamic_slice(back, (TERMS - 1 - n,), (TERMS,)), b) / a[0])
    return lax.fori_loop(1, TERMS, step, jnp.zeros_like(a).at[0].set(1 / a[0]))
  return f, series_of_two()


@spelling("series_inverse", tolerance=1e-4)
def residue_carried():
  def f(a):
    def step(left, _):
      c = left[0] / a[0]
      left = left - c * a
      return jnp.append(left[1:], 0), c
    return lax.scan(step, jnp.zeros_like(a).at[0].set(1), None, length=TERMS)[1]
  return f, series_of_two()


@spelling("series_inverse", tolerance=1e-4)
def residue_in_place():
  def f(a):
    def step(n, s):
      left, b = s
      c = left[n] / a[0]
      part = lax.dynamic_slice(left, (n,), (TERMS,))
      return lax.dynamic_update_slice(left, part - c * a, (n,)), b.at[n].set(c)
    return lax.fori_loop(0, TERMS, step, (jnp.zeros(2 * TERMS, a.dtype).at[0].set(1), jnp.zeros_like(a)))[1]
  return f, series_of_two()


@spelling("series_inverse", tolerance=1e-4)
def inner_fori():
  def f(a):
    def step(n, b):
      s = lax.fori_loop(1, n + 1, lambda k, s: s + a[k] * b[n - k], jnp.zeros((), a.dtype))
      return b.at[n].set(-s / a[0])
    return lax.fori_loop(1, TERMS, step, jnp.zeros_like(a).at[0].set(1 / a[0]))
  return f, series_of_two()


# A long polynomial divided by a short one: quotient and remainder.

LONG, SHORT = 4096, 24


def two_polynomials():
  b = numbers(SHORT, seed=2) * 0.1
  b[-1] = 2
  return numbers(LONG), b.astype(np.float32)


@spelling("long_division", tolerance=1e-4)
def slices_updated():
  def f(a, b):
    steps = LONG - SHORT + 1
    def step(i, s):
      rest, quotient = s
      at = steps - 1 - i
      part = lax.dynamic_slice(rest, (at,), (SHORT,))
      c = part[-1] / b[-1]
      return lax.dynamic_update_slice(rest, part - c * b, (at,)), quotient.at[at].set(c)
    rest, quotient = lax.fori_loop(0, steps, step, (a, jnp.zeros(steps, a.dtype)))
    return quotient, rest[:SHORT - 1]
  return f, two_polynomials()


@spelling("long_division", tolerance=1e-4)
def window_shifted():
  def f(a, b):
    def step(window, x):
      c = window[-1] / b[-1]
      return jnp.concatenate([x[None], (window - c * b)[:-1]]), c
    start = a[-SHORT:]
    window, quotient = lax.scan(step, start, a[:-SHORT], reverse=True)
    last = window[-1] / b[-1]
    return jnp.concatenate([last[None], quotient]), (window - last * b)[:-1]
  return f, two_polynomials()


@spelling("long_division", tolerance=1e-4)
def places_at_add():
  def f(a, b):
    steps = LONG - SHORT + 1
    places = jnp.arange(SHORT)
    def step(s):
      at, rest, quotient = s
      c = rest[at + SHORT - 1] / b[SHORT - 1]
      return at - 1, rest.at[at + places].add(-c * b), quotient.at[at].set(c)
    _, rest, quotient = lax.while_loop(lambda s: s[0] >= 0, step, (steps - 1, a, jnp.zeros(steps, a.dtype)))
    return quotient, rest[:SHORT - 1]
  return f, two_polynomials()


@spelling("long_division", tolerance=1e-4)
def coefficient_by_coefficient():
  def f(a, b):
    steps = LONG - SHORT + 1
    def step(i, s):
      rest, quotient = s
      at = steps - 1 - i
      c = rest[at + SHORT - 1] / b[SHORT - 1]
      rest = lax.fori_loop(0, SHORT, lambda k, r: r.at[at + k].add(-c * b[k]), rest)
      return rest, quotient.at[at].set(c)
    rest, quotient = lax.fori_loop(0, steps, step, (a, jnp.zeros(steps, a.dtype)))
    return quotient, rest[:SHORT - 1]
  return f, two_polynomials()


# The product of two long numbers of decimal digits.

DIGITS = 600


def two_numbers():
  return integers(10, DIGITS), integers(10, DIGITS, seed=2)


def carried(sums):
  def step(carry, s):
    s = s + carry
    return s // 10, s % 10
  return lax.scan(step, jnp.int32(0), sums)[1]


@spelling("big_product")
def rows_added_at():
  def f(a, b):
    def step(i, sums):
      return lax.dynamic_update_slice(sums, lax.dynamic_slice(sums, (i,), (DIGITS,)) + a[i] * b, (i,))
    return carried(lax.fori_loop(0, DIGITS, step, jnp.zeros(2 * DIGITS, jnp.int32)))
  return f, two_numbers()


@spelling("big_product")
def places_of_outer():
  def f(a, b):
    at = jnp.arange(DIGITS)
    return carried(jnp.zeros(2 * DIGITS, jnp.int32).at[at[:, None] + at].add(a[:, None] * b))
  return f, two_numbers()


@spelling("big_product")
def digits_of_sums():
  def f(a, b):
    def digit(k):
      i = jnp.arange(DIGITS)
      j = k - i
      return jnp.sum(jnp.where((j >= 0) & (j < DIGITS), a * b[jnp.clip(j, 0, DIGITS - 1)], 0))
    return carried(jax.vmap(digit)(jnp.arange(2 * DIGITS)))
  return f, two_numbers()


@spelling("big_product")
def carry_on_the_way():
  def f(a, b):
    def row(i, digits):
      def step(j, s):
        digits, carry = s
        t = digits[i + j] + a[i] * b[j] + carry
        return digits.at[i + j].set(t % 10), t // 10
      digits, carry = lax.fori_loop(0, DIGITS, step, (digits, jnp.int32(0)))
      return digits.at[i + DIGITS].set(carry)
    return lax.fori_loop(0, DIGITS, row, jnp.zeros(2 * DIGITS, jnp.int32))
  return f, two_numbers()


@spelling("big_product")
def scan_of_rolled():
  def f(a, b):
    b = jnp.pad(b, (0, DIGITS))
    def step(s, x):
      sums, b = s
      return (sums + x * b, jnp.roll(b, 1)), None
    return carried(lax.scan(step, (jnp.zeros(2 * DIGITS, jnp.int32), b), a)[0][0])
  return f, two_numbers()


# How many numbers below n share no divisor with it, by a sieve.

TOTIENTS = 20000


@spelling("totients")
def where_divides():
  def f(n):
    at = jnp.arange(TOTIENTS)
    def step(p, phi):
      prime = (phi[p] == p) & (p <= n)
      return jnp.where(prime & (at % p == 0), phi - phi // p, phi)
    return lax.fori_loop(2, 1000, step, at)
  return f, (np.int32(TOTIENTS),)


@spelling("totients")
def while_multiples():
  def f(n):
    def step(p, phi):
      def multiples(s):
        k, phi = s
        return k + p, phi.at[k].add(-(phi[k] // p))
      start = jnp.where((phi[p] == p) & (p <= n), p, TOTIENTS)
      return lax.while_loop(lambda s: s[0] < TOTIENTS, multiples, (start, phi))[1]
    return lax.fori_loop(2, 1000, step, jnp.arange(TOTIENTS))
  return f, (np.int32(TOTIENTS),)


@spelling("totients")
def cond_of_fori():
  def f(n):
    def step(p, phi):
      def divide(phi):
        return lax.fori_loop(1, (TOTIENTS - 1) // p + 1, lambda i, phi: phi.at[i * p].set(phi[i * p] - phi[i * p] // p), phi)
      return lax.cond((phi[p] == p) & (p <= n), divide, lambda phi: phi, phi)
    return lax.fori_loop(2, 1000, step, jnp.arange(TOTIENTS))
  return f, (np.int32(TOTIENTS),)


@spelling("totients")
def while_in_while():
  def f(n):
    def outer(s):
      p, phi = s
      def inner(t):
        k, phi = t
        here = lax.dynamic_slice(phi, (k,), (1,))
        return k + p, lax.dynamic_update_slice(phi, here - here // p, (k,))
      prime = phi[p] == p
      _, phi = lax.while_loop(lambda t: prime & (t[0] < TOTIENTS), inner, (p, phi))
      return p + 1, phi
    return lax.while_loop(lambda s: (s[0] < 1000) & (s[0] <= n), outer, (2, jnp.arange(TOTIENTS)))[1]
  return f, (np.int32(TOTIENTS),)


# Powers with a modulus, a number of squarings each.

POWERS, MODULUS = 20000, 32749


def bases():
  return integers(MODULUS, POWERS), integers(1 << 20, POWERS, seed=2)


@spelling("modular_power")
def fori_of_arrays():
  def f(x, e):
    def step(_, s):
      x, e, r = s
      return x * x % MODULUS, e >> 1, jnp.where(e & 1 == 1, r * x % MODULUS, r)
    return lax.fori_loop(0, 20, step, (x, e, jnp.ones_like(x)))[2]
  return f, bases()


@spelling("modular_power")
def vmapped_while():
  def f(x, e):
    def one(x, e):
      def step(s):
        x, e, r = s
        return x * x % MODULUS, e >> 1, lax.select(e & 1 == 1, r * x % MODULUS, r)
      return lax.while_loop(lambda s: s[1] > 0, step, (x, e, jnp.int32(1)))[2]
    return jax.vmap(one)(x, e)
  return f, bases()


@spelling("modular_power")
def from_the_top():
  def f(x, e):
    def step(r, bit):
      r = r * r % MODULUS
      return jnp.where((e >> bit) & 1 == 1, r * x % MODULUS, r), None
    return lax.scan(step, jnp.ones_like(x), jnp.arange(19, -1, -1))[0]
  return f, bases()


@spelling("modular_power")
def mapped_cond():
  def f(x, e):
    def one(pair):
      def step(i, s):
        x, e, r = s
        r = lax.cond(e % 2 == 1, lambda: r * x % MODULUS, lambda: r)
        return x * x % MODULUS, e // 2, r
      return lax.fori_loop(0, 20, step, (pair[0], pair[1], jnp.int32(1)))[2]
    return lax.map(one, (x, e))
  return f, bases()


@spelling("modular_power")
def stacked_state():
  def f(x, e):
    def step(i, s):
      r = jnp.where((e >> i) & 1 == 1, s[1] * s[0] % MODULUS, s[1])
      return jnp.stack([s[0] * s[0] % MODULUS, r])
    return lax.fori_loop(0, 20, step, jnp.stack([x, jnp.ones_like(x)]))[1]
  return f, bases()

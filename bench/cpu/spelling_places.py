"""Loops over pairs as a nest and as one flat loop, and arrays updated in place at a distance, as in spelling_programs.py."""

import jax.numpy as jnp
from jax import lax

from spelling_programs import integers, numbers, spelling

PAIRS = 200


def flat(state, step):
  """step(i, j, state) for all pairs, by one loop that carries both."""
  def body(s):
    i, j, state = s
    state = step(i, j, state)
    ends = j + 1 >= PAIRS
    return jnp.where(ends, i + 1, i), jnp.where(ends, 0, j + 1), state
  return lax.while_loop(lambda s: s[0] < PAIRS, body, (jnp.int32(0), jnp.int32(0), state))[2]


def nested(state, step):
  return lax.fori_loop(0, PAIRS, lambda i, s: lax.fori_loop(0, PAIRS, lambda j, s: step(i, j, s), s), state)


def pairs(kind, tolerance, make):
  """Both spellings of a loop over pairs: make() is a function of a loop, and its arguments."""
  for loop in (nested, flat):
    def program(loop=loop):
      function, arguments = make()
      return (lambda *x: function(loop, *x)), arguments
    program.__name__ = loop.__name__
    spelling(kind, tolerance=tolerance)(program)


def distance_histogram():
  def f(loop, x):
    return loop(jnp.zeros(64, jnp.int32), lambda i, j, s: s.at[jnp.abs(x[i] - x[j])].add(1))
  return f, (integers(64, PAIRS),)


def largest_distance():
  def f(loop, x):
    return loop(jnp.float32(0), lambda i, j, s: jnp.maximum(s, jnp.abs(x[i] - x[j])))
  return f, (numbers(PAIRS),)


def inversions():
  def f(loop, x):
    return loop(jnp.int32(0), lambda i, j, s: s + ((i < j) & (x[i] > x[j])).astype(jnp.int32))
  return f, (numbers(PAIRS),)


def nearest():
  def f(loop, x):
    def step(i, j, s):
      return s.at[i].set(jnp.where(i == j, s[i], jnp.minimum(s[i], jnp.abs(x[i] - x[j]))))
    return loop(jnp.full(PAIRS, jnp.inf, jnp.float32), step)
  return f, (numbers(PAIRS),)


pairs("distance_histogram", 0.0, distance_histogram)
pairs("largest_distance", 0.0, largest_distance)
pairs("inversions", 0.0, inversions)
pairs("nearest", 0.0, nearest)


# Coefficients of the polynomial with given roots: times x - r, for each r.


def roots():
  return (numbers(400) * 0.5,)


@spelling("polynomial", tolerance=1e-3)
def backwards_in_place():
  def f(roots):
    n = roots.shape[0]
    def times(k, c):
      def place(t, c):
        j = n - t
        return c.at[j].set(c[jnp.maximum(j - 1, 0)] * (j > 0) - roots[k] * c[j])
      return lax.fori_loop(0, n + 1, place, c)
    return lax.fori_loop(0, n, times, jnp.zeros(n + 1, jnp.float32).at[0].set(1))
  return f, roots()


@spelling("polynomial", tolerance=1e-3)
def shifted():
  def f(roots):
    def times(c, r):
      return jnp.concatenate([jnp.zeros(1, jnp.float32), c[:-1]]) - r * c, None
    return lax.scan(times, jnp.zeros(roots.shape[0] + 1, jnp.float32).at[0].set(1), roots)[0]
  return f, roots()


# Echoes: what comes later at a distance is added, one distance after the other.

SAMPLES = 4000


def echoes():
  return numbers(SAMPLES), integers(900, 24) + 1


@spelling("echoes", tolerance=1e-4)
def forwards_in_place():
  def f(x, distances):
    def echo(y, d):
      def place(i, y):
        later = jnp.where(i + d < SAMPLES, y[jnp.minimum(i + d, SAMPLES - 1)], 0.0)
        return y.at[i].set(y[i] + 0.5 * later)
      return lax.fori_loop(0, SAMPLES, place, y), None
    return lax.scan(echo, x, distances)[0]
  return f, echoes()


@spelling("echoes", tolerance=1e-4)
def padded_slice():
  def f(x, distances):
    def echo(y, d):
      return y + 0.5 * lax.dynamic_slice(jnp.concatenate([y, jnp.zeros(SAMPLES, jnp.float32)]), (d,), (SAMPLES,)), None
    return lax.scan(echo, x, distances)[0]
  return f, echoes()


# Ways to pay sums with coins, each at most once: integers modulo a prime.

SUMS = 1500


def coins():
  return (integers(200, 60) + 1,)


@spelling("ways_to_pay")
def backwards_scan():
  def f(coins):
    def coin(ways, c):
      def place(ways, s):
        more = jnp.where(s >= c, ways[jnp.maximum(s - c, 0)], 0)
        return ways.at[s].set((ways[s] + more) % 65521), None
      return lax.scan(place, ways, jnp.arange(SUMS - 1, -1, -1))[0], None
    return lax.scan(coin, jnp.zeros(SUMS, jnp.int32).at[0].set(1), coins)[0]
  return f, coins()


@spelling("ways_to_pay")
def backwards_fori():
  def f(coins):
    def coin(k, ways):
      def place(t, ways):
        s = SUMS - 1 - t
        more = jnp.where(s >= coins[k], ways[jnp.maximum(s - coins[k], 0)], 0)
        return lax.dynamic_update_slice(ways, ((ways[s] + more) % 65521)[None], (s,))
      return lax.fori_loop(0, SUMS, place, ways)
    return lax.fori_loop(0, coins.shape[0], coin, jnp.zeros(SUMS, jnp.int32).at[0].set(1))
  return f, coins()


@spelling("ways_to_pay")
def rolled():
  def f(coins):
    s = jnp.arange(SUMS)
    def coin(ways, c):
      return (ways + jnp.where(s >= c, jnp.roll(ways, c), 0)) % 65521, None
    return lax.scan(coin, jnp.zeros(SUMS, jnp.int32).at[0].set(1), coins)[0]
  return f, coins()

"""Loops over a few numbers in three spellings each: recurrences, ODEs, root finding, integers, random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# The logistic map.

MAP_STEPS = 50000


@spelling("logistic", tolerance=1e-4)
def fori_scalar():
  return lambda x: lax.fori_loop(0, MAP_STEPS, lambda _, x: 3.2 * x * (1 - x), x), (np.float32(0.4),)


@spelling("logistic", tolerance=1e-4)
def while_counted():
  def f(x):
    return lax.while_loop(lambda s: s[0] < MAP_STEPS, lambda s: (s[0] + 1, 3.2 * s[1] * (1 - s[1])), (0, x))[1]
  return f, (np.float32(0.4),)


@spelling("logistic", tolerance=1e-4)
def scan_of_one():
  def f(x):
    return lax.scan(lambda x, _: (3.2 * x * (1 - x), None), x[None], None, length=MAP_STEPS)[0][0]
  return f, (np.float32(0.4),)


@spelling("logistic", tolerance=1e-4)
def element_of_array():
  def f(x):
    return lax.fori_loop(0, MAP_STEPS, lambda _, s: s.at[0].set(3.2 * s[0] * (1 - s[0])), jnp.zeros(2).at[0].set(x))[0]
  return f, (np.float32(0.4),)


# Cube roots by Newton's method, until they stand still.

ROOTS = 2000


def targets():
  return (np.abs(numbers(ROOTS)) + 1,)


def closer(x, a):
  return x - (x * x * x - a) / (3 * x * x)


@spelling("newton", tolerance=1e-5)
def map_of_while():
  def root(a):
    return lax.while_loop(lambda s: s[1] > 1e-5 * s[0], lambda s: (closer(s[0], a), jnp.abs(closer(s[0], a) - s[0])), (a, a))[0]
  return lambda a: lax.map(root, a), targets()


@spelling("newton", tolerance=1e-5)
def fori_of_while():
  def f(a):
    def one(i, out):
      def step(s):
        x, _ = s
        new = closer(x, a[i])
        return new, jnp.abs(new - x)
      return out.at[i].set(lax.while_loop(lambda s: s[1] > 1e-5 * s[0], step, (a[i], a[i]))[0])
    return lax.fori_loop(0, ROOTS, one, jnp.zeros_like(a))
  return f, targets()


@spelling("newton", tolerance=1e-5)
def flags():
  def root(_, a):
    def step(s):
      x, done = s
      new = closer(x, a)
      return new, jnp.abs(new - x) <= 1e-5 * new
    return None, lax.while_loop(lambda s: ~s[1], step, (a, jnp.bool_(False)))[0]
  return lambda a: lax.scan(root, None, a)[1], targets()


# Euler's equations of a rigid body by Runge and Kutta's method.

BODY_STEPS = 5000


def by_runge_kutta(slope, add):
  def step(y):
    a = slope(y)
    b = slope(add(y, a, 0.005))
    c = slope(add(y, b, 0.005))
    d = slope(add(y, c, 0.01))
    return add(add(add(add(y, a, 0.01 / 6), b, 0.01 / 3), c, 0.01 / 3), d, 0.01 / 6)
  return step


@spelling("rigid_body", tolerance=1e-4)
def stacked():
  step = by_runge_kutta(lambda y: jnp.stack([y[1] * y[2], -y[0] * y[2], -0.51 * y[0] * y[1]]), lambda y, k, h: y + h * k)
  return lambda y: lax.scan(lambda y, _: (step(y),) * 2, y, None, length=BODY_STEPS)[1], (np.array([0, 1, 1], np.float32),)


@spelling("rigid_body", tolerance=1e-4)
def tuples():
  step = by_runge_kutta(lambda y: (y[1] * y[2], -y[0] * y[2], -0.51 * y[0] * y[1]),
                        lambda y, k, h: tuple(a + h * b for a, b in zip(y, k)))
  def f(y):
    def one(y, _):
      y = step(y)
      return y, jnp.stack(y)
    return lax.scan(one, tuple(y), None, length=BODY_STEPS)[1]
  return f, (np.array([0, 1, 1], np.float32),)


@spelling("rigid_body", tolerance=1e-4)
def rolled_rows():
  factors = np.array([1, -1, -0.51], np.float32)
  step = by_runge_kutta(lambda y: factors * jnp.roll(y, -1) * jnp.roll(y, 1), lambda y, k, h: y + h * k)
  def f(y):
    def one(i, out):
      return out.at[i + 1].set(step(out[i]))
    return lax.fori_loop(0, BODY_STEPS, one, jnp.zeros((BODY_STEPS + 1, 3)).at[0].set(y))[1:]
  return f, (np.array([0, 1, 1], np.float32),)


# Van der Pol's oscillator, steps as long as the error allows.


def adaptive(y0, slope, combine, worst):
  def step(s):
    t, y, h, n = s
    a = slope(y)
    b = slope(combine(y, a, h))
    better = combine(combine(y, a, 0.5 * h), b, 0.5 * h)
    error = worst(better, combine(y, a, h))
    fine = error < 1e-3
    return fine, t, y, better, h, jnp.clip(0.9 * h * jnp.sqrt(1e-3 / (error + 1e-12)), 1e-4, 0.1), n
  return step


def pol(y):
  return jnp.stack([y[1], (1 - y[0] * y[0]) * y[1] - y[0]])


def run_adaptive(accept, y):
  return lax.while_loop(lambda s: s[0] < 40, accept, (jnp.float32(0), y, jnp.float32(0.01), jnp.int32(0)))[3]


@spelling("adaptive", tolerance=2e-2)
def where_array():
  step = adaptive(None, pol, lambda y, k, h: y + h * k, lambda a, b: jnp.max(jnp.abs(a - b)))
  def accept(s):
    fine, t, y, better, h, new_h, n = step(s)
    return jnp.where(fine, t + h, t), jnp.where(fine, better, y), new_h, n + 1
  return lambda y: run_adaptive(accept, y), (np.array([2, 0], np.float32),)


@spelling("adaptive", tolerance=2e-2)
def cond_array():
  step = adaptive(None, pol, lambda y, k, h: y + h * k, lambda a, b: jnp.max(jnp.abs(a - b)))
  def accept(s):
    fine, t, y, better, h, new_h, n = step(s)
    t, y = lax.cond(fine, lambda: (t + h, better), lambda: (t, y))
    return t, y, new_h, n + 1
  return lambda y: run_adaptive(accept, y), (np.array([2, 0], np.float32),)


@spelling("adaptive", tolerance=2e-2)
def select_tuple():
  slope = lambda y: (y[1], (1 - y[0] * y[0]) * y[1] - y[0])
  step = adaptive(None, slope, lambda y, k, h: tuple(a + h * b for a, b in zip(y, k)),
                  lambda a, b: jnp.maximum(jnp.abs(a[0] - b[0]), jnp.abs(a[1] - b[1])))
  def accept(s):
    fine, t, y, better, h, new_h, n = step(s)
    return lax.select(fine, t + h, t), tuple(lax.select(fine, b, a) for a, b in zip(y, better)), new_h, n + 1
  return lambda y: run_adaptive(accept, tuple(y)), (np.array([2, 0], np.float32),)


# Lengths of Collatz's sequences.

COLLATZ = 2000


@spelling("collatz")
def fori_while_where():
  def length(n):
    return lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))[1]
  def f(first):
    return lax.fori_loop(0, COLLATZ, lambda i, out: out.at[i].set(length(first + i)), jnp.zeros(COLLATZ, jnp.int32))
  return f, (np.int32(1),)


@spelling("collatz")
def map_cond():
  def length(n):
    def step(s):
      n, count = s
      return lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n), count + 1
    return lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1]
  return lambda first: lax.map(length, first + jnp.arange(COLLATZ)), (np.int32(1),)


@spelling("collatz")
def scan_shift():
  def length(_, n):
    def step(s):
      n, count = s
      return lax.select(n & 1 == 1, 3 * n + 1, n >> 1), count + 1
    return None, lax.while_loop(lambda s: s[0] != 1, step, (n, 0))[1]
  return lambda first: lax.scan(length, None, first + jnp.arange(COLLATZ))[1], (np.int32(1),)


@spelling("collatz")
def vmapped():
  def length(n):
    return lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))[1]
  return lambda first: jax.vmap(length)(first + jnp.arange(COLLATZ)), (np.int32(1),)


# Greatest common divisors.

PAIRS = 4000


def pairs():
  return np.random.default_rng(5).integers(1, 1 << 30, (PAIRS, 2)).astype(np.int32),


@spelling("gcd")
def scan_tuple():
  def one(_, p):
    return None, lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], lax.rem(s[0], s[1])), (p[0], p[1]))[0]
  return lambda p: lax.scan(one, None, p)[1], pairs()


@spelling("gcd")
def fori_stacked():
  def f(p):
    def one(i, out):
      found = lax.while_loop(lambda s: s[1] > 0, lambda s: jnp.stack([s[1], s[0] % s[1]]), p[i])
      return out.at[i].set(found[0])
    return lax.fori_loop(0, PAIRS, one, jnp.zeros(PAIRS, jnp.int32))
  return f, pairs()


@spelling("gcd")
def one_flat_while():
  def f(p):
    def step(s):
      i, a, b, out = s
      done = b == 0
      out = out.at[i].set(a)
      i = jnp.where(done, i + 1, i)
      return i, jnp.where(done, p[i, 0], b), jnp.where(done, p[i, 1], a % jnp.where(done, 1, b)), out
    return lax.while_loop(lambda s: s[0] < PAIRS, step, (0, p[0, 0], p[0, 1], jnp.zeros(PAIRS, jnp.int32)))[3]
  return f, pairs()


@spelling("gcd")
def vmapped_while():
  def one(p):
    return lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], lax.rem(s[0], s[1])), (p[0], p[1]))[0]
  return lambda p: jax.vmap(one)(p), pairs()


# A pendulum with friction.


SWINGS = 10000


@spelling("pendulum", tolerance=1e-3)
def array_fori():
  step = by_runge_kutta(lambda y: jnp.stack([y[1], -9.8 * jnp.sin(y[0]) - 0.1 * y[1]]), lambda y, k, h: y + h * k)
  return lambda y: lax.fori_loop(0, SWINGS, lambda _, y: step(y), y), (np.array([2.5, 0], np.float32),)


@spelling("pendulum", tolerance=1e-3)
def tuple_while():
  step = by_runge_kutta(lambda y: (y[1], -9.8 * jnp.sin(y[0]) - 0.1 * y[1]), lambda y, k, h: tuple(a + h * b for a, b in zip(y, k)))
  def f(y):
    return jnp.stack(lax.while_loop(lambda s: s[0] < SWINGS, lambda s: (s[0] + 1, step(s[1])), (0, tuple(y)))[1])
  return f, (np.array([2.5, 0], np.float32),)


@spelling("pendulum", tolerance=1e-3)
def set_elements():
  def slope(y):
    return jnp.zeros(2).at[0].set(y[1]).at[1].set(-9.8 * jnp.sin(y[0]) - 0.1 * y[1])
  step = by_runge_kutta(slope, lambda y, k, h: y + h * k)
  return lambda y: lax.scan(lambda y, _: (step(y), None), y, None, length=SWINGS)[0], (np.array([2.5, 0], np.float32),)


# Kepler's equation.

ORBITS = 4000


def anomaly(mean, e=0.3):
  return lax.fori_loop(0, 8, lambda _, x: x - (x - e * jnp.sin(x) - mean) / (1 - e * jnp.cos(x)), mean)


def means():
  return (np.linspace(0, 6, ORBITS).astype(np.float32),)


@spelling("kepler", tolerance=1e-5)
def mapped():
  return lambda m: lax.map(anomaly, m), means()


@spelling("kepler", tolerance=1e-5)
def whole_arrays():
  return lambda m: anomaly(m), means()


@spelling("kepler", tolerance=1e-5)
def vmapped_fori():
  return lambda m: jax.vmap(anomaly)(m), means()


@spelling("kepler", tolerance=1e-5)
def nested_at_set():
  def f(m):
    return lax.fori_loop(0, ORBITS, lambda i, out: out.at[i].set(anomaly(m[i])), jnp.zeros_like(m))
  return f, means()


# Normal numbers from a generator by hand.

DRAWS = 10000


def drawn(state):
  state = state * jnp.uint32(1664525) + jnp.uint32(1013904223)
  return state, (state >> 8).astype(jnp.float32) * np.float32(2 ** -24)


def normal(state):
  state, u = drawn(state)
  state, v = drawn(state)
  return state, jnp.sqrt(-2 * jnp.log(u + np.float32(2 ** -24))) * jnp.cos(np.float32(2 * np.pi) * v)


@spelling("box_muller", tolerance=1e-4)
def scan_values():
  return lambda s: lax.scan(lambda s, _: normal(s), s, None, length=DRAWS)[1], (np.uint32(1),)


@spelling("box_muller", tolerance=1e-4)
def fori_values():
  def f(s):
    def step(i, state):
      s, out = state
      s, x = normal(s)
      return s, out.at[i].set(x)
    return lax.fori_loop(0, DRAWS, step, (s, jnp.zeros(DRAWS)))[1]
  return f, (np.uint32(1),)


@spelling("box_muller", tolerance=1e-4)
def states_first():
  def f(s):
    def step(s, _):
      s, u = drawn(s)
      s, v = drawn(s)
      return s, (u, v)
    u, v = lax.scan(step, s, None, length=DRAWS)[1]
    return jnp.sqrt(-2 * jnp.log(u + np.float32(2 ** -24))) * jnp.cos(np.float32(2 * np.pi) * v)
  return f, (np.uint32(1),)


# Metropolis' walk between two hills.

CHAIN = 3000


def log_density(x):
  return jnp.logaddexp(-0.5 * (x - 2) ** 2, -0.5 * (x + 2) ** 2)


@spelling("metropolis", tolerance=1e-4)
def split_keys():
  def f(seed):
    def step(x, key):
      move, accept = jax.random.split(key)
      y = x + jax.random.normal(move)
      x = jnp.where(jnp.log(jax.random.uniform(accept)) < log_density(y) - log_density(x), y, x)
      return x, x
    return lax.scan(step, jnp.float32(0), jax.random.split(jax.random.key(seed), CHAIN))[1]
  return f, (np.uint32(0),)


@spelling("metropolis", tolerance=1e-4)
def carried_key():
  def f(seed):
    def step(i, s):
      key, x, out = s
      key, move, accept = jax.random.split(key, 3)
      y = x + jax.random.normal(move)
      x = lax.cond(jnp.log(jax.random.uniform(accept)) < log_density(y) - log_density(x), lambda: y, lambda: x)
      return key, x, out.at[i].set(x)
    return lax.fori_loop(0, CHAIN, step, (jax.random.key(seed), jnp.float32(0), jnp.zeros(CHAIN)))[2]
  return f, (np.uint32(0),)


@spelling("metropolis", tolerance=1e-4)
def fold_in():
  def f(seed):
    key = jax.random.key(seed)
    def step(s):
      i, x, out = s
      move, accept = jax.random.split(jax.random.fold_in(key, i))
      y = x + jax.random.normal(move)
      take = jnp.log(jax.random.uniform(accept)) < log_density(y) - log_density(x)
      x = lax.select(take, y, x)
      return i + 1, x, lax.dynamic_update_slice(out, x[None], (i,))
    return lax.while_loop(lambda s: s[0] < CHAIN, step, (0, jnp.float32(0), jnp.zeros(CHAIN)))[2]
  return f, (np.uint32(0),)

"""Loop programs of single numbers whose rounds wait for elementary functions, divisions and branches."""

import jax.numpy as jnp
from jax import lax
import numpy as np

from c_versions import SIZES as N, version
from loop_programs import F32, F64, program, random, runge_kutta


@program("ODE with elementary functions", c=version("pendulum", (F32, (2,))), tolerance=1e-3)
def pendulum():
  def slope(y):
    return jnp.stack([y[1], -9.8 * jnp.sin(y[0]) - 0.1 * y[1]])
  return (lambda y: (lax.fori_loop(0, N["PENDULUM_STEPS"], lambda _, y: runge_kutta(slope, y, 0.01), y),),
          (np.array([2.5, 0], F32),))


@program("root finding", c=version("kepler", (F64, ())), x64=True, tolerance=1e-9)
def kepler():
  """The sum of eccentric anomalies, each by a few steps of Newton's."""
  def run(e):
    def one(i, total):
      mean = i * 1e-3
      return total + lax.fori_loop(0, 8, lambda _, x: x - (x - e * jnp.sin(x) - mean) / (1 - e * jnp.cos(x)), mean)
    return (lax.fori_loop(0, N["KEPLER_COUNT"], one, 0.0),)
  return run, (F64(0.3),)


@program("random numbers by hand", c=version("box_muller", (F32, ())), tolerance=1e-2)
def box_muller():
  """The sum of normal numbers from a linear congruential generator."""
  def draw(state):
    state = state * jnp.uint32(1664525) + jnp.uint32(1013904223)
    return state, (state >> 8).astype(jnp.float32) * F32(2 ** -24)

  def step(_, pair):
    state, total = pair
    state, u = draw(state)
    state, v = draw(state)
    return state, total + jnp.sqrt(-2 * jnp.log(u + F32(2 ** -24))) * jnp.cos(F32(2 * np.pi) * v)
  return lambda seed: (lax.fori_loop(0, N["NORMAL_COUNT"], step, (seed, F32(0)))[1],), (np.uint32(1),)


@program("rotations", c=version("quaternion", (F32, (4,))), tolerance=1e-3)
def quaternion():
  """An attitude from angular velocities, of unit length after every step."""
  def step(q, w):
    a, b, c = w
    slope = jnp.stack([-q[1] * a - q[2] * b - q[3] * c, q[0] * a + q[2] * c - q[3] * b,
                       q[0] * b - q[1] * c + q[3] * a, q[0] * c + q[1] * b - q[2] * a])
    q = q + 0.005 * slope
    return q / jnp.linalg.norm(q), ()
  return (lambda w: (lax.scan(step, jnp.array([1, 0, 0, 0], jnp.float32), w)[0],),
          (random().standard_normal((N["ROTATION_STEPS"], 3)).astype(F32),))


@program("conditional in a loop", c=version("two_ways", (F32, (N["WAYS_STEPS"],))), tolerance=1e-3)
def two_ways():
  def step(x, seen):
    x = lax.cond(seen > 0, lambda x: 0.9 * x + seen, lambda x: jnp.sin(x), x)
    return x, x
  return lambda s: (lax.scan(step, F32(0), s)[1],), (random().standard_normal(N["WAYS_STEPS"]).astype(F32),)

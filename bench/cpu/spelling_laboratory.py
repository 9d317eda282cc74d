"""Simulations and iterative solvers, in several spellings each, as in spelling_programs.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from spelling_programs import integers, numbers, spelling

# A queue with four servers: a customer takes the server that is free first (Lindley's recursion for several servers).

CUSTOMERS = 2000


def customers():
  r = np.random.default_rng(3)
  return np.cumsum(r.exponential(1.0, CUSTOMERS)).astype(np.float32), r.exponential(3.5, CUSTOMERS).astype(np.float32)


@spelling("servers", tolerance=1e-5)
def scan_argmin():
  def f(arrive, serve):
    def step(free, x):
      a, s = x
      k = jnp.argmin(free)
      begin = jnp.maximum(a, free[k])
      return free.at[k].set(begin + s), begin - a
    return lax.scan(step, jnp.zeros(4), (arrive, serve))[1]
  return f, customers()


@spelling("servers", tolerance=1e-5)
def fori_where():
  def f(arrive, serve):
    def step(i, c):
      free, waits = c
      k = jnp.argmin(free)
      begin = jnp.maximum(arrive[i], jnp.min(free))
      return jnp.where(jnp.arange(4) == k, begin + serve[i], free), waits.at[i].set(begin - arrive[i])
    return lax.fori_loop(0, CUSTOMERS, step, (jnp.zeros(4), jnp.zeros(CUSTOMERS)))[1]
  return f, customers()


@spelling("servers", tolerance=1e-5)
def sorted_tuple():
  def f(arrive, serve):
    def step(c, x):
      p, q, r, s = c
      a, t = x
      begin = jnp.maximum(a, p)
      e = begin + t
      q, e = jnp.minimum(q, e), jnp.maximum(q, e)
      r, e = jnp.minimum(r, e), jnp.maximum(r, e)
      s, e = jnp.minimum(s, e), jnp.maximum(s, e)
      return (q, r, s, e), begin - a
    z = jnp.float32(0)
    return lax.scan(step, (z, z, z, z), (arrive, serve))[1]
  return f, customers()


@spelling("servers", tolerance=1e-5)
def while_sorted_array():
  def f(arrive, serve):
    def step(c):
      i, free, waits = c
      begin = jnp.maximum(arrive[i], free[0])
      free = jnp.sort(free.at[0].set(begin + serve[i]))
      return i + 1, free, lax.dynamic_update_slice(waits, (begin - arrive[i])[None], (i,))
    return lax.while_loop(lambda c: c[0] < CUSTOMERS, step, (0, jnp.zeros(4), jnp.zeros(CUSTOMERS)))[2]
  return f, customers()


# Susceptible, infected, recovered, with births: explicit Euler, the whole course kept.

DAYS = 2000


@spelling("epidemic", tolerance=1e-4)
def scan_tuple():
  def f(x):
    def step(c, _):
      s, i, r = c
      new, gone = 0.03 * s * i, 0.01 * i
      c = s - new + 0.0001, i + new - gone, r + gone - 0.0001 * r
      return c, jnp.stack(c)
    return lax.scan(step, (x[0], x[1], x[2]), None, length=DAYS)[1]
  return f, (np.array([0.99, 0.01, 0], np.float32),)


@spelling("epidemic", tolerance=1e-4)
def rows_of_course():
  def f(x):
    def step(t, course):
      s, i, r = course[t]
      new, gone = 0.03 * s * i, 0.01 * i
      return course.at[t + 1].set(jnp.array([s - new + 0.0001, i + new - gone, r + gone - 0.0001 * r]))
    return lax.fori_loop(0, DAYS, step, jnp.zeros((DAYS + 1, 3)).at[0].set(x))[1:]
  return f, (np.array([0.99, 0.01, 0], np.float32),)


@spelling("epidemic", tolerance=1e-4)
def rates_matrix():
  def f(x):
    change = jnp.array([[-1., 0, 1, 0], [1, -1, 0, 0], [0, 1, 0, -1]])
    def step(x, _):
      rates = jnp.stack([0.03 * x[0] * x[1], 0.01 * x[1], jnp.float32(0.0001), 0.0001 * x[2]])
      x = x + change @ rates
      return x, x
    return lax.scan(step, x, None, length=DAYS)[1]
  return f, (np.array([0.99, 0.01, 0], np.float32),)


@spelling("epidemic", tolerance=1e-4)
def three_columns():
  def f(x):
    def step(t, c):
      s, i, r = c
      new, gone = 0.03 * s[t] * i[t], 0.01 * i[t]
      return s.at[t + 1].set(s[t] - new + 0.0001), i.at[t + 1].set(i[t] + new - gone), r.at[t + 1].set(r[t] + gone - 0.0001 * r[t])
    start = tuple(jnp.zeros(DAYS + 1).at[0].set(v) for v in x)
    return jnp.stack(lax.fori_loop(0, DAYS, step, start), axis=1)[1:]
  return f, (np.array([0.99, 0.01, 0], np.float32),)


# Burgers' equation, upwind, on a ring.

LINE = 512


def waves():
  x = np.linspace(0, 2 * np.pi, LINE, endpoint=False)
  return ((1.5 + np.sin(x)).astype(np.float32),)


@spelling("burgers", tolerance=1e-4)
def rolled():
  def f(u):
    return lax.fori_loop(0, 300, lambda _, u: u - 0.2 * u * (u - jnp.roll(u, 1)), u)
  return f, waves()


@spelling("burgers", tolerance=1e-4)
def inside_and_edge():
  def f(u):
    def step(u, _):
      new = u.at[1:].add(-0.2 * u[1:] * (u[1:] - u[:-1]))
      return new.at[0].set(u[0] - 0.2 * u[0] * (u[0] - u[-1])), None
    return lax.scan(step, u, None, length=300)[0]
  return f, waves()


@spelling("burgers", tolerance=1e-4)
def ghost_cell():
  def f(u):
    def step(_, u):
      wide = jnp.concatenate([u[-1:], u])
      return u - 0.2 * u * jnp.diff(wide)
    return lax.fori_loop(0, 300, step, u)
  return f, waves()


@spelling("burgers", tolerance=1e-4)
def cell_by_cell():
  def f(u):
    def step(_, u):
      return lax.fori_loop(0, LINE, lambda i, new: new.at[i].set(u[i] - 0.2 * u[i] * (u[i] - u[i - 1])), u)
    return lax.fori_loop(0, 300, step, u)
  return f, waves()


# Leaky integrate-and-fire neurons, all connected.

NEURONS = 64


def neurons():
  return numbers(NEURONS, NEURONS, seed=5) * np.float32(0.1), np.random.default_rng(6).uniform(0, 1, NEURONS).astype(np.float32)


@spelling("spikes", tolerance=1e-3)
def where_reset():
  def f(w, v):
    def step(c, _):
      v, fired = c
      v = v + 0.1 * (1.3 - v) + w @ fired
      now = (v > 1.0).astype(jnp.float32)
      return (jnp.where(v > 1.0, 0.0, v), now), jnp.sum(now)
    return lax.scan(step, (v, jnp.zeros(NEURONS)), None, length=200)[1]
  return f, neurons()


@spelling("spikes", tolerance=1e-3)
def masks_and_products():
  def f(w, v):
    def step(t, c):
      v, fired, counts = c
      v = 0.9 * v + 0.13 + jnp.sum(w * fired[None, :], axis=1)
      now = v > 1.0
      return v * ~now, now, counts.at[t].set(jnp.sum(now).astype(jnp.float32))
    return lax.fori_loop(0, 200, step, (v, jnp.zeros(NEURONS, bool), jnp.zeros(200)))[2]
  return f, neurons()


@spelling("spikes", tolerance=1e-3)
def where_columns():
  def f(w, v):
    def step(c, _):
      v, fired = c
      v = v + 0.1 * (1.3 - v) + jnp.where(fired, w, 0).sum(1)
      fired = v > 1.0
      return (lax.select(fired, jnp.zeros_like(v), v), fired), jnp.count_nonzero(fired).astype(jnp.float32)
    return lax.scan(step, (v, jnp.zeros(NEURONS, bool)), None, length=200)[1]
  return f, neurons()


# A rope of points held together by relaxing one link after the other.

POINTS = 64


def rope():
  return (np.stack([np.arange(POINTS), np.zeros(POINTS)], 1).astype(np.float32),)


@spelling("rope", tolerance=1e-3)
def links_added_at():
  def f(p):
    def link(i, p):
      d = p[i + 1] - p[i]
      move = 0.5 * d * (1 - 1 / jnp.sqrt(jnp.sum(d * d) + 1e-12))
      return p.at[i].add(move).at[i + 1].add(-move)
    def step(_, c):
      p, old = c
      new = 2 * p - old + jnp.array([0, -0.001])
      new = lax.fori_loop(0, POINTS - 1, link, new)
      return new.at[0].set(jnp.zeros(2)), p
    return lax.fori_loop(0, 30, step, (p, p))[0]
  return f, rope()


@spelling("rope", tolerance=1e-3)
def pairs_sliced():
  def f(p):
    def link(i, p):
      pair = lax.dynamic_slice(p, (i, 0), (2, 2))
      d = pair[1] - pair[0]
      move = 0.5 * d * (1 - 1 / jnp.sqrt(jnp.dot(d, d) + 1e-12))
      return lax.dynamic_update_slice(p, jnp.stack([pair[0] + move, pair[1] - move]), (i, 0))
    def step(c, _):
      p, old = c
      new = 2 * p - old + jnp.array([0, -0.001])
      new = lax.fori_loop(0, POINTS - 1, link, new)
      return (new.at[0].set(0), p), None
    return lax.scan(step, (p, p), None, length=30)[0][0]
  return f, rope()


@spelling("rope", tolerance=1e-3)
def scan_carries_last():
  def f(p):
    def step(_, c):
      p, old = c
      new = 2 * p - old + jnp.array([0, -0.001])
      def link(a, b):
        d = b - a
        move = 0.5 * d * (1 - 1 / jnp.sqrt(jnp.sum(d * d) + 1e-12))
        return b - move, a + move
      last, before = lax.scan(link, new[0], new[1:])
      new = jnp.concatenate([before, last[None]])
      return new.at[0].set(0.0), p
    return lax.fori_loop(0, 30, step, (p, p))[0]
  return f, rope()


@spelling("rope", tolerance=1e-3)
def two_columns():
  def f(p):
    def link(i, c):
      x, y = c
      dx, dy = x[i + 1] - x[i], y[i + 1] - y[i]
      s = 0.5 * (1 - 1 / jnp.sqrt(dx * dx + dy * dy + 1e-12))
      return x.at[i].add(dx * s).at[i + 1].add(-dx * s), y.at[i].add(dy * s).at[i + 1].add(-dy * s)
    def step(_, c):
      x, y, ox, oy = c
      nx, ny = lax.fori_loop(0, POINTS - 1, link, (2 * x - ox, 2 * y - oy - 0.001))
      return nx.at[0].set(0), ny.at[0].set(0), x, y
    x, y = p[:, 0], p[:, 1]
    return jnp.stack(lax.fori_loop(0, 30, step, (x, y, x, y))[:2], 1)
  return f, rope()


# Heat on a rod by Crank and Nicolson: a tridiagonal system in every step.

ROD = 128


def rod():
  return (np.sin(np.linspace(0, np.pi, ROD)).astype(np.float32) + numbers(ROD, seed=2) * np.float32(0.1),)


@spelling("crank_nicolson", tolerance=1e-4)
def scans_of_thomas():
  def f(u):
    def step(u, _):
      b = u[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
      def down(c, b):
        cp, dp = c
        m = 1.5 + 0.25 * cp
        cp, dp = -0.25 / m, (b + 0.25 * dp) / m
        return (cp, dp), (cp, dp)
      _, (cs, ds) = lax.scan(down, (jnp.float32(0), jnp.float32(0)), b)
      def up(x, cd):
        x = cd[1] - cd[0] * x
        return x, x
      _, xs = lax.scan(up, jnp.float32(0), (cs, ds), reverse=True)
      return jnp.pad(xs, 1), None
    return lax.scan(step, u, None, length=50)[0]
  return f, rod()


@spelling("crank_nicolson", tolerance=1e-4)
def factors_kept():
  def f(u):
    n = ROD - 2
    c = lax.fori_loop(1, n, lambda i, c: c.at[i].set(-0.25 / (1.5 + 0.25 * c[i - 1])), jnp.zeros(n).at[0].set(-0.25 / 1.5))
    def step(_, u):
      b = u[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
      d = jnp.zeros(n).at[0].set(b[0] / 1.5)
      d = lax.fori_loop(1, n, lambda i, d: d.at[i].set((b[i] + 0.25 * d[i - 1]) / (1.5 + 0.25 * c[i - 1])), d)
      x = lax.fori_loop(1, n, lambda k, x: x.at[n - 1 - k].set(d[n - 1 - k] - c[n - 1 - k] * x[n - k]), d)
      return u.at[1:-1].set(x).at[0].set(0).at[-1].set(0)
    return lax.fori_loop(0, 50, step, u)
  return f, rod()


@spelling("crank_nicolson", tolerance=1e-4)
def in_place():
  def f(u):
    def step(_, u):
      b = jnp.zeros_like(u).at[1:-1].set(u[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2]))
      def down(i, c):
        diagonal, b = c
        m = -0.25 / diagonal[i - 1]
        return diagonal.at[i].set(1.5 + 0.25 * m), b.at[i].set(b[i] - m * b[i - 1])
      diagonal, b = lax.fori_loop(2, ROD - 1, down, (jnp.full(ROD, 1.5), b))
      def up(c):
        i, b = c
        return i - 1, b.at[i].set((b[i] + 0.25 * b[i + 1]) / diagonal[i])
      return lax.while_loop(lambda c: c[0] > 0, up, (ROD - 2, b))[1]
    return lax.fori_loop(0, 50, step, u)
  return f, rod()


# A gas on a lattice (Boltzmann, nine speeds).

LATTICE = 48
SPEEDS = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)


def gas():
  r = np.random.default_rng(4)
  return ((WEIGHTS[:, None, None] * (1 + 0.05 * r.normal(size=(9, LATTICE, LATTICE)))).astype(np.float32),)


def equilibrium(rho, ux, uy):
  cu = SPEEDS[:, 0].astype(np.float32)[:, None, None] * ux + SPEEDS[:, 1].astype(np.float32)[:, None, None] * uy
  return WEIGHTS[:, None, None] * rho * (1 + 3 * cu + 4.5 * cu * cu - 1.5 * (ux * ux + uy * uy))


@spelling("boltzmann", tolerance=1e-4)
def stacked_rolls():
  def f(g):
    def step(g, _):
      rho = g.sum(0)
      ux = jnp.tensordot(jnp.float32(SPEEDS[:, 0]), g, 1) / rho
      uy = jnp.tensordot(jnp.float32(SPEEDS[:, 1]), g, 1) / rho
      g = g + 0.6 * (equilibrium(rho, ux, uy) - g)
      return jnp.stack([jnp.roll(g[k], SPEEDS[k], (0, 1)) for k in range(9)]), None
    return lax.scan(step, g, None, length=20)[0]
  return f, gas()


@spelling("boltzmann", tolerance=1e-4)
def set_one_by_one():
  def f(g):
    def step(_, g):
      rho = jnp.sum(g, axis=0)
      ux = (g[1] - g[3] + g[5] - g[6] - g[7] + g[8]) / rho
      uy = (g[2] - g[4] + g[5] + g[6] - g[7] - g[8]) / rho
      g = 0.4 * g + 0.6 * equilibrium(rho, ux, uy)
      for k in range(1, 9):
        g = g.at[k].set(jnp.roll(jnp.roll(g[k], SPEEDS[k, 0], 0), SPEEDS[k, 1], 1))
      return g
    return lax.fori_loop(0, 20, step, g)
  return f, gas()


@spelling("boltzmann", tolerance=1e-4)
def tuple_of_nine():
  def f(g):
    def step(_, g):
      rho = sum(g)
      ux = (g[1] - g[3] + g[5] - g[6] - g[7] + g[8]) / rho
      uy = (g[2] - g[4] + g[5] + g[6] - g[7] - g[8]) / rho
      uu = 1 - 1.5 * (ux * ux + uy * uy)
      new = []
      for k in range(9):
        cu = float(SPEEDS[k, 0]) * ux + float(SPEEDS[k, 1]) * uy
        out = g[k] + 0.6 * (float(WEIGHTS[k]) * rho * (uu + 3 * cu + 4.5 * cu * cu) - g[k])
        new.append(jnp.roll(out, tuple(SPEEDS[k]), (0, 1)))
      return tuple(new)
    return jnp.stack(lax.fori_loop(0, 20, step, tuple(g)))
  return f, gas()


# Kuramoto's oscillators.

@spelling("kuramoto", tolerance=1e-3)
def differences_table():
  def f(w, a):
    return lax.fori_loop(0, 50, lambda _, a: a + 0.01 * (w + jnp.mean(jnp.sin(a[None, :] - a[:, None]), axis=1)), a)
  return f, (numbers(100, seed=1), numbers(100, seed=2))


@spelling("kuramoto", tolerance=1e-3)
def order_parameter():
  def f(w, a):
    def step(a, _):
      c, s = jnp.cos(a), jnp.sin(a)
      return a + 0.01 * (w + s.mean() * c - c.mean() * s), None
    return lax.scan(step, a, None, length=50)[0]
  return f, (numbers(100, seed=1), numbers(100, seed=2))


@spelling("kuramoto", tolerance=1e-3)
def mapped_oscillators():
  def f(w, a):
    def step(_, a):
      return a + 0.01 * jax.vmap(lambda w, x: w + jnp.sin(a - x).sum() / 100)(w, a)
    return lax.fori_loop(0, 50, step, a)
  return f, (numbers(100, seed=1), numbers(100, seed=2))


@spelling("kuramoto", tolerance=1e-3)
def one_by_one():
  def f(w, a):
    def step(_, a):
      return lax.fori_loop(0, 100, lambda i, new: new.at[i].add(0.01 * (w[i] + jnp.mean(jnp.sin(a - a[i])))), a)
    return lax.fori_loop(0, 50, step, a)
  return f, (numbers(100, seed=1), numbers(100, seed=2))


# Hopfield's network: one neuron after the other takes the sign of its input.

def memories():
  p = np.sign(numbers(4, 96, seed=7))
  w = (p.T @ p / 96 * (1 - np.eye(96))).astype(np.float32)
  return w, np.sign(p[0] + 1.2 * numbers(96, seed=8)).astype(np.float32)


@spelling("hopfield")
def set_signs():
  def f(w, s):
    def step(k, s):
      i = k % 96
      return s.at[i].set(jnp.where(w[i] @ s >= 0, 1.0, -1.0))
    return lax.fori_loop(0, 960, step, s)
  return f, memories()


@spelling("hopfield")
def rows_scanned():
  def f(w, s):
    def sweep(_, s):
      def one(c, row):
        i, s = c
        v = jnp.where(jnp.sum(row * s) >= 0, jnp.float32(1), jnp.float32(-1))
        return (i + 1, lax.dynamic_update_slice(s, v[None], (i,))), None
      return lax.scan(one, (0, s), w)[0][1]
    return lax.fori_loop(0, 10, sweep, s)
  return f, memories()


@spelling("hopfield")
def where_iota():
  def f(w, s):
    def sweep(_, s):
      return lax.fori_loop(0, 96, lambda i, s: jnp.where(jnp.arange(96) == i, jnp.sign(jnp.dot(w[i], s) + 1e-9), s), s)
    return lax.fori_loop(0, 10, sweep, s)
  return f, memories()


@spelling("hopfield")
def fields_carried():
  def f(w, s):
    def step(k, c):
      s, h = c
      i = k % 96
      new = jnp.where(h[i] >= -1e-5, 1.0, -1.0)
      return s.at[i].set(new), h + w[:, i] * (new - s[i])
    return lax.fori_loop(0, 960, step, (s, w @ s))[0]
  return f, memories()


# Kaczmarz: a solution is projected onto one equation after the other.

def equations():
  a = numbers(80, 40, seed=9)
  return a, a @ numbers(40, seed=10)


@spelling("kaczmarz", tolerance=1e-3)
def rows_by_index():
  def f(a, b):
    def step(k, x):
      i = k % 80
      return x + (b[i] - a[i] @ x) / jnp.sum(a[i]**2) * a[i]
    return lax.fori_loop(0, 800, step, jnp.zeros(40))
  return f, equations()


@spelling("kaczmarz", tolerance=1e-3)
def rows_scanned():
  def f(a, b):
    norms = jnp.sum(a * a, axis=1)
    def sweep(_, x):
      def one(x, row):
        r, t, n = row
        return x + r * ((t - jnp.dot(r, x)) / n), None
      return lax.scan(one, x, (a, b, norms))[0]
    return lax.fori_loop(0, 10, sweep, jnp.zeros(40))
  return f, equations()


@spelling("kaczmarz", tolerance=1e-3)
def while_sliced():
  def f(a, b):
    def step(c):
      k, x = c
      i = k % 80
      row = lax.dynamic_slice(a, (i, 0), (1, 40))[0]
      return k + 1, x + row * (b[i] - jnp.sum(row * x)) / jnp.vdot(row, row)
    return lax.while_loop(lambda c: c[0] < 800, step, (0, jnp.zeros(40)))[1]
  return f, equations()


# Least squares with a penalty, by coordinates.

def regression():
  a = numbers(100, 30, seed=11)
  return a, a[:, 0] * 3 - a[:, 7] + numbers(100, seed=12) * np.float32(0.1)


def soft(x, t):
  return jnp.sign(x) * jnp.maximum(jnp.abs(x) - t, 0)


@spelling("lasso", tolerance=1e-3)
def residual_carried():
  def f(a, b):
    n = jnp.sum(a * a, axis=0)
    def step(k, c):
      x, r = c
      j = k % 30
      new = soft(a[:, j] @ r + n[j] * x[j], 5.0) / n[j]
      return x.at[j].set(new), r + a[:, j] * (x[j] - new)
    return lax.fori_loop(0, 600, step, (jnp.zeros(30), b))[0]
  return f, regression()


@spelling("lasso", tolerance=1e-3)
def residual_each_time():
  def f(a, b):
    def sweep(_, x):
      def one(j, x):
        r = b - a @ x + a[:, j] * x[j]
        return x.at[j].set(soft(jnp.dot(a[:, j], r), 5.0) / jnp.sum(a[:, j]**2))
      return lax.fori_loop(0, 30, one, x)
    return lax.fori_loop(0, 20, sweep, jnp.zeros(30))
  return f, regression()


@spelling("lasso", tolerance=1e-3)
def gram_matrix():
  def f(a, b):
    g, c = a.T @ a, a.T @ b
    def sweep(x, _):
      def one(x, j):
        rho = c[j] - g[j] @ x + g[j, j] * x[j]
        return jnp.where(jnp.arange(30) == j, soft(rho, 5.0) / g[j, j], x), None
      return lax.scan(one, x, jnp.arange(30))[0], None
    return lax.scan(sweep, jnp.zeros(30), None, length=20)[0]
  return f, regression()

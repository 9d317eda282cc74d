"""The loop programs: every kind of loop that people write with scan, while_loop and fori_loop, by kind.

Parameters are such that the state stays bounded and does not depend on the last bit: results can be compared after any number
of steps.
"""

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from c_versions import SIZES as N, version
import harness

PROGRAMS, program = harness.program_list()
F32, F64, I32 = np.float32, np.float64, np.int32


def random(seed=0):
  return np.random.default_rng(seed)


# Scalar recurrences and small ODEs.


@program("scalar recurrence", c=version("logistic", (F32, ())), quick=True)
def logistic():
  def run(x, r):
    return (lax.fori_loop(0, N["LOGISTIC_STEPS"], lambda _, x: r * x * (1 - x), x),)
  return run, (F32(0.4), F32(3.2))


@program("scalar recurrence", c=version("newton", (F32, ())))
def newton():
  def step(_, state):
    x, a = state
    return x - (x * x * x - a) / (3 * x * x), a + 1e-4

  def run(x, a):
    return (lax.fori_loop(0, N["NEWTON_STEPS"], step, (x, a))[0],)
  return run, (F32(1.0), F32(2.0))


def runge_kutta(slope, y, h):
  a = slope(y)
  b = slope(y + 0.5 * h * a)
  c = slope(y + 0.5 * h * b)
  d = slope(y + h * c)
  return y + h / 6 * (a + 2 * b + 2 * c + d)


@program("ODE of 3 variables", c=version("rk4", (F64, (N["RK4_STEPS"], 3))), x64=True, tolerance=1e-9)
def rk4():
  def slope(y):
    return jnp.stack([y[1] * y[2], -y[0] * y[2], -0.51 * y[0] * y[1]])

  def step(y, _):
    y = runge_kutta(slope, y, 0.01)
    return y, y
  return lambda y: (lax.scan(step, y, length=N["RK4_STEPS"])[1],), (np.array([0.0, 1.0, 1.0]),)


@program("ODE of 3 variables", c=version("lorenz", (F32, ()), (F32, ()), (F32, ())), tolerance=1e-4)
def lorenz():
  def step(_, state):
    x, y, z = state
    return x + 0.005 * (10 * (y - x)), y + 0.005 * (x * (14 - z) - y), z + 0.005 * (x * y - 8 / 3 * z)
  return lambda s: lax.fori_loop(0, N["LORENZ_STEPS"], step, (s[0], s[1], s[2])), (np.array([1, 2, 3], F32),)


@program("ODE with adaptive steps", c=version("oscillator", (F64, ()), (I32, ())), x64=True, tolerance=1e-6)
def oscillator():
  """Van der Pol's; two orders of one method say how long the next step is."""
  def slope(y):
    return jnp.stack([y[1], (1 - y[0] * y[0]) * y[1] - y[0]])

  def step(state):
    t, y, h, n = state
    a = slope(y)
    b = slope(y + h * a)
    better = y + 0.5 * h * (a + b)
    error = jnp.max(jnp.abs(better - (y + h * a)))
    fine = error < 1e-3
    return (jnp.where(fine, t + h, t), jnp.where(fine, better, y),
            jnp.clip(0.9 * h * jnp.sqrt(1e-3 / (error + 1e-12)), 1e-4, 0.1), n + 1)

  def run(y):
    t, _, _, n = lax.while_loop(lambda s: s[0] < N["OSCILLATOR_END"], step, (0.0, y, 0.01, jnp.int32(0)))
    return t, n
  return run, (np.array([2.0, 0.0]),)


@program("nested loops over a small matrix-vector product", c=version("nested_matvec", (F32, (8,))), quick=True)
def nested_matvec():
  def run(a, x):
    def outer(_, x):
      x = lax.fori_loop(0, N["MATVEC_INNER"], lambda _, x: a @ x, x)
      return x / jnp.max(jnp.abs(x))
    return (lax.fori_loop(0, N["MATVEC_OUTER"], outer, x),)
  return run, (random().uniform(0.05, 0.2, (8, 8)).astype(F32), np.ones(8, F32))


# Integers and branches.


def collatz_by(step):
  def length(n):
    return lax.while_loop(lambda s: s[0] != 1, lambda s: (step(s[0]), s[1] + 1), (n, jnp.int32(0)))[1]

  def each(n, state):
    steps = length(n)
    return state[0] + steps, jnp.maximum(state[1], steps)
  return lambda: lax.fori_loop(1, N["COLLATZ_LAST"], each, (jnp.int32(0), jnp.int32(0))), ()


@program("integers and branches", c=version("collatz", (I32, ()), (I32, ())), tolerance=0)
def collatz():
  return collatz_by(lambda n: jnp.where(n & 1 == 0, n >> 1, 3 * n + 1))


@program("integers and branches", c=version("gcd", (I32, (N["GCD_PAIRS"],))), tolerance=0)
def gcd():
  def one(_, pair):
    found = lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], lax.rem(s[0], s[1])), pair)[0]
    return (), found
  pairs = random().integers(1, 1 << 30, (2, N["GCD_PAIRS"]), dtype=I32)
  return lambda a, b: (lax.scan(one, (), (a, b))[1],), (pairs[0], pairs[1])


@program("integers and branches", c=version("collatz", (I32, ()), (I32, ())), tolerance=0)
def collatz_floor():
  """With Python's % and //, which are more than one operation each."""
  return collatz_by(lambda n: jnp.where(n % 2 == 0, n // 2, 3 * n + 1))


@program("bit operations", c=version("xorshift", (np.uint32, ())), tolerance=0, quick=True)
def xorshift():
  def step(_, x):
    x = x ^ (x << 13)
    x = x ^ (x >> 17)
    return x ^ (x << 5)
  return lambda x: (lax.fori_loop(0, N["XORSHIFT_STEPS"], step, x),), (np.uint32(2463534242),)


# Arrays written element by element.


@program("array filling", c=version("fill", (I32, (N["FILL_SIZE"],))), tolerance=0, quick=True)
def fill():
  def run(seed):
    def step(i, state):
      value, array = state
      value = value * 1103515245 + 12345 + i
      return value, lax.dynamic_update_index_in_dim(array, value, i, 0)
    return (lax.fori_loop(0, N["FILL_SIZE"], step, (seed, jnp.zeros(N["FILL_SIZE"], jnp.int32)))[1],)
  return run, (I32(1),)


def sieve_by(clear):
  size = N["SIEVE_SIZE"]

  def run():
    def each(i, prime):
      first = jnp.where(prime[i], i * i, size)
      return lax.while_loop(lambda s: s[0] < size, lambda s: (s[0] + i, clear(s[1], s[0])), (first, prime))[1]
    start = jnp.ones(size, bool).at[:2].set(False)
    return (lax.fori_loop(2, int(np.sqrt(size - 1)) + 1, each, start),)
  return run, ()


@program("array filling", c=version("sieve", (np.bool_, (N["SIEVE_SIZE"],))), tolerance=0)
def sieve():
  return sieve_by(lambda prime, i: lax.dynamic_update_index_in_dim(prime, False, i, 0))


@program("array filling", c=version("sieve", (np.bool_, (N["SIEVE_SIZE"],))), tolerance=0)
def sieve_at_set():
  return sieve_by(lambda prime, i: prime.at[i].set(False))


@program("sorting by hand", c=version("insertion_sort", (F32, (N["INSERTION_SIZE"],))), tolerance=0)
def insertion_sort():
  def run(a):
    def insert(i, a):
      value = a[i]
      go_on = lambda s: (s[0] > 0) & (s[1][s[0] - 1] > value)
      j, a = lax.while_loop(go_on, lambda s: (s[0] - 1, s[1].at[s[0]].set(s[1][s[0] - 1])), (i, a))
      return a.at[j].set(value)
    return (lax.fori_loop(1, N["INSERTION_SIZE"], insert, a),)
  return run, (random().standard_normal(N["INSERTION_SIZE"]).astype(F32),)


@program("sorting by hand", c=version("bubble_sort", (F32, (N["BUBBLE_SIZE"],))), tolerance=0)
def bubble_sort():
  size = N["BUBBLE_SIZE"]

  def run(a):
    def compare(j, a):
      x, y = a[j], a[j + 1]
      return a.at[j].set(jnp.minimum(x, y)).at[j + 1].set(jnp.maximum(x, y))
    return (lax.fori_loop(0, size - 1, lambda i, a: lax.fori_loop(0, size - 1 - i, compare, a), a),)
  return run, (random().standard_normal(size).astype(F32),)


@program("counting", c=version("histogram", (I32, (N["HISTOGRAM_BINS"],))), tolerance=0)
def histogram():
  def run(values):
    return (lax.scan(lambda counts, v: (counts.at[v].add(1), ()), jnp.zeros(N["HISTOGRAM_BINS"], jnp.int32), values)[0],)
  return run, (random().integers(0, N["HISTOGRAM_BINS"], N["HISTOGRAM_SIZE"], dtype=I32),)


@program("running products", c=version("running_product", (F32, ()), (F32, (N["PRODUCT_SIZE"],))), tolerance=1e-3)
def running_product():
  def step(x, v):
    x = x * v
    return x, x
  values = np.exp(1e-3 * np.sin(np.arange(N["PRODUCT_SIZE"]))).astype(F32)
  return lambda v: lax.scan(step, jnp.float32(1), v), (values,)


@program("jax#25190: while with a gather", c=version("while_max", (I32, ())), tolerance=0)
def issue_25190():
  def run(values, stop):
    step = lambda s: (jnp.maximum(s[0], values[s[1]]), s[1] + 1)
    return (lax.while_loop(lambda s: s[0] < stop, step, (jnp.int32(0), jnp.int32(0)))[1],)
  values = np.arange(N["WHILE_SIZE"], dtype=I32)
  return run, (values, values[-1])


# Grids and particles.


@program("stencil", c=version("heat", (F32, (N["HEAT_SIZE"],))), quick=True)
def heat():
  def step(_, u):
    inner = u[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return jnp.concatenate([u[:1], inner, u[-1:]])
  return (lambda u: (lax.fori_loop(0, N["HEAT_STEPS"], step, u),),
          (random().uniform(0, 1, N["HEAT_SIZE"]).astype(F32),))


@program("stencil", c=version("jacobi", (F32, (N["JACOBI_SIZE"],) * 2)))
def jacobi():
  def step(_, u):
    return u.at[1:-1, 1:-1].set(0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))
  return (lambda u: (lax.fori_loop(0, N["JACOBI_STEPS"], step, u),),
          (random().uniform(0, 1, (N["JACOBI_SIZE"],) * 2).astype(F32),))


@program("waves", c=version("wave", (F32, (N["WAVE_SIZE"],) * 2), (F32, (N["WAVE_SIZE"],) * 2)), tolerance=1e-4)
def wave():
  def step(_, state):
    u, v = state
    near = sum(jnp.roll(u, shift, axis) for axis in (0, 1) for shift in (1, -1))
    v = v + 0.1 * (near - 4 * u)
    return u + 0.1 * v, v
  return (lambda u, v: lax.fori_loop(0, N["WAVE_STEPS"], step, (u, v)),
          (random().standard_normal((N["WAVE_SIZE"],) * 2).astype(F32), np.zeros((N["WAVE_SIZE"],) * 2, F32)))


@program("n-body", c=version("nbody", (F32, (N["BODIES"], 3)), (F32, (N["BODIES"], 3))), tolerance=1e-4)
def nbody():
  def run(p, v, mass):
    def step(_, state):
      p, v = state
      d = p[None, :, :] - p[:, None, :]
      square = jnp.sum(d * d, axis=-1) + 0.01
      v = v + 0.001 * jnp.sum((mass / (square * jnp.sqrt(square)))[:, :, None] * d, axis=1)
      return p + 0.001 * v, v
    return lax.fori_loop(0, N["BODY_STEPS"], step, (p, v))
  r = random()
  return run, (r.standard_normal((N["BODIES"], 3)).astype(F32), 0.1 * r.standard_normal((N["BODIES"], 3)).astype(F32),
               r.uniform(0.01, 0.1, N["BODIES"]).astype(F32))


@program("cellular automaton", c=version("life", (np.uint8, (N["LIFE_SIZE"],) * 2)), tolerance=0)
def life():
  def step(_, u):
    near = sum(jnp.roll(u, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((near == 3) | ((near == 2) & (u == 1))).astype(jnp.uint8)
  return (lambda u: (lax.fori_loop(0, N["LIFE_STEPS"], step, u),),
          (random().integers(0, 2, (N["LIFE_SIZE"],) * 2, dtype=np.uint8),))


@program("wide ODE", c=version("lorenz96", (F32, (40,))), tolerance=1e-3)
def lorenz96():
  def slope(x):
    return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 2.0
  return (lambda x: (lax.fori_loop(0, N["L96_STEPS"], lambda _, x: runge_kutta(slope, x, 0.01), x),),
          ((2 + 0.01 * random().standard_normal(40)).astype(F32),))


@program("complex iteration", c=version("mandelbrot", (F32, (N["MANDELBROT_SIZE"],))), tolerance=1e-2)
def mandelbrot():
  size = N["MANDELBROT_SIZE"]

  def run(corner):
    line = 3.0 * jnp.arange(size, dtype=jnp.float32) / size
    c = lax.complex(jnp.broadcast_to(corner[0] + line[None, :], (size, size)),
                    jnp.broadcast_to(corner[1] + line[:, None], (size, size)))

    def step(_, state):
      z, count = state
      inside = z.real * z.real + z.imag * z.imag < 4.0
      return jnp.where(inside, z * z + c, z), count + inside
    z = jnp.zeros((size, size), jnp.complex64)
    count = lax.fori_loop(0, N["MANDELBROT_STEPS"], step, (z, jnp.zeros((size, size), jnp.int32)))[1]
    return (jnp.sum(count, axis=1).astype(jnp.float32),)
  return run, (np.array([-2.0, -1.5], F32),)


@program("vmapped search", c=version("bisect", (F32, (N["BISECT_COUNT"],))))
def bisect():
  def root(target):
    def step(_, state):
      low, high = state
      middle = 0.5 * (low + high)
      below = middle * middle * middle + middle < target
      return jnp.where(below, middle, low), jnp.where(below, high, middle)
    low, high = lax.fori_loop(0, N["BISECT_STEPS"], step, (jnp.float32(0), jnp.float32(4)))
    return 0.5 * (low + high)
  return lambda t: (jax.vmap(root)(t),), (random().uniform(1, 60, N["BISECT_COUNT"]).astype(F32),)


# Dynamic programming.


@program("dynamic programming", c=version("edit_distance", (I32, (N["EDIT_SIZE"] + 1,))), tolerance=0)
def edit_distance():
  def run(a, b):
    def row(above, inputs):
      letter, i = inputs

      def column(state, inputs):
        left, diagonal = state
        up, other = inputs
        best = jnp.minimum(jnp.minimum(up, left) + 1, diagonal + (letter != other))
        return (best, up), best
      _, rest = lax.scan(column, (i + 1, above[0]), (above[1:], b))
      return jnp.concatenate([(i + 1)[None], rest]), ()
    size = N["EDIT_SIZE"]
    return (lax.scan(row, jnp.arange(size + 1), (a, jnp.arange(size)))[0],)
  letters = random().integers(0, 4, (2, N["EDIT_SIZE"]), dtype=I32)
  return run, (letters[0], letters[1])


@program("dynamic programming", c=version("knapsack", (I32, (N["KNAPSACK_CAPACITY"],))), tolerance=0)
def knapsack():
  capacity = N["KNAPSACK_CAPACITY"]

  def item(best, inputs):
    weight, value = inputs
    shifted = lax.dynamic_slice(jnp.concatenate([jnp.full(capacity, -(1 << 30), jnp.int32), best]), (capacity - weight,), (capacity,))
    return jnp.maximum(best, shifted + value), ()
  r = random()
  return (lambda w, v: (lax.scan(item, jnp.zeros(capacity, jnp.int32), (w, v))[0],),
          (r.integers(1, 500, N["KNAPSACK_ITEMS"], dtype=I32), r.integers(1, 1000, N["KNAPSACK_ITEMS"], dtype=I32)))


@program("Viterbi", c=version("viterbi", (I32, (N["VITERBI_STEPS"],))), tolerance=0)
def viterbi():
  def run(transitions, scores):
    def step(delta, score):
      moves = delta[:, None] + transitions
      best = jnp.max(moves, axis=0) + score
      return best - jnp.max(best), jnp.argmax(moves, axis=0).astype(jnp.int32)
    delta, origins = lax.scan(step, jnp.zeros(32), scores)
    last = jnp.argmax(delta).astype(jnp.int32)
    return (lax.scan(lambda state, origin: (origin[state], state), last, origins, reverse=True)[1],)
  # Sixteenths are added without rounding: no tie is broken by the order of additions.
  r = random()
  sixteenths = lambda shape: (r.integers(-64, 0, shape) / 16).astype(F32)
  return run, (sixteenths((32, 32)), sixteenths((N["VITERBI_STEPS"], 32)))


# Small linear algebra inside the loop.


def kalman(gain_of):
  def run(f, h, q, r, z):
    def step(state, seen):
      x, p = state
      x, p = f @ x, f @ p @ f.T + q
      gain = gain_of(p @ h.T, h @ p @ h.T + r)
      x = x + gain @ (seen - h @ x)
      return (x, (jnp.eye(4) - gain @ h) @ p), x
    (_, p), states = lax.scan(step, (jnp.zeros(4), jnp.eye(4)), z)
    return p, states
  f = np.array([[1, 0, 0.1, 0], [0, 1, 0, 0.1], [0, 0, 0.99, 0], [0, 0, 0, 0.99]], F32)
  h = np.array([[1, 0, 0, 0], [0, 1, 0, 0]], F32)
  z = np.cumsum(0.1 * random().standard_normal((N["KALMAN_STEPS"], 2)), axis=0).astype(F32)
  return run, (f, h, 0.01 * np.eye(4, dtype=F32), np.array([[0.5, 0.1], [0.1, 0.5]], F32), z)


KALMAN_RESULTS = ((F32, (4, 4)), (F32, (N["KALMAN_STEPS"], 4)))


@program("Kalman filter", c=version("kalman_inverse", *KALMAN_RESULTS), tolerance=1e-4, quick=True)
def kalman_inverse():
  return kalman(lambda pht, s: pht @ jnp.linalg.inv(s))


@program("Kalman filter", c=version("kalman_solve", *KALMAN_RESULTS), tolerance=1e-4)
def kalman_solve():
  return kalman(lambda pht, s: jnp.linalg.solve(s.T, pht.T).T)


@program("small matrix products", c=version("chain", (F32, (4, 4))), tolerance=1e-3)
def chain_4x4():
  rotations = np.linalg.qr(random().standard_normal((N["CHAIN_STEPS"], 4, 4)))[0].astype(F32)
  return lambda m: (lax.scan(lambda a, b: (a @ b, ()), jnp.eye(4), m)[0],), (rotations,)


@program("small matrix products", c=version("riccati", (F32, (12, 12))), tolerance=1e-3)
def riccati():
  def run(a, b, q, r):
    def step(_, p):
      gain = jnp.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
      return q + a.T @ p @ a - (a.T @ p @ b) @ gain
    return (lax.fori_loop(0, N["RICCATI_STEPS"], step, q),)
  g = random()
  a = (np.eye(12) + 0.05 * g.standard_normal((12, 12))) * 0.95
  return run, (a.astype(F32), g.standard_normal((12, 4)).astype(F32), np.eye(12, dtype=F32), np.eye(4, dtype=F32))


@program("3x3 matrices, explicit", c=version("inverse_3x3", (F32, (3,))), tolerance=1e-3)
def inverse_3x3():
  def step(x, m):
    cofactors = jnp.stack([jnp.cross(m[1], m[2]), jnp.cross(m[2], m[0]), jnp.cross(m[0], m[1])], axis=1)
    x = cofactors @ x / jnp.dot(m[0], cofactors[:, 0])
    return x / jnp.sqrt(jnp.sum(x * x)), ()
  g = random()
  matrices = np.linalg.qr(g.standard_normal((N["INVERSE_STEPS"], 3, 3)))[0] + 0.05 * g.standard_normal((N["INVERSE_STEPS"], 3, 3))
  return lambda m, x: (lax.scan(step, x, m)[0],), (matrices.astype(F32), np.array([1, 0, 0], F32))


@program("3x3 matrices, explicit", c=version("covariance", (F64, (3, 3)), (F64, (N["COVARIANCE_STEPS"],))), x64=True, tolerance=1e-9)
def issue_36799():
  def step(p, a):
    pa = p @ a
    p = p - jnp.outer(pa, pa) / (1 + a @ pa) + 0.01 * jnp.eye(3)
    return p, jnp.sqrt(jnp.trace(p))
  return lambda p, a: lax.scan(step, p, a), (np.eye(3), random().standard_normal((N["COVARIANCE_STEPS"], 3)))


# Recurrent networks, and gradients through scan.


def gru_forward(w, u, bias, inputs):
  def step(h, x):
    gates, state = x @ w + bias, h @ u
    reset = jax.nn.sigmoid(gates[:16] + state[:16])
    update = jax.nn.sigmoid(gates[16:32] + state[16:32])
    candidate = jnp.tanh(gates[32:] + reset * state[32:])
    h = (1 - update) * candidate + update * h
    return h, h
  return lax.scan(step, jnp.zeros(16), inputs)


def lstm_forward(w, u, bias, inputs):
  def step(state, x):
    h, c = state
    i, f, g, o = jnp.split(x @ w + h @ u + bias, 4)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h
  return lax.scan(step, (jnp.zeros(16), jnp.zeros(16)), inputs)


def cell_arguments(gates, steps):
  r = random()
  return tuple(a.astype(F32) for a in (0.3 * r.standard_normal((16, 16 * gates)), 0.3 * r.standard_normal((16, 16 * gates)),
                                       0.1 * r.standard_normal(16 * gates), r.standard_normal((steps, 16))))


def gradient_of(forward):
  def loss(weights, inputs):
    return jnp.mean(forward(*weights, inputs)[1] ** 2)
  return lambda *arguments: jax.grad(loss)(arguments[:3], arguments[3])


@program("recurrent network", c=version("gru", (F32, (16,)), (F32, (N["GRU_STEPS"], 16))), tolerance=1e-4)
def gru():
  return gru_forward, cell_arguments(3, N["GRU_STEPS"])


@program("recurrent network", tolerance=1e-4)
def lstm():
  return lstm_forward, cell_arguments(4, N["GRU_STEPS"])


@program("recurrent network, gradient", tolerance=1e-4, quick=True)
def gru_gradient():
  return gradient_of(gru_forward), cell_arguments(3, 500)


@program("recurrent network, gradient", tolerance=1e-4)
def lstm_gradient():
  return gradient_of(lstm_forward), cell_arguments(4, 500)


@program("jax#40150: gradient, many scalar leaves", tolerance=1e-4)
def issue_40150():
  leaves = 60

  def loss(state, inputs):
    def step(state, x):
      values = list(state.values())
      new = {name: 0.9 * value + 0.1 * jnp.tanh(values[(k + 1) % leaves] + x) for k, (name, value) in enumerate(state.items())}
      return new, new["x00"] ** 2
    return jnp.sum(lax.scan(step, state, inputs)[1])
  start = {f"x{k:02}": F32(0.01 * k) for k in range(leaves)}
  return jax.grad(loss), (start, random().standard_normal(614).astype(F32))


# Random numbers inside the loop.


@program("random numbers", tolerance=1e-4)
def metropolis():
  def log_density(x):
    return jnp.logaddexp(-0.5 * (x - 2) ** 2, -0.5 * (x + 2) ** 2)

  def step(x, key):
    move, accept = jax.random.split(key)
    y = x + jax.random.normal(move)
    x = jnp.where(jnp.log(jax.random.uniform(accept)) < log_density(y) - log_density(x), y, x)
    return x, x
  return lambda x, seed: (lax.scan(step, x, jax.random.split(jax.random.PRNGKey(seed), 5000))[1],), (F32(0), np.uint32(0))


@program("random numbers", tolerance=0)
def ising():
  size = 64
  colors = (np.add.outer(np.arange(size), np.arange(size)) % 2).astype(bool)
  # The chance of a flip for every energy that a flip can cost: a table, so that no acceptance hangs on the last bit of exp.
  table = np.minimum(1, np.exp(-0.44 * 2 * np.arange(-4, 5))).astype(F32)

  def run(spins, seed):
    def sweep(spins, key):
      chances = jax.random.uniform(key, (2, size, size))
      for color in (0, 1):
        near = sum(jnp.roll(spins, shift, axis) for shift in (-1, 1) for axis in (0, 1))
        flip = (chances[color] < jnp.asarray(table)[spins * near + 4]) & (colors == bool(color))
        spins = jnp.where(flip, -spins, spins)
      return spins, jnp.sum(spins)
    return lax.scan(sweep, spins, jax.random.split(jax.random.PRNGKey(seed), 50))
  return run, (2 * random().integers(0, 2, (size, size), dtype=I32) - 1, np.uint32(0))


@program("particle filter", x64=True, tolerance=1e-6)
def particle_filter():
  count = 256

  def step(particles, inputs):
    key, seen = inputs
    move, pick = jax.random.split(key)
    particles = 0.9 * particles + jnp.sin(particles) + 0.5 * jax.random.normal(move, (count,))
    weights = jax.nn.softmax(-0.5 * (seen - particles) ** 2)
    mean = jnp.sum(weights * particles)
    places = (jnp.arange(count) + jax.random.uniform(pick)) / count
    chosen = jnp.searchsorted(jnp.cumsum(weights), places)
    return particles[jnp.clip(chosen, 0, count - 1)], mean

  def run(particles, seen, seed):
    keys = jax.random.split(jax.random.PRNGKey(seed), seen.shape[0])
    return lax.scan(step, particles, (keys, seen))
  r = random()
  return run, (r.standard_normal(count), np.cumsum(0.3 * r.standard_normal(200)), np.uint32(0))

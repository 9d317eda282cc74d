"""Programs that nothing in Weft was written for: a second list for `./dev bench gpu --unseen`, of the kinds that are weak on general compilers. Same form as programs.py."""

import jax
import jax.numpy as jnp
import numpy as np

from programs import Program, indices, numbers, pick, softmax64

PROGRAMS = []


def program(kind):
  def add(make):
    PROGRAMS.append((make.__name__, kind, make))
    return make
  return add


@program("loop")
def cube_roots(size):
  """Halley's iteration, one lane each, as long as any has not come near enough."""
  n = pick(size, 1 << 16, 1 << 12, 64)
  x = np.abs(numbers(n)) + 0.5

  def roots(x):
    def go_on(state):
      i, r = state
      return (i < 400) & jnp.any(jnp.abs(r * r * r - x) > 1e-5 * x)

    def step(state):
      i, r = state
      cube = r * r * r
      return i + 1, r * (cube + 2 * x) / (2 * cube + x)

    return jax.lax.while_loop(go_on, step, (0, jnp.ones_like(x)))[1]

  return Program(roots, (x,), 8.0 * n, reference=lambda x: np.cbrt(x), tolerance=1e-5)


@program("loop")
def predator_prey(size):
  """Runge-Kutta of fourth order, each step's state kept."""
  steps = pick(size, 10_000, 2_000, 50)
  start = np.array([1.0, 0.5], np.float32)

  def rate(s, xp=jnp):
    return xp.stack([s[0] * (1.1 - 0.4 * s[1]), s[1] * (0.1 * s[0] - 0.4)])

  def move(s, xp=jnp):
    h = 0.01
    a = rate(s, xp)
    b = rate(s + 0.5 * h * a, xp)
    c = rate(s + 0.5 * h * b, xp)
    return s + h / 6 * (a + 2 * b + 2 * c + rate(s + h * c, xp))

  def run(s):
    return jax.lax.scan(lambda s, _: (move(s), s), s, length=steps)[1]

  def reference(s):
    kept = []
    for _ in range(steps):
      kept.append(s)
      s = move(s, np)
    return np.stack(kept)

  return Program(run, (start,), 8.0 * steps, reference=reference, tolerance=1e-3)


@program("loop linear algebra")
def kalman(size):
  """A filter with six states and three measurements: products and a solve in each step."""
  steps = pick(size, 2_000, 400, 20)
  measured = numbers((steps, 3), seed=1)
  a = np.eye(6, dtype=np.float32) + 0.05 * np.eye(6, k=3, dtype=np.float32)
  h = np.eye(3, 6, dtype=np.float32)

  def step(state, z, xp, solve):
    x, p = state
    x, p = a.astype(p.dtype) @ x, a.astype(p.dtype) @ p @ a.T.astype(p.dtype) + 0.01 * xp.eye(6, dtype=p.dtype)
    s = h @ p @ h.T + 0.1 * xp.eye(3, dtype=p.dtype)
    gain = solve(s, h @ p).T
    return x + gain @ (z - h @ x), p - gain @ h @ p

  def run(measured):
    def body(state, z):
      with jax.default_matmul_precision("float32"):
        state = step(state, z, jnp, jnp.linalg.solve)
      return state, state[0]

    return jax.lax.scan(body, (jnp.zeros(6), jnp.eye(6)), measured)[1]

  def reference(measured):
    state, kept = (np.zeros(6), np.eye(6)), []
    for z in measured:
      state = step(state, z, np, np.linalg.solve)
      kept.append(state[0])
    return np.stack(kept)

  return Program(run, (measured,), 36.0 * steps, reference=reference, tolerance=1e-3)


@program("small matrices")
def inverse_3x3(size):
  n = pick(size, 1 << 20, 1 << 17, 64)
  m = numbers((n, 3, 3)) * 0.2 + 2 * np.eye(3, dtype=np.float32)
  return Program(jnp.linalg.inv, (m,), 72.0 * n, reference=np.linalg.inv, tolerance=1e-4)


@program("small matrices")
def solve_8x8(size):
  n = pick(size, 1 << 16, 1 << 13, 16)
  m, b = numbers((n, 8, 8)) * 0.2 + 3 * np.eye(8, dtype=np.float32), numbers((n, 8), seed=1)
  return Program(lambda m, b: jnp.linalg.solve(m, b[..., None])[..., 0], (m, b), (64 + 16) * 4.0 * n,
                 reference=lambda m, b: np.linalg.solve(m, b[..., None])[..., 0], tolerance=1e-4)


@program("sort")
def argsort_rows(size):
  rows, columns = pick(size, (4096, 1024), (1024, 256), (8, 64))
  x, other = numbers((rows, columns)), numbers((rows, columns), seed=1)

  def order(x, other):
    return jnp.take_along_axis(other, jnp.argsort(x, axis=1), axis=1)

  return Program(order, (np.random.default_rng(5).permutation(x.size).reshape(x.shape).astype(np.float32), other), 12.0 * x.size,
                 reference=lambda x, other: np.take_along_axis(other, np.argsort(x, axis=1, kind="stable"), axis=1), tolerance=1e-6)


@program("gather")
def neighbours(size):
  """Messages along the edges of a graph: gather, scale, sum by receiver."""
  nodes, edges, width = pick(size, (1 << 17, 1 << 20, 64), (1 << 13, 1 << 16, 64), (64, 512, 8))
  x, weight = numbers((nodes, width)), numbers((edges,), seed=2)
  to, source = indices(edges, nodes, 3), indices(edges, nodes, 4)

  def reference(x, weight, to, source):
    out = np.zeros_like(x)
    np.add.at(out, to.astype(int), x[source.astype(int)] * weight[:, None])
    return out

  return Program(lambda x, weight, to, source: jax.ops.segment_sum(x[source] * weight[:, None], to, num_segments=nodes),
                 (x, weight, to, source), 4.0 * (2 * nodes * width + edges * (width + 3)), reference=reference, tolerance=1e-4)


@program("random")
def monte_carlo(size):
  """Prices along random paths."""
  paths, steps = pick(size, (1 << 18, 64), (1 << 15, 32), (1 << 10, 8))
  key = np.array([7, 11], np.uint32)

  def run(key):
    z = jax.random.normal(jax.random.wrap_key_data(key), (steps, paths))
    price = jnp.exp(jnp.cumsum(0.01 * z - 5e-5, axis=0))
    return jnp.maximum(price[-1] - 1, 0), price.max(0)

  return Program(run, (key,), 8.0 * paths)


@program("scan")
def normalised_prefix(size):
  """log(sum(exp)) of everything up to here, by a stable associative scan."""
  rows, n = pick(size, (256, 1 << 16), (64, 1 << 13), (4, 128))
  x = numbers((rows, n), scale=3)

  def join(a, b):
    m = jnp.maximum(a[0], b[0])
    return m, a[1] * jnp.exp(a[0] - m) + b[1] * jnp.exp(b[0] - m)

  def run(x):
    m, s = jax.lax.associative_scan(join, (x, jnp.ones_like(x)), axis=1)
    return m + jnp.log(s)

  return Program(run, (x,), 8.0 * x.size, reference=lambda x: np.logaddexp.accumulate(x, axis=1), tolerance=1e-5)


@program("convolution")
def depthwise(size):
  """A depthwise convolution, its gate and a product of features, in bf16."""
  n, length, width = pick(size, (16, 4096, 512), (4, 1024, 256), (2, 32, 16))
  x, taps, w = numbers((n, length, width), jnp.bfloat16), numbers((5, 1, width), jnp.bfloat16, 1, 0.4), numbers((width, width), jnp.bfloat16, 2, width**-0.5)

  def run(x, taps, w):
    y = jax.lax.conv_general_dilated(x, taps, (1,), [(4, 0)], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=width)
    return jnp.dot(y * jax.nn.sigmoid(y), w)

  def reference(x, taps, w):
    padded = np.pad(x, ((0, 0), (4, 0), (0, 0)))
    y = sum(padded[:, k:k + x.shape[1]] * taps[k, 0] for k in range(5))
    return (y / (1 + np.exp(-y))) @ w

  return Program(run, (x, taps, w), 4.0 * x.size, 2.0 * x.size * width, reference=reference, tolerance=3e-2)


@program("training")
def classifier_steps(size):
  """Steps of stochastic gradient descent in one program: bf16 products, f32 weights."""
  batch, width, steps = pick(size, (1024, 1024, 16), (256, 512, 8), (16, 32, 2))
  x, label = numbers((steps, batch, width)), indices((steps, batch), 10, 3)
  w1, w2 = numbers((width, width), seed=1, scale=width**-0.5), numbers((width, 10), seed=2, scale=width**-0.5)

  def loss(weights, x, label):
    w1, w2 = (w.astype(jnp.bfloat16) for w in weights)
    hidden = jax.nn.gelu(x.astype(jnp.bfloat16) @ w1)
    return -jnp.take_along_axis(jax.nn.log_softmax((hidden @ w2).astype(jnp.float32)), label[:, None], 1).mean()

  def run(w1, w2, x, label):
    def step(weights, at):
      value, gradient = jax.value_and_grad(loss)(weights, *at)
      return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), value

    return jax.lax.scan(step, (w1, w2), (x, label))

  return Program(run, (w1, w2, x, label), 4.0 * x.size, 6.0 * x.size * width)


@program("dynamic programming")
def edit_distance(size):
  """Rows of the table, each a scan."""
  n = pick(size, 1024, 256, 24)
  a, b = indices(n, 4, 1), indices(n, 4, 2)

  def run(a, b):
    def row(previous, at):
      i, letter = at
      best = jnp.minimum(previous[1:] + 1, previous[:-1] + (b != letter))
      # Insertions: a minimum over all that comes before, each step of which costs one.
      place = jnp.arange(n + 1)
      full = jnp.concatenate([jnp.array([i + 1], best.dtype), best])
      full = jax.lax.cummin(full - place) + place
      return full, full[-1]

    return jax.lax.scan(row, jnp.arange(n + 1), (jnp.arange(n), a))[1]

  def reference(a, b):
    previous, out = np.arange(n + 1.0), []
    for i, letter in enumerate(a):
      now = [i + 1.0]
      for j in range(n):
        now.append(min(previous[j + 1] + 1, previous[j] + (b[j] != letter), now[-1] + 1))
      previous = np.array(now)
      out.append(previous[-1])
    return np.array(out)

  return Program(run, (a, b), 4.0 * n * n, reference=reference, tolerance=0)


@program("histogram")
def sample_tokens(size):
  """The largest 50 of each row, softmax, one drawn by inverting the sum, and how often each was."""
  rows, words = pick(size, (512, 50_304), (128, 8_192), (8, 512))
  logits, u = numbers((rows, words)), np.random.default_rng(9).random((rows, 1)).astype(np.float32)

  def run(logits, u):
    top, where = jax.lax.top_k(logits, 50)
    chosen = (jnp.cumsum(jax.nn.softmax(top), 1) < u).sum(1)
    token = jnp.take_along_axis(where, chosen[:, None], 1)[:, 0]
    return token, jnp.zeros(words, jnp.int32).at[token].add(1)

  def reference(logits, u):
    where = np.argsort(-logits, axis=1, kind="stable")[:, :50]
    top = np.take_along_axis(logits, where, 1)
    chosen = (np.cumsum(softmax64(top), 1) < u).sum(1)
    token = np.take_along_axis(where, chosen[:, None], 1)[:, 0]
    return token, np.bincount(token, minlength=words)

  return Program(run, (logits, u), 4.0 * logits.size, reference=reference, tolerance=0)

"""Losses, optimizer steps, sums over indices and linear algebra, as users write them."""

import jax
from jax import lax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
import numpy as np

from architecture_programs import BF16, F32, numbers, relu, weights_of
import harness

PROGRAMS = []


def step(kind, tolerance=1e-4, **options):
  """@step(kind) def name(): return function, arguments."""
  def add(make):
    PROGRAMS.append(harness.Program(name=make.__name__, kind=kind, make=make, tolerance=tolerance, **options))
    return make
  return add


def tokens(seed, words, *shape):
  return np.random.default_rng(seed).integers(0, words, shape, np.int32)


# Losses.


@step("loss")
def words_32k():
  """Embedding, logits of 32,000 words, cross entropy and both gradients."""
  def loss(w, words, labels):
    h = jnp.tanh(w["table"][words] @ w["mix"])
    logits = h @ w["out"]
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(labels.shape[0]), labels])
  return jax.value_and_grad(loss), (weights_of({"table": (32000, 64), "mix": (64, 64), "out": (64, 32000)}), tokens(1, 32000, 90), tokens(2, 32000, 90))


@step("loss", tolerance=3e-2)
def words_tied_bf16():
  def loss(table, h, labels):
    logits = jnp.einsum("btd,vd->btv", h, table, preferred_element_type=F32)
    return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]) + 1e-4 * jnp.mean(logits**2)
  return jax.value_and_grad(loss, (0, 1)), (numbers(3, 5003, 96, dtype=BF16), numbers(4, 2, 50, 96, scale=0.1, dtype=BF16), tokens(5, 5003, 2, 50))


@step("loss")
def contrast():
  """Images and texts, each against all others."""
  def loss(w, a, b):
    unit = lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True)
    logits = unit(a @ w["a"]) @ unit(b @ w["b"]).T * jnp.exp(w["scale"])
    here = jnp.arange(logits.shape[0])
    return -(jax.nn.log_softmax(logits, 0)[here, here] + jax.nn.log_softmax(logits, 1)[here, here]).mean() / 2
  return jax.value_and_grad(loss), ({**weights_of({"a": (300, 128), "b": (200, 128)}), "scale": F32(1.5)}, numbers(6, 500, 300), numbers(7, 500, 200))


@step("loss")
def dropout_mlp():
  def loss(w, x, y, seed):
    for k, (a, b) in enumerate(w):
      x = x @ a + b
      if k < len(w) - 1:
        x = jax.nn.gelu(x)
        keep = jax.random.bernoulli(jax.random.fold_in(jax.random.key(seed), k), 0.9, x.shape)
        x = jnp.where(keep, x / 0.9, 0)
    return jnp.mean(one_hot_cross_entropy(x, y))
  return jax.value_and_grad(loss), (weights_of([((300, 400), (400,)), ((400, 400), (400,)), ((400, 37), (37,))]), numbers(8, 130, 300),
                                    tokens(9, 37, 130), np.uint32(5))


def one_hot_cross_entropy(logits, labels):
  return -jnp.sum(jax.nn.one_hot(labels, logits.shape[-1]) * jax.nn.log_softmax(logits), -1)


@step("loss")
def per_example_gradients():
  """Clipped one by one, as for privacy."""
  def one(w, x, y):
    loss = lambda w: jnp.square(jnp.tanh(x @ w[0]) @ w[1] - y).sum()
    g = jax.grad(loss)(w)
    norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(g)))
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(1, norm), g)
  run = lambda w, x, y: jax.tree.map(lambda g: g.mean(0), jax.vmap(one, (None, 0, 0))(w, x, y))
  return run, (weights_of([(60, 100), (100, 5)]), numbers(10, 128, 60), numbers(11, 128, 5))


@step("loss")
def ensemble():
  """Seven networks under vmap."""
  def loss(w, x):
    return jnp.mean(jnp.square(relu(relu(x @ w["a"]) @ w["b"]) @ w["c"]))
  run = jax.vmap(jax.value_and_grad(loss), (0, None))
  return run, (weights_of({"a": (7, 33, 96), "b": (7, 96, 96), "c": (7, 96, 3)}), numbers(12, 200, 33))


# Optimizers over trees.

TREE = {"table": (2000, 96), "blocks": [{"qkv": (96, 288), "o": (96, 96), "up": (96, 384), "down": (384, 96), "n": (96,), "b": (384,)}] * 4,
        "conv": (3, 3, 32, 64), "out": [(96, 500), (500,)]}


def tree(seed):
  return jax.tree.map(lambda leaf: numbers(seed + leaf.size % 97, *leaf.shape, scale=0.1), weights_of(TREE))


def update(kind, tolerance=1e-4):
  """@update(kind) def name(): return function of (weights, gradients, state…), number of states."""
  def add(make):
    def program():
      function, states = make()
      return function, (tree(1), tree(2), *(jax.tree.map(np.abs, tree(3 + k)) for k in range(states)))
    program.__name__ = make.__name__
    return step(kind, tolerance)(program)
  return add


@update("optimizer")
def adamw_clipped():
  def run(w, g, m, v):
    norm = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(g)))
    g = jax.tree.map(lambda leaf: leaf * jnp.minimum(1, 1 / norm), g)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, v, g)
    return jax.tree.map(lambda w, m, v: w - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.1 * w), w, m, v), m, v, norm
  return run, 2


@update("optimizer")
def lion_average():
  def run(w, g, m, slow):
    w = jax.tree.map(lambda w, m, g: w - 1e-3 * (jnp.sign(0.9 * m + 0.1 * g) + 0.1 * w), w, m, g)
    return w, jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g, m, g), jax.tree.map(lambda s, w: 0.999 * s + 0.001 * w, slow, w)
  return run, 2


@update("optimizer")
def adafactor():
  def one(w, g):
    s = g * g + 1e-30
    if w.ndim < 2:
      return w - 1e-3 * g * lax.rsqrt(s)
    row, column = s.mean(-1), s.mean(-2)
    u = g * lax.rsqrt(row / row.mean(-1, keepdims=True))[..., None] * lax.rsqrt(column)[..., None, :]
    return w - 1e-3 * u / jnp.maximum(1, jnp.sqrt(jnp.mean(u * u)))
  return (lambda w, g: jax.tree.map(one, w, g)), 0


@update("optimizer", tolerance=1e-3)
def muon():
  def one(w, g, m):
    m = 0.95 * m + g
    if w.ndim != 2:
      return w - 1e-2 * m, m
    x = m.T if m.shape[0] > m.shape[1] else m
    x = x / (jnp.linalg.norm(x) + 1e-7)
    for _ in range(5):
      a = x @ x.T
      x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return w - 1e-2 * (x.T if m.shape[0] > m.shape[1] else x), m
  return (lambda w, g, m: jax.tree.map(one, w, g, m)), 1


# Adapters, quantised weights.


@step("adapters")
def low_rank():
  def loss(adapters, w, x):
    for (a, b), base in zip(adapters, w):
      x = jnp.tanh(x @ base + (x @ a) @ b * 2.0)
    return jnp.mean(x * x)
  return jax.value_and_grad(loss), (weights_of([((384, 8), (8, 384))] * 4), weights_of([(384, 384)] * 4), numbers(13, 100, 384))


def bytes_of(seed, *shape):
  return np.random.default_rng(seed).integers(-127, 128, shape, np.int8)


def int8_linear(name, rows, dtype, tolerance):
  @step("int8 weights", tolerance)
  def make():
    def run(x, w, scale):
      return (x @ w.astype(x.dtype)) * scale
    return run, (numbers(14, rows, 768, dtype=dtype), bytes_of(15, 768, 2000), numbers(16, 2000, dtype=dtype))
  object.__setattr__(PROGRAMS[-1], "name", name)


int8_linear("int8_weights_1", 1, F32, 1e-5)
int8_linear("int8_weights_30", 30, F32, 1e-5)
int8_linear("int8_weights_4_bf16", 4, BF16, 2e-2)


@step("int8 weights", 2e-2)
def int8_dynamic():
  """Rows quantised on the way, products of integers."""
  def run(x, w, scale):
    s = jnp.max(jnp.abs(x), -1, keepdims=True) / 127
    q = jnp.round(x / s).astype(jnp.int8)
    return lax.dot(q, w, preferred_element_type=jnp.int32).astype(F32) * s * scale
  return run, (numbers(17, 50, 600), bytes_of(18, 600, 900), numbers(19, 900))


# Sums over indices.


def einsum(name, spec, *sizes, dtype=F32, tolerance=1e-4):
  @step("einsum", tolerance)
  def make():
    return (lambda *a: jnp.einsum(spec, *a)), tuple(numbers(20 + k, *s, scale=0.3, dtype=dtype) for k, s in enumerate(sizes))
  object.__setattr__(PROGRAMS[-1], "name", name)


einsum("einsum_chain", "ab,bc,cd,de->ae", (200, 50), (50, 300), (300, 40), (40, 250))
einsum("einsum_bilinear", "bi,ijk,bk->bj", (64, 70), (70, 50, 60), (64, 60))
einsum("einsum_turned", "hqd,khd,kq->hd", (12, 90, 48), (110, 12, 48), (110, 90))
einsum("einsum_tensors", "zabc,xbd,cde->xzae", (3, 8, 16, 20), (5, 16, 24), (20, 24, 12))
einsum("einsum_diagonals", "nij,njk,nkl,nli->n", *((300, 12, 12),) * 4)
einsum("einsum_kronecker", "ij,kl->ikjl", (30, 40), (25, 35))
einsum("einsum_outer_sum", "bi,bj,bk->ijk", (50, 30), (50, 31), (50, 32))
einsum("einsum_heads_bf16", "bqhd,hde->bqe", (2, 100, 8, 32), (8, 32, 256), dtype=BF16, tolerance=2e-2)
einsum("gram_tall", "ni,nj->ij", (20000, 24), (20000, 24))
einsum("products_small", "nij,njk->nik", (2000, 7, 9), (2000, 9, 5))
einsum("outer_sum_vector", "bi,bj->ij", (3, 900), (3, 1100))
einsum("matrix_vectors", "nij,nj->ni", (60, 130, 110), (60, 110))

# Linear algebra and kernels.


def distances(x, y):
  return jnp.sum(x * x, -1)[:, None] + jnp.sum(y * y, -1)[None] - 2 * x @ y.T


@step("kernels")
def radial_kernel():
  return (lambda x, y: jnp.exp(-0.5 * jnp.maximum(distances(x, y), 0) / 3.0)), (numbers(30, 700, 10), numbers(31, 650, 10))


@step("kernels")
def radial_pairs():
  return (lambda x, y: jnp.exp(-jnp.sum((x[:, None] - y[None]) ** 2, -1))), (numbers(30, 500, 6, scale=0.3), numbers(31, 400, 6, scale=0.3))


@step("kernels", tolerance=2e-3)
def gaussian_process():
  def loss(p, x, y):
    k = jnp.exp(p["s"]) * jnp.exp(-0.5 * jnp.maximum(distances(x, x), 0) / jnp.exp(p["l"])) + jnp.exp(p["n"]) * jnp.eye(x.shape[0])
    c = jnp.linalg.cholesky(k)
    return 0.5 * y @ cho_solve((c, True), y) + jnp.sum(jnp.log(jnp.diag(c)))
  return jax.value_and_grad(loss), ({"s": F32(0), "l": F32(0.5), "n": F32(-1)}, numbers(32, 200, 4), numbers(33, 200))


@step("kernels", tolerance=1e-3)
def clusters():
  def one(_, c):
    nearest = jax.nn.one_hot(jnp.argmin(distances(POINTS, c), 1), c.shape[0])
    return nearest.T @ POINTS / jnp.maximum(nearest.sum(0), 1)[:, None]
  return (lambda c: lax.fori_loop(0, 10, one, c)), (numbers(35, 17, 20),)


POINTS = numbers(34, 3000, 20)


@step("linear algebra", tolerance=1e-3)
def power_iteration():
  def run(x, v):
    x = x - x.mean(0)
    for _ in range(8):
      v, _ = jnp.linalg.qr(x.T @ (x @ v))
    return jnp.abs(v.T @ (x.T @ (x @ v)))
  return run, (numbers(36, 1500, 80) * np.linspace(0.1, 3, 80, dtype=F32), numbers(37, 80, 6))


@step("linear algebra", tolerance=1e-3)
def ridge_batched():
  def run(x, y):
    a = jnp.einsum("bni,bnj->bij", x, x) + 0.5 * jnp.eye(x.shape[-1])
    return jnp.linalg.solve(a, jnp.einsum("bni,bn->bi", x, y)[..., None])[..., 0]
  return run, (numbers(38, 40, 100, 24), numbers(39, 40, 100))


@step("linear algebra", tolerance=1e-3)
def whitening():
  def run(x):
    x = x - x.mean(0)
    s, v = jnp.linalg.eigh(x.T @ x / x.shape[0] + 0.01 * jnp.eye(x.shape[1]))
    return (x @ v) * lax.rsqrt(s) @ v.T
  return run, (numbers(40, 1000, 64),)


@step("linear algebra", tolerance=1e-3)
def low_rank_svd():
  def run(x):
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    return (u[:, :10] * s[:10]) @ v[:10]
  return run, (numbers(41, 150, 60),)


@step("linear algebra", tolerance=1e-3)
def kalman():
  def one(state, z):
    x, p = state
    x, p = A @ x, A @ p @ A.T + 0.01 * jnp.eye(12)
    s = H @ p @ H.T + 0.1 * jnp.eye(5)
    k = jnp.linalg.solve(s, H @ p).T
    x, p = x + k @ (z - H @ x), p - k @ H @ p
    return (x, p), x
  return (lambda z: lax.scan(one, (jnp.zeros(12), jnp.eye(12)), z)[1]), (numbers(43, 100, 5),)


A, H = np.eye(12, dtype=F32) * F32(0.9) + numbers(42, 12, 12, scale=0.02), numbers(44, 5, 12)


@step("linear algebra")
def fourier_convolution():
  def run(x, h):
    n = x.shape[-1] + h.shape[-1] - 1
    return jnp.fft.irfft(jnp.fft.rfft(x, n) * jnp.fft.rfft(h, n), n)
  return run, (numbers(45, 16, 3000), numbers(46, 500))


@step("linear algebra")
def triangular_flow():
  def run(l, x):
    l = jnp.tril(l, -1) + jnp.diag(jax.nn.softplus(jnp.diag(l)) + 0.5)
    return solve_triangular(l, x.T, lower=True).T, -jnp.sum(jnp.log(jnp.diag(l)))
  return run, (numbers(47, 90, 90, scale=0.05), numbers(48, 400, 90))


@step("linear algebra")
def complex_evolution():
  def run(h, v):
    u = jnp.eye(96) - 0.01j * h
    for _ in range(3):
      u = u @ u
    return jnp.abs(v @ u) ** 2
  return run, ((numbers(49, 96, 96) + numbers(49, 96, 96).T).astype(np.complex64), (numbers(50, 50, 96) + 1j * numbers(51, 50, 96)).astype(np.complex64))


@step("linear algebra", tolerance=1e-9, x64=True)
def newton_step_f64():
  def run(x, y, w):
    loss = lambda w: jnp.mean(jax.nn.softplus(-y * (x @ w))) + 0.01 * w @ w
    return w - jnp.linalg.solve(jax.hessian(loss)(w), jax.grad(loss)(w))
  return run, (numbers(52, 600, 40).astype(np.float64), np.sign(numbers(53, 600)).astype(np.float64), np.zeros(40))

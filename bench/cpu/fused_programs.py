"""Programs without loops or large matrix products: chains, broadcasts, reductions, indexing, layout, random numbers, science codes.

Sizes are those of everyday work: 1 to 16 million elements where memory counts, less where arithmetic does.
"""

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

import harness

PROGRAMS, program = harness.program_list()
F32, F64, I32, BF16 = np.float32, np.float64, np.int32, jnp.bfloat16


def random(seed=0):
  return np.random.default_rng(seed)


def normal(*shape, dtype=F32, seed=0):
  return random(seed).standard_normal(shape, dtype=F32).astype(dtype)


def uniform(*shape, low=0.0, high=1.0, dtype=F32, seed=0):
  return random(seed).uniform(low, high, shape).astype(dtype)


def image(*shape):
  return random().integers(0, 256, shape).astype(np.uint8)


# Elementwise chains.


@program("chain without functions", quick=True)
def chain_f32():
  return lambda x, y: ((x * y + 1.5) * x - y * 0.5) * (x - y) + x * x, (normal(1 << 20), normal(1 << 20, seed=1))


@program("chain without functions", x64=True, tolerance=1e-12)
def chain_f64():
  return lambda x, y: ((x * y + 1.5) * x - y * 0.5) * (x - y) + x * x, (normal(1 << 20, dtype=F64), normal(1 << 20, dtype=F64, seed=1))


@program("bf16 chain", tolerance=2e-2)
def chain_bf16():
  return lambda x, y: ((x * y + 1.5) * x - y * 0.5) * (x - y) + x * x, (normal(1 << 20, dtype=BF16), normal(1 << 20, dtype=BF16, seed=1))


@program("bf16 chain", tolerance=2e-2)
def functions_bf16():
  return lambda x: jax.nn.silu(x) * jnp.tanh(x) + jnp.exp(-x * x), (normal(1 << 20, dtype=BF16),)


@program("exp, tanh, erf, log", tolerance=1e-5, quick=True)
def functions_f32():
  return lambda x: jnp.tanh(x) * jnp.exp(-x * x) + jnp.log1p(jnp.abs(x)) + lax.erf(x), (normal(1 << 20),)


@program("exp, tanh, erf, log", x64=True, tolerance=1e-12)
def functions_f64():
  return lambda x: jnp.tanh(x) * jnp.exp(-x * x) + jnp.log1p(jnp.abs(x)) + lax.erf(x), (normal(1 << 18, dtype=F64),)


@program("sin, atan2, pow")
def trigonometry():
  return lambda x, y: jnp.sin(x) * jnp.cos(y) + jnp.atan2(y, x), (normal(1 << 20), normal(1 << 20, seed=1))


@program("sin, atan2, pow")
def powers():
  return lambda x, y: jnp.power(x, y) + jnp.power(y, 3) + jnp.cbrt(x), (uniform(1 << 20, low=0.1, high=4), normal(1 << 20))


@program("functions far from 1", tolerance=1e-5)
def radial_basis():
  """Most results are zero or nearly so."""
  return lambda x: jnp.exp(-0.5 * x * x), (12 * normal(1 << 20),)


@program("functions far from 1", tolerance=1e-5)
def logistic_loss():
  return lambda x, y: jnp.mean(jax.nn.softplus(x) - x * (y > 0)), (40 * normal(1 << 20), normal(1 << 20, seed=1))


@program("remainder", tolerance=1e-5)
def wrap_angles():
  return lambda x, length: (jnp.mod(x + jnp.pi, 2 * jnp.pi) - jnp.pi, jnp.fmod(x, length)), (
    10 * normal(1 << 20), uniform(1 << 20, low=1, high=2))


@program("full reduction", tolerance=1e-4)
def inner_product():
  return jnp.vdot, (normal(1 << 20), normal(1 << 20, seed=1))


@program("polynomial", tolerance=1e-5)
def polynomial_f32():
  return lambda x: jnp.polyval(jnp.arange(1, 17, dtype=jnp.float32), x), (uniform(1 << 20, low=-1),)


@program("where, clip, select", tolerance=1e-6)
def where_clip():
  def run(x, y):
    z = jnp.clip(jnp.where(x > y, x - y, y * 0.5), -1.0, 1.0)
    return jnp.where(jnp.abs(z) < 0.5, z, jnp.sign(z)) * lax.select(x > 0, x, y)
  return run, (normal(1 << 20), normal(1 << 20, seed=1))


@program("where, clip, select", tolerance=1e-6)
def piecewise():
  return (lambda x: jnp.select([x < -1, x < 0, x < 1], [x * x, -x, jnp.sqrt(jnp.abs(x))], x - 1), (normal(1 << 20),))


# Broadcasts.


@program("broadcast")
def broadcast_row_column():
  return lambda x, r, c: (x + r) * c[:, None] - r * 0.5, (normal(2048, 1024), normal(1024), normal(2048))


@program("broadcast", quick=True)
def outer_difference():
  return lambda a, b: (a[:, None] - b[None, :]) ** 2 * 0.5, (normal(2048), normal(2048, seed=1))


# Reductions.


@program("reduction along rows", quick=True)
def sum_rows():
  return lambda x: jnp.sum(x, axis=1), (normal(4096, 1024),)


@program("reduction along rows")
def max_and_norm_rows():
  return lambda x: (jnp.max(x, axis=1), jnp.sqrt(jnp.sum(x * x, axis=1))), (normal(4096, 1024),)


@program("reduction along columns", tolerance=1e-4)
def sum_columns():
  return lambda x: jnp.sum(x * x, axis=0), (normal(4096, 1024),)


@program("reduction along columns", tolerance=1e-4)
def mean_variance_columns():
  return lambda x: (jnp.mean(x, axis=0), jnp.var(x, axis=0)), (normal(4096, 1024),)


@program("full reduction", tolerance=1e-4)
def sum_all():
  return lambda x: jnp.sum(jnp.abs(x)), (normal(1 << 22),)


@program("full reduction", x64=True, tolerance=1e-12)
def dot_and_extrema_f64():
  return lambda x, y: (jnp.sum(x * y), jnp.max(x), jnp.min(y)), (normal(1 << 20, dtype=F64), normal(1 << 20, dtype=F64, seed=1))


# Networks.


@program("softmax, logsumexp", quick=True)
def softmax():
  return lambda x: jax.nn.softmax(x, axis=-1), (normal(4096, 1024),)


@program("softmax, logsumexp")
def logsumexp():
  return lambda x: jax.nn.logsumexp(x, axis=-1), (normal(4096, 1024),)


@program("masked softmax", tolerance=1e-5)
def causal_softmax():
  def run(scores):
    size = scores.shape[-1]
    mask = lax.broadcasted_iota(jnp.int32, (size, size), 0) >= lax.broadcasted_iota(jnp.int32, (size, size), 1)
    return jax.nn.softmax(jnp.where(mask, scores * 0.125, -1e9), axis=-1)
  return run, (normal(8, 512, 512),)


@program("masked softmax", tolerance=1e-5)
def padded_softmax():
  def run(scores, lengths):
    mask = jnp.arange(scores.shape[-1])[None, None, :] < lengths[:, None, None]
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
  return run, (normal(8, 512, 512), random().integers(1, 512, 8, dtype=I32))


@program("masked softmax", tolerance=1e-5)
def window_softmax():
  def run(scores):
    row, column = jnp.arange(scores.shape[-2])[:, None], jnp.arange(scores.shape[-1])[None, :]
    return jax.nn.softmax(jnp.where((column <= row) & (column > row - 64), scores, -1e30), axis=-1)
  return run, (normal(8, 512, 512),)


@program("short rows", tolerance=1e-5)
def softmax_short_rows():
  return lambda x: jax.nn.softmax(x, axis=-1), (normal(65536, 10),)


@program("short rows", tolerance=1e-5)
def unit_vectors():
  return lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), (normal(131072, 8),)


def layer_norm(x, scale, shift):
  mean = jnp.mean(x, axis=-1, keepdims=True)
  variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
  return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


@program("normalisation")
def layernorm():
  return layer_norm, (normal(4096, 768), normal(768), normal(768, seed=1))


@program("normalisation")
def rmsnorm():
  return lambda x, s: x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * s, (normal(4096, 768), normal(768))


@program("normalisation, gradient", tolerance=1e-4)
def layernorm_gradient():
  loss = lambda x, s, b, t: jnp.sum(layer_norm(x, s, b) * t)
  return jax.grad(loss, (0, 1, 2)), (normal(4096, 768), normal(768), normal(768, seed=1), normal(4096, 768, seed=2))


@program("normalisation over a batch", tolerance=1e-4)
def batchnorm_gradient():
  def loss(x, scale, shift, target):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return jnp.sum(((x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift) * target)
  return jax.grad(loss, (0, 1, 2)), (normal(16, 28, 28, 64), normal(64), normal(64, seed=1), normal(16, 28, 28, 64, seed=2))


@program("pooling", tolerance=1e-5)
def max_pool_gradient():
  pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
  return jax.grad(lambda x: jnp.sum(pool(x) ** 2)), (normal(8, 64, 64, 32),)


@program("rotary embedding", tolerance=1e-5)
def rmsnorm_rotary():
  def run(x, scale, angle):
    y = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale
    y = y.reshape(2048, 12, 64)
    a, b = y[..., :32], y[..., 32:]
    cosine, sine = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    return jnp.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)
  return run, (normal(2048, 768), normal(768), uniform(2048, 32, high=6))


@program("rotary embedding", tolerance=1e-5)
def rotary_interleaved():
  def run(x, cosine, sine):
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cosine - b * sine, a * sine + b * cosine], axis=-1).reshape(x.shape)
  return run, (normal(8, 512, 128), normal(512, 64), normal(512, 64, seed=1))


@program("quantisation", tolerance=1e-2)
def quantise_rows():
  def run(x):
    scale = jnp.max(jnp.abs(x), axis=1, keepdims=True) / 127
    return jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8), scale
  return run, (normal(2048, 1024),)


@program("epilogues", tolerance=1e-5)
def gelu_bias_residual():
  return lambda x, b, r: jax.nn.gelu(x + b) + r, (normal(2048, 1024), normal(1024), normal(2048, 1024, seed=1))


@program("epilogues", tolerance=1e-4)
def gelu_gradient():
  return jax.grad(lambda x, b: jnp.sum(jax.nn.gelu(x + b) ** 2), (0, 1)), (normal(2048, 1024), normal(1024))


@program("optimiser", tolerance=1e-5)
def adam():
  shapes = [(784, 512), (512,), (512, 512), (512,), (512, 256), (256,), (256, 10), (10,)]
  tree = lambda seed: {f"w{k}": normal(*shape, seed=seed + k) for k, shape in enumerate(shapes)}

  def run(weights, first, second, gradient):
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    weights = jax.tree.map(lambda w, m, v: w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
    return weights, first, second
  return run, (tree(0), tree(10), jax.tree.map(np.abs, tree(20)), tree(30))


# Scans over axes, and where the largest is.


@program("cumsum, cumprod, cummax", tolerance=1e-4, quick=True)
def cumsum_1d():
  return jnp.cumsum, (normal(1 << 20),)


@program("cumsum, cumprod, cummax", tolerance=1e-4)
def cumsum_columns():
  return lambda x: jnp.cumsum(x, axis=0), (normal(1024, 1024),)


@program("cumsum, cumprod, cummax", tolerance=1e-4)
def cumprod_rows():
  return lambda x: jnp.cumprod(x, axis=1), (uniform(1024, 1024, low=0.98, high=1.02),)


@program("cumsum, cumprod, cummax", tolerance=0)
def cummax_rows():
  return lambda x: lax.cummax(x, axis=1), (normal(1024, 1024),)


@program("argmax", tolerance=0, quick=True)
def argmax_all():
  return jnp.argmax, (normal(1 << 21),)


@program("argmax", tolerance=0)
def argmax_columns():
  return lambda x: jnp.argmax(x, axis=0), (normal(2048, 1024),)


@program("argmax", tolerance=0)
def argmax_rows():
  return lambda x: jnp.argmax(x, axis=-1), (normal(2048, 1024),)


# Indexing.


@program("gather", tolerance=0, quick=True)
def embedding():
  return lambda table, i: table[i], (normal(32000, 256), random().integers(0, 32000, 8192, dtype=I32))


@program("gather", tolerance=0)
def gather_1d():
  return lambda x, i: x[i], (normal(1 << 20), random().integers(0, 1 << 20, 1 << 20, dtype=I32))


@program("gather", tolerance=0)
def take_along_axis():
  return lambda x, i: jnp.take_along_axis(x, i, axis=1), (normal(2048, 1024), random().integers(0, 1024, (2048, 256), dtype=I32))


@program("scatter of rows", tolerance=1e-5, quick=True)
def embedding_gradient():
  return (lambda i, g: jnp.zeros((32000, 256), jnp.float32).at[i].add(g),
          (random().integers(0, 32000, 8192, dtype=I32), normal(8192, 256)))


@program("scatter of rows", tolerance=1e-5)
def segment_sum():
  return lambda x, i: jax.ops.segment_sum(x, i, num_segments=1024), (normal(65536, 32), random().integers(0, 1024, 65536, dtype=I32))


@program("scatter of elements", tolerance=0)
def bincount():
  return lambda i: jnp.bincount(i, length=1024), (random().integers(0, 1024, 1 << 20, dtype=I32),)


@program("scatter of elements", tolerance=0)
def at_set():
  return (lambda x, i, v: x.at[i].set(v, unique_indices=True),
          (normal(1 << 20), random().permutation(1 << 20)[: 1 << 18].astype(I32), normal(1 << 18, seed=1)))


@program("search", tolerance=0)
def searchsorted():
  return jnp.searchsorted, (np.sort(normal(65536)), normal(1 << 18, seed=1))


@program("search", tolerance=1e-5)
def interpolation():
  return jnp.interp, (uniform(1 << 18, low=0, high=100), np.linspace(0, 100, 1024, dtype=F32), normal(1024))


@program("search", tolerance=1e-4)
def image_samples():
  def run(picture, y, x):
    top, left = jnp.floor(y).astype(I32), jnp.floor(x).astype(I32)
    a, b = y - top, x - left
    above = picture[top, left] * (1 - b) + picture[top, left + 1] * b
    below = picture[top + 1, left] * (1 - b) + picture[top + 1, left + 1] * b
    return above * (1 - a) + below * a
  return run, (normal(512, 512), uniform(1 << 18, high=510), uniform(1 << 18, high=510, seed=1))


@program("tables and bins", tolerance=0)
def byte_lookup():
  return lambda table, i: table[i], (normal(256), image(1 << 20))


@program("tables and bins", tolerance=0)
def digitize():
  return jnp.digitize, (normal(1 << 18), np.linspace(-2, 2, 33, dtype=F32))


@program("one-hot", tolerance=0)
def one_hot():
  return lambda i: jax.nn.one_hot(i, 1000), (random().integers(0, 1000, 4096, dtype=I32),)


@program("one-hot", tolerance=1e-5)
def cross_entropy():
  def run(logits, labels):
    return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, 1000) * jax.nn.log_softmax(logits), axis=-1))
  return run, (normal(2048, 1000), random().integers(0, 1000, 2048, dtype=I32))


# Layout.


@program("concatenation, padding, slices", tolerance=1e-6)
def concatenate_pad_slice():
  def run(x, y):
    both = jnp.concatenate([x[:, ::2], y[:, 1:513] * 2, x[:, 512:]], axis=1)
    return jnp.pad(both, ((1, 1), (2, 2))) + 1
  return run, (normal(1024, 1024), normal(1024, 1024, seed=1))


@program("concatenation, padding, slices", tolerance=1e-6)
def roll_flip():
  return lambda x: jnp.roll(x, (3, -5), (0, 1)) - x[::-1], (normal(2048, 1024),)


@program("concatenation, padding, slices", tolerance=0)
def repeat_tile():
  return lambda x: jnp.repeat(x, 4, axis=1) + jnp.tile(x, (1, 4)), (normal(1024, 512),)


@program("transpose", tolerance=0, quick=True)
def transpose_2d():
  return lambda x: x.T, (normal(2048, 2048),)


@program("transpose", tolerance=0)
def transpose_nhwc_nchw():
  return lambda x: jnp.transpose(x, (0, 3, 1, 2)), (normal(16, 56, 56, 64),)


@program("transpose", tolerance=0)
def transpose_heads():
  return lambda x: jnp.transpose(x.reshape(8, 512, 12, 64), (0, 2, 1, 3)), (normal(8, 512, 768),)


@program("interleaving", tolerance=0)
def stack_last():
  return lambda x, y, z: jnp.stack([x, y, z], axis=-1), (normal(1 << 19), normal(1 << 19, seed=1), normal(1 << 19, seed=2))


@program("image code", tolerance=1e-5)
def image_normalise():
  mean, deviation = np.array([0.485, 0.456, 0.406], F32), np.array([0.229, 0.224, 0.225], F32)
  return lambda x: (x.astype(F32) / 255 - mean) / deviation, (image(8, 224, 224, 3),)


@program("image code", tolerance=0)
def image_planes():
  return lambda x: jnp.transpose(x, (0, 3, 1, 2)), (image(8, 224, 224, 3),)


@program("points", tolerance=1e-5)
def cross_product():
  return jnp.cross, (normal(1 << 18, 3), normal(1 << 18, 3, seed=1))


@program("points", tolerance=1e-5)
def standard_columns():
  return lambda x: (x - x.mean(0)) / x.std(0), (normal(1 << 19, 3),)


@program("one-dimensional filter", tolerance=1e-5)
def filter_1d():
  return lambda x, k: jnp.convolve(x, k, mode="same"), (normal(1 << 18), normal(9))


# Random numbers.


@program("random numbers", tolerance=0, quick=True)
def random_bits():
  return lambda key: jax.random.bits(key, (1 << 20,)), (np.array([0, 42], np.uint32),)


@program("random numbers", tolerance=0)
def random_uniform():
  return lambda key: jax.random.uniform(key, (1 << 20,)), (np.array([0, 42], np.uint32),)


@program("random numbers", tolerance=1e-5)
def random_normal():
  return lambda key: jax.random.normal(key, (1 << 20,)), (np.array([0, 42], np.uint32),)


# Science codes.


@program("Black-Scholes", x64=True, tolerance=1e-11)
def black_scholes():
  def run(spot, strike, years):
    rate, volatility = 0.03, 0.2
    spread = volatility * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility ** 2) * years) / spread
    phi = lambda x: 0.5 * (1 + lax.erf(x / np.sqrt(2)))
    discounted = strike * jnp.exp(-rate * years)
    call = spot * phi(d1) - discounted * phi(d1 - spread)
    return call, call - spot + discounted
  size = 1 << 18
  return run, (uniform(size, low=50, high=150, dtype=F64), uniform(size, low=50, high=150, dtype=F64, seed=1),
               uniform(size, low=0.1, high=2, dtype=F64, seed=2))


@program("pair forces", x64=True, tolerance=1e-10)
def lennard_jones():
  def energy(p):
    d = p[:, None, :] - p[None, :, :]
    square = jnp.sum(d * d, axis=-1) + jnp.eye(p.shape[0])
    sixth = 1 / square ** 3
    return 2 * jnp.sum(jnp.where(jnp.eye(p.shape[0], dtype=bool), 0.0, sixth * sixth - sixth))
  grid = np.stack(np.meshgrid(*[1.2 * np.arange(10.0)] * 3), -1).reshape(-1, 3)
  return jax.value_and_grad(energy), (grid + 0.05 * random().standard_normal(grid.shape),)


@program("stencil", tolerance=1e-5)
def stencil_periodic():
  def run(x):
    around = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)
    return x + 0.1 * (around - 4 * x)
  return run, (normal(1024, 1024),)


@program("stencil", x64=True, tolerance=1e-12)
def laplace_3d():
  def run(u):
    inner = u[1:-1, 1:-1, 1:-1]
    around = (u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2])
    return inner + 0.1 * (around - 6 * inner)
  return run, (normal(128, 128, 128, dtype=F64),)


def neighbour_cost(x):
  return sum(jnp.sum(jnp.square(jnp.diff(x, axis=axis))) for axis in range(3))


@program("jax#37465: differences and sums", tolerance=1e-4)
def neighbour_differences():
  return neighbour_cost, (normal(128, 128, 128),)


@program("jax#37465: differences and sums", tolerance=1e-4)
def neighbour_differences_gradient():
  return jax.grad(neighbour_cost), (normal(128, 128, 128),)


@program("complex arithmetic", tolerance=1e-5)
def mandelbrot_unrolled():
  def run(c):
    z = c
    for _ in range(8):
      z = z * z + c
    return jnp.abs(z)
  points = (uniform(512, 512, low=-0.5, high=0.25) + 1j * uniform(512, 512, low=-0.5, high=0.5, seed=1)).astype(np.complex64)
  return run, (points,)


@program("complex arithmetic", tolerance=1e-5)
def complex_chain():
  def run(a, b):
    z = a * b + 1
    return z * jnp.conj(z) / (1 + jnp.abs(b)) - a
  part = lambda k: (normal(1 << 18, seed=k) + 1j * normal(1 << 18, seed=k + 1)).astype(np.complex64)
  return run, (part(0), part(2))


@program("polynomial", x64=True, tolerance=1e-12)
def rational_f64():
  def run(x):
    top = ((((x * 0.1 + 0.3) * x + 0.7) * x + 1.1) * x + 1.3) * x + 1.7
    return top / (((x * 0.2 + 0.5) * x + 0.9) * x * x + 2.0)
  return run, (uniform(1 << 20, low=-1, dtype=F64),)


# Places by division, and small tables.


@program("division of places", tolerance=1e-5)
def decimated_sum():
  return lambda x, step: jnp.sum(jnp.where(jnp.arange(x.shape[0]) % step == 0, x, 0)), (normal(1 << 18), I32(7))


@program("division of places", tolerance=0)
def square_wave():
  return lambda x, width: jnp.where(jnp.arange(x.shape[0]) // width % 2 == 0, x, -x), (normal(1 << 18), I32(100))


@program("division of places", tolerance=1e-6)
def saw_tooth():
  return lambda x, period: x * (jnp.arange(x.shape[0]) % period) / period, (normal(1 << 18), I32(441))


@program("small tables", tolerance=0)
def complement_of_bases():
  table = np.array([3, 2, 1, 0], I32)
  return lambda x: jnp.asarray(table)[x][::-1], (random().integers(0, 4, 1 << 18).astype(I32),)


@program("small tables", tolerance=0)
def vowels():
  table = np.isin(np.arange(26), [0, 4, 8, 14, 20])
  return lambda x: jnp.sum(jnp.asarray(table)[x]), (random().integers(0, 26, 1 << 18).astype(I32),)


@program("small tables", tolerance=0)
def logic_gate():
  table = np.array([0, 1, 1, 0, 1, 0, 0, 1], I32)
  def f(a, b, c):
    return jnp.asarray(table)[a + 2 * b + 4 * c]
  return f, tuple(random(s).integers(0, 2, 1 << 18).astype(I32) for s in range(3))


# Idioms of NumPy's.


@program("first of a sorted array", tolerance=0)
def smallest_of_rows():
  return lambda x: jnp.sort(x, axis=1)[:, :8], (normal(256, 1024),)


@program("first of a sorted array", tolerance=0)
def nearest_places():
  return lambda x: jnp.argsort(jnp.abs(x), axis=1)[:, :5], (normal(128, 2048),)


@program("first of a sorted array", tolerance=0)
def lowest_of_many():
  return lambda x: jnp.sort(x)[:100], (normal(1 << 16),)


@program("places that are known", tolerance=0)
def every_third():
  places = np.arange(0, 3 << 16, 3)
  return lambda x: jnp.take(x, places) * 2, (normal(3 << 16),)


@program("places that are known", tolerance=0)
def mirrored_edges():
  n = 1 << 16
  places = np.concatenate([np.arange(8, 0, -1), np.arange(n), np.arange(n - 2, n - 10, -1)])
  return lambda x: x[places] + 1, (normal(n),)


@program("places that are known", tolerance=0)
def halves_swapped():
  places = np.roll(np.arange(1 << 17), 1 << 16)
  return lambda x: x[places] - x, (normal(1 << 17),)


@program("hyperbolic functions of complex numbers", tolerance=1e-5)
def complex_cosh():
  return lambda x: jnp.cosh(x), (normal(1 << 16) + 1j * normal(1 << 16, seed=1),)


@program("hyperbolic functions of complex numbers", tolerance=1e-5)
def complex_sinh():
  return lambda x: jnp.sinh(x), (normal(1 << 16) + 1j * normal(1 << 16, seed=1),)


@program("hyperbolic functions of complex numbers", tolerance=1e-5)
def complex_cosine():
  return lambda x: jnp.cos(x) * jnp.sin(x), (normal(1 << 16) + 1j * normal(1 << 16, seed=1),)

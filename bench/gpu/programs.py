"""The programs of bench/gpu: what large models spend their time on, and what general compilers are weak at.

A program is made for a size: `full` is what people run, `quick` a fraction of it, `check` small enough for NumPy in f64.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

PROGRAMS = []


@dataclasses.dataclass
class Program:
  """One made program: the function, its arguments (NumPy, or ml_dtypes' types), the least bytes and FLOPs that it takes, the results in f64."""
  function: object
  arguments: tuple
  bytes: float = 0
  flops: float = 0
  peak: str = "bf16"  # whose FLOP/s are the floor
  reference: object = None  # of f64 arrays
  tolerance: float = 1e-2
  carried: int = 0  # so many arguments are donated, and the results are those of the next call


def program(kind):
  def add(make):
    PROGRAMS.append((make.__name__, kind, make))
    return make
  return add


def numbers(shape, dtype=np.float32, seed=0, scale=1.0):
  """Normal numbers; of large arrays a block is repeated, which is quick and does not matter for time."""
  block = np.random.default_rng(seed).standard_normal(min(int(np.prod(shape)), 1 << 20)).astype(np.float32) * scale
  return np.resize(block, shape).astype(dtype)


def indices(shape, most, seed=0):
  return np.random.default_rng(seed).integers(0, most, shape).astype(np.int32)


def pick(size, full, quick, check):
  return {"full": full, "quick": quick, "check": check}[size]


def softmax64(x):
  e = np.exp(x - x.max(-1, keepdims=True))
  return e / e.sum(-1, keepdims=True)


def matrix_product(size, m, k, n, dtype, peak):
  a, b = numbers((m, k), dtype), numbers((k, n), dtype, 1)
  width = a.dtype.itemsize
  return Program(jnp.dot, (a, b), width * (m * k + k * n + m * n), 2.0 * m * k * n, peak, np.dot)


@program("gemm")
def gemm_bf16(size):
  n = pick(size, 8192, 4096, 256)
  return matrix_product(size, n, n, n, jnp.bfloat16, "bf16")


@program("gemm")
def gemm_f32(size):
  n = pick(size, 4096, 2048, 256)
  return matrix_product(size, n, n, n, np.float32, "tf32")


@program("decode")
def gemm_decode_16(size):
  k, n = pick(size, (8192, 28672), (4096, 8192), (256, 512))
  return matrix_product(size, 16, k, n, jnp.bfloat16, "bf16")


@program("decode")
def gemm_decode_1(size):
  k, n = pick(size, (8192, 28672), (4096, 8192), (256, 512))
  return matrix_product(size, 1, k, n, jnp.bfloat16, "bf16")


@program("mlp")
def swiglu(size):
  tokens, d, wide = pick(size, (8192, 4096, 14336), (2048, 2048, 4096), (64, 64, 128))
  x, gate, up, down = (numbers(s, jnp.bfloat16, i, c) for i, (s, c) in enumerate(
      [((tokens, d), 1), ((d, wide), d**-0.5), ((d, wide), d**-0.5), ((wide, d), wide**-0.5)]))

  def reference(x, gate, up, down):
    g = x @ gate
    return (g / (1 + np.exp(-g)) * (x @ up)) @ down

  return Program(lambda x, g, u, w: (jax.nn.silu(x @ g) * (x @ u)) @ w, (x, gate, up, down), 2 * (2 * tokens * d + 3 * d * wide),
                 6.0 * tokens * d * wide, reference=reference, tolerance=4e-2)


@program("attention")
def attention_prefill(size):
  batch, t, heads, kv, h = pick(size, (4, 4096, 32, 8, 128), (2, 1024, 16, 4, 128), (1, 64, 4, 2, 32))
  q, k, v = (numbers((batch, t, n, h), jnp.bfloat16, i) for i, n in enumerate((heads, kv, kv)))

  def reference(q, k, v):
    k, v = (np.repeat(x, heads // kv, 2) for x in (k, v))
    logits = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(h)
    logits = np.where(np.tril(np.ones((t, t), bool)), logits, -np.inf)
    return np.einsum("bnts,bsnh->btnh", softmax64(logits), v)

  return Program(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), (q, k, v), 2 * batch * t * h * (2 * heads + 2 * kv),
                 2.0 * batch * heads * t * t * h, reference=reference, tolerance=3e-2)


@program("attention")
def attention_decode(size):
  batch, s, heads, kv, h = pick(size, (64, 8192, 32, 8, 128), (16, 2048, 16, 4, 128), (2, 64, 4, 2, 32))
  q, k, v = numbers((batch, 1, heads, h), jnp.bfloat16), numbers((batch, s, kv, h), jnp.bfloat16, 1), numbers((batch, s, kv, h), jnp.bfloat16, 2)

  def reference(q, k, v):
    k, v = (np.repeat(x, heads // kv, 2) for x in (k, v))
    return np.einsum("bnts,bsnh->btnh", softmax64(np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(h)), v)

  return Program(jax.nn.dot_product_attention, (q, k, v), 4.0 * batch * s * kv * h, 4.0 * batch * heads * s * h, reference=reference, tolerance=3e-2)


def layer_norm(x, g, b):
  wide = x.astype(jnp.float32)
  m = wide.mean(-1, keepdims=True)
  return ((wide - m) * jax.lax.rsqrt(wide.var(-1, keepdims=True) + 1e-5) * g + b).astype(x.dtype)


@program("norm")
def layer_norm_forward(size):
  rows, d = pick(size, (16384, 8192), (8192, 2048), (64, 256))
  x, g, b = numbers((rows, d), jnp.bfloat16), numbers((d,), seed=1), numbers((d,), seed=2)
  return Program(layer_norm, (x, g, b), 4.0 * rows * d, tolerance=1e-2,
                 reference=lambda x, g, b: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b)


@program("norm")
def layer_norm_backward(size):
  rows, d = pick(size, (16384, 8192), (8192, 2048), (64, 256))
  x, g, b = numbers((rows, d), jnp.bfloat16), numbers((d,), seed=1), numbers((d,), seed=2)
  return Program(jax.grad(lambda *a: jnp.sum(layer_norm(*a).astype(jnp.float32) ** 2), (0, 1, 2)), (x, g, b), 10.0 * rows * d)


@program("loss")
def cross_entropy_gradient(size):
  rows, classes = pick(size, (8192, 128256), (2048, 32000), (32, 1000))
  x, labels = numbers((rows, classes), jnp.bfloat16), indices((rows,), classes)

  def loss(x, labels):
    logits = x.astype(jnp.float32)
    picked = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, 1) - picked)

  def reference(x, labels):
    p = softmax64(x)
    value = -np.log(p[np.arange(rows), labels.astype(int)]).mean()
    p[np.arange(rows), labels.astype(int)] -= 1
    return value, p / rows

  return Program(jax.value_and_grad(loss), (x, labels), 6.0 * rows * classes, reference=reference)


@program("conv")
def bottleneck(size):
  batch, side, wide, narrow = pick(size, (256, 56, 256, 64), (32, 56, 256, 64), (2, 8, 16, 8))
  x = numbers((batch, side, side, wide), jnp.bfloat16)
  weights = [numbers(s, jnp.bfloat16, i + 1, np.prod(s[:3])**-0.5) for i, s in enumerate(
      [(1, 1, wide, narrow), (3, 3, narrow, narrow), (1, 1, narrow, wide)])]

  def forward(x, a, b, c):
    conv = lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(conv(jax.nn.relu(conv(jax.nn.relu(conv(x, a)), b)), c) + x)

  flops = 2.0 * batch * side * side * (2 * wide * narrow + 9 * narrow * narrow)
  return Program(forward, (x, *weights), 4.0 * batch * side * side * wide, flops)


@program("optimizer")
def adam(size):
  each, count = pick(size, (1000000000 // 144, 144), (1000000, 48), (1000, 4))
  tree = lambda dtype, seed: [np.abs(numbers((each,), dtype, seed)) for _ in range(count)]
  p, m, v, g = tree(np.float32, 0), tree(np.float32, 1), tree(np.float32, 2), tree(jnp.bfloat16, 3)

  def update(p, m, v, g):
    g = [x.astype(jnp.float32) for x in g]
    m = [0.9 * a + 0.1 * x for a, x in zip(m, g)]
    v = [0.999 * a + 0.001 * x * x for a, x in zip(v, g)]
    return [a - 1e-3 * b / (jnp.sqrt(c) + 1e-8) for a, b, c in zip(p, m, v)], m, v

  return Program(update, (p, m, v, g), 26.0 * each * count, carried=3)


@program("indexing")
def embedding(size):
  rows, d, n = pick(size, (128256, 4096, 16384), (32000, 1024, 8192), (100, 32, 50))
  return Program(lambda t, i: t[i], (numbers((rows, d), jnp.bfloat16), indices((n,), rows)), 4.0 * n * d, tolerance=0,
                 reference=lambda t, i: t[i.astype(int)])


def scatter_add(size, most):
  rows, d, n = pick(size, (128256, 4096, 16384), (32000, 1024, 8192), (100, 32, 50))
  t, i, u = numbers((rows, d)), indices((n,), min(most, rows)), numbers((n, d), seed=1)

  def reference(t, i, u):
    t = t.copy()
    np.add.at(t, i.astype(int), u)
    return t

  return Program(lambda t, i, u: t.at[i].add(u), (t, i, u), 8.0 * rows * d + 4.0 * n * d, reference=reference, tolerance=1e-5)


@program("indexing")
def scatter_add_uniform(size):
  return scatter_add(size, 1 << 30)


@program("indexing")
def scatter_add_hot(size):
  return scatter_add(size, 8)


@program("scan")
def cumulative_sum(size):
  n = pick(size, 1 << 28, 1 << 24, 10000)
  return Program(jnp.cumsum, (numbers((n,)),), 8.0 * n, reference=np.cumsum, tolerance=1e-4)


@program("sort")
def sort(size):
  n = pick(size, 1 << 26, 1 << 22, 10000)
  x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
  return Program(jnp.sort, (x,), 36.0 * n, reference=np.sort, tolerance=0)


@program("reduce")
def reduce_rows(size):
  n = pick(size, 16384, 4096, 300)
  return Program(lambda x: x.sum(1), (numbers((n, n)),), 4.0 * n * n, reference=lambda x: x.sum(1), tolerance=1e-5)


@program("reduce")
def reduce_columns(size):
  n = pick(size, 16384, 4096, 300)
  return Program(lambda x: x.sum(0), (numbers((n, n)),), 4.0 * n * n, reference=lambda x: x.sum(0), tolerance=1e-5)


@program("movement")
def transpose(size):
  n = pick(size, 16384, 4096, 300)
  return Program(lambda x: x.T + 1, (numbers((n, n)),), 8.0 * n * n, reference=lambda x: x.T + 1, tolerance=1e-6)


@program("launch")
def gru_scan(size):
  steps, batch, d = pick(size, (64, 32, 512), (64, 32, 256), (8, 4, 16))
  x, h = numbers((steps, batch, d)), numbers((batch, d), seed=1)
  w, u = numbers((d, 3 * d), seed=2, scale=d**-0.5), numbers((d, 3 * d), seed=3, scale=d**-0.5)

  def run(x, h, w, u, np=jnp, scan=jax.lax.scan):
    sigmoid = lambda a: 1 / (1 + np.exp(-a))

    def cell(h, x):
      (a, b, c), (p, q, r) = np.split(x @ w, 3, -1), np.split(h @ u, 3, -1)
      z = sigmoid(a + p)
      return z * h + (1 - z) * np.tanh(c + sigmoid(b + q) * r), None
    return scan(cell, h, x)[0]

  def plain(cell, h, xs):
    for x in xs:
      h, _ = cell(h, x)
    return h, None

  return Program(run, (x, h, w, u), 4.0 * 6 * d * d, 12.0 * steps * batch * d * d, "tf32", reference=lambda *a: run(*a, np=np, scan=plain))

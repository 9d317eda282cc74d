"""Networks that keep features before places or in groups, recurrences, graphs, flows, policies; Gram matrices, factorizations, few rows by quantised weights: odd sizes, as users write them."""

import jax
from jax import lax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
import numpy as np

from architecture_programs import BF16, F32, convolve, numbers, relu, silu, trained, weights_of
import harness

PROGRAMS = []


def network(name, kind, shapes, apply, *batch, bf16=()):
  """Forward and a training step in f32, and these forms in bf16 too."""
  for dtype, forms in ((F32, ("forward", "training")), (BF16, bf16)):
    for form in forms:
      cast = lambda x, dtype=dtype: x.astype(dtype) if x.dtype == F32 else x
      def make(form=form, dtype=dtype, cast=cast):
        weights = weights_of(shapes, dtype)
        if form == "forward":
          return apply, (weights, *map(cast, batch))
        return trained(apply), (weights, jax.tree.map(np.zeros_like, weights), *map(cast, batch))
      PROGRAMS.append(harness.Program(name=f"{name}{'_bf16' if dtype == BF16 else ''}_{form}", kind=f"{kind} {form}", make=make,
                                      tolerance=2e-3 if dtype == F32 else 0.1))


def step(name, kind, function, *arguments, tolerance=1e-3, x64=False):
  PROGRAMS.append(harness.Program(name=name, kind=kind, make=lambda: (function, arguments), tolerance=tolerance, x64=x64))


# Features before places, or in groups.


def standard(x, axes):
  return (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)


def features_first(w, x):
  for window in w:
    x = relu(standard(lax.conv_general_dilated(x, window, (1, 1), "SAME"), (0, 2, 3)))
  return x.mean((2, 3))


network("nchw_batch_norm", "features first", [(32, 9, 3, 3), (40, 32, 3, 3)], features_first, numbers(1, 4, 9, 30, 30), bf16=("forward",))


def in_groups(x, groups=8):
  return standard(x.reshape(*x.shape[:3], groups, -1), (1, 2, 4)).reshape(x.shape)


network("group_norm", "groups of features", [(3, 3, 48, 48), (3, 3, 48, 48)],
        lambda w, x: x + convolve(silu(in_groups(convolve(silu(in_groups(x)), w[0]))), w[1]), numbers(2, 3, 26, 26, 48), bf16=("forward", "training"))
network("instance_norm", "features first", [(24, 3, 3, 3), (24, 24, 3, 3)],
        lambda w, x: relu(standard(lax.conv_general_dilated(relu(standard(lax.conv_general_dilated(x, w[0], (1, 1), "SAME"), (2, 3))), w[1], (1, 1), "SAME"), (2, 3))),
        numbers(3, 2, 3, 45, 51))
step("statistics_nchw", "statistics", lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3)), x.max((0, 2, 3))), numbers(4, 6, 37, 33, 29))
step("statistics_groups", "statistics", lambda x: (x.mean((1, 3)), x.std((1, 3))), numbers(5, 9, 500, 7, 12))
step("scaled_by_feature", "statistics", jax.grad(lambda s, x: jnp.sum(jnp.sin(x * s[:, None, None] + 1))), numbers(6, 30), numbers(7, 5, 30, 31, 27))


# Images.


def dense_block(w, x):
  for window in w:
    x = jnp.concatenate([x, relu(convolve(x, window))], -1)
  return x.mean((1, 2))


network("dense_block", "images", [(3, 3, 16 + 12 * i, 12) for i in range(5)], dense_block, numbers(8, 4, 28, 28, 16))


def squeezed(w, x):
  for first, second, down, up in w:
    h = convolve(relu(convolve(x, first)), second)
    x = relu(x + h * jax.nn.sigmoid(relu(h.mean((1, 2)) @ down) @ up)[:, None, None])
  return x


network("squeeze_excite", "images", [((3, 3, 40, 40), (3, 3, 40, 40), (40, 10), (10, 40))] * 2, squeezed, numbers(9, 4, 23, 23, 40))
network("generator_small", "images", [(50, 1536), (4, 4, 96, 64), (4, 4, 64, 32), (4, 4, 32, 3)],
        lambda w, z: jnp.tanh(_upward(relu(_upward(relu(_upward(relu(z @ w[0]).reshape(-1, 4, 4, 96), w[1])), w[2])), w[3])), numbers(10, 9, 50))


def _upward(x, w):
  return lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


# Points, graphs, recurrences.

network("points", "points", [(3, 64), (64, 200), (200, 90), (90, 10)], lambda w, x: relu(jnp.max(relu(relu(x @ w[0]) @ w[1]), 1) @ w[2]) @ w[3], numbers(11, 8, 300, 3))

FROM, TO = np.random.default_rng(0).integers(0, 400, 3000), np.sort(np.random.default_rng(1).integers(0, 400, 3000))


def graph_attention(w, x):
  h = x @ w[0]
  e = jax.nn.leaky_relu((h @ w[1][0])[FROM] + (h @ w[1][1])[TO])
  e = jnp.exp(e - jax.ops.segment_max(e, TO, 400)[TO])
  return jax.ops.segment_sum(h[FROM] * (e / jax.ops.segment_sum(e, TO, 400)[TO])[:, None], TO, 400)


network("graph_attention", "graphs", [(40, 32), (2, 32)], graph_attention, numbers(12, 400, 40))


def both_ways(w, x):
  def one(h, x):
    h = jnp.tanh(x @ w[0] + h @ w[1])
    return h, h
  start = jnp.zeros((x.shape[1], w[1].shape[0]), x.dtype)
  return lax.scan(one, start, x)[1] + lax.scan(one, start, x, reverse=True)[1]


network("recurrent_both_ways", "recurrences", [(30, 64), (64, 64)], both_ways, numbers(13, 50, 16, 30), bf16=("forward", "training"))


def selective(w, x):
  """State spaces whose steps depend on the input, by an associative scan."""
  delta, b, c = jax.nn.softplus(x @ w[0]), x @ w[1], x @ w[2]
  decay = jnp.exp(-delta[..., None] * jnp.arange(1, 9, dtype=x.dtype))
  grown = (delta * x)[..., None] * b[:, :, None]
  _, h = lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (decay, grown), axis=1)
  return jnp.einsum("btdn,btn->btd", h, c)


network("state_space", "recurrences", [(48, 48), (48, 8), (48, 8)], selective, numbers(14, 2, 100, 48))


def dilated_causal(w, x):
  for i, window in enumerate(w):
    x = x + relu(lax.conv_general_dilated(x, window, (1,), [(2 * 2**i, 0)], rhs_dilation=(2**i,), dimension_numbers=("NWC", "WIO", "NWC")))
  return x


network("dilated_causal", "waves", [(3, 60, 60)] * 5, dilated_causal, numbers(15, 4, 250, 60), bf16=("forward", "training"))


# Layers, flows, policies.

network("gated_units", "layers", [(200, 530), (200, 530), (530, 200)], lambda w, x: (silu(x @ w[0]) * (x @ w[1])) @ w[2], numbers(16, 70, 200), bf16=("forward", "training"))
network("sines", "layers", [(2, 128), (128, 128), (128, 3)], lambda w, x: jnp.sin(jnp.sin(jnp.sin(x @ w[0]) @ w[1]) @ w[2]), numbers(17, 2000, 2))
network("pairs_of_features", "layers", [(300, 10)], lambda w, x: 0.5 * (jnp.square(x @ w[0]) - jnp.square(x) @ jnp.square(w[0])).sum(-1), numbers(18, 200, 300))


def couplings(w, x):
  total = 0.0
  for i, (inner, outer) in enumerate(w):
    left, right = jnp.split(x if i % 2 else x[:, ::-1], 2, -1)
    scale, shift = jnp.split(jnp.tanh(left @ inner) @ outer, 2, -1)
    x = jnp.concatenate([left, right * jnp.exp(jnp.tanh(scale)) + shift], -1)
    total += jnp.tanh(scale).sum(-1)
  return -0.5 * jnp.square(x).sum(-1) + total


network("couplings", "flows", [((10, 40), (40, 20))] * 6, couplings, numbers(19, 300, 20))


def policy(w, seen, acted, better, before):
  h = jnp.tanh(jnp.tanh(seen @ w[0]) @ w[1])
  logits = jax.nn.log_softmax(h @ w[2])
  ratio = jnp.exp(jnp.take_along_axis(logits, acted[:, None], 1)[:, 0] - before)
  return -jnp.minimum(ratio * better, jnp.clip(ratio, 0.8, 1.2) * better) - 0.01 * (jnp.exp(logits) * logits).sum(-1) + jnp.square((h @ w[3])[:, 0] - better)


network("clipped_policy", "policies", [(17, 64), (64, 64), (64, 6), (64, 1)], policy, numbers(20, 512, 17), np.random.default_rng(0).integers(0, 6, 512, np.int32),
        numbers(21, 512), numbers(22, 512, scale=0.1) - 1.8)


# Gram matrices: both sides across the contraction.

gram = lambda x, y: jnp.einsum("ni,nj->ij", x, y)
for rows, left, right in (20000, 24, 24), (3000, 17, 20), (8000, 100, 10), (5000, 6, 100), (30000, 3, 5):
  step(f"gram_{rows}x{left}x{right}", "gram", gram, numbers(23, rows, left), numbers(24, rows, right))
step("gram_f64_4000x13x21", "gram", gram, numbers(23, 4000, 13).astype(np.float64), numbers(24, 4000, 21).astype(np.float64), tolerance=1e-12, x64=True)
step("gram_batched", "gram", lambda x: jnp.einsum("bni,bnj->bij", x, x), numbers(25, 60, 150, 18))
step("covariance", "gram", lambda x: jnp.cov(x, rowvar=False), numbers(26, 5000, 30))


# Factorizations.


def positive(seed, *shape, dtype=F32):
  a = numbers(seed, *shape, shape[-1]).astype(dtype)
  if np.issubdtype(dtype, np.complexfloating):
    a = a + 1j * numbers(seed + 1, *shape, shape[-1])
  return (a @ np.conj(np.swapaxes(a, -1, -2)) / shape[-1] + np.eye(shape[-1])).astype(dtype)


for name, shape, dtype in ("60_of_20", (20, 60), F32), ("16_of_300", (300, 16), F32), ("100_f64", (100,), np.float64), ("90_c64", (90,), np.complex64):
  wide = dtype == np.float64
  step(f"cholesky_{name}", "factorizations", jnp.linalg.cholesky, positive(27, *shape, dtype=dtype), x64=wide)
  step(f"solve_{name}", "factorizations", jnp.linalg.solve, positive(28, *shape, dtype=dtype), numbers(29, *shape, 3).astype(dtype), x64=wide)
step("cholesky_gradient_60", "factorizations", jax.grad(lambda a: jnp.linalg.cholesky(a).sum()), positive(30, 60))
step("tall_qr_200x20", "factorizations", lambda a: jnp.abs(jnp.linalg.qr(a)[1]), numbers(31, 200, 20))
step("tall_svd_1000x7", "factorizations", lambda a: jnp.linalg.svd(a, full_matrices=False)[1], numbers(32, 1000, 7))
step("eigenvalues_3_of_1000", "factorizations", jnp.linalg.eigvalsh, positive(33, 1000, 3))
step("whitened", "factorizations", lambda x: solve_triangular(jnp.linalg.cholesky(jnp.cov(x, rowvar=False)), (x - x.mean(0)).T, lower=True), numbers(34, 700, 50))


# Integers and quantised weights.


def bytes_of(seed, *shape):
  return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


whole = lambda x, w: jnp.matmul(x, w, preferred_element_type=jnp.int32)
for batch, m, n, k in ((), 161, 6, 1164), ((100,), 31, 12, 43), ((512,), 32, 32, 32), ((), 1000, 33, 77):
  name = "x".join(map(str, (*batch, m, n, k)))
  step(f"int8_{name}", "int8", whole, bytes_of(35, *batch, m, k), bytes_of(36, *batch, k, n), tolerance=0)
turned = lambda x, w, s: x @ (w.astype(x.dtype) * s[:, None]).T
for rows in 1, 2, 17:
  step(f"rows_{rows}_int8_turned", "quantised rows", turned, numbers(37, rows, 768), bytes_of(38, 1000, 768), numbers(39, 1000))
  step(f"rows_{rows}_fp8_turned", "quantised rows", turned, numbers(37, rows, 768), numbers(40, 1000, 768).astype(jnp.float8_e4m3fn), numbers(39, 1000))

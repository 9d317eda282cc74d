"""Attention written plainly is one call on a CPU, and its gradient another: the same numbers as by hand in f64."""

import re

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

CODE = r"""
import jax, jax.numpy as jnp, numpy as np

def reference(q, k, v, bias=None, mask=None):
  q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
  group = q.shape[2] // k.shape[2]
  k, v = np.repeat(k, group, 2), np.repeat(v, group, 2)
  scores = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
  if bias is not None: scores = scores + np.asarray(bias, np.float64)
  if mask is not None: scores = np.where(mask, scores, -1e30)
  weights = np.exp(scores - scores.max(-1, keepdims=True))
  return np.einsum("bhts,bshd->bthd", weights / weights.sum(-1, keepdims=True), v)

def operands(dtype, t, s, heads=4, groups=4, d=16):
  random = np.random.default_rng(0)
  return tuple(jnp.asarray(random.standard_normal(shape), dtype) for shape in ((2, t, heads, d), (2, s, groups, d), (2, s, groups, d)))

attend = jax.nn.dot_product_attention
T = S = 96
row, col = np.arange(T)[:, None], np.arange(S)
lengths = np.array([50, 96])
bias = np.random.default_rng(1).standard_normal((1, 4, T, S)).astype(np.float32)
mask = np.random.default_rng(2).random((2, 1, T, S)) < 0.7
CASES = {
    "whole": (lambda q, k, v: attend(q, k, v), {}, None, None),
    "causal": (lambda q, k, v: attend(q, k, v, is_causal=True), {}, None, col <= row),
    "window": (lambda q, k, v: attend(q, k, v, local_window_size=(9, 4)), {}, None, (col >= row - 9) & (col <= row + 4)),
    "padded": (lambda q, k, v: attend(q, k, v, is_causal=True, key_value_seq_lengths=jnp.asarray(lengths)), {}, None,
               (col <= row) & (col < lengths[:, None, None, None])),
    "biased": (lambda q, k, v: attend(q, k, v, bias=jnp.asarray(bias)), {}, bias, None),
    "masked": (lambda q, k, v: attend(q, k, v, mask=jnp.asarray(mask)), {}, None, mask),
    "grouped": (lambda q, k, v: attend(q, k, v, is_causal=True), dict(groups=2), None, col <= row),
    "one group": (lambda q, k, v: attend(q, k, v), dict(groups=1), None, None),
    "one token": (lambda q, k, v: attend(q, k, v), dict(t=1, s=1200), None, None),
}
for name, (function, sizes, add, keep) in CASES.items():
  for dtype, tolerance in ((jnp.float32, 2e-6), (jnp.bfloat16, 1e-2)):
    arguments = operands(dtype, **{"t": T, "s": S, **sizes})
    compiled = jax.jit(function).lower(*arguments).compile()
    got = np.asarray(compiled(*arguments), np.float64)
    want = reference(*arguments, add, keep)
    error = np.abs(got - want).max() / np.abs(want).max()
    print(name, dtype.__name__, "bad" if not error <= tolerance else "good", error)
"""


def test_attention():
    result = run(CODE, JAX_PLATFORMS="weft", WEFT_DEBUG="attention=3")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 18 and not [line for line in lines if " good " not in line], result.stdout
    assert "is not attention" not in result.stderr, result.stderr


GRADIENTS = r"""
import jax, jax.numpy as jnp, numpy as np

def reference(q, k, v, dout, mask=None):
  q, k, v, dout = (np.asarray(x, np.float64) for x in (q, k, v, dout))
  groups, scale = k.shape[2], q.shape[-1] ** -0.5
  k, v = (np.repeat(x, q.shape[2] // groups, 2) for x in (k, v))
  scores = np.einsum("bthd,bshd->bhts", q, k) * scale
  if mask is not None: scores = np.where(mask, scores, -1e30)
  weights = np.exp(scores - scores.max(-1, keepdims=True))
  weights /= weights.sum(-1, keepdims=True)
  out = np.einsum("bhts,bshd->bthd", weights, v)
  dweights = np.einsum("bthd,bshd->bhts", dout, v)
  dscores = weights * (dweights - (weights * dweights).sum(-1, keepdims=True)) * scale
  add = lambda x: x.reshape(*x.shape[:2], groups, -1, x.shape[-1]).sum(3)
  return (out, np.einsum("bhts,bshd->bthd", dscores, k), add(np.einsum("bhts,bthd->bshd", dscores, q)),
          add(np.einsum("bhts,bthd->bshd", weights, dout)))

def operands(dtype, t=128, heads=4, groups=4, d=16):
  random = np.random.default_rng(0)
  shapes = (2, t, heads, d), (2, t, groups, d), (2, t, groups, d), (2, t, heads, d)
  return tuple(jnp.asarray(random.standard_normal(shape), dtype) for shape in shapes)

def plainly(q, k, v):
  scores = jnp.einsum("bthd,bshd->bhts", q, k, preferred_element_type=jnp.float32) * q.shape[-1] ** -0.5
  scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e30)
  return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-1).astype(v.dtype), v)

attend = jax.nn.dot_product_attention
causal = lambda q, k, v: attend(q, k, v, is_causal=True)
places = np.arange(128)
lower = places[None, :] <= places[:, None]
mask = (np.random.default_rng(2).random((2, 1, 128, 128)) < 0.7) | np.eye(128, dtype=bool)
CASES = {
    "plainly": (plainly, {}, lower),
    "whole": (attend, {}, None),
    "causal": (causal, {}, lower),
    "masked": (lambda q, k, v: attend(q, k, v, mask=jnp.asarray(mask)), {}, mask),
    "grouped": (causal, dict(groups=2), lower),
    "remat": (jax.checkpoint(causal), {}, lower),
    "vmap": (jax.vmap(lambda q, k, v: causal(q[None], k[None], v[None])[0]), {}, lower),
}
for name, (function, sizes, keep) in CASES.items():
  for dtype, tolerance in ((jnp.float32, 4e-6), (jnp.bfloat16, 2e-2)):
    q, k, v, dout = operands(dtype, **sizes)
    def step(q, k, v, dout):
      out, vjp = jax.vjp(function, q, k, v)
      return (out, *vjp(dout))
    compiled = jax.jit(step).lower(q, k, v, dout).compile()
    for part, got, want in zip(("out", "dq", "dk", "dv"), compiled(q, k, v, dout), reference(q, k, v, dout, keep)):
      error = np.abs(np.asarray(got, np.float64) - want).max() / np.abs(want).max()
      print(name, dtype.__name__, part, "good" if error <= tolerance else "bad", error)

def layers(x, weights):
  @jax.checkpoint
  def layer(x, w):
    return x + causal(*(jnp.einsum("bthd,de->bthe", x, w[i]) for i in range(3))), None
  return (jax.lax.scan(layer, x, weights)[0] ** 2).sum()
x, weights = operands(jnp.float32, t=512)[0], np.random.default_rng(3).standard_normal((3, 3, 16, 16)).astype(np.float32) / 4
compiled = jax.jit(jax.grad(layers, (0, 1))).lower(x, weights).compile()
# The scores of a layer are 8 MB.

def dropped(q, k, v):
  weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k), axis=-1)
  return jnp.einsum("bhts,bshd->bthd", jnp.where(jnp.asarray(mask), weights / 0.7, 0), v)
q, k, v, _ = operands(jnp.float32)
jax.jit(jax.grad(lambda *x: dropped(*x).sum(), (0, 1, 2)))(q, k, v)
print("scan", compiled.memory_analysis().temp_size_in_bytes < 8e6 and "good", compiled.memory_analysis().temp_size_in_bytes)
compiled(x, weights)
"""


def test_attention_gradients():
    result = run(GRADIENTS, JAX_PLATFORMS="weft", WEFT_DEBUG="attention=3")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 57 and not [line for line in lines if " good " not in line], result.stdout
    assert result.stderr.count("are not attention") == 1 and "as dropout does" in result.stderr, result.stderr


def test_cuts_are_told():
    """How a product is cut and which form a convolution has, at WEFT_DEBUG=cpu=3."""
    code = """
import jax, numpy as np
jax.jit(lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"))(np.ones((1, 8, 16, 16), np.float32), np.ones((8, 8, 3, 3), np.float32))
jax.jit(lambda a, b: a @ b)(np.ones((300, 200), np.float32), np.ones((200, 100), np.float32))
jax.jit(lambda a, b: a @ b)(np.ones((300, 2000), np.float32), np.ones((2000, 3000), np.float32))
"""
    result = run(code, JAX_PLATFORMS="weft", WEFT_DEBUG="cpu=3", WEFT_CACHE="0")
    assert result.returncode == 0, result.stderr
    assert "convolution of 256 positions by 9 taps, 1 phases: windows are columns" in result.stderr, result.stderr
    assert "product of 300 x 100 x 200: the right side is small and read where it lies" in result.stderr, result.stderr
    assert "product of 300 x 3000 x 2000: bound by multiplying" in result.stderr, result.stderr
    assert re.search(r"tasks of \d+ x \d+, \d+ panels of depth \d+, 300 rows and \d+ columns packed at once", result.stderr), result.stderr

"""Attention written plainly is one call on a CPU: the same numbers as by hand in f64."""

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

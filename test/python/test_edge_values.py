"""Zeros of both signs, infinities, NaNs and subnormal numbers through JAX, against NumPy bit by bit."""

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

HEADER = """
import jax, jax.numpy as jnp, numpy as np, ml_dtypes
from jax import lax
jax.config.update("jax_enable_x64", True)

def same(got, want):
    got, want = np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64)
    assert got.shape == want.shape
    equal = (np.isnan(got) & np.isnan(want)) | ((got == want) & (np.signbit(got) == np.signbit(want)))
    assert equal.all(), (got, want)
"""

ZEROS = """
def pick(x, y, least):
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    tie = np.where(np.signbit(x) == least, x, y)
    chosen = np.where((x < y) == least, x, y)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x == y, tie, chosen))

for dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn):
    values = np.array([0, -0.0, 1, -1, np.nan]).astype(dtype)
    x, y = np.repeat(values, 5), np.tile(values, 5)
    for f, least in ((lax.max, False), (lax.min, True)):
        same(jax.jit(f)(x, y), pick(x, y, least))
        for bound in (0.0, -0.0, 0.5):
            same(jax.jit(lambda x: f(x, jnp.full_like(x, bound)))(x), pick(x, dtype(bound), least))
    same(jax.jit(lambda x: lax.clamp(dtype(-0.0), x, dtype(0.0)))(x), pick(pick(x, -0.0, False), 0.0, True))
for dtype in (np.float64, np.float32, ml_dtypes.bfloat16):
    for n in (1, 7, 33, 1000):
        for at in {0, n // 2, n - 1}:
            x = np.full((3, n), -0.0).astype(dtype)
            x[1, at] = 0
            same(jax.jit(lambda x: jnp.max(x, 1))(x), [-0.0, 0.0, -0.0])
            same(jax.jit(lambda x: jnp.min(x, 1))(-x), [0.0, -0.0, 0.0])
            want = np.where(np.arange(n) < at, -0.0, 0.0)
            same(jax.jit(lambda x: lax.cummax(x, 1))(x)[1], want)
            same(jax.jit(lambda v: lax.fori_loop(0, n, lambda i, m: jnp.maximum(m, v[i]), -jnp.inf))(x[1].astype(np.float32)), 0.0)
"""

QUOTIENTS = """
inf = np.inf
x = np.array([complex(0, inf), complex(inf, 0), complex(-inf, 2), complex(1, 1), complex(1, 2), complex(inf, 1)])
y = np.array([1 + 1j, -2 - 2j, 1e30 + 1j, complex(inf, 1), complex(inf, -inf), 2j])
for dtype in (np.complex64, np.complex128):
    got = np.asarray(jax.jit(lax.div)(x.astype(dtype), y.astype(dtype)))
    same(got.real, [inf, -inf, -inf, 0, -0.0, np.nan])
    same(got.imag, [inf, inf, inf, 0, 0, -inf])
"""

BITS = """
bits = np.arange(1 << 16, dtype=np.uint16)
for dtype in (np.float16, ml_dtypes.bfloat16):
    numbers = np.asarray(jax.jit(lambda x: lax.bitcast_convert_type(x, dtype))(bits))
    back = np.asarray(jax.jit(lambda x: lax.bitcast_convert_type(x, np.uint16))(numbers))
    number = ~np.isnan(bits.view(dtype).astype(np.float32))
    assert (numbers.view(np.uint16)[number] == bits[number]).all() and (back[number] == bits[number]).all(), dtype
"""

MASKS = """
x = np.array([np.nan, 1, -2, np.inf, -np.inf, -0.0])
mask = np.array([False, True, False, False, False, True])
for dtype in (np.float64, np.float32):
    v = x.astype(dtype)
    same(jax.jit(lambda v, m: v * m)(v, mask), np.where(mask, v, 0))
    same(jax.jit(lambda v, m: m * v)(v, mask), np.where(mask, v, 0))
    same(jax.jit(lambda v, m: jnp.sum(v * m))(v, mask), 1)
    same(jax.jit(lambda v: v * (v > 0))(v), [0, 1, 0, np.inf, 0, 0])
    same(jax.jit(jax.grad(jnp.max))(v[:2]), [0, 0])
"""


@pytest.mark.parametrize("text", [ZEROS, QUOTIENTS, BITS, MASKS], ids=["zeros", "quotients", "bits", "masks"])
def test_edge_values(text):
    done = run(HEADER + text, timeout=600, JAX_PLATFORMS="weft")
    assert done.returncode == 0, done.stderr[-2000:]

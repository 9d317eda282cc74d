"""Arrays whose rows have few elements, and products of small matrices, of many sizes and types, against NumPy: lanes go
down the columns of such arrays, and rows that do not fill the lanes come last."""

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

HEADER = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(3)
BOUND = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 5e-2, "int32": 0}

def numbers(dtype, *shape):
    x = rng.integers(-9, 9, shape) if dtype == "int32" else rng.standard_normal(shape)
    return np.asarray(x).astype(jnp.dtype(dtype))

def check(name, dtype, f, *args):
    got = np.asarray(jax.jit(lambda *a: f(jnp, *a))(*args)).astype(np.float64)
    want = np.asarray(f(np, *[np.asarray(a).astype(np.float64) for a in args]))
    bound = BOUND[dtype] * max(1.0, np.abs(want).max() if want.size else 1.0)
    assert got.shape == want.shape and np.all(np.abs(got - want) <= bound), (name, dtype, [a.shape for a in args])
"""

ROWS = """
def softmax(n, x):
    e = n.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

for dtype in ("float32", "float64", "bfloat16"):
    for rows, length in ((9, 2), (131, 2), (67, 3), (131, 4), (9, 5), (131, 5), (70, 7), (64, 8), (67, 11), (131, 16), (64, 17)):
        x = numbers(dtype, rows, length)
        check("softmax", dtype, softmax, x)
        check("unit", dtype, lambda n, x: x / n.sqrt((x * x).sum(-1, keepdims=True) + 1), x)
        check("sums", dtype, lambda n, x: x.sum(-1) * 2 + x.max(-1), x)
        check("argmax", dtype, lambda n, x: n.argmax(x, -1), x)
        check("columns", dtype, lambda n, x: x[:, 1] * x[:, -1] + x[:, 0], x)
        check("swapped", dtype, lambda n, x: n.stack([x[:, 1], x[:, 0] * 2], -1), x)
for dtype in ("float32", "int32"):
    x = numbers(dtype, 5, 70, 6)
    check("less", dtype, lambda n, x: x - x.max(-1, keepdims=True), x)
    check("every_other", dtype, lambda n, x: x[:, ::2, 1] + x[:, 1::2, 3], x)
    check("backwards", dtype, lambda n, x: x[:, ::-1, 5] - x[:, :, 2], x)
"""

PRODUCTS = """
for dtype in ("float32", "float64", "bfloat16"):
    for m, k, n in ((1, 1, 1), (2, 2, 2), (3, 3, 1), (1, 3, 3), (3, 4, 5), (4, 4, 4), (1, 9, 1), (8, 8, 1), (1, 8, 8)):
        for batch in (5, 67):
            a, b = numbers(dtype, batch, m, k), numbers(dtype, batch, k, n)
            check("batch", dtype, lambda n, a, b: n.matmul(a, b), a, b)
            check("batch_turned", dtype, lambda n, a, b: n.einsum("bji,bkj->bik", a, b), a.swapaxes(1, 2), b.swapaxes(1, 2))
    for k, n in ((1, 2), (2, 1), (3, 3), (4, 4), (5, 7), (8, 16), (16, 5)):
        for m in (40, 301):
            a, b = numbers(dtype, m, k), numbers(dtype, k, n)
            check("rows", dtype, lambda n, a, b: a @ b, a, b)
            check("rows_turned", dtype, lambda n, a, b: a.T @ b.T, a.T.copy(), b.T.copy())
            check("columns", dtype, lambda n, a, b: b @ a, a.T.copy(), b.T.copy())
            check("columns_turned", dtype, lambda n, a, b: b.T @ a.T, a, b)
            check("tall", dtype, lambda n, a, b: a.T @ b, a, numbers(dtype, m, n))
            check("pairs", dtype, lambda n, a, b: n.einsum("mi,ij->jm", a, b), a, b)
for k, m, n in ((64, 1, 2), (65, 3, 5), (1001, 7, 7), (20003, 16, 16), (50001, 5, 3)):
    for dtype in ("float32", "float64"):
        check("long", dtype, lambda n, a, b: a.T @ b, numbers(dtype, k, m), numbers(dtype, k, n))
x = numbers("float32", 50, 4)
f = lambda n, a, x: x @ a.T
check("loop", "float32", lambda n, a, x: f(n, a, f(n, a, x)), numbers("float32", 4, 4) / 2, x)
turn = jax.jit(lambda a, x: jax.lax.fori_loop(0, 20, lambda i, x: x @ a.T, x))
a = np.linalg.qr(numbers("float64", 4, 4))[0].astype(np.float32)
want = x.astype(np.float64) @ np.linalg.matrix_power(a.astype(np.float64), 20).T
assert np.allclose(turn(a, x), want, atol=1e-4)
"""


@pytest.mark.parametrize("body", [ROWS, PRODUCTS], ids=["rows", "products"])
def test_short_rows(body):
    done = run(HEADER + body, timeout=600, JAX_PLATFORMS="weft")
    assert done.returncode == 0, done.stderr[-2000:]

"""Pallas on Weft without `interpret=True`: kernels, grids, blocks, under vmap and grad, beside NumPy."""

import os
import sys

import pytest
import weft_jax

if not weft_jax.LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)
os.environ.update(JAX_PLATFORMS="weft", WEFT_LIBRARY=str(weft_jax.LIBRARY))
sys.path.insert(0, str(weft_jax.ROOT / "python"))
pytest.importorskip("jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def add(x, y):
    def kernel(x, y, out):
        out[...] = x[...] + y[...]

    return pl.pallas_call(kernel, out_shape=like(x))(x, y)


def matmul(a, b, m=16, n=8, k=4):
    """In blocks, summed over the innermost dimension of the grid."""
    def kernel(a, b, out):
        @pl.when(pl.program_id(2) == 0)
        def _():
            out[...] = jnp.zeros_like(out)

        out[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

    rows, inner, columns = *a.shape, b.shape[1]
    return pl.pallas_call(
        kernel, grid=(rows // m, columns // n, inner // k),
        in_specs=[pl.BlockSpec((m, k), lambda i, j, l: (i, l)),
                  pl.BlockSpec((k, n), lambda i, j, l: (l, j))],
        out_specs=pl.BlockSpec((m, n), lambda i, j, l: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), jnp.float32))(a, b)


@pytest.fixture(autouse=True, scope="module")
def on_weft():
    assert jax.default_backend() == "weft"


def test_vector_add():
    x, y = random(1000), random(1000)
    np.testing.assert_array_equal(add(x, y), x + y)
    np.testing.assert_array_equal(jax.jit(add)(x, y), x + y)


def test_matmul_in_blocks():
    a, b = random(32, 12), random(12, 24)
    np.testing.assert_allclose(jax.jit(matmul)(a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_grid_with_program_ids():
    def kernel(out):
        i, j = pl.program_id(0), pl.program_id(1)
        out[...] = jnp.full(out.shape, i * pl.num_programs(1) + j, jnp.int32)

    f = pl.pallas_call(kernel, grid=(3, 2), out_specs=pl.BlockSpec((2, 4), lambda i, j: (i, j)),
                       out_shape=jax.ShapeDtypeStruct((6, 8), jnp.int32))
    expected = np.repeat(np.repeat(np.arange(6).reshape(3, 2), 2, 0), 4, 1)
    np.testing.assert_array_equal(f(), expected)


def test_blocks_that_do_not_divide():
    def kernel(x, out):
        out[...] = x[...] * 2

    x = random(10, 7)
    block = pl.BlockSpec((4, 3), lambda i, j: (i, j))
    f = pl.pallas_call(kernel, grid=(3, 3), in_specs=[block], out_specs=block, out_shape=like(x))
    np.testing.assert_array_equal(f(x), x * 2)


def test_loop_in_a_kernel():
    def kernel(x, out):
        def body(i, total):
            return total + x[i]

        out[0] = jax.lax.fori_loop(0, x.shape[0], body, jnp.float32(0))

    x = random(50)
    total = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1,), jnp.float32))(x)
    np.testing.assert_allclose(total[0], x.sum(), rtol=1e-5)


def test_vmap():
    x, y = random(5, 20), random(20)
    np.testing.assert_array_equal(jax.vmap(add, (0, None))(x, y), x + y)
    a, b = random(3, 16, 8), random(3, 8, 8)
    np.testing.assert_allclose(jax.vmap(matmul)(a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_jvp():
    def kernel(x, out):
        out[...] = jnp.sin(x[...])

    x = random(9)
    f = pl.pallas_call(kernel, out_shape=like(x))
    value, tangent = jax.jvp(f, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(value, np.sin(x), rtol=1e-5)
    np.testing.assert_allclose(tangent, np.cos(x), rtol=1e-5)


def test_grad_of_a_kernel_with_its_own_rule():
    @jax.custom_vjp
    def product(a, b):
        return matmul(a, b, 4, 4, 4)

    product.defvjp(lambda a, b: (product(a, b), (a, b)),
                   lambda kept, g: (product(g, kept[1].T), product(kept[0].T, g)))
    a, b = random(8, 4), random(4, 8)
    ours = jax.jit(jax.grad(lambda a, b: (product(a, b) ** 2).sum(), (0, 1)))(a, b)
    theirs = jax.grad(lambda a, b: ((a @ b) ** 2).sum(), (0, 1))(jnp.asarray(a), jnp.asarray(b))
    for mine, other in zip(ours, theirs):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


def test_said_or_not_it_is_the_same_program():
    def kernel(x, out):
        out[...] = jnp.exp(x[...])

    texts = {jax.jit(pl.pallas_call(kernel, out_shape=like(jnp.ones(4)), interpret=said, name="k")).lower(
        jnp.ones(4)).as_text() for said in (True, False)}
    assert len(texts) == 1

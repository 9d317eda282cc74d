"""Products of block-scaled numbers: JAX's functions for them against sums in f64."""

import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

FORMATS = {
    "mxfp8": (jnp.float8_e4m3fn, jnp.float8_e8m0fnu, 32),
    "mxfp8 e5m2": (jnp.float8_e5m2, jnp.float8_e8m0fnu, 32),
    "mxfp4": (jnp.float4_e2m1fn, jnp.float8_e8m0fnu, 32),
    "nvfp4": (jnp.float4_e2m1fn, jnp.float8_e4m3fn, 16),
}


def numbers(rng, shape, data, scale, block):
    x = (rng.standard_normal(shape) * 2).astype(np.float32)
    scales = np.exp2(rng.integers(-3, 4, (*shape[:-1], shape[-1] // block))).astype(np.float32)
    x, scales = jnp.asarray(x).astype(data), jnp.asarray(scales).astype(scale)
    exact = np.asarray(x.astype(jnp.float32), np.float64) * np.repeat(
        np.asarray(scales.astype(jnp.float32), np.float64), block, axis=-1)
    return x, scales, exact


@pytest.mark.parametrize("result", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("name", FORMATS)
def test_scaled_matmul(name, result):
    data, scale, block = FORMATS[name]
    rng = np.random.default_rng(0)
    a, a_scale, a_exact = numbers(rng, (2, 24, 128), data, scale, block)
    b, b_scale, b_exact = numbers(rng, (2, 40, 128), data, scale, block)
    multiply = functools.partial(jax.nn.scaled_matmul, preferred_element_type=result)
    got = jax.jit(multiply)(a, b, a_scale, b_scale)
    want = np.einsum("bmk,bnk->bmn", a_exact, b_exact)
    assert got.dtype == result
    np.testing.assert_allclose(np.asarray(got, np.float64), want,
                               rtol=1e-5 if result == jnp.float32 else 1e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["mxfp8", "mxfp4"])
def test_scaled_dot(name):
    if not hasattr(jax.lax, "scaled_dot"):
        pytest.skip("this jax has no lax.scaled_dot")
    data, scale, block = FORMATS[name]
    rng = np.random.default_rng(1)
    a, a_scale, a_exact = numbers(rng, (8, 64), data, scale, block)
    b = jnp.asarray(rng.standard_normal((64, 16)), jnp.bfloat16)
    got = jax.jit(lambda a, s, b: jax.lax.scaled_dot(
        a, b, lhs_scale=s, preferred_element_type=jnp.float32))(a, a_scale, b)
    want = a_exact @ np.asarray(b, np.float64)
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("mode, tolerance", [("mxfp8", 0.1), ("nvfp4", 0.3)])
def test_scaled_dot_general_and_its_gradient(mode, tolerance):
    rng = np.random.default_rng(2)
    a = jnp.asarray(rng.standard_normal((2, 64, 64)), jnp.float32)
    b = jnp.asarray(rng.standard_normal((2, 32, 64)), jnp.float32)
    configs = [jax.nn.get_scaled_dot_general_config(mode)] * 3

    def multiply(a, b):
        return jax.nn.scaled_dot_general(a, b, (((2,), (2,)), ((0,), (0,))),
                                         preferred_element_type=jnp.float32, configs=configs)

    want = jnp.einsum("bmk,bnk->bmn", a, b)
    assert jnp.abs(jax.jit(multiply)(a, b) - want).max() <= tolerance * jnp.abs(want).max()
    gradient = jax.jit(jax.grad(lambda a: multiply(a, b).sum()))(a)
    exact = jnp.broadcast_to(b.sum(1, keepdims=True), a.shape)
    assert jnp.abs(gradient - exact).max() <= tolerance * jnp.abs(exact).max()


@pytest.mark.parametrize("rows_first", [True, False])
@pytest.mark.parametrize("scale, block", [(jnp.float8_e8m0fnu, 32), (jnp.float8_e4m3fn, 16), (jnp.bfloat16, 64), (jnp.float32, 128)])
@pytest.mark.parametrize("data", [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float4_e2m1fn, jnp.int8, jnp.int4])
def test_large_weights_written_as_a_formula(data, scale, block, rows_first):
    """Weights that are converted and scaled where they are multiplied: large enough for the library's own reading of them."""
    n, k, m = 512, 1024, 19
    rng = np.random.default_rng(3)
    x = jnp.asarray(rng.standard_normal((m, k)), jnp.bfloat16)
    integers = data in (jnp.int8, jnp.int4)
    w = rng.integers(-8, 8, (n, k)) if integers else rng.standard_normal((n, k)).astype(np.float32)
    w = np.asarray(w).astype(data)
    s = np.exp2(rng.integers(-4, 5, (n, k // block))).astype(scale)
    exact = w.astype(np.float64) * np.repeat(s.astype(np.float64), block, axis=1)

    def multiply(x, w, s):
        wide, s = w.astype(jnp.bfloat16), s.astype(jnp.bfloat16)
        if rows_first:
            weights = (wide.reshape(n, k // block, block) * s[:, :, None]).reshape(n, k).T
        else:
            weights = (wide.reshape(k // block, block, n) * s[:, None, :]).reshape(k, n)
        return jax.lax.dot(x, weights, preferred_element_type=jnp.float32)

    got = jax.jit(multiply)(x, *((w, s) if rows_first else (w.T.copy(), s.T.copy())))
    want = np.asarray(x, np.float64) @ exact.T
    assert np.abs(np.asarray(got, np.float64) - want).max() <= 2e-6 * np.abs(want).max()

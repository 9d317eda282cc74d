"""Programs on several devices: each of them runs native code, and they meet at collectives."""

import textwrap

import pytest
import weft_jax

if not weft_jax.LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)
pytest.importorskip("jax")

START = """
import jax, jax.numpy as jnp, numpy as np
from functools import partial
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
on_mesh = partial(jax.shard_map, mesh=mesh)
"""


def run(code, devices=4):
    """Nothing that the code runs falls back to the evaluator."""
    done = weft_jax.run(START + textwrap.dedent(code), JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=devices,
                        WEFT_CACHE="0", WEFT_DEBUG="compile=1")
    assert done.returncode == 0, done.stderr[-4000:]
    assert "the evaluator runs it" not in done.stderr, done.stderr[-4000:]
    return done.stdout


def test_collectives_of_shard_map():
    run("""
        x = np.arange(32, dtype=np.float32).reshape(8, 4)
        blocks = x.reshape(4, 2, 4)

        def check(f, expected, out_specs=P("x")):
            got = jax.jit(on_mesh(f, in_specs=P("x"), out_specs=out_specs, check_vma=False))(x)
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)

        check(lambda b: lax.psum(b, "x"), blocks.sum(0), P())
        check(lambda b: lax.pmax(b, "x"), blocks.max(0), P())
        check(lambda b: lax.pmean(b, "x"), blocks.mean(0), P())
        check(lambda b: lax.all_gather(b, "x", axis=1, tiled=True), np.concatenate(blocks, 1), P())
        check(lambda b: lax.psum_scatter(b, "x", scatter_dimension=1, tiled=True), blocks.sum(0).T.reshape(4, 1, 2).transpose(0, 2, 1).reshape(8, 1))
        check(lambda b: lax.all_to_all(b, "x", 1, 0, tiled=True), x.T.reshape(4, 1, 8).transpose(0, 2, 1).reshape(32, 1))
        check(lambda b: lax.ppermute(b, "x", [(i, (i + 1) % 4) for i in range(4)]), np.roll(blocks, 1, 0).reshape(8, 4))
        check(lambda b: b + lax.axis_index("x").astype(b.dtype), (blocks + np.arange(4, dtype=np.float32)[:, None, None]).reshape(8, 4))
        check(lambda b: lax.psum(b, "x", axis_index_groups=[[0, 2], [1, 3]]), (blocks + blocks[[2, 3, 0, 1]]).reshape(8, 4))
    """)


def test_collectives_in_loops():
    run("""
        def power(a, v):
            def step(v, _):
                w = lax.all_gather(a @ v, "x", tiled=True)
                return w / jnp.sqrt(jnp.sum(w * w)), None
            return lax.scan(step, v, length=20)[0]

        a = np.diag(np.arange(1, 9)).astype(np.float32)
        v = jax.jit(on_mesh(power, in_specs=(P("x"), P()), out_specs=P(), check_vma=False))(a, np.ones(8, np.float32))
        assert abs(np.asarray(v)[-1] - 1) < 1e-2
    """)


def test_training_step():
    run("""
        def loss(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        @jax.jit
        @partial(on_mesh, in_specs=(P(), P("x"), P("x")), out_specs=(P(), P()), check_vma=False)
        def step(w, x, y):
            l, g = jax.value_and_grad(loss)(w, x, y)
            return w - 0.1 * lax.pmean(g, "x"), lax.pmean(l, "x")

        rng = np.random.default_rng(0)
        w, x, y = (rng.standard_normal(s).astype(np.float32) for s in [(8, 3), (16, 8), (16, 3)])
        got, l = step(w, x, y)
        want = w - 0.1 * np.asarray(jax.grad(loss)(w, x, y))
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)
    """)


def test_parts_of_a_program_in_whole_shapes():
    run("""
        x = jax.device_put(np.arange(16, dtype=np.float32), NamedSharding(mesh, P("x")))

        @jax.jit
        def f(x):
            y = jnp.sin(x) + x.sum()
            z = on_mesh(lambda b: b - lax.pmax(b, "x"), in_specs=P("x"), out_specs=P("x"))(y)
            return z * 2, jnp.cumsum(z)

        y = np.sin(np.arange(16)) + 120
        z = y - y.reshape(4, 4).max(0)[None].repeat(4, 0).reshape(16)
        a, b = f(x)
        np.testing.assert_allclose(np.asarray(a), 2 * z, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(np.asarray(b), np.cumsum(z), rtol=1e-4, atol=1e-3)
    """)


def test_pmap():
    run("""
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        got = jax.pmap(lambda v: v / lax.psum(v, "i"), axis_name="i")(x)
        np.testing.assert_allclose(np.asarray(got), x / x.sum(0), rtol=1e-6)
    """)


def test_a_device_that_fails_releases_the_others():
    run("""
        from jax.experimental import io_callback

        def fail(i):
            if i == 2: raise ValueError("device two has had enough")
            return np.float32(i)

        @jax.jit
        @partial(on_mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        def f(x):
            y = io_callback(fail, jax.ShapeDtypeStruct((), np.float32), lax.axis_index("x"))
            return lax.psum(x + y, "x")

        try:
            jax.block_until_ready(f(np.ones(4, np.float32)))
            raise SystemExit("no error")
        except Exception as e:
            assert "had enough" in str(e), e
        assert float(jax.jit(jnp.sum)(jnp.ones(3))) == 3
    """)

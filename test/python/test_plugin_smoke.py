"""JAX on the plugin's shared library alone, without the Python package: what works from the first
`jax.devices()` on. Each test is a process of its own."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

jax = pytest.importorskip("jax")

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("WEFT_PLUGIN", ROOT / "build" / "libpjrt_weft.so"))

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")


def run(program, **environment):
    """Runs Python code in a process where JAX's platform is the plugin; its output."""
    env = dict(os.environ, PJRT_NAMES_AND_LIBRARY_PATHS=f"weft:{LIBRARY}", JAX_PLATFORMS="weft,cpu",
               WEFT_CACHE="0", **environment)
    prelude = ("import warnings, logging; logging.disable(logging.WARNING)\n"
               "import jax, jax.numpy as jnp, numpy as np\n")
    done = subprocess.run([sys.executable, "-c", prelude + textwrap.dedent(program)], env=env,
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_devices():
    out = run("""
        print([d.platform for d in jax.devices()], [d.id for d in jax.devices()])
        print(sorted(m.kind for m in jax.devices()[0].addressable_memories()))
    """, WEFT_CPU_DEVICES="4")
    assert "['weft', 'weft', 'weft', 'weft'] [0, 1, 2, 3]" in out
    assert "device" in out


def test_jit():
    run("""
        y = jax.jit(lambda x: x * 2 + 1)(jnp.arange(8.))
        assert (np.asarray(y) == np.arange(8.) * 2 + 1).all(), y
        assert y.devices() == {jax.devices()[0]}
    """)


def test_transformations():
    run("""
        f = lambda x: jnp.sum(jnp.sin(x) ** 2)
        x = jnp.linspace(0., 1., 5)
        np.testing.assert_allclose(jax.grad(f)(x), np.sin(2 * np.linspace(0., 1., 5)), rtol=1e-5)
        np.testing.assert_allclose(jax.vmap(lambda v: v @ v)(jnp.ones((3, 4))), [4., 4., 4.])
        _, ys = jax.lax.scan(lambda c, v: (c + v, c), 0., jnp.arange(5.))
        np.testing.assert_allclose(ys, [0., 0., 1., 3., 6.])
        assert jax.lax.while_loop(lambda i: i < 10, lambda i: i + 3, 0) == 12
        assert jax.lax.cond(True, lambda: 1, lambda: 2) == 1
        k = jax.random.key(0)
        assert jax.random.uniform(k, (3,)).shape == (3,)
    """)


def test_arrays_come_and_go():
    run("""
        for dtype in ["float32", "int8", "uint16", "bool", "complex64", "bfloat16", "float8_e4m3fn",
                      "int4"]:
            a = jnp.ones((2, 3), dtype)
            assert a.dtype == dtype and np.asarray(a).shape == (2, 3)
            assert (np.asarray(a) == np.ones((2, 3), a.dtype)).all(), dtype
        t = np.arange(6, dtype=np.float32).reshape(2, 3).T
        assert (np.asarray(jax.device_put(t)) == t).all()
        empty = jnp.zeros((0, 3))
        assert np.asarray(empty).shape == (0, 3)
        a = jnp.arange(3.)
        a.delete()
        try:
            np.asarray(a)
            raise SystemExit("a deleted array was read")
        except RuntimeError:
            pass
    """)


def test_several_devices():
    run("""
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        d = jax.devices()
        a = jax.device_put(jnp.arange(4.), d[2])
        assert a.devices() == {d[2]}
        assert (a + 1).devices() == {d[2]}
        mesh = Mesh(np.array(d), ("x",))
        s = jax.device_put(jnp.arange(8.), NamedSharding(mesh, P("x")))
        assert len(s.addressable_shards) == 4
        assert (np.asarray(s) == np.arange(8.)).all()
    """, WEFT_CPU_DEVICES="4")


def test_errors_reach_python():
    run("""
        try:
            jax.jit(lambda x: jax.lax.linalg.schur(x))(jnp.eye(3))
        except Exception as e:
            assert str(e)
        y = jnp.ones(3) + 1   # and the client still works
        assert np.asarray(y).sum() == 6
    """)


def test_ahead_of_time():
    run("""
        compiled = jax.jit(lambda x: x @ x).lower(jnp.ones((4, 4))).compile()
        assert (np.asarray(compiled(jnp.ones((4, 4)))) == 4).all()
        assert "dot" in compiled.as_text()
        assert compiled.cost_analysis()["flops"] >= 64
        assert compiled.memory_analysis().argument_size_in_bytes == 64
    """)


def test_serialization():
    run("""
        from jax.experimental import serialize_executable as se
        compiled = jax.jit(lambda x: x + 1).lower(jnp.ones(4)).compile()
        loaded = se.deserialize_and_load(*se.serialize(compiled))
        assert (np.asarray(loaded(jnp.ones(4))) == 2).all()
    """)

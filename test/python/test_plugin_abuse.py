"""What programs should not do: each gets a clear error and an end, never an abort or a hang."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest
import weft_jax

pytest.importorskip("jax")
if not weft_jax.LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

PRELUDE = """
import os, signal, sys, threading, time
import jax, jax.numpy as jnp, numpy as np
assert jax.default_backend() == "weft"

def error(fn, *needles, kind=Exception):
    try:
        fn()
    except kind as e:
        for needle in needles:
            assert needle.lower() in str(e).lower(), (needle, str(e))
        return e
    raise SystemExit(f"no error, expected one that says {needles}")

def works():
    assert float(jax.jit(lambda x: x * 2)(jnp.float32(3))) == 6

endless = jax.jit(lambda x: jax.lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] * 0 + 1, c[1] + 1), (jnp.int32(0), x)))
"""
PATHS = f"{weft_jax.ROOT / 'python'}:{weft_jax.ROOT / 'test' / 'tree'}"


def start(program, **variables):
    env = weft_jax.environment(JAX_PLATFORMS="weft", WEFT_CACHE="0", PYTHONPATH=PATHS, **variables)
    return subprocess.Popen([sys.executable, "-c", PRELUDE + textwrap.dedent(program)], env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(program, seconds=120, code=0, **variables):
    """The output of Python code in a process of its own, which must end in time with this code."""
    process = start(program, **variables)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"hangs: {out}{err}")
    assert process.returncode == code, f"{process.returncode}: {out}{err}"
    return out + err


def test_wrong_arguments():
    run("""
        compiled = jax.jit(lambda x, y: x @ y).lower(jnp.ones((3, 4)), jnp.ones((4, 2))).compile()
        error(lambda: compiled(jnp.ones((4, 3)), jnp.ones((4, 2))), "compiled")
        error(lambda: compiled(jnp.ones((3, 4), jnp.int32), jnp.ones((4, 2))), "int32")
        error(lambda: compiled(jnp.ones((3, 4))))
        # Behind JAX's own checks.
        executable = compiled.runtime_executable()
        x, y = jnp.ones((3, 4)), jnp.ones((4, 2))
        error(lambda: executable.execute_sharded([x]), "1 arguments", "2 parameters")
        error(lambda: executable.execute_sharded([y, x]), "argument 0", "f32[4,2]", "f32[3,4]")
        error(lambda: executable.execute_sharded([x.astype(jnp.int32), y]), "s32[3,4]")
        works()
    """)


def test_deleted_and_donated_arrays():
    run("""
        x = jnp.arange(4.)
        x.delete()
        error(lambda: x + 1, "deleted")
        error(lambda: np.asarray(x), "deleted")
        f = jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))
        y = jnp.arange(4.)
        error(lambda: f(y, y), "twice")
        z, w = jnp.arange(4.), jnp.arange(4.)
        f(z, w)
        error(lambda: f(z, w), "deleted")
        error(lambda: z + 1, "deleted")
        # Deleted while a program that reads it is on its way.
        big = jnp.ones((300, 300))
        r = jax.jit(lambda v: v @ v @ v)(big)
        big.delete()
        assert np.asarray(r)[0, 0] == 90000
        works()
    """)


def test_too_much_memory():
    run("""
        for make in (lambda: jnp.zeros((1 << 40,)), lambda: jnp.ones((1 << 30, 1 << 12)),
                     lambda: jax.jit(lambda x: jnp.outer(x, x) @ x)(jnp.ones(1 << 21)),
                     lambda: jnp.broadcast_to(jnp.ones(3), (1 << 40, 3)) + 1):
            e = error(lambda: jax.block_until_ready(make()), "RESOURCE_EXHAUSTED", "bytes", "hint")
            print(str(e)[:300])
        error(lambda: jnp.zeros((1 << 60,)).block_until_ready())   # jaxlib itself aborts at 2^63 bytes
        works()
    """)


def test_small_memory_limit():
    run("""
        held = jnp.ones(1 << 20)     # 4 of 16 MB
        e = error(lambda: jax.block_until_ready(jnp.ones(1 << 22)), "RESOURCE_EXHAUSTED", "WEFT_MEMORY_LIMIT")
        error(lambda: jax.device_put(np.ones((2, 1 << 22), np.float32).T), "RESOURCE_EXHAUSTED")
        del held
        for _ in range(50):
            jax.block_until_ready(jnp.ones(1 << 20) + 1)
        works()
    """, WEFT_MEMORY_LIMIT=16 << 20)


def test_endless_loop_at_exit():
    started = time.monotonic()
    run("""
        y = endless(jnp.float32(0))
        time.sleep(0.2)
        print("ending")
    """, seconds=60)
    assert time.monotonic() - started < 60


def test_endless_loop_and_clear_backends():
    run("""
        y = endless(jnp.float32(0))
        time.sleep(0.1)
        z = y[1] + 1
        del y, z
        jax.clear_caches()
        import jax.extend
        jax.extend.backend.clear_backends()
        works()
    """, seconds=60)


def test_interrupt():
    process = start("""
        print("running", flush=True)
        try:
            jax.block_until_ready(endless(jnp.float32(0)))
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert process.stdout.readline() == "running\n"
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=5)
        assert process.returncode in (0, 1, -signal.SIGINT, 128 + signal.SIGINT)
    except subprocess.TimeoutExpired:
        # JAX waits without looking at signals, on every platform: the default action must end it.
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == -signal.SIGTERM


def test_callbacks_that_fail():
    run("""
        def bad(x):
            raise ValueError("no such thing")
        shape = jax.ShapeDtypeStruct((2,), jnp.float32)
        f = jax.jit(lambda x: jax.pure_callback(bad, shape, x) + 1)
        for _ in range(3):
            error(lambda: jax.block_until_ready(f(jnp.ones(2))), "no such thing")
        g = jax.jit(lambda x: jax.pure_callback(lambda v: np.ones(7, np.float32), shape, x))
        error(lambda: jax.block_until_ready(g(jnp.ones(2))), "shape")
        h = jax.jit(lambda x: jax.pure_callback(lambda v: sys.exit(3), shape, x))
        error(lambda: jax.block_until_ready(h(jnp.ones(2))), "SystemExit")
        # The error goes with what depends on it, and no further.
        error(lambda: np.asarray(f(jnp.ones(2)) * 2), "no such thing")   # at the call, or later
        works()
    """)


def test_callback_that_calls_jitted_code_on_one_thread():
    run("""
        inner = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda i, v: v + 1, x))
        shape = jax.ShapeDtypeStruct((2,), jnp.float32)
        def call(x):
            return np.asarray(inner(jnp.asarray(x)))
        f = jax.jit(lambda x: jax.pure_callback(call, shape, x) + 1)
        def deeper(x):
            return np.asarray(f(jnp.asarray(x)))
        g = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, v: jax.pure_callback(deeper, shape, v), x))
        ys = [g(jnp.ones(2)) for _ in range(5)]
        assert all(np.asarray(y).tolist() == [34., 34.] for y in ys), ys
    """, WEFT_THREADS=1)


def test_many_threads():
    run("""
        f = jax.jit(lambda x, y: jnp.sin(x) @ y + 1)
        x, failures = jnp.ones((32, 32)), []
        expected = np.asarray(f(x, x))
        def work(n):
            try:
                for i in range(60):
                    y = f(x, x)
                    if i % 3 == 0:
                        g = jax.jit(lambda v: v * n + i, donate_argnums=0)
                        g(y + 0)
                    assert (np.asarray(y) == expected).all()
            except BaseException as e:
                failures.append(e)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failures, failures
    """)


def test_fork():
    run("""
        import warnings
        warnings.simplefilter("ignore")
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda i, v: v + x, x))
        jax.block_until_ready(f(jnp.ones(3)))
        pid = os.fork()
        if pid == 0:     # a child that does something else, then leaves
            os._exit(7)
        assert os.waitpid(pid, 0)[1] == 7 << 8
        pid = os.fork()
        if pid == 0:     # a child that goes on with JAX
            signal.alarm(30)
            ok = np.asarray(f(jnp.ones(3))).tolist() == [11., 11., 11.]
            os._exit(0 if ok else 1)
        status = os.waitpid(pid, 0)[1]
        assert status == 0, status
        works()
    """)


def test_pickling():
    run("""
        import pickle, copy
        x = jnp.arange(5, dtype=jnp.bfloat16)
        y = pickle.loads(pickle.dumps(x))
        assert y.dtype == x.dtype and (np.asarray(y) == np.asarray(x)).all()
        assert (copy.deepcopy(x) == x).all()
        compiled = jax.jit(lambda x: x + 1).lower(x).compile()
        error(lambda: pickle.dumps(compiled.runtime_executable()))
        error(lambda: pickle.dumps(jax.devices()[0].client))
        works()
    """)


def test_exit_with_work_in_flight():
    run("""
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda i, v: jnp.sin(v @ v), x))
        shape = jax.ShapeDtypeStruct((100, 100), jnp.float32)
        g = jax.jit(lambda x: jax.pure_callback(lambda v: (time.sleep(0.05), v)[1], shape, x))
        x = jnp.ones((100, 100))
        for _ in range(20):
            x = g(f(x))
        threading.Thread(target=lambda: [f(x) for _ in range(50)], daemon=True).start()
        time.sleep(0.3)
        sys.exit(0)
    """, seconds=60)


def test_exit_in_the_middle():
    out = run("""
        x = endless(jnp.float32(0))
        raise RuntimeError("the program's own error")
    """, seconds=60, code=1)
    assert "the program's own error" in out


def test_bad_programs_and_options():
    run("""
        from jax._src.lib import xla_client as xc
        client, device = jax.devices()[0].client, jax.devices()[0]
        text = jax.jit(lambda x: x + 1).lower(jnp.ones(3)).as_text()
        options = xc.CompileOptions()
        devices = xc.DeviceList((device,))
        for code in (b"", b"ML\\xefR", b"ML\\xefR" + b"\\xff" * 100, text[:len(text) // 2].encode(),
                     text.replace("3xf32", "3xf99").encode(), b"module {}", os.urandom(5000)):
            error(lambda: client.compile_and_load(code, devices, options))
        error(lambda: jax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile(compiler_options={"no_such": 1}), "no_such")
        error(lambda: client.deserialize_executable(b"garbage", devices, options))
        works()
    """)


def test_strange_devices_and_sizes():
    run("""
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()), ("x",))
        error(lambda: jax.device_put(jnp.ones(5), NamedSharding(mesh, P("x"))), "divide")
        a = jax.device_put(jnp.ones(4), jax.devices()[0])
        b = jax.device_put(jnp.ones(4), jax.devices()[1])
        error(lambda: a + b, "devices")
        assert jnp.zeros((0, 1 << 40)).shape == (0, 1 << 40)
        assert np.asarray(jnp.zeros((0, 5)) @ jnp.zeros((5, 0))).shape == (0, 0)
        deep = jnp.ones((1,) * 60)
        assert deep.ndim == 60
        x = jnp.float32(0)
        for _ in range(3000):     # a long chain that nobody waits for
            x = x + 1
        assert float(x) == 3000
    """, WEFT_CPU_DEVICES=2)


def test_memory_stays_flat():
    """Compile, execute, forget; WEFT_CYCLES=2000 for the long run."""
    out = run("""
        import gc
        def resident():
            gc.collect()
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
        count = int(os.environ.get("WEFT_CYCLES", 120))
        x, before = jnp.ones(16), None
        for i in range(count):
            f = jax.jit(lambda v, n=i: jax.lax.fori_loop(0, 3, lambda k, w: w * 2 + n, v).sum(), donate_argnums=0)
            assert float(f(x + 1)) == 16 * (16 + 7 * i)
            if i % 20 == 19:
                jax.clear_caches()
            if i == count // 3:
                before = resident()
        jax.clear_caches()
        grown = resident() - before
        print(f"{count} cycles: {before:.1f} MB after a third, {grown:+.1f} MB since")
        assert grown < 8, grown
    """, seconds=800)
    print(out)

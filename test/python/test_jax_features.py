"""What JAX reserves for its own platforms, on `weft`: donation, callbacks, linalg, FFI, DLPack, cache."""

import gc
import os
import sys
import threading

import pytest
import weft_jax

if not weft_jax.LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)
os.environ.update(JAX_PLATFORMS="weft", WEFT_LIBRARY=str(weft_jax.LIBRARY))
sys.path.insert(0, str(weft_jax.ROOT / "python"))
pytest.importorskip("jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import checkify, io_callback  # noqa: E402
from jax.experimental.buffer_callback import buffer_callback  # noqa: E402

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True, scope="module")
def on_weft():
    assert jax.default_backend() == "weft"


def matrix(*shape, dtype=np.float32):
    a = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * RNG.standard_normal(shape)
    return a.astype(dtype)


def close(actual, expected, tolerance=2e-4):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=tolerance, atol=tolerance)


# Donation.


def test_donated_argument_is_deleted():
    x = jnp.arange(8.0)
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    close(y, np.arange(8.0) + 1)


@pytest.mark.parametrize("size", [1, 3, 1000, 100_000])
def test_result_takes_the_place_of_the_donated_argument(size):
    x, y = (jax.device_put(np.full(size, k, np.float32)) + 0 for k in (1, 2))
    places = [x.unsafe_buffer_pointer(), y.unsafe_buffer_pointer()]
    a, b = jax.jit(lambda x, y: (x + y, y * 2), donate_argnums=(0, 1))(x, y)
    assert [a.unsafe_buffer_pointer(), b.unsafe_buffer_pointer()] == places
    np.testing.assert_array_equal(a, np.full(size, 3, np.float32))
    np.testing.assert_array_equal(b, np.full(size, 4, np.float32))


def test_donated_memory_that_another_array_shares_stays_as_it_is():
    x = jax.device_put(np.arange(4, dtype=np.float32)) + 0
    seen = np.asarray(x)
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(seen, np.arange(4))
    np.testing.assert_array_equal(y, np.arange(4) + 1)


@pytest.mark.parametrize("size", [4, 100_000])
def test_donated_arguments_that_trade_places(size):
    x, y = (jax.device_put(np.full(size, k, np.float32)) + 0 for k in (1, 2))
    a, b = jax.jit(lambda x, y: (y, x), donate_argnums=(0, 1))(x, y)
    assert (float(a[0]), float(b[0])) == (2, 1)
    assert a.unsafe_buffer_pointer() != b.unsafe_buffer_pointer()


# Host callbacks.


def test_callbacks_of_a_thread_share_its_state():
    """Python's state of a thread of the plugin outlives a callback: what JAX keeps for each thread is made once."""
    here, counts = threading.local(), []

    def count(x):
        here.count = getattr(here, "count", 0) + 1
        counts.append((threading.get_ident(), here.count))
        return x

    jax.block_until_ready(jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, x: jax.pure_callback(count, x, x) + 1, x))(jnp.float32(0)))
    for thread in {thread for thread, _ in counts}:
        of_it = [n for other, n in counts if other == thread]
        assert of_it == list(range(1, len(of_it) + 1)), counts


def test_pure_callback():
    f = jax.jit(lambda x: jax.pure_callback(np.sin, x, x) + 1)
    x = matrix(3, 4)
    close(f(x), np.sin(x) + 1)
    close(jax.pure_callback(np.sin, x, x), np.sin(x))


@pytest.mark.parametrize("dtype", [
    np.bool_, np.int8, np.uint16, np.int32, np.float16, np.float32, np.complex64,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4,
    ml_dtypes.uint4], ids=lambda dtype: np.dtype(dtype).name)
def test_callback_dtypes(dtype):
    x = jnp.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    seen = []

    def identity(a):
        seen.append(a)
        return np.asarray(a)

    y = jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(identity, x, x))(x))
    assert y.dtype == x.dtype and seen[0].dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y).astype(np.complex64), np.asarray(x).astype(np.complex64))


def test_callback_results_and_scalars():
    shapes = (jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((0, 2), np.float32))
    a, b = jax.jit(lambda x: jax.pure_callback(
        lambda x: (np.int32(x) + 1, np.zeros((0, 2), np.float32)), shapes, x))(41)
    assert int(a) == 42 and b.shape == (0, 2)


def test_callback_raises():
    def bad(x):
        raise ValueError("not today")

    with pytest.raises(Exception, match="(?s)bad.*not today"):
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(bad, x, x))(jnp.ones(3)))


@pytest.mark.parametrize("value, message", [
    (lambda x: np.zeros(4, np.float32), "Incorrect output shape for return value #0"),
    (lambda x: np.zeros(3, np.int32), "Incorrect output dtype for return value #0"),
    (lambda x: (x, x), "Mismatched number of outputs"),
])
def test_callback_returns_the_wrong_thing(value, message):
    with pytest.raises(Exception, match=message):
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(value, x, x))(jnp.ones(3)))


def test_callback_runs_jitted_code():
    g = jax.jit(lambda x: x * 2)
    f = jax.jit(lambda x: jax.pure_callback(lambda x: np.asarray(g(x)), x, x))
    x = jnp.arange(3.0)
    for _ in range(20):
        x = f(x) / 2
    close(x, np.arange(3.0))


def test_callback_runs_a_callback():
    inner = jax.jit(lambda x: jax.pure_callback(np.cos, x, x))
    f = jax.jit(lambda x: jax.pure_callback(lambda x: np.asarray(inner(x)), x, x))
    close(f(jnp.ones(2)), np.cos(np.ones(2)))


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_callback_under_vmap(method):
    x = matrix(3, 2)
    f = jax.vmap(lambda x: jax.pure_callback(np.sin, x, x, vmap_method=method))
    close(jax.jit(f)(x), np.sin(x))


def test_callback_with_gradient():
    @jax.custom_jvp
    def sin(x):
        return jax.pure_callback(np.sin, x, x)

    sin.defjvp(lambda p, t: (sin(p[0]), jnp.cos(p[0]) * t[0]))
    close(jax.jit(jax.grad(sin))(0.5), np.cos(0.5))


def test_io_callback_in_scan_is_ordered():
    seen = []

    def body(c, x):
        io_callback(lambda x: seen.append(int(x)), None, x, ordered=True)
        return c + x, x

    total, _ = jax.jit(lambda xs: jax.lax.scan(body, 0, xs))(jnp.arange(10))
    jax.effects_barrier()
    assert int(total) == 45 and seen == list(range(10))


def test_ordered_callbacks_of_many_programs():
    seen = []

    @jax.jit
    def f(i):
        io_callback(lambda i: seen.append(int(i)), None, i, ordered=True)
        return i + 1

    i = jnp.int32(0)
    for _ in range(25):
        i = f(i)
    jax.effects_barrier()
    assert seen == list(range(25))


def test_debug_print(capfd):
    @jax.jit
    def f(x):
        jax.debug.print("x is {x}", x=x)
        jax.debug.print("first {}", x, ordered=True)
        jax.debug.print("second {}", x, ordered=True)
        jax.debug.callback(lambda x: print("seen", x, flush=True), x)
        return x

    f(3)
    jax.effects_barrier()
    out = capfd.readouterr().out
    assert "x is 3" in out and "seen 3" in out
    assert out.index("first 3") < out.index("second 3")


def test_checkify_at_run_time():
    jax.config.update("jax_experimental_unsafe_xla_runtime_errors", True)
    try:
        def f(x):
            checkify.check(x > 0, "must be positive: {x}", x=x)
            return x

        jax.block_until_ready(jax.jit(f)(1.0))
        with pytest.raises(Exception, match="must be positive"):
            jax.block_until_ready(jax.jit(f)(-1.0))
            jax.effects_barrier()
    finally:
        jax.config.update("jax_experimental_unsafe_xla_runtime_errors", False)


def test_callbacks_are_forgotten_with_their_program():
    from weft import _callbacks

    def program(i):
        f = jax.jit(lambda x: jax.pure_callback(lambda x: x + np.float32(i), x, x))
        jax.block_until_ready(f(jnp.ones(2)))

    for i in range(3):
        program(i)
    jax.clear_caches()
    gc.collect()
    before = len(_callbacks._callbacks)
    for i in range(10):
        program(i)
    jax.clear_caches()
    gc.collect()
    assert len(_callbacks._callbacks) <= before


def test_callbacks_from_threads():
    f = jax.jit(lambda x: jax.pure_callback(lambda x: np.asarray(x) * 2, x, x))
    results = [None] * 4

    def work(i):
        results[i] = [float(f(jnp.float32(i * 100 + n))) for n in range(10)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[2.0 * (i * 100 + n) for n in range(10)] for i in range(4)]


def test_buffer_callback():
    def add_one(context, out, x):
        del context
        assert not x.writeable and out.writeable
        np.asarray(out)[...] = np.asarray(x) + 1

    x = matrix(3, 4)
    f = buffer_callback(add_one, jax.ShapeDtypeStruct(x.shape, x.dtype))
    close(jax.jit(f)(x), x + 1)


# Linear algebra through LAPACK.

DTYPES = [np.float32, np.complex64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_linalg(dtype, batch):
    a = matrix(*batch, 5, 5, dtype=dtype)
    hermitian = a @ np.conj(np.swapaxes(a, -1, -2)) + 5 * np.eye(5, dtype=dtype)
    l = np.asarray(jnp.linalg.cholesky(hermitian))
    close(l @ np.conj(np.swapaxes(l, -1, -2)), hermitian, 1e-3)
    q, r = map(np.asarray, jnp.linalg.qr(a))
    close(q @ r, a)
    u, s, vt = map(np.asarray, jnp.linalg.svd(a))
    close((u * s[..., None, :]) @ vt, a)
    w, v = map(np.asarray, jnp.linalg.eigh(hermitian))
    close((v * w[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2)), hermitian, 1e-3)
    close(jnp.linalg.solve(a, a @ np.ones((5, 1), dtype)), np.ones((*batch, 5, 1)), 5e-3)
    close(jnp.linalg.det(a), np.linalg.det(a), 1e-3)
    w, v = map(np.asarray, jnp.linalg.eig(a))
    close(a @ v, v * w[..., None, :], 1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scipy_linalg(dtype):
    a = matrix(4, 4, dtype=dtype)
    t, z = map(np.asarray, jax.scipy.linalg.schur(a))
    close(z @ t @ z.conj().T, a, 1e-3)
    h, q = map(np.asarray, jax.scipy.linalg.hessenberg(a, calc_q=True))
    close(q @ h @ q.conj().T, a, 1e-3)
    p, l, u = map(np.asarray, jax.scipy.linalg.lu(a))
    close(p @ l @ u, a)
    close(jax.scipy.linalg.solve_triangular(np.triu(a) + 3 * np.eye(4, dtype=dtype),
                                            np.ones(4, dtype)),
          np.linalg.solve(np.triu(a) + 3 * np.eye(4), np.ones(4)), 1e-3)
    d = np.full(4, 4, dtype)
    e = np.ones(4, dtype)
    x = np.asarray(jax.lax.linalg.tridiagonal_solve(e, d, e, np.ones((4, 1), dtype)))
    close((np.diag(d) + np.diag(e[1:], 1) + np.diag(e[1:], -1)) @ x, np.ones((4, 1)))


def test_cholesky_of_what_has_none_is_nan():
    assert np.isnan(np.diag(jnp.linalg.cholesky(-jnp.eye(3)))).all()


# jax.ffi: what is registered for cpu serves weft.


def test_ffi_call_of_a_cpu_target():
    x = matrix(4, 3)
    call = jax.ffi.ffi_call(
        "lapack_sgeqrf_ffi", (jax.ShapeDtypeStruct((4, 3), np.float32),
                              jax.ShapeDtypeStruct((3,), np.float32)),
        input_layouts=[(0, 1)], output_layouts=[(0, 1), None], input_output_aliases={0: 0})
    r, taus = call(x)
    expected = jax.lax.linalg.geqrf(x) if hasattr(jax.lax.linalg, "geqrf") else None
    assert taus.shape == (3,)
    if expected is not None:
        close(r, np.asarray(expected[0]))


def test_unknown_ffi_target_is_named():
    with pytest.raises(Exception, match="no_such_target"):
        jax.block_until_ready(jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((), np.float32))())


# DLPack.


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_, np.complex64, np.float16])
def test_dlpack_to_numpy_and_back(dtype):
    x = jnp.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    there = np.from_dlpack(x)
    assert there.ctypes.data == x.unsafe_buffer_pointer()
    np.testing.assert_array_equal(there, np.asarray(x))
    back = jax.dlpack.from_dlpack(there.copy())  # NumPy exports no read-only arrays
    assert back.dtype == x.dtype and back.devices() == x.devices()
    np.testing.assert_array_equal(back, x)


def test_dlpack_of_bfloat16():
    x = jnp.arange(4, dtype=jnp.bfloat16)
    np.testing.assert_array_equal(np.asarray(jax.dlpack.from_dlpack(x), np.float32), np.arange(4))


def test_dlpack_keeps_the_memory():
    x = jnp.arange(1000.0) + 0
    there = np.from_dlpack(x)
    del x
    gc.collect()
    np.testing.assert_array_equal(there, np.arange(1000.0))


def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    x = jnp.arange(4.0)
    assert torch.from_dlpack(x).tolist() == [0, 1, 2, 3]
    close(jax.dlpack.from_dlpack(torch.ones(3)), np.ones(3))


def test_asarray_without_copy():
    close(jnp.asarray(np.ones(3, np.float32), copy=False), np.ones(3))


# The rest.


@pytest.mark.parametrize("kind", ["device", "pinned_host", "unpinned_host"])
def test_memory_kinds(kind):
    device = jax.devices()[0]
    there = jax.sharding.SingleDeviceSharding(device, memory_kind=kind)
    x = jax.device_put(jnp.arange(4.0), there)
    assert x.sharding.memory_kind == kind
    f = jax.jit(lambda x: jax.device_put(x * 2, there), out_shardings=there)
    y = f(jnp.arange(4.0))
    assert y.sharding.memory_kind == kind
    close(y, np.arange(4.0) * 2)


def test_complex_hyperbolic_functions_at_infinity():
    inf, nan = np.inf, np.nan
    z = jnp.array([complex(-inf, inf), complex(inf, -inf), complex(0, 1e-30), complex(inf, 0)],
                  jnp.complex64)
    cosh, sinh = np.asarray(jnp.cosh(z)), np.asarray(jnp.sinh(z))
    np.testing.assert_array_equal(cosh.real, np.float32([nan, nan, 1, inf]))
    np.testing.assert_array_equal(sinh.real, np.float32([nan, nan, 0, inf]))
    np.testing.assert_allclose(sinh.imag[2], 1e-30, rtol=1e-6)


def test_dump_of_the_optimized_program(tmp_path):
    options = {"xla_dump_to": str(tmp_path / "a"), "xla_dump_hlo_as_proto": True,
               "xla_dump_hlo_as_text": True}
    for _ in range(2):
        jax.jit(lambda x: jnp.sin(x) + 1, compiler_options=options).lower(1.0).compile()
    texts = sorted((tmp_path / "a").glob("module_*after_optimizations.txt"))
    assert len(texts) == 2 and texts[0].read_text().startswith("HloModule")
    assert len(list((tmp_path / "a").glob("*after_optimizations.hlo.pb"))) == 2


def test_persistent_compilation_cache(tmp_path):
    code = """
import jax, jax.numpy as jnp
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
from jax._src import monitoring
monitoring.register_event_listener(lambda e, **k: hits.append(e) if "cache_hits" in e else None)
print(float(jax.jit(lambda x: jnp.sin(x) * 3)(1.0)), bool(hits))
"""
    outputs = [weft_jax.run(code, JAX_PLATFORMS="weft", JAX_COMPILATION_CACHE_DIR=tmp_path)
               for _ in range(2)]
    assert [o.returncode for o in outputs] == [0, 0], outputs[0].stderr + outputs[1].stderr
    first, second = (o.stdout.split() for o in outputs)
    assert first == [second[0], "False"] and second[1] == "True"


def test_transfer_guards_see_fetches():
    with jax.transfer_guard_device_to_host("disallow"):
        with pytest.raises(Exception, match="Disallowed device-to-host transfer"):
            np.asarray(jnp.arange(3.0) + 1)
        closed_over = jax.device_put(2.0)
        assert jax.device_get(jax.jit(lambda: closed_over * 2)()) == 4
    x = jnp.arange(1024.0)
    assert np.asarray(x).ctypes.data == np.asarray(x).ctypes.data  # a view again


def test_narrow_integers_from_numpy_keep_their_sign():
    values = np.array([1, -2, -3, 4, -8, 7], np.int8)
    x = jnp.asarray(values.astype(jnp.int4))
    assert x.astype(jnp.int8).tolist() == values.tolist()
    assert (-x).astype(jnp.int8).tolist()[:4] == [-1, 2, 3, -4]


@pytest.mark.parametrize("dtype, each", [("int4", 2), ("uint4", 2), ("int2", 4), ("uint2", 4), ("float4_e2m1fn", 2)])
def test_narrow_elements_lie_packed(dtype, each):
    dtype, device = jnp.dtype(dtype), jax.devices()[0]
    gc.collect()
    before = device.memory_stats()["bytes_in_use"]
    large = jax.block_until_ready(jax.device_put(np.ones(1 << 20, dtype)))
    taken = device.memory_stats()["bytes_in_use"] - before
    assert (1 << 20) // each <= taken <= (1 << 20) // each + 4096
    analysis = jax.jit(lambda a: a[::-1]).lower(large).compile().memory_analysis()
    assert analysis.argument_size_in_bytes == analysis.output_size_in_bytes == (1 << 20) // each
    for shape in ((3, 5), (7,), (), (4, 4, 3), (0, 3)):
        x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
        there = jax.device_put(x)
        np.testing.assert_array_equal(np.asarray(there), x)
        np.testing.assert_array_equal(np.asarray(jax.device_put(there, jax.devices()[-1])), x)
        np.testing.assert_array_equal(np.asarray(there), np.asarray(there.copy()))
        flipped = jax.jit(lambda a: jnp.flip(a.reshape(-1)), donate_argnums=0)(jax.device_put(x))
        np.testing.assert_array_equal(np.asarray(flipped), np.flip(x.reshape(-1)))
        np.testing.assert_array_equal(jax.jit(lambda a: a.astype(jnp.float32) * 3)(there), x.astype(np.float32) * 3)
        seen = jax.pure_callback(lambda a: np.asarray(a), there, there)
        np.testing.assert_array_equal(np.asarray(seen), x)


def test_packed_arrays_in_loops_products_and_updates():
    weights = RNG.integers(-8, 8, (33, 17)).astype(np.int8)
    there = jnp.asarray(weights.astype(jnp.int4))
    x = RNG.integers(-4, 5, (5, 33)).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(lambda x, w: x @ w.astype(jnp.float32))(x, there), x @ weights)
    row = jax.jit(lambda w, i: jax.lax.dynamic_slice_in_dim(w, i, 3).astype(jnp.int8))(there, 29)
    np.testing.assert_array_equal(row, weights[29:32])

    def step(w, i):  # carried, read and written
        return w.at[i, 2].set(w[i, 3]), w[i].astype(jnp.int32).sum()

    last, sums = jax.jit(lambda w: jax.lax.scan(step, w, jnp.arange(33)), donate_argnums=0)(there)
    wanted = weights.copy()
    wanted[:, 2] = wanted[:, 3]
    np.testing.assert_array_equal(np.asarray(last).astype(np.int8), wanted)
    np.testing.assert_array_equal(sums, weights.astype(np.int32).sum(1))
    order = jax.jit(lambda w: jnp.sort(w, 0))(last)
    np.testing.assert_array_equal(np.asarray(order).astype(np.int8), np.sort(wanted, 0))


def test_platform_dependent_takes_its_own_branch_or_that_of_cpu():
    f = jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x * 7))
    assert float(f(2.0)) == 3
    g = jax.jit(lambda x: jax.lax.platform_dependent(x, weft=lambda x: x + 5, default=lambda x: x * 7))
    assert float(g(2.0)) == 7
    h = jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=lambda x: x + 1, cuda=lambda x: x * 7))
    assert float(h(2.0)) == 3
    d = jax.jit(lambda x: jax.lax.platform_dependent(x, cuda=lambda x: x + 1, default=lambda x: x * 7))
    assert float(d(2.0)) == 14


def test_export_for_weft():
    pytest.importorskip("flatbuffers")
    a = matrix(3, 3)
    a = a @ a.T + np.eye(3, dtype=np.float32)
    data = jax.export.export(jax.jit(jnp.linalg.cholesky), platforms=["weft", "cpu"])(a).serialize()
    close(jax.export.deserialize(data).call(a), np.linalg.cholesky(a))


@pytest.mark.parametrize("platforms", [["cpu"], ["tpu", "cpu"]])
def test_programs_exported_for_cpu_run_on_weft(platforms):
    def f(x):
        return jax.lax.platform_dependent(x, tpu=lambda x: x * 7, cpu=jnp.linalg.cholesky)

    a = matrix(3, 3)
    a = a @ a.T + np.eye(3, dtype=np.float32)
    exported = jax.export.export(jax.jit(f), platforms=platforms)(a)
    close(exported.call(a), np.linalg.cholesky(a))
    also_for = platforms if len(platforms) == 1 else [*platforms, "weft"]
    again = jax.export.export(jax.jit(exported.call), platforms=also_for)(a)
    close(again.call(a), np.linalg.cholesky(a))


def test_programs_exported_for_others_do_not():
    exported = jax.export.export(jax.jit(jnp.sin), platforms=["tpu"])(1.0)
    with pytest.raises(ValueError, match="exported for platforms"):
        exported.call(1.0)


# What a program is.


def test_compiled_text_is_what_runs():
    compiled = jax.jit(lambda x: jnp.tanh(x * 2).sum(0)).lower(jnp.ones((8, 4))).compile()
    text = compiled.as_text()
    assert text.startswith("HloModule jit__lambda") and " fusion(" in text, text
    assert compiled.cost_analysis()["transcendentals"] == 32
    assert compiled.memory_analysis().argument_size_in_bytes == 128


def test_cost_of_a_lowered_program():
    lowered = jax.jit(lambda x: jnp.tanh(x @ x).sum()).lower(jnp.ones((8, 8)))
    cost = lowered.cost_analysis()
    assert cost == lowered.compile().cost_analysis()
    assert cost["flops"] == 2 * 8**3 + 63 and cost["transcendentals"] == 64, cost


def test_inspect_array_sharding():
    code = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
seen = []

@jax.jit
def f(x):
  jax.debug.inspect_array_sharding(x.T, callback=seen.append)
  jax.debug.inspect_array_sharding(x.sum(1), callback=seen.append)
  return x

f(jax.device_put(np.ones((4, 8), np.float32), NamedSharding(mesh, P("x", "y"))))
print([s.spec for s in seen])
"""
    result = weft_jax.run(code, JAX_PLATFORMS="weft", WEFT_CPU_DEVICES="4")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[P('y', 'x'), P('x',)]"


def test_values_sharded_alike():
    pytest.importorskip("jax.experimental.shard_alike", reason="removed from JAX in 0.11")
    code = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental.shard_alike import shard_alike
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
x = jax.device_put(np.arange(16).reshape(8, 2), NamedSharding(mesh, P("x", "y")))
y = jax.jit(lambda x: shard_alike(x, jnp.arange(16).reshape(8, 2))[1])(x)
a, b = jax.jit(shard_alike)(np.arange(16).reshape(8, 2), x)
print(y.sharding.spec, a.sharding.spec, b.sharding.spec, (np.asarray(y) == np.asarray(x)).all())
"""
    result = weft_jax.run(code, JAX_PLATFORMS="weft", WEFT_CPU_DEVICES="4")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "P('x', 'y') P('x', 'y') P('x', 'y') True"


def test_matrices_in_pieces():
    code = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("x",))
a = np.eye(4, dtype=np.float32) * 4 + 1
cholesky = jax.jit(jnp.linalg.cholesky)
for value in (a, np.stack([a] * 4)):
  x = jax.device_put(value, NamedSharding(mesh, P("x")))
  np.testing.assert_allclose(cholesky(x), np.linalg.cholesky(value), rtol=1e-5)
"""
    result = weft_jax.run(code, JAX_PLATFORMS="weft", WEFT_CPU_DEVICES="4")
    assert result.returncode == 0, result.stderr


def test_subnormal_numbers_are_zeros():
    small = np.full(100_000, 2e-38, np.float32)
    halves = jax.jit(lambda x: x * np.float32(0.5))
    assert not np.any(halves(small))  # on all threads
    assert np.all(np.asarray(jax.jit(lambda x: -x)(small / 4)) == -small / 4)  # no arithmetic
    assert jax.jit(lambda x: jax.lax.fori_loop(0, 2000, lambda _, c: c * 0.9, x))(1.0) == 0
    assert np.all(small / 4 > 0)  # Python's own threads compute as before
    assert np.array_equal(jnp.spacing(small / 4), np.spacing(small / 4))  # a constant is as written


def test_callbacks_keep_subnormal_numbers():
    def halve(x):
        return x * np.float32(0.5)

    shape = jax.ShapeDtypeStruct((3,), np.float32)
    small = np.full(3, 2e-38, np.float32)
    assert np.all(jax.jit(lambda x: jax.pure_callback(halve, shape, x))(small) == small / 2)
    assert not np.any(jax.jit(lambda x: jax.pure_callback(halve, shape, x) * 2)(small))


@pytest.mark.parametrize("transpose", [False, True])
def test_sparse_products_that_are_registered_for_cuda(transpose):
    from jax.experimental.sparse import _lowerings

    dense = matrix(5, 7) * (RNG.random((5, 7)) < 0.4)
    rows, columns = (i.astype(np.int32) for i in np.nonzero(dense))
    starts = np.searchsorted(rows, np.arange(6)).astype(np.int32)
    data = dense[rows, columns]
    known = dict(transpose=transpose, shape=dense.shape)
    left = dense.T if transpose else dense
    for x, coo, csr in [(matrix(left.shape[1]), _lowerings.coo_spmv_p, _lowerings.csr_spmv_p),
                        (matrix(left.shape[1], 3), _lowerings.coo_spmm_p, _lowerings.csr_spmm_p)]:
        close(coo.bind(*map(jnp.asarray, (data, rows, columns, x)), **known), left @ x)
        close(csr.bind(*map(jnp.asarray, (data, columns, starts, x)), **known), left @ x)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_networks_of_cudnn(bidirectional):
    from jax.experimental import rnn

    batch, length, width, hidden, layers = 3, 5, 2, 6, 2
    sizes = dict(input_size=width, hidden_size=hidden, num_layers=layers, bidirectional=bidirectional)
    states = (layers * (1 + bidirectional), batch, hidden)
    x, h, c = (jnp.asarray(RNG.standard_normal(s), jnp.float32) for s in ((batch, length, width), states, states))
    weights = rnn.init_lstm_weight(jax.random.PRNGKey(0), width, hidden, layers, bidirectional)
    lengths = jnp.array([1, 5, 3], jnp.int32)

    def loss(lstm):
        def of(weights, x, h, c):
            y, h_n, c_n = lstm(weights, x, h, c)
            return jnp.sum(jnp.sin(y)) + jnp.sum(h_n * c_n), (y, h_n, c_n)
        return jax.jit(jax.value_and_grad(of, argnums=(0, 1, 2, 3), has_aux=True))

    def ours(weights, x, h, c):
        return rnn.lstm(x, h, c, weights, seq_lengths=lengths, dropout=0.0, precision=jax.lax.Precision.HIGHEST, **sizes)

    def reference(weights, x, h, c):
        unpacked = rnn.unpack_lstm_weights(weights, *sizes.values())
        return rnn.lstm_ref(x, h, c, *unpacked, seq_lengths=lengths, dropout=0.0, **sizes)

    got, want = loss(ours)(weights, x, h, c), loss(reference)(weights, x, h, c)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_pinned_buffers():
    primitives = pytest.importorskip("jax._src.state.primitives")
    if not hasattr(primitives, "unpin"):
        pytest.skip("this JAX pins nothing")
    program = jax.jit(lambda x: primitives.unpin(primitives.pin(x)) + 1)
    assert "memref" in program.lower(np.arange(3.)).as_text()
    np.testing.assert_array_equal(program(jnp.arange(3.)), [1, 2, 3])

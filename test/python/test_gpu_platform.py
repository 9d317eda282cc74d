"""JAX on a GPU that is none (WEFT_PLATFORM=pretend): memory that the host traps on, streams that dawdle."""

import os
import sys
import textwrap

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from weft_jax import run  # noqa: E402

START = """
import jax, jax.numpy as jnp, numpy as np
"""


def on_gpu(code, **variables):
    variables = {"JAX_PLATFORMS": "weft", "WEFT_PLATFORM": "pretend", "WEFT_CACHE": 0, **variables}
    return run(START + textwrap.dedent(code), **variables)


def check(code, **variables):
    done = on_gpu(textwrap.dedent(code) + "\nprint('fine')", **variables)
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stdout + done.stderr
    return done


def test_what_it_says_of_itself():
    check("""
    device, = jax.devices()
    assert device.platform == 'weft' and device.device_kind.startswith('Weft GPU: '), device.device_kind
    assert device.compute_capability == '9.0' and device.core_count == 132
    assert device.default_memory().kind == 'device'
    assert {m.kind for m in device.addressable_memories()} == {'device', 'pinned_host', 'unpinned_host'}
    """)


def test_arithmetic():
    check("""
    x = np.arange(600, dtype=np.float32).reshape(20, 30)
    f = jax.jit(lambda x: (jnp.sin(x) @ x.T, x.sum(0), (x > 3).any()))
    for got, want in zip(f(x), (np.sin(x) @ x.T, x.sum(0), (x > 3).any())):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
    """)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32",
                                   "complex64", "int4", "uint4", "float8_e4m3fn"])
def test_arrays_there_and_back(dtype):
    check(f"""
    dtype = jnp.dtype('{dtype}')
    x = (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)
    there = jax.device_put(x)
    assert there.dtype == dtype and not there.is_deleted()
    np.testing.assert_array_equal(np.asarray(there), x)
    np.testing.assert_array_equal(np.asarray(jax.device_put(x.transpose(2, 0, 1))), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda a: jnp.flip(a, 1))(there)), np.flip(x, 1))
    """)


@pytest.mark.parametrize("dtype, each", [("int4", 2), ("uint4", 2), ("int2", 4), ("uint2", 4), ("float4_e2m1fn", 2)])
def test_narrow_elements_lie_packed(dtype, each):
    check(f"""
    dtype = jnp.dtype('{dtype}')
    device = jax.devices()[0]
    before = device.memory_stats()['bytes_in_use']
    large = jax.device_put(np.ones(1 << 20, dtype))
    large.block_until_ready()
    taken = device.memory_stats()['bytes_in_use'] - before
    assert (1 << 20) // {each} <= taken <= (1 << 20) // {each} + 4096, taken
    for shape in ((3, 5), (7,), (), (4, 4, 3), (0, 3)):
        x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
        there = jax.device_put(x)
        np.testing.assert_array_equal(np.asarray(there), x)
        flipped = jax.jit(lambda a: jnp.flip(a.reshape(-1)), donate_argnums=0)(jax.device_put(x))
        np.testing.assert_array_equal(np.asarray(flipped), np.flip(x.reshape(-1)))
        np.testing.assert_array_equal(np.asarray(jax.jit(lambda a: a.astype(jnp.float32) * 3)(there)), x.astype(np.float32) * 3)
        np.testing.assert_array_equal(np.asarray(there + there), (x.astype(np.float32) * 2).astype(np.int8 if 'int' in '{dtype}' else np.float32).astype(dtype))
        pinned = jax.device_put(there, there.sharding.with_memory_kind('pinned_host'))
        np.testing.assert_array_equal(np.asarray(jax.device_put(pinned, there.sharding)), x)
    """)


def test_what_the_host_changes_later_is_not_seen():
    check("""
    for size in (3, 1 << 20):
        x = np.ones(size, np.float32)
        there = jnp.array(x)
        x[:] = 2
        assert float(there.sum()) == size
    """)


@pytest.mark.parametrize("bytes", [1 << 20, (4 << 20) + 1, (37 << 20) + 3])
def test_large_arrays_in_pieces(bytes):
    check(f"""
    x = np.arange({bytes}, dtype=np.uint32).astype(np.uint8)
    there = jax.device_put(x)
    x[:] += 1  # the plugin has read it
    y = np.asarray(there + np.uint8(1))
    np.testing.assert_array_equal(y, x)
    host = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind='pinned_host')
    np.testing.assert_array_equal(np.asarray(jax.device_put(there, host)) + np.uint8(1), x)
    both = [np.asarray(a) for a in (there, there + np.uint8(2))]
    np.testing.assert_array_equal(both[0] + np.uint8(2), both[1])
    """)


def test_large_arrays_by_rows():
    # Enough elements that a thread takes several: broadcasts, slices, rows that change places, short reductions.
    check("""
    r = np.random.RandomState(0)
    x, row, column = (r.randn(*s).astype(np.float32) for s in ((1104, 1024), (1024,), (1104, 1)))
    np.testing.assert_allclose(jax.jit(lambda x, r, c: x * r + c)(x, row, column), x * row + column, rtol=1e-6)
    half = jnp.bfloat16
    got = jax.jit(lambda x, r, c: (x.astype(half) * r.astype(half) - c).astype(half))(x, row, column)
    np.testing.assert_allclose(np.asarray(got, np.float32), x * row - column, rtol=3e-2, atol=3e-2)
    y = x.reshape(16, 69, 1024)
    np.testing.assert_allclose(jax.jit(lambda y, r: y.transpose(1, 0, 2) * r)(y, row), y.transpose(1, 0, 2) * row, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x, c: jnp.concatenate([x + c, x[:, ::-1]], 0))(x, column), np.concatenate([x + column, x[:, ::-1]], 0), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x, c: jnp.pad(x, ((0, 0), (0, 4))) + c)(x, column), np.pad(x, ((0, 0), (0, 4))) + column, rtol=1e-6)
    i = r.randint(0, 1104, 1300)
    np.testing.assert_allclose(jax.jit(lambda x, i, r: x[i] + r)(x, i, row), x[i] + row, rtol=1e-6)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(jax.jit(lambda x: jax.nn.softmax(x, 1))(x), e / e.sum(1, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(jax.jit(lambda x: x.sum(1))(x), x.sum(1), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(jax.jit(lambda x: x.sum(0))(x), x.sum(0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(jnp.cumsum(x[:64].ravel()), np.cumsum(x[:64].ravel().astype(np.float64)), rtol=1e-3, atol=1e-3)
    """)


def test_donation():
    check("""
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = first = jnp.zeros(1000)
    for _ in range(1000): x = step(x)
    assert first.is_deleted() and float(x[999]) == 1000
    y = jnp.zeros(8)
    view = jax.jit(lambda a: a * 1)(y)
    view.copy_to_host_async()
    z = step(view)
    assert float(z[0]) == 1 and float(y[0]) == 0
    in_use = jax.devices()[0].memory_stats()['bytes_in_use']
    for _ in range(100): z = step(z)
    z.block_until_ready()
    assert jax.devices()[0].memory_stats()['bytes_in_use'] <= in_use + 4096
    """)


def test_loops_and_gradients():
    check("""
    def rnn(w, xs):
        def cell(h, x):
            h = jnp.tanh(w @ h + x)
            return h, h
        return jax.lax.scan(cell, jnp.zeros(4), xs)[1].sum()
    w, xs = jnp.eye(4) * .5, jnp.ones((10, 4))
    g = jax.jit(jax.grad(rnn))(w, xs)
    e = 1e-3
    numeric = (rnn(w.at[1, 2].add(e), xs) - rnn(w.at[1, 2].add(-e), xs)) / (2 * e)
    np.testing.assert_allclose(g[1, 2], numeric, rtol=2e-2)
    assert int(jax.jit(lambda n: jax.lax.while_loop(lambda i: i < n, lambda i: i * 2, 1))(100)) == 128
    assert int(jax.jit(lambda p: jax.lax.cond(p, lambda: 3, lambda: 4))(False)) == 4
    """)


def test_random_numbers_and_sorting():
    check("""
    x = jax.random.normal(jax.random.key(0), (1000,))
    assert abs(float(x.mean())) < .2
    np.testing.assert_array_equal(jnp.sort(x), np.sort(np.asarray(x)))
    np.testing.assert_allclose(jnp.cumsum(x), np.cumsum(np.asarray(x)), rtol=1e-3, atol=1e-3)
    """)


def test_callbacks():
    check("""
    x = jnp.arange(4.)
    double = lambda a: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
    np.testing.assert_array_equal(jax.jit(lambda a: double(a + 1) + 1)(x), (np.arange(4) + 1) * 2 + 1)
    seen = []
    @jax.jit
    def f(a):
        jax.debug.callback(lambda v: seen.append(float(v)), a.sum())
        return a
    f(x); jax.effects_barrier()
    assert seen == [6.], seen
    # Jitted code in a callback.
    nested = lambda a: jax.pure_callback(lambda v: np.asarray(jnp.sin(v)), jax.ShapeDtypeStruct(a.shape, a.dtype), a)
    np.testing.assert_allclose(jax.jit(nested)(x), np.sin(np.arange(4.)), rtol=1e-6)
    order = []
    @jax.jit
    def ordered(a):
        for i in range(3): jax.experimental.io_callback(lambda v, i=i: order.append(i), None, a, ordered=True)
        return a
    import jax.experimental
    ordered(x); ordered(x); jax.effects_barrier()
    assert order == [0, 1, 2] * 2, order
    """)


def test_errors_of_a_callback_are_its_programs_alone():
    check("""
    def bad(v): raise ValueError('no such luck')
    f = jax.jit(lambda a: jax.pure_callback(bad, jax.ShapeDtypeStruct(a.shape, a.dtype), a))
    x = jnp.ones(3)
    try:
        jax.block_until_ready(f(x) + 1)
        raise SystemExit('no error')
    except Exception as error:
        assert 'no such luck' in str(error), error
    np.testing.assert_array_equal(x + 1, [2, 2, 2])
    """)


def test_host_memory():
    check("""
    device, = jax.devices()
    host = jax.sharding.SingleDeviceSharding(device, memory_kind='pinned_host')
    there = jax.sharding.SingleDeviceSharding(device, memory_kind='device')
    x = jax.device_put(jnp.arange(8.), host)
    assert x.sharding.memory_kind == 'pinned_host'
    np.testing.assert_array_equal(np.asarray(x), np.arange(8.))
    y = jax.device_put(x, there) + 1
    assert y.sharding.memory_kind == 'device'
    np.testing.assert_array_equal(np.asarray(y), np.arange(8.) + 1)
    z = jax.jit(lambda a: a * 2, out_shardings=host)(y)
    assert z.sharding.memory_kind == 'pinned_host'
    np.testing.assert_array_equal(np.asarray(z), (np.arange(8.) + 1) * 2)
    """)


def test_memory_runs_out():
    done = on_gpu("""
    x = jnp.ones((1 << 20,))
    try:
        jax.block_until_ready([x + i for i in range(8)])
    except Exception as error:
        print(error)
    del x
    """, WEFT_MEMORY_LIMIT=str(16 << 20))
    assert "RESOURCE_EXHAUSTED" in done.stdout and "out of memory" in done.stdout, done.stdout + done.stderr


def test_streams_have_tracks_in_timelines(tmp_path):
    check(f"""
    import json, weft
    f = jax.jit(lambda x: jnp.sin(x) @ x)
    x = jnp.ones((8, 8))
    f(x).block_until_ready()
    with weft.trace('{tmp_path}/trace.json'):
        np.asarray(f(x))
    events = json.load(open('{tmp_path}/trace.json'))['traceEvents']
    names = {{e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name'}}
    spans = {{(names[e['tid']], e['cat']) for e in events if e['ph'] == 'X'}}
    assert {{('pretend:0 compute', 'execute'), ('pretend:0 compute', 'step'), ('pretend:0 to host', 'transfer')}} <= spans, spans
    flows = {{e['ph']: e['id'] for e in events if e['ph'] in 'sf'}}
    assert flows['s'] == flows['f'], flows  # from the request to the run
    with jax.profiler.trace('{tmp_path}'):
        f(x).block_until_ready()
    from pathlib import Path
    profile, = Path('{tmp_path}').rglob('*.xplane.pb')
    planes = {{p.name: p for p in jax.profiler.ProfileData.from_file(str(profile)).planes}}
    lines = {{line.name: [e.name for e in line.events] for line in planes['/device:TPU:0'].lines}}
    assert len(lines['XLA Modules']) == 1 and len(lines['XLA Ops']) >= 2, lines
    """)


def test_memory_stats():
    check("""
    device, = jax.devices()
    before = device.memory_stats()['bytes_in_use']
    x = jax.block_until_ready(jnp.ones(1 << 16))
    stats = device.memory_stats()
    assert stats['bytes_in_use'] - before >= 4 << 16 and stats['peak_bytes_in_use'] >= 4 << 16
    assert stats['bytes_limit'] > 0
    """)


def test_linear_algebra():
    check("""
    a = np.random.RandomState(0).randn(5, 5).astype(np.float32)
    spd = a @ a.T + 5 * np.eye(5, dtype=np.float32)
    np.testing.assert_allclose(jnp.linalg.cholesky(spd), np.linalg.cholesky(spd), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(jnp.linalg.inv(a), np.linalg.inv(a), rtol=1e-2, atol=1e-2)
    """)


def test_several_logical_devices():
    check("""
    a, b = jax.devices()
    x = jax.device_put(jnp.arange(6.), b)
    assert x.devices() == {b}
    np.testing.assert_array_equal(np.asarray(jax.device_put(x + 1, a)), np.arange(6.) + 1)
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    y = jax.device_put(np.arange(8.), NamedSharding(Mesh(np.array([a, b]), 'x'), P('x')))
    f = jax.jit(lambda v: (v * 2 + jnp.arange(8.), jax.random.uniform(jax.random.key(0), (8,))), donate_argnums=0)
    doubled, bits = f(y)  # each device computes its part, and knows which one it is
    np.testing.assert_array_equal(np.asarray(doubled), np.arange(8.) * 3)
    assert doubled.sharding.shard_shape((8,)) == (4,) and {s.device for s in doubled.addressable_shards} == {a, b}
    np.testing.assert_array_equal(np.asarray(bits), np.asarray(jax.random.uniform(jax.random.key(0), (8,))))
    z = jax.pmap(lambda v: v + jax.lax.axis_index('i'), axis_name='i')(jnp.zeros((2, 3)))
    np.testing.assert_array_equal(np.asarray(z), [[0] * 3, [1] * 3])
    """, WEFT_GPU_DEVICES=2)


def test_the_processor_beside_it():
    check("""
    gpu, cpu = jax.devices()[0], jax.devices('weft_cpu')[0]
    assert cpu.device_kind == 'Weft CPU' and jax.default_backend() == 'weft'
    x = jax.device_put(jnp.arange(4.) + 1, cpu)
    assert x.devices() == {cpu}
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda a: a * 2)(x)), (np.arange(4.) + 1) * 2)
    np.testing.assert_array_equal(np.asarray(jax.device_put(x, gpu) + 1), np.arange(4.) + 2)
    np.testing.assert_array_equal(np.from_dlpack(x), np.arange(4.) + 1)
    assert jax.device_put(x, gpu).__dlpack_device__()[0] == 2  # kDLCUDA
    """, JAX_PLATFORMS="weft,weft_cpu")


def test_results_are_checked():
    done = check("print(jax.jit(lambda x: jnp.sin(x) + 1)(jnp.arange(3.)))", WEFT_CHECK=1, WEFT_DEBUG="check=1")
    assert "results as the evaluator" in done.stderr


def test_collectives_are_refused():
    done = on_gpu("""
    from jax.sharding import Mesh, PartitionSpec as P
    mesh = Mesh(np.array(jax.devices()), 'x')
    f = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, 'x'), mesh=mesh, in_specs=P('x'), out_specs=P()))
    f(np.arange(4.))
    """, WEFT_GPU_DEVICES=2)
    assert done.returncode != 0
    assert "all-reduce: between 2 devices of a GPU client" in done.stderr, done.stderr


def test_collectives_of_the_partitioner_are_refused():
    done = on_gpu("""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    y = jax.device_put(np.arange(8.), NamedSharding(Mesh(np.array(jax.devices()), 'x'), P('x')))
    jax.jit(lambda v: v * 2 + v.sum())(y)
    """, WEFT_GPU_DEVICES=2)
    assert done.returncode != 0
    assert "all-reduce: between 2 devices of a GPU client" in done.stderr, done.stderr
    assert "hint: WEFT_PLATFORM=cpu" in done.stderr, done.stderr


@pytest.mark.parametrize("name, value, allowed", [("WEFT_PLATFORM", "tpu", "expected cpu, gpu or pretend"),
                                                  ("WEFT_GPU_DEVICES", "0", "expected a whole number from 1 to 64")])
def test_wrong_values(name, value, allowed):
    done = run(START + "jnp.ones(3)", JAX_PLATFORMS="weft", **{name: value})
    assert f"{name}: wrong value: {value}: {allowed}" in done.stderr


@pytest.mark.parametrize("algorithm", ["F16_F16_F32", "TF32_TF32_F32", "TF32_TF32_F32_X3", "BF16_BF16_F32",
                                       "BF16_BF16_F32_X9", "F32_F32_F32"])
def test_algorithms_of_products(algorithm):
    check(f"""
    x = np.random.RandomState(0).randn(16, 24).astype(np.float32)
    product = jax.jit(lambda a, b: jax.lax.dot(a, b, precision=jax.lax.DotAlgorithmPreset.{algorithm},
                                               preferred_element_type=jnp.float32))
    np.testing.assert_allclose(product(x, x.T), x @ x.T, rtol=5e-2, atol=5e-2)
    """)


def test_algorithms_of_decompositions():
    check("""
    a = np.random.RandomState(0).randn(6, 6).astype(np.float32)
    a = a + a.T
    from jax._src.lax import linalg
    for algorithm in (None, linalg.EighImplementation.QR, linalg.EighImplementation.JACOBI):
        v, w = jax.lax.linalg.eigh(a, implementation=algorithm)
        np.testing.assert_allclose(v @ np.diag(w) @ v.T, a, rtol=1e-3, atol=1e-4)
    s, = jax.lax.linalg.svd(a, compute_uv=False, algorithm=jax.lax.linalg.SvdAlgorithm.JACOBI),
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=1e-3, atol=1e-4)
    """)


def test_branches_by_platform():
    check("""
    choose = lambda **branches: float(jax.jit(lambda x: jax.lax.platform_dependent(x, **branches))(1.))
    one, two, three = (lambda x, k=k: x * k for k in (1, 2, 3))
    assert choose(cpu=one, default=two) == 2
    assert choose(cpu=one, cuda=two) == 1
    assert choose(cpu=one, weft=three, default=two) == 3
    assert 'stablehlo.sine' not in jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)).lower(1.).as_text()
    cpu, = jax.devices('weft_cpu')
    on_cpu = jax.device_put(1., cpu)
    assert float(jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=one, default=two))(on_cpu)) == 1
    """, JAX_PLATFORMS="weft,weft_cpu")


def test_names():
    check("""
    assert jax.devices('gpu') == jax.devices() and jax.devices()[0].platform == 'weft'
    assert jax.local_devices(backend='gpu') == jax.devices()
    try:
        jax.devices('cuda')
        raise SystemExit('no error')
    except RuntimeError:
        pass
    """)


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64", "bool", "float16"])
def test_cuda_array_interface(dtype):
    check(f"""
    x = (np.arange(12).reshape(3, 4) % 5).astype('{dtype}')
    y = jax.block_until_ready(jnp.array(x))
    a = y.__cuda_array_interface__
    assert a['shape'] == (3, 4) and a['typestr'] == x.__array_interface__['typestr'], a
    assert a['data'] == (y.unsafe_buffer_pointer(), False)
    class Other:
        __cuda_array_interface__ = dict(a, strides=(4 * x.itemsize, x.itemsize), version=3, stream=None)
    z = jnp.array(Other(), copy=False)
    assert z.unsafe_buffer_pointer() == y.unsafe_buffer_pointer() and z.devices() == y.devices()
    np.testing.assert_array_equal(np.asarray(z), x)
    assert jnp.array(Other(), copy=True).unsafe_buffer_pointer() != y.unsafe_buffer_pointer()
    # Kernels want aligned arrays.
    class Part:
        __cuda_array_interface__ = dict(a, shape=(2, 4), data=(a['data'][0] + 4 * x.itemsize, False))
    try:
        jnp.array(Part())
        raise SystemExit('no error')
    except BufferError as error:
        assert 'not aligned to 64 bytes' in str(error), error
    Other.__cuda_array_interface__['strides'] = (x.itemsize, 3 * x.itemsize)
    try:
        jnp.array(Other())
        raise SystemExit('no error')
    except ValueError as error:
        assert 'only row-major arrays' in str(error), error
    """)


def test_cuda_array_interface_is_for_gpus():
    check("""
    assert not hasattr(jnp.ones(2, jnp.bfloat16), '__cuda_array_interface__')
    host = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind='pinned_host')
    assert not hasattr(jax.device_put(jnp.ones(2), host), '__cuda_array_interface__')
    assert not hasattr(jax.device_put(jnp.ones(2), jax.devices('weft_cpu')[0]), '__cuda_array_interface__')
    """, JAX_PLATFORMS="weft,weft_cpu")


def test_dlpack_within_a_gpu():
    check("""
    for shape in ((3, 4), (), (0, 2), (5,)):
        x = jax.block_until_ready(jnp.ones(shape) * 3)
        y = jax.dlpack.from_dlpack(x)
        assert y.devices() == x.devices()
        np.testing.assert_array_equal(np.asarray(y), np.asarray(x))
        if x.size:
            assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
            copied = jnp.from_dlpack(x, copy=True)
            assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
            np.testing.assert_array_equal(np.asarray(copied), np.asarray(x))
            del x
            np.testing.assert_array_equal(np.asarray(y + 1), np.full(shape, 4.))
    host = np.arange(6.).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(jnp.from_dlpack(host)), host)
    try:
        jnp.from_dlpack(host, device=jax.devices()[0], copy=False)
        raise SystemExit('no error')
    except ValueError as error:
        assert 'requires a copy' in str(error), error
    """)


def test_buffer_callback():
    check("""
    from jax.experimental import buffer_callback
    def double(ctx, out, arg):
        assert isinstance(ctx.stream, int)
        described = arg.__cuda_array_interface__
        assert described['shape'] == (3, 4) and described['typestr'] == '<f4' and described['data'][1]
        assert not out.__cuda_array_interface__['data'][1] and arg.__dlpack_device__() == (3, 0)
        np.asarray(out)[...] = np.asarray(arg) * 2
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    f = jax.jit(buffer_callback.buffer_callback(double, jax.ShapeDtypeStruct(x.shape, x.dtype)))
    np.testing.assert_array_equal(f(x), x * 2)
    """)

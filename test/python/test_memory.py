"""The predicted peak of a program against what a fresh process grows by (VmHWM), for programs of 256 MB and more."""

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, run  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

NEEDED = 3 << 30  # bytes of free memory

PROGRAMS = {
    "elementwise": "lambda x: jnp.sin(x) * jnp.cos(x) + jnp.tanh(x), [(1 << 13, 1 << 13)]",
    "matmul": "lambda x, y: jnp.tanh(x @ y) @ y, [(6144, 6144), (6144, 6144)]",
    "matmul_narrow": "lambda x, y: x @ y, [(8192, 512), (512, 16384)], jnp.bfloat16",
    "matmul_few_columns": "lambda x, y: x @ y, [(32768, 2048), (2048, 64)]",
    "argsort": "lambda x: jnp.argsort(x), [(1 << 25,)]",
    "fft": "lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2), [(1 << 13, 1 << 13)]",
    "convolution": "lambda x, k: lax.conv_general_dilated(x, k, (1, 1), 'SAME'), [(16, 8, 512, 512), (16, 8, 3, 3)]",
    "convolution_grad": "jax.grad(lambda x, k: (lax.conv_general_dilated(x, k, (1, 1), 'SAME') ** 2).sum(), (0, 1)), [(16, 16, 256, 256), (32, 16, 3, 3)]",
    "fft_long": "lambda x: jnp.fft.fft(x), [(1 << 24,)]",
    "qr": "lambda x: jnp.linalg.qr(x), [(2000000, 16)]",
    "solve": "lambda a, b: jnp.linalg.solve(a + 4000 * jnp.eye(4000), b), [(4000, 4000), (4000, 4000)]",
    "transposes": "lambda x: jnp.sort(x.T, axis=0).T + x, [(1 << 12, 1 << 14)]",
    "scan": "lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c + v), x[0], x)[1], [(64, 1 << 20)]",
    "layernorm_grad": "jax.grad(lambda x: (((x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)) ** 3).sum()), [(1 << 13, 1 << 13)]",
}

CODE = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
def high_water():
    for line in open('/proc/self/status'):
        if line.startswith('VmHWM'): return int(line.split()[1]) * 1024
def resident():
    for line in open('/proc/self/status'):
        if line.startswith('VmRSS'): return int(line.split()[1]) * 1024
function, shapes, *dtype = {program}
dtype = dtype[0] if dtype else jnp.float32
compiled = jax.jit(function).lower(*[jax.ShapeDtypeStruct(s, dtype) for s in shapes]).compile()
jnp.ones(3).block_until_ready()
before = resident()
arguments = [jax.device_put(np.ones(s, dtype)) for s in shapes]
jax.block_until_ready(arguments)
jax.block_until_ready(compiled(*arguments))
m = compiled.memory_analysis()
predicted = m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes + m.temp_size_in_bytes
print(predicted, high_water() - before)
"""


def free_memory():
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_prediction(name):
    if free_memory() < NEEDED:
        pytest.skip(f"needs {NEEDED >> 30} GB of free memory, there are {free_memory() / 2**30:.1f}")
    done = run(CODE.format(program=PROGRAMS[name]), timeout=600, JAX_PLATFORMS="weft,cpu", WEFT_CACHE="0")
    assert done.returncode == 0, done.stderr
    predicted, measured = map(int, done.stdout.split())
    print(f"{name}: predicted {predicted / 1e6:.1f} MB, measured {measured / 1e6:.1f} MB, {100 * (measured / predicted - 1):+.2f} %")
    assert predicted >= 256 << 20
    assert abs(measured - predicted) <= 0.02 * predicted, (predicted, measured)


ON_DEVICES = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
def status(what):
    for line in open('/proc/self/status'):
        if line.startswith(what): return int(line.split()[1]) * 1024
cut, n = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d")), len(jax.devices())
def products(weights, x):
    for w in weights: x = jnp.tanh(x @ w)
    return x
array = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=cut)
weights, x = [array(3072, 3072)] * 6, array(64, 3072)
compiled = jax.jit(products, out_shardings=cut).lower(weights, x).compile()
jax.device_put(np.ones(8, np.float32), cut).block_until_ready()
before = status('VmRSS')
make = lambda s: jax.make_array_from_callback(s.shape, cut, lambda i: np.full((s.shape[0] // n, s.shape[1]), 0.01, np.float32))
arguments = jax.block_until_ready(([make(s) for s in weights], make(x)))
jax.block_until_ready(compiled(*arguments))
m = compiled.memory_analysis()
each = m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes + m.temp_size_in_bytes
print(n * each, status('VmHWM') - before)
"""


def test_prediction_with_transfers_in_flight():
    """Gathers that run beside compute hold their buffers up to the wait."""
    if free_memory() < NEEDED:
        pytest.skip(f"needs {NEEDED >> 30} GB of free memory, there are {free_memory() / 2**30:.1f}")
    done = run(ON_DEVICES, timeout=600, JAX_PLATFORMS="weft", WEFT_CACHE="0", WEFT_CPU_DEVICES=4, WEFT_OPTIONS="collectives.link=10000")
    assert done.returncode == 0, done.stderr
    predicted, measured = map(int, done.stdout.split())
    print(f"predicted {predicted / 1e6:.1f} MB, measured {measured / 1e6:.1f} MB, {100 * (measured / predicted - 1):+.2f} %")
    assert predicted >= 256 << 20
    assert abs(measured - predicted) <= 0.02 * predicted, (predicted, measured)


DONATED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
def status(what):
    for line in open('/proc/self/status'):
        if line.startswith(what): return int(line.split()[1]) * 1024
cut, n = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d")), 1 << 26
compiled = jax.jit(lambda x: jnp.sin(x) * 2 + x, donate_argnums=0).lower(jax.ShapeDtypeStruct((n,), jnp.float32, sharding=cut)).compile()
x = jax.jit(lambda: jnp.arange(n, dtype=jnp.float32), out_shardings=cut)().block_until_ready()
before = status('VmHWM')
pointers = {shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards}
y = compiled(x).block_until_ready()
assert x.is_deleted() and pointers == {shard.data.unsafe_buffer_pointer() for shard in y.addressable_shards}
print(y.nbytes, status('VmHWM') - before)
"""


def test_donated_shards():
    """An elementwise program over 8 devices writes where its donated argument lies: the process hardly grows."""
    if free_memory() < NEEDED:
        pytest.skip(f"needs {NEEDED >> 30} GB of free memory, there are {free_memory() / 2**30:.1f}")
    done = run(DONATED, timeout=600, JAX_PLATFORMS="weft", WEFT_CACHE="0", WEFT_CPU_DEVICES=8)
    assert done.returncode == 0, done.stderr
    size, grown = map(int, done.stdout.split())
    print(f"array {size / 1e6:.1f} MB, grown by {grown / 1e6:.1f} MB, {100 * grown / size:+.2f} %")
    assert grown <= 0.05 * size, (size, grown)

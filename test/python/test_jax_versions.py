"""Every feature that python/weft adds to JAX, once and quickly: what is run with each supported release.

`./dev jax-versions` runs this file and test_package.py with all of them. In another environment:

    WEFT_LIBRARY=FILE PYTHONPATH=python python -m pytest test/python/test_jax_versions.py test/python/test_package.py
"""

import functools
import importlib
import inspect
import json
import re

import pytest
import weft_jax

jax = pytest.importorskip("jax")
needs_plugin = pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")

PRELUDE = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.devices()
"""

# Name: code that raises when the feature does not work.
FEATURES = {
    "donation": """
x = jnp.arange(8.0)
y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
assert x.is_deleted() and float(y[7]) == 8
""",
    "rules_of_cpu": """
a = np.diag(np.arange(1.0, 5.0, dtype=np.float32))
w, v = jnp.linalg.eigh(a)
np.testing.assert_allclose(w, [1, 2, 3, 4], rtol=1e-5)
np.testing.assert_allclose(jnp.linalg.svd(a, compute_uv=False), [4, 3, 2, 1], rtol=1e-5)
assert jax.random.gamma(jax.random.key(0), 2.0, (3,)).shape == (3,)
""",
    "memory_kinds": """
s = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
y = jax.jit(lambda x: jax.device_put(x + 1, s))(jnp.ones(3))
assert y.sharding.memory_kind == "pinned_host", y.sharding
""",
    "platform_dependent": """
f = jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x))
assert float(f(1.0)) == 2
""",
    "export": """
from jax import export
e = export.export(jax.jit(lambda x: jnp.linalg.inv(x)), platforms=["cpu"])(jnp.eye(2))
np.testing.assert_allclose(e.call(2 * jnp.eye(2)), np.eye(2) / 2)
""",
    "asarray_without_copy": """
x = np.ones(1024, np.float32)
assert jnp.asarray(x, copy=False).shape == (1024,)
""",
    "custom_partitioning": """
from jax.experimental.custom_partitioning import custom_partitioning
@custom_partitioning
def f(x): return x * 2
f.def_partition(partition=lambda mesh, args, result: (mesh, lambda x: x * 2, result.sharding, (args[0].sharding,)),
                infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
                sharding_rule="i -> i")
assert float(jax.jit(f)(jnp.ones(4)).sum()) == 8
""",
    "cost_analysis": """
assert jax.jit(lambda x: x @ x).lower(jnp.ones((4, 4))).cost_analysis()["flops"] > 0
""",
    "pallas": """
from jax.experimental import pallas as pl
def add(x, y, out): out[...] = x[...] + y[...]
f = pl.pallas_call(add, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))
assert float(f(jnp.ones(8), jnp.ones(8)).sum()) == 16
""",
    "callbacks": """
f = jax.jit(lambda x: jax.pure_callback(lambda x: np.sin(x), x, x))
np.testing.assert_allclose(f(jnp.ones(3)), np.sin(np.ones(3)), rtol=1e-6)
seen = []
jax.jit(lambda x: jax.debug.callback(lambda x: seen.append(float(x)), x))(2.0)
jax.effects_barrier()
assert seen == [2.0]
""",
    "callback_in_scan": """
from jax.experimental import io_callback
seen = []
def body(c, x):
  io_callback(lambda x: seen.append(int(x)), None, x, ordered=True)
  return c + x, x
jax.jit(lambda xs: jax.lax.scan(body, 0, xs))(jnp.arange(3))
jax.effects_barrier()
assert seen == [0, 1, 2], seen
""",
    "callback_error": """
def fail(x): raise ValueError("of the callback")
try:
  jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(fail, x, x))(1.0))
except jax.errors.JaxRuntimeError as error:
  assert "of the callback" in str(error)
else:
  raise AssertionError("no error")
""",
    "buffer_callback": """
from jax.experimental.buffer_callback import buffer_callback
def fill(ctx, out, x): np.asarray(out)[...] = np.asarray(x) * 2
f = buffer_callback(fill, jax.ShapeDtypeStruct((4,), jnp.float32))
np.testing.assert_array_equal(jax.jit(f)(jnp.ones(4)), np.full(4, 2))
""",
    "inspect_array_sharding": """
mesh = Mesh(np.array(jax.devices()).reshape(2), ("x",))
seen = []
@jax.jit
def f(x):
  jax.debug.inspect_array_sharding(x * 2, callback=seen.append)
  return x
f(jax.device_put(np.ones(4, np.float32), NamedSharding(mesh, P("x"))))
assert str(seen[0].spec) in ("P('x',)", "PartitionSpec('x',)"), seen
""",
    "dlpack_out": """
x = jnp.arange(4.0)
a = np.from_dlpack(x)
assert a.ctypes.data == x.unsafe_buffer_pointer() and not a.flags.writeable
np.testing.assert_array_equal(np.from_dlpack(x, copy=True), a)
assert x.__dlpack_device__()[0] == 1
x.__dlpack__()
""",
    "dlpack_in": """
x = jax.dlpack.from_dlpack(np.arange(64.0, dtype=np.float32))
assert x.device == jax.devices()[0] and float(x[63]) == 63
y = jax.dlpack.from_dlpack(jnp.ones(3))
assert float(y.sum()) == 3
""",
    "cache": """
import os, tempfile
from jax._src import compilation_cache
with tempfile.TemporaryDirectory() as folder:
  jax.config.update("jax_compilation_cache_dir", folder)
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
  jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
  jax.jit(lambda x: x * 3 + 1)(jnp.ones(7)).block_until_ready()
  assert any("-cache" in name for name in os.listdir(folder)), os.listdir(folder)
""",
    "transfer_guard": """
x = jnp.ones(3) + 1
with jax.transfer_guard_device_to_host("disallow"):
  try:
    np.asarray(x)
  except jax.errors.JaxRuntimeError:
    pass
  else:
    raise AssertionError("no error")
np.asarray(x)
""",
    "several_devices": """
mesh = Mesh(np.array(jax.devices()).reshape(2), ("x",))
x = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x")))
assert float(jax.jit(jnp.sum)(x)) == 28
f = jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
np.testing.assert_array_equal(f(x), [4, 6, 8, 10])
np.testing.assert_array_equal(np.asarray(x), np.arange(8.0))
""",
}


RUN_ALL = """
import json, sys, traceback
def run(code):
  try:
    exec(code, dict(globals()))
  except BaseException:
    return traceback.format_exc()
print("RESULT", json.dumps({name: run(code) for name, code in json.load(sys.stdin).items()}))
"""


@functools.cache
def run_all(platform):
    """All features in one process: {name: error}, and what was written to stderr."""
    result = weft_jax.run(PRELUDE + RUN_ALL, input=json.dumps(FEATURES), timeout=600,
                          JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=2, WEFT_CACHE=0, WEFT_AS=platform)
    lines = [line for line in result.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, result.stderr
    return json.loads(lines[0].removeprefix("RESULT ")), result.stderr


@needs_plugin
@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("platform", ["weft", "cpu"])
def test_feature(name, platform):
    """Under its own name, and in the place of XLA's CPU (WEFT_AS=cpu)."""
    error = run_all(platform)[0][name]
    assert error is None, error


@needs_plugin
@pytest.mark.parametrize("platform", ["weft", "cpu"])
def test_nothing_is_left_out(platform):
    stderr = run_all(platform)[1]
    assert "not available" not in stderr and "outside of" not in stderr, stderr


@pytest.mark.parametrize("version, beyond", [
    ("0.13.0", True), ("1.0", True), ("0.9.2", True), ("0.10.0", True), ("0.10.1", False),
    ("0.12.7", False), ("0.11.0.dev20260101", False)])
def test_a_release_beyond_is_named(version, beyond, monkeypatch, caplog):
    monkeypatch.syspath_prepend(weft_jax.ROOT / "python")
    from weft import jax_plugin

    monkeypatch.setattr(jax, "__version__", version)
    jax_plugin._warn_of_untested_versions()
    assert (f"jax {version} is outside of what Weft was tested with" in caplog.text) == beyond


# What python/weft relies on in functions that it replaces or calls: module, function, parameters.
SIGNATURES = """
jax._src.callback emit_python_callback ctx callback token operands operand_avals result_avals has_side_effect returns_token partitioned sharding
jax._src.compilation_cache is_cache_used backend
jax._src.dispatch _tpu_gpu_device_put_lowering ctx devices srcs copy_semantics
jax._src.dlpack _to_dlpack x stream src_device device copy
jax._src.ffi build_ffi_lowering_function call_target_name
jax._src.ffi ffi_lowering call_target_name
jax._src.interpreters.mlir register_lowering prim rule platform
jax._src.numpy.array_constructors _get_platform device_or_sharding
jax._src.xla_bridge local_devices process_index backend
jax._src.xla_bridge register_backend_factory name factory priority fail_quietly
jax._src.xla_bridge register_plugin plugin_name priority library_path options
"""


@pytest.mark.parametrize("line", SIGNATURES.strip().splitlines())
def test_signature(line):
    module, name, *wanted = line.split()
    given = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    assert set(wanted) <= set(given), f"jax {jax.__version__}: {module}.{name}{tuple(given)}"


def test_tested_versions_are_written_down():
    from_package = re.search(r'TESTED_JAX = \("(.*?)", "(.*?)"\)',
                             (weft_jax.ROOT / "python/weft/__init__.py").read_text()).groups()
    project = (weft_jax.ROOT / "pyproject.toml").read_text()
    assert f'"jax>={from_package[0]}"' in project
    readme = (weft_jax.ROOT / "python/weft/README.md").read_text()
    assert f"{from_package[0]} to {from_package[1]}" in readme

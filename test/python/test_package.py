"""The Python package: it registers when asked for, stays out of the way otherwise, and breaks nothing.

The list at the end is the tripwire for JAX's private parts that the package uses.
"""

import ast
import functools
import importlib
import pathlib
import re

import pytest
import weft_jax

pytest.importorskip("jax")

SOURCES = pathlib.Path(weft_jax.ROOT) / "python" / "weft"
needs_plugin = pytest.mark.skipif(not weft_jax.LIBRARY.exists(), reason="the plugin is not built")

WHICH = "import jax; print(jax.default_backend(), sorted(jax._src.xla_bridge.backends()))"


def check(result, stdout=None):
    assert result.returncode == 0, result.stderr
    if stdout is not None:
        assert result.stdout.strip() == stdout
    return result


def test_nothing_changes_when_not_asked_for():
    code = WHICH + """
import sys
assert not [m for m in sys.modules if m in ("weft._native", "weft._callbacks")], sys.modules
from jax._src.interpreters import mlir
assert "weft" not in mlir._platforms_with_donation
"""
    check(weft_jax.run(code), "cpu ['cpu']")
    check(weft_jax.run(code, JAX_PLATFORMS="cpu"), "cpu ['cpu']")


@needs_plugin
@pytest.mark.parametrize("variables, expected", [
    (dict(JAX_PLATFORMS="weft"), "weft ['weft']"),
    (dict(JAX_PLATFORMS="weft,cpu"), "weft ['cpu', 'weft']"),
    (dict(JAX_PLATFORMS="cpu,weft"), "cpu ['cpu', 'weft']"),
    (dict(WEFT_DEFAULT="1"), "weft ['cpu', 'weft']"),
    (dict(WEFT_DEFAULT="1", JAX_PLATFORMS="cpu"), "cpu ['cpu']"),
    (dict(WEFT_DEFAULT="0"), "cpu ['cpu']"),
])
def test_opting_in(variables, expected):
    result = check(weft_jax.run(WHICH, **variables), expected)
    assert "experimental" not in result.stderr and "weft:" not in result.stderr, result.stderr


@needs_plugin
def test_config_instead_of_environment():
    check(weft_jax.run("import jax; jax.config.update('jax_platforms', 'weft');"
                       "print(jax.devices()[0].platform)"), "weft")


@needs_plugin
@pytest.mark.parametrize("setting, variables, count", [
    ("", {}, 1),
    ("", {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, 3),
    ("jax.config.update('jax_num_cpu_devices', 2)", {}, 2),
    ("jax.config.update('jax_num_cpu_devices', 2)", {"WEFT_CPU_DEVICES": "4"}, 4),
])
def test_as_many_devices_as_asked_for_of_cpu(setting, variables, count):
    code = f"import jax\n{setting}\nprint(jax.device_count('weft'))"
    check(weft_jax.run(code, JAX_PLATFORMS="weft", **variables), str(count))


def test_missing_library_beside_others():
    result = check(weft_jax.run(WHICH, JAX_PLATFORMS="weft,cpu", WEFT_LIBRARY="/nonexistent.so"),
                   "cpu ['cpu']")
    assert result.stderr.count("weft is not available") == 1
    assert "Traceback" not in result.stderr


def test_missing_library_by_default():
    result = check(weft_jax.run(WHICH, WEFT_DEFAULT="1", WEFT_LIBRARY="/nonexistent.so"),
                   "cpu ['cpu']")
    assert result.stderr.count("weft is not available") == 1


def test_missing_library_not_asked_for():
    result = check(weft_jax.run(WHICH, WEFT_LIBRARY="/nonexistent.so"), "cpu ['cpu']")
    assert "weft" not in result.stderr


def test_missing_library_alone():
    result = weft_jax.run("import jax; jax.devices()", JAX_PLATFORMS="weft",
                          WEFT_LIBRARY="/nonexistent.so")
    assert result.returncode != 0
    assert "weft is not available: no plugin at /nonexistent.so" in result.stderr


def test_library_that_is_none(tmp_path):
    broken = tmp_path / "libpjrt_weft.so"
    broken.write_bytes(b"not a library")
    result = weft_jax.run("import jax; jax.devices()", JAX_PLATFORMS="weft", WEFT_LIBRARY=broken)
    assert result.returncode != 0 and "cannot be loaded" in result.stderr
    check(weft_jax.run(WHICH, JAX_PLATFORMS="weft,cpu", WEFT_LIBRARY=broken), "cpu ['cpu']")


@needs_plugin
def test_a_private_part_that_is_gone_costs_one_feature():
    code = """
import jax
from jax._src.interpreters import mlir
del mlir._platforms_with_donation
import jax.numpy as jnp, numpy as np
mlir_donation = None
try:
  jax.devices()
finally:
  mlir._platforms_with_donation = ["cpu"]
print(jax.pure_callback(np.sin, jnp.ones(()), jnp.zeros(())).shape)
"""
    result = check(weft_jax.run(code, JAX_PLATFORMS="weft"), "()")
    assert result.stderr.count("is not available with jax") == 1, result.stderr
    assert "weft: donation is not available with jax" in result.stderr


@needs_plugin
def test_a_signature_that_changed_costs_one_feature():
    code = """
import jax, jax.numpy as jnp
from jax._src import callback
callback.emit_python_callback = lambda ctx, function, operands: None
print(jnp.linalg.inv(jnp.eye(2)).shape)
"""
    result = check(weft_jax.run(code, JAX_PLATFORMS="weft"), "(2, 2)")
    assert result.stderr.count("is not available with jax") == 1, result.stderr
    assert "weft: host callbacks is not available with jax" in result.stderr
    assert "takes no callback, token" in result.stderr and "Traceback" not in result.stderr


@needs_plugin
def test_exit_while_callbacks_run():
    code = """
import jax, jax.numpy as jnp, numpy as np, time
def slow(x):
  time.sleep(0.2)
  return x
f = jax.jit(lambda x: jax.pure_callback(slow, x, x))
outs = [f(jnp.ones(3)) for _ in range(3)]
"""
    check(weft_jax.run(code, JAX_PLATFORMS="weft", timeout=60))


def test_version_is_one():
    version = re.search(r'^version = "(.*)"', (weft_jax.ROOT / "pyproject.toml").read_text(), re.M)
    package = re.search(r'__version__ = "(.*)"', (SOURCES / "__init__.py").read_text())
    cmake = re.search(r"project\(weft .*VERSION ([0-9.]+)", (weft_jax.ROOT / "CMakeLists.txt").read_text())
    assert version[1] == package[1] == cmake[1]


# Every private part of JAX that the package uses: module, then attributes. When a release of JAX
# moves one, the test names it; at run time the feature that needs it is left out with a warning.
PRIVATE = """
jax._src.array: ArrayImpl.__dlpack_device__ ArrayImpl.__cuda_array_interface__
jax._src.array: ArrayImpl.unsafe_buffer_pointer ArrayImpl.block_until_ready
jax._src.buffer_callback: buffer_callback_p
jax._src.callback: emit_python_callback xb
jax._src.compilation_cache: is_cache_used
jax._src.config: use_shardy_partitioner.value transfer_guard_device_to_host._add_hooks
jax._src.core: abstract_token
jax._src.custom_partitioning: custom_partitioning_p _custom_partitioning_lowering_rule _custom_partitioning_partition xc
jax._src.debugging: xla_bridge xc _inspect_sharding_lowering_rule inspect_sharding_p
jax._src.dispatch: device_put_p _tpu_gpu_device_put_lowering runtime_tokens.block_until_ready
jax._src.dlpack: _jax xla_bridge DLDeviceType.kDLCPU DLDeviceType.kDLCUDA
jax._src.dtypes: canonicalize_value
jax._src.export._export: call_exported_p
jax._src.ffi: build_ffi_lowering_function ffi_lowering
jax._src.interpreters.mlir: _platforms_with_donation _platform_specific_lowerings _lowerings register_lowering set_sharding
jax._src.interpreters.mlir: LoweringRuleEntry make_ir_context refine_polymorphic_shapes
jax._src.interpreters.mlir: ModuleContext.add_host_callback ModuleContext.add_keepalive get_constant_handler lower_fun register_constant_handler
jax._src.interpreters.pxla: MeshComputation.cost_analysis MeshComputation.hlo
jax._src.lax.control_flow: loops conditionals
jax._src.lax.control_flow.conditionals: platform_index_p cond_p
jax._src.lax.control_flow.loops: xb
jax._src.lax.linalg: initialize_lapack
jax._src.lib: _jax gpu_rnn xla_client
jax._src.lib.mlir: ir
jax._src.lib._jax: Client.compile_and_load buffer_to_dlpack_managed_tensor dlpack_managed_tensor_to_buffer JaxRuntimeError
jax._src.lib._jax: register_custom_call_target register_custom_type cuda_array_interface_to_buffer
jax._src.lib.xla_client: register_custom_call_handler register_custom_type_handler
jax._src.lib.xla_client: register_custom_call_target custom_call_targets
jax._src.lib.xla_client: OpSharding.ParseFromString HloSharding.from_proto encode_inspect_sharding_callback
jax._src.lib.xla_client: HloSharding.tuple_sharding HloSharding.tuple_elements Shape.array_shape Shape.tuple_shape
jax._src.numpy.array_constructors: _get_platform xc
jax._src.sharding_impls: SdyArray SdyArrayList ShardingContext
jax._src.tree_util: tree_unflatten
jax._src.util: split_list
jax._src.xla_bridge: _backend_factories _nonexperimental_plugins register_plugin register_backend_factory
jax._src.xla_bridge: default_backend get_backend local_devices num_cpu_devices.value
jax._src.xla_bridge: _alias_to_platforms _backend_errors _topology_factories canonicalize_platform backends
"""


def private_parts():
    for line in PRIVATE.strip().splitlines():
        module, names = line.split(": ")
        for name in names.split():
            yield module, name


def resolve(module):
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        parent, _, name = module.rpartition(".")
        return getattr(importlib.import_module(parent), name)


@pytest.mark.parametrize("module, name", list(private_parts()))
def test_private_part_of_jax(module, name):
    import jax

    try:
        functools.reduce(getattr, name.split("."), resolve(module))
    except (ImportError, AttributeError):
        pytest.fail(f"jax {jax.__version__} has no {module}.{name}, which python/weft uses")


def test_the_list_of_private_parts_is_complete():
    listed = {module for module, _ in private_parts()}
    listed |= {f"{module}.{name.split('.')[0]}" for module, name in private_parts()}
    missing = set()
    for path in SOURCES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jax._src"):
                missing |= {f"{node.module}.{alias.name}" for alias in node.names} - listed
    assert not missing, f"used in {SOURCES}, not in the list of this file: {sorted(missing)}"



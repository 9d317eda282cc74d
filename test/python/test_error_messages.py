"""Errors as the user sees them through JAX: what is wrong, the line of the user's program, what to do about it."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="jax is not installed: run ./dev test")

from weft_jax import LIBRARY, environment  # noqa: E402

if not LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)

PROGRAM = '''
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax

errors = {}

def case(function):
    try:
        jax.block_until_ready(function())
        errors[function.__name__] = ["", "no error"]
    except Exception as error:
        errors[function.__name__] = [type(error).__name__, str(error)]

@case
def result_too_large():
    return jax.jit(lambda x: jnp.broadcast_to(x, (1 << 20, 1 << 20)))(jnp.float32(1))

def outer_product(x):
    y = x + 1
    return jnp.sin(y[:, None] * y[None, :]) @ y  # here: value_too_large

@case
def value_too_large():
    return jax.jit(outer_product)(jnp.ones(1 << 20))

@case
def array_too_large():
    return jnp.zeros((1 << 20, 1 << 20))

def calls_unknown(x):
    y = x * 2
    return jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(y)  # here: unknown_custom_call

@case
def unknown_custom_call():
    return jax.jit(calls_unknown)(jnp.ones(3))

def fails(x):
    raise ValueError("the callback's own words")  # here: callback

@case
def callback():
    return jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), x))(jnp.float32(1))

@case
def unknown_option():
    return jax.jit(lambda x: x, compiler_options={"nonsense": True})(1.0)

@case
def donated():
    x = jnp.ones(4)
    jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x + 1

@case
def donated_to_compiled():
    compiled = jax.jit(lambda x: x + 1, donate_argnums=0).lower(jnp.ones(4)).compile()
    x = jnp.ones(4)
    compiled(x)
    return compiled(x)

@case
def nan():
    with jax.debug_nans(True):
        return jax.jit(lambda x: jnp.log(x) - 1)(jnp.float32(-1))

@case
def other_shape():
    return jax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile()(jnp.ones(4))

print(json.dumps(errors))
'''

# The type, and what the message says.
WANT = {
    "result_too_large": ("JaxRuntimeError", ["RESOURCE_EXHAUSTED", "jit__lambda: out of memory: 4.40 TB more", "hint: smaller batches", "WEFT_MEMORY_LIMIT sets"]),
    "value_too_large": ("JaxRuntimeError", ["RESOURCE_EXHAUSTED", "f32[1048576,1048576]", "WEFT_MEMORY_LIMIT sets the limit"]),
    "array_too_large": ("JaxRuntimeError", ["RESOURCE_EXHAUSTED", "WEFT_MEMORY_LIMIT sets the limit"]),
    "unknown_custom_call": ("JaxRuntimeError", ["UNIMPLEMENTED", "custom-call: no target no_such_target is registered", "hint: jax.ffi.register_ffi_target"]),
    "callback": ("JaxRuntimeError", ["INTERNAL", "custom-call", "ValueError: the callback's own words"]),
    "unknown_option": ("JaxRuntimeError", ["INVALID_ARGUMENT", "No such compile option: 'nonsense'", "hint: compiler_options takes XLA's", "WEFT_OPTIONS"]),
    "donated": ("RuntimeError", ["deleted", "float32[4]"]),
    "donated_to_compiled": ("", ["deleted"]),
    "nan": ("FloatingPointError", ["invalid value (nan) encountered in log"]),
    "other_shape": ("TypeError", ["float32[3]", "float32[4]"]),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("errors") / "user_program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300,
                          env=environment(JAX_PLATFORMS="weft", WEFT_MEMORY_LIMIT=str(8 << 30)))
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", WANT)
def test_message(program, name):
    path, errors = program
    kind, parts = WANT[name]
    got_kind, message = errors[name]
    if kind:
        assert got_kind == kind, message
    for part in parts:
        assert part in message, message
    lines = [i for i, line in enumerate(path.read_text().splitlines(), 1) if line.endswith(f"# here: {name}")]
    for line in lines:
        at = f'{path}", line {line}' if name == "callback" else f" at {path}:{line} ("
        assert at in message, message

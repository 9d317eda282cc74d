"""JAX programs as StableHLO, bytecode and text, imported and evaluated by Weft, compared with JAX's CPU backend."""

import os
import subprocess

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: run ./dev test")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jax._src.lib import _jax  # noqa: E402

from test_evaluator_jax import CASES as PROGRAMS, f32, s32  # noqa: E402
from weft_eval import NAMES, WEFT, evaluate  # noqa: E402

PROBE = "module @m { func.func public @main() { return } }\n"
if subprocess.run([str(WEFT), "print", "-"], input=PROBE.encode(), capture_output=True).returncode != 0:
    pytest.skip("this weft does not read StableHLO", allow_module_level=True)


def while_captures(x, y):
    """The loop's condition and body use values from outside."""
    limit = y.sum()
    return lax.while_loop(lambda s: s[0].sum() < limit, lambda s: (s[0] + y, s[1] * 2), (x, x))


def one_state_captures(x, y):
    return lax.while_loop(lambda s: s.sum() < 100, lambda s: s + y, x)


def nested_captures(x, y):
    def outer(i, s):
        return lax.fori_loop(0, 3, lambda j, t: t + y * i + x[j], s)

    return lax.fori_loop(0, 4, outer, x)


def cond_captures(x, y, z):
    return lax.cond(x[0] > 0, lambda: x + y, lambda: z * 2 + jnp.float32(3))


def switch_captures(i, x, y):
    return lax.switch(i, [lambda: x, lambda: y, lambda: x + y])


def deep(x):
    f = lambda v: v + 1  # noqa: E731
    for _ in range(20):
        f = jax.jit(lambda v, g=f: g(v) * 1.5)
    return f(x)


EXTRA = {
    "while_captures": (while_captures, np.zeros(3, np.float32), np.full(3, 7, np.float32)),
    "one_state_captures": (one_state_captures, np.zeros(3, np.float32), np.full(3, 7, np.float32)),
    "nested_captures": (nested_captures, f32(5), f32(5, seed=3)),
    "cond_captures": (cond_captures, f32(4), f32(4, seed=1), f32(4, seed=2)),
    "switch_captures": (switch_captures, np.int32(2), f32(4), f32(4, seed=2)),
    "calls_in_calls": (deep, f32(4)),
    "big_splat": (lambda x: x + jnp.full((100, 100), 2.5, jnp.float32), f32(100, 100)),
    "big_constant": (lambda x: x + np.arange(10000, dtype=np.float32).reshape(100, 100), f32(100, 100)),
    "bool_constant": (lambda x: jnp.where(np.arange(40) % 3 == 0, x, -x), f32(40)),
    "int4_constant": (lambda x: x + jnp.array([1, -2, 3, 7], jnp.int4).astype(jnp.int32), s32(4)),
    "fp8_constant": (lambda x: x + jnp.array([1.5, -2, 3, 7], jnp.float8_e4m3fn).astype(jnp.float32), f32(4)),
    "complex_constant": (lambda x: x * np.array([1 + 2j, 3 - 1j], np.complex64), f32(2)),
    "grow_dims": (lambda x: jnp.broadcast_to(x, (4, 3, 5)), f32(4, 1, 5)),
    "swapped_broadcast": (lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (2, 0)), f32(4, 2)),
    "no_results": (lambda x: (), f32(2)),
    "unused_argument": (lambda x, y: x * 2, f32(2), f32(3)),
    "argument_is_result": (lambda x, y: (y, x, x), f32(2), f32(3)),
    "total_order_sort": (lambda x: lax.sort(x), np.array([0.0, -0.0, np.nan, -1, 3], np.float32)),
    "erf": (jax.scipy.special.erf, f32(9)),
    "erf_inv": (jax.scipy.special.erfinv, f32(9, low=-0.9, high=0.9)),
    "lgamma": (jax.scipy.special.gammaln, f32(9, low=0.1, high=5)),
    "digamma": (jax.scipy.special.digamma, f32(9, low=0.1, high=5), 1e-4, 1e-4),
    "tan": (jnp.tan, f32(9, low=-1, high=1)),
    "top_k": (lambda x: lax.top_k(x, 3), f32(4, 9)),
    "random_normal": (lambda: jax.random.normal(jax.random.key(3), (5,)),),
    "random_permutation": (lambda: jax.random.permutation(jax.random.key(3), 17),),
    "barrier": (lambda x, y: lax.optimization_barrier((x, y)), f32(3), f32(4)),
    "select_scalar": (lambda p, x, y: lax.select(p, x, y), np.bool_(True), f32(3), f32(3, seed=1)),
    "clamp_scalar": (lambda x: lax.clamp(np.float32(-1), x, np.float32(1)), f32(9)),
    "take_batched": (lambda x, i: jnp.take_along_axis(x, i, axis=1), f32(4, 6), s32(4, 2, low=0, high=6)),
    "scatter_batched": (lambda x, u: jax.vmap(lambda a, b: a.at[2].add(b))(x, u), f32(4, 6), f32(4)),
}  # fmt: skip
CASES = {**PROGRAMS, **EXTRA}


def portable(lowered):
    module = lowered.compiler_ir(dialect="stablehlo")
    return _jax.mlir.serialize_portable_artifact(mlir.module_to_bytecode(module), "1.16.0", True)


def kept(lowered, args):
    """jit drops arguments that are not used."""
    leaves = jax.tree_util.tree_leaves(args)
    indices = lowered._lowering.compile_args.get("kept_var_idx", range(len(leaves)))
    return [np.asarray(leaves[i]) for i in sorted(indices)]


def compare(got, want, rtol=2e-5, atol=2e-5):
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.dtype == w.dtype and g.shape == w.shape, (g.dtype, w.dtype, g.shape, w.shape)
        if NAMES[w.dtype][0] in "psu":
            np.testing.assert_array_equal(g, w)
        else:
            wide = np.complex128 if w.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=rtol, atol=atol)


@pytest.mark.parametrize("form", ["bytecode", "text"])
@pytest.mark.parametrize("name", CASES)
def test_import(name, form):
    f, *args = CASES[name]
    tolerances = {}
    if len(args) >= 2 and all(isinstance(t, float) for t in args[-2:]):
        tolerances = dict(rtol=args[-2], atol=args[-1])
        args = args[:-2]
    lowered = jax.jit(f).lower(*args)
    contents = portable(lowered) if form == "bytecode" else lowered.as_text(debug_info=True)
    want = [np.asarray(x) for x in jax.tree_util.tree_leaves(jax.jit(f)(*args))]
    compare(evaluate(contents, *kept(lowered, args)), want, **tolerances)


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_parts_of_an_unreduced_value_are_put_together_as_the_sharding_says(kind):
    op = {"max": "maximum", "min": "minimum", "sum": "add"}[kind]
    text = f"""module @m attributes {{mhlo.num_partitions = 2 : i32}} {{
      sdy.mesh @mesh = <["x"=2]>
      func.func public @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> tensor<f32> {{
        %c = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = stablehlo.reduce(%a init: %c) applies stablehlo.{op} across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
        %1 = sdy.sharding_constraint %0 <@mesh, [], unreduced={kind}{{"x"}}> : tensor<f32>
        %2 = sdy.sharding_constraint %1 <@mesh, []> : tensor<f32>
        return %2 : tensor<f32>
      }}
    }}"""
    done = subprocess.run([str(WEFT), "opt", "--passes=propagate-shardings,partition", "-"],
                          input=text.encode(), capture_output=True, check=True)
    reduced = [line for line in done.stdout.decode().splitlines() if "all-reduce(" in line]
    assert len(reduced) == 1 and f"to_apply=%{op}" in reduced[0], done.stdout.decode()

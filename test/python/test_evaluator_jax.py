"""Programs lowered by JAX to HLO, evaluated by Weft and compared with JAX's own CPU backend."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: run ./dev test")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from weft_eval import NAMES, evaluate  # noqa: E402


def f32(*shape, seed=0, low=-2.0, high=2.0):
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype(np.float32)


def f64(*shape, seed=0):
    return f32(*shape, seed=seed).astype(np.float64)


def s32(*shape, low=-50, high=50, seed=0):
    return np.random.default_rng(seed + 7).integers(low, high, shape).astype(np.int32)


def c64(*shape, seed=0):
    return (f32(*shape, seed=seed) + 1j * f32(*shape, seed=seed + 1)).astype(np.complex64)


def spd(n, dtype=np.float32):
    a = f64(n, n)
    return (a @ a.T + n * np.eye(n)).astype(dtype)


def check(f, *args, rtol=2e-5, atol=2e-5):
    lowered = jax.jit(f).lower(*args)
    text = lowered.compiler_ir(dialect="hlo").as_hlo_text()
    want = [np.asarray(x) for x in jax.tree_util.tree_leaves(jax.jit(f)(*args))]
    got = evaluate(text, *[np.asarray(a) for a in jax.tree_util.tree_leaves(args)])
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.dtype == w.dtype and g.shape == w.shape, (g.dtype, w.dtype, g.shape, w.shape)
        if NAMES[w.dtype][0] in "psu":
            np.testing.assert_array_equal(g, w)
        else:
            wide = np.complex128 if w.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=rtol, atol=atol)


def conv(x, w, **kw):
    return lax.conv_general_dilated(x, w, kw.pop("strides", (1, 1)), kw.pop("padding", "SAME"), **kw)


def segment(x, ids):
    return jax.ops.segment_sum(x, ids, num_segments=8)


def mlp_loss(w1, w2, x, y):
    h = jax.nn.gelu(x @ w1)
    return jnp.mean(jnp.square(jax.nn.log_softmax(h @ w2) - y))


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    p = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", p, v)


def newton(x):
    return lax.while_loop(lambda s: jnp.abs(s * s - x) > 1e-5, lambda s: 0.5 * (s + x / s), x)


def scan_rnn(h, xs):
    def step(h, x):
        h = jnp.tanh(0.5 * h + x)
        return h, h.sum()

    return lax.scan(step, h, xs)


def pool(kind, init, strides=(1, 2, 2, 1), window=(1, 3, 3, 1), padding="SAME"):
    return lambda x: lax.reduce_window(x, init, kind, window, strides, padding)


CASES = {
    # contractions
    "matmul": (lambda a, b: a @ b, f32(17, 33), f32(33, 9)),
    "matmul_f64": (lambda a, b: a @ b, f64(17, 33), f64(33, 9)),
    "matmul_bf16": (lambda a, b: (a @ b).astype(jnp.float32), f32(8, 8).astype(jnp.bfloat16), f32(8, 8).astype(jnp.bfloat16), 5e-2, 5e-2),
    "matmul_int": (lambda a, b: a @ b, s32(5, 6), s32(6, 7)),
    "matmul_c64": (lambda a, b: a @ b, c64(5, 6), c64(6, 7)),
    "matmul_int8_to_s32": (lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), s32(5, 6).astype(np.int8), s32(6, 7).astype(np.int8)),
    "batched_matmul": (lambda a, b: jnp.matmul(a, b), f32(3, 4, 5), f32(3, 5, 6)),
    "einsum": (lambda a, b: jnp.einsum("abcd,cbe->dea", a, b), f32(2, 3, 4, 5), f32(4, 3, 6)),
    "vector_dot": (lambda a, b: jnp.vdot(a, b), f32(100), f32(100, seed=2)),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, axes=([1, 2], [0, 1])), f32(2, 3, 4), f32(3, 4, 5)),
    # convolutions
    "conv_same": (conv, f32(2, 3, 9, 8), f32(4, 3, 3, 3)),
    "conv_valid_stride": (lambda x, w: conv(x, w, strides=(2, 3), padding="VALID"), f32(2, 3, 11, 10), f32(4, 3, 3, 2)),
    "conv_dilated": (lambda x, w: conv(x, w, rhs_dilation=(2, 1), lhs_dilation=(1, 2), padding=[(1, 2), (0, 1)]), f32(1, 2, 8, 7), f32(3, 2, 2, 3)),
    "conv_grouped": (lambda x, w: conv(x, w, feature_group_count=3), f32(2, 6, 7, 7), f32(9, 2, 3, 3)),
    "conv_batch_group": (lambda x, w: conv(x, w, batch_group_count=2), f32(4, 3, 6, 6), f32(4, 3, 3, 3)),
    "conv_nhwc": (lambda x, w: conv(x, w, dimension_numbers=("NHWC", "HWIO", "NHWC")), f32(2, 9, 8, 3), f32(3, 3, 3, 4)),
    "conv_depthwise": (lambda x, w: conv(x, w, feature_group_count=4), f32(1, 4, 6, 6), f32(4, 1, 3, 3)),
    "conv_1d": (lambda x, w: lax.conv_general_dilated(x, w, (2,), "SAME"), f32(2, 3, 17), f32(5, 3, 4)),
    "conv_3d": (lambda x, w: lax.conv_general_dilated(x, w, (1, 1, 1), "SAME"), f32(1, 2, 4, 5, 6), f32(3, 2, 2, 3, 2)),
    "conv_transpose": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), f32(1, 5, 5, 2), f32(3, 3, 2, 4)),
    "conv_grad": (jax.grad(lambda w, x: conv(x, w).sum() ** 2), f32(4, 3, 3, 3), f32(2, 3, 6, 6), 1e-3, 1e-3),
    "conv_grad_input": (jax.grad(lambda x, w: (conv(x, w, strides=(2, 2)) ** 2).sum()), f32(2, 3, 6, 6), f32(4, 3, 3, 3), 1e-4, 1e-4),
    # reductions and scans
    "softmax": (jax.nn.softmax, f32(7, 33)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=0), f32(7, 33)),
    "variance": (lambda x: jnp.var(x, axis=(0, 2)), f32(4, 5, 6)),
    "argmax": (lambda x: jnp.argmax(x, axis=1), f32(9, 50)),
    "argmin_flat": (lambda x: jnp.argmin(x), f32(9, 50)),
    "any_all": (lambda x: (jnp.any(x > 1.9, axis=0), jnp.all(x > -1.9, axis=1)), f32(9, 50)),
    "prod": (lambda x: jnp.prod(x, axis=-1), f32(9, 8)),
    "cumsum": (jnp.cumsum, f32(1000), 1e-4, 1e-4),
    "cumsum_axis": (lambda x: jnp.cumsum(x, axis=1), f32(5, 40, 3)),
    "cumprod": (lambda x: jnp.cumprod(x, axis=0), f32(12, 3)),
    "cummax_reverse": (lambda x: lax.cummax(x, axis=1, reverse=True), f32(5, 40)),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, axis=0), f32(12, 3)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), s32(37)),
    "scan_rnn": (scan_rnn, f32(4), f32(10, 4)),
    "fori": (lambda x: lax.fori_loop(0, 10, lambda i, v: v + i * 0.5, x), f32(3)),
    "while_newton": (newton, np.float32(2.5)),
    "cond": (lambda p, x: lax.cond(p > 0, lambda v: v + 1, lambda v: v * 2, x), np.float32(-1), f32(3)),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), np.int32(2), f32(3)),
    "map": (lambda x: lax.map(lambda v: v * v.sum(), x), f32(5, 3)),
    # windows
    "max_pool": (pool(lax.max, -np.inf), f32(2, 9, 8, 3)),
    "avg_pool_valid": (pool(lax.add, 0.0, padding="VALID"), f32(2, 9, 8, 3)),
    "min_pool": (pool(lax.min, np.inf, strides=(1, 1, 1, 1)), f32(2, 9, 8, 3)),
    "window_dilated": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (2, 1), [(1, 0), (0, 2)], (2, 1), (1, 2)), f32(7, 8)),
    "max_pool_grad": (jax.grad(lambda x: (pool(lax.max, -np.inf, padding="VALID")(x) ** 2).sum()), f32(2, 9, 9, 2)),
    "avg_pool_grad": (jax.grad(lambda x: (pool(lax.add, 0.0)(x) ** 2).sum()), f32(1, 6, 6, 2), 1e-4, 1e-4),
    # sorting
    "sort": (jnp.sort, f32(301)),
    "sort_axis0": (lambda x: jnp.sort(x, axis=0), f32(31, 4)),
    "sort_nan": (jnp.sort, np.array([3, np.nan, -0.0, 0.0, -np.inf, np.inf, -1], np.float32)),
    "sort_int": (jnp.sort, s32(301)),
    "sort_descending": (lambda x: jnp.sort(x, descending=True), f32(301)),
    "argsort": (jnp.argsort, s32(301, low=0, high=20)),
    "sort_complex": (jnp.sort, c64(50)),
    "lexsort": (lambda a, b: jnp.lexsort((a, b)), s32(40, low=0, high=5), s32(40, low=0, high=5, seed=3)),
    "sort_pairs": (lambda a, b: lax.sort((a, b), num_keys=2), s32(40, low=0, high=5), s32(40, seed=3)),
    "median": (lambda x: jnp.median(x, axis=1), f32(5, 12)),
    "quantile": (lambda x: jnp.quantile(x, jnp.array([0.1, 0.6])), f32(50)),
    "top_k": (lambda x: lax.top_k(x, 5), f32(4, 30)),
    "unique": (lambda x: jnp.unique(x, size=10), s32(50, low=0, high=9)),
    "searchsorted": (lambda a, v: jnp.searchsorted(jnp.sort(a), v), f32(60), f32(20, seed=4)),
    "histogram": (lambda x: jnp.histogram(x, bins=7)[0], f32(200)),
    # gather, scatter, slices
    "gather_rows": (lambda x, i: x[i], f32(9, 5), s32(6, low=0, high=9)),
    "gather_negative": (lambda x, i: x[i], f32(9, 5), s32(6, low=-9, high=9)),
    "gather_2d": (lambda x, i, j: x[i, j], f32(9, 5), s32(6, low=0, high=9), s32(6, low=0, high=5, seed=2)),
    "gather_out_of_bounds": (lambda x, i: x.at[i].get(mode="clip"), f32(9), s32(20)),
    "gather_fill": (lambda x, i: x.at[i].get(mode="fill", fill_value=7), f32(9), s32(20)),
    "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, axis=1), f32(4, 6), s32(4, 3, low=0, high=6)),
    "scatter_add": (lambda x, i, u: x.at[i].add(u), f32(9), s32(20, low=0, high=9), f32(20)),
    "scatter_set": (lambda x, i, u: x.at[i].set(u), f32(9, 3), np.array([4, 1, 7], np.int32), f32(3, 3)),
    "scatter_max": (lambda x, i, u: x.at[i].max(u), f32(9), s32(20, low=0, high=9), f32(20)),
    "scatter_mul": (lambda x, i, u: x.at[:, i].multiply(u), f32(3, 9), s32(5, low=0, high=9), f32(3, 5)),
    "scatter_drop": (lambda x, i, u: x.at[i].set(u, mode="drop"), f32(9), s32(6, low=5, high=30), f32(6)),
    "scatter_apply": (lambda x, i: x.at[i].apply(jnp.sin), f32(9), np.array([1, 3], np.int32)),
    "segment_sum": (segment, f32(40, 3), s32(40, low=0, high=8)),
    "gather_grad": (jax.grad(lambda x, i: (x[i] ** 2).sum()), f32(9, 5), s32(6, low=0, high=9)),
    "vmap_gather": (jax.vmap(lambda x, i: x[i]), f32(4, 9), s32(4, 3, low=0, high=9)),
    "vmap_scatter": (jax.vmap(lambda x, i, u: x.at[i].add(u)), f32(4, 9), s32(4, 3, low=0, high=9), f32(4, 3)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, i + 1), (3, 2)), f32(9, 5), np.int32(7)),
    "dynamic_update_slice": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, jnp.int32(-2))), f32(9, 5), f32(2, 2), np.int32(30)),
    "slice_stride": (lambda x: x[1:8:3, ::-2], f32(9, 5)),
    "pad": (lambda x: lax.pad(x, np.float32(9), [(1, -1, 2), (-2, 3, 0)]), f32(5, 6)),
    "pad_modes": (lambda x: (jnp.pad(x, 2, mode="reflect"), jnp.pad(x, 1, mode="edge"), jnp.pad(x, 3, mode="wrap")), f32(5, 6)),
    "concatenate": (lambda a, b: jnp.concatenate([a, b, a], axis=1), f32(3, 2), f32(3, 4)),
    "roll_flip": (lambda x: (jnp.roll(x, 3, axis=1), jnp.flip(x), jnp.rot90(x)), f32(4, 7)),
    "transpose": (lambda x: jnp.transpose(x, (2, 0, 3, 1)), f32(2, 3, 4, 5)),
    "reshape": (lambda x: x.reshape(6, -1, 2).T, f32(4, 6)),
    "broadcast": (lambda a, b: a[:, None, :] * b[None, :, None], f32(3, 5), f32(4)),
    "tile_repeat": (lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 3, axis=0)), f32(2, 3)),
    "iota": (lambda: lax.broadcasted_iota(np.int32, (3, 4, 5), 1),),
    "meshgrid": (lambda a, b: jnp.meshgrid(a, b), f32(3), f32(4)),
    "tril_triu": (lambda x: (jnp.tril(x, -1), jnp.triu(x, 2)), f32(5, 7)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 7), s32(9, low=0, high=7)),
    "where_nan": (lambda x: jnp.where(x > 0, jnp.log(x), jnp.nan), f32(30)),
    # fft
    "fft": (jnp.fft.fft, c64(4, 30)),
    "ifft": (jnp.fft.ifft, c64(4, 17)),
    "rfft": (jnp.fft.rfft, f32(4, 31)),
    "irfft": (jnp.fft.irfft, c64(4, 17)),
    "fft2": (jnp.fft.fft2, c64(3, 12, 10)),
    "rfftn": (jnp.fft.rfftn, f32(4, 6, 10)),
    "irfftn": (jnp.fft.irfftn, c64(4, 6, 7)),
    "fft_c128": (jnp.fft.fft, c64(64).astype(np.complex128)),
    "fft_bluestein": (jnp.fft.fft, c64(2, 101)),
    # bits, integers, random numbers
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), f32(9)),
    "bitcast_narrow": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), f32(9)),
    "bitcast_wide": (lambda x: lax.bitcast_convert_type(x, jnp.int32), s32(9, 4, low=0, high=255).astype(np.uint8)),
    "popcount_clz": (lambda x: (lax.population_count(x), lax.clz(x)), s32(30)),
    "shifts": (lambda x: (x << 3, x >> 2, lax.shift_right_logical(x, jnp.int32(5))), s32(30)),
    "int_division": (lambda a, b: (a // b, a % b, jnp.divmod(a, b)[0]), s32(30), s32(30, low=1, high=9)),
    "int_pow": (lambda x: x**5, s32(20)),
    "gcd": (jnp.gcd, s32(20), s32(20, seed=5)),
    "threefry_bits": (lambda: jax.random.bits(jax.random.key(3), (17,)),),
    "uniform": (lambda: jax.random.uniform(jax.random.key(3), (33,)),),
    "normal": (lambda: jax.random.normal(jax.random.key(4), (33,)),),
    "randint": (lambda: jax.random.randint(jax.random.key(5), (33,), -7, 19),),
    "permutation": (lambda: jax.random.permutation(jax.random.key(6), 21),),
    "gamma": (lambda: jax.random.gamma(jax.random.key(6), 2.0, (8,)), 1e-4, 1e-4),
    "categorical": (lambda x: jax.random.categorical(jax.random.key(8), x), f32(5, 9)),
    "rng_bit_generator": (lambda: lax.rng_bit_generator(jnp.arange(4, dtype=jnp.uint32), (11,)),),
    "rng_bit_generator_u64": (lambda: lax.rng_bit_generator(jnp.arange(4, dtype=jnp.uint32), (6,), dtype=jnp.uint64),),
    # special functions
    "erf_inv": (lax.erf_inv, f32(30, low=-0.95, high=0.95)),
    "lgamma_digamma": (lambda x: (lax.lgamma(x), lax.digamma(x)), f32(30, low=0.2, high=6)),
    "bessel": (lambda x: (jax.scipy.special.i0e(x), jax.scipy.special.i1e(x)), f32(30)),
    "igamma": (lambda a, x: lax.igamma(a, x), f32(20, low=0.5, high=4), f32(20, low=0.1, high=5, seed=3), 1e-4, 1e-5),
    "betainc": (lambda x: jax.scipy.special.betainc(1.5, 2.5, x), f32(20, low=0.05, high=0.95), 1e-4, 1e-5),
    "nextafter": (lambda x: jnp.nextafter(x, jnp.float32(5)), f32(20)),
    "frexp": (lambda x: jnp.frexp(x), f32(20)),
    "sinc_log_ops": (lambda x: (jnp.sinc(x), jnp.logaddexp(x, 1.0), jnp.hypot(x, 2.0), jnp.log2(jnp.abs(x) + 1)), f32(20)),
    "gelu_silu": (lambda x: (jax.nn.gelu(x), jax.nn.silu(x), jax.nn.softplus(x), jax.nn.elu(x)), f32(40)),
    "polyval": (lambda x: jnp.polyval(jnp.array([1.0, -2.0, 3.0]), x), f32(20)),
    "complex_functions": (lambda z: (jnp.exp(z), jnp.log(z), jnp.sqrt(z), jnp.tanh(z), jnp.abs(z), jnp.angle(z)), c64(30)),
    "nan_to_num": (jnp.nan_to_num, np.array([np.nan, np.inf, -np.inf, 1], np.float32)),
    # whole programs
    "mlp_grad": (jax.grad(mlp_loss, argnums=(0, 1)), f32(8, 16), f32(16, 4), f32(5, 8), f32(5, 4), 1e-4, 1e-4),
    "attention": (attention, f32(2, 6, 2, 8), f32(2, 6, 2, 8, seed=1), f32(2, 6, 2, 8, seed=2)),
    "attention_grad": (jax.grad(lambda q, k, v: (attention(q, k, v) ** 2).sum()), f32(2, 6, 2, 8), f32(2, 6, 2, 8, seed=1), f32(2, 6, 2, 8, seed=2), 1e-4, 1e-4),
    "layer_norm_grad": (jax.grad(lambda x: (((x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)) ** 3).sum()), f32(4, 16), 1e-3, 1e-3),
    "jvp": (lambda x, t: jax.jvp(lambda v: jnp.sin(v) * jnp.exp(v), (x,), (t,)), f32(9), f32(9, seed=2)),
    "hessian": (jax.hessian(lambda x: (jnp.sin(x) * x.sum()).sum()), f32(5)),
    "jacobian": (jax.jacfwd(lambda x: jnp.cumsum(x**2)), f32(6)),
    "vmap_grad": (jax.vmap(jax.grad(lambda x: jnp.sin(x).sum() ** 2)), f32(4, 3)),
    "matrix_power": (lambda a: jnp.linalg.matrix_power(a, 5), f32(4, 4, low=-0.7, high=0.7)),
    "optimization_barrier": (lambda x: lax.optimization_barrier(x) + 1, f32(5)),
    "remat": (jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), f32(5)),
    "custom_jvp": (jax.nn.relu, f32(20)),
    "fp8_matmul": (lambda a, b: lax.dot(a.astype(jnp.float8_e4m3fn), b.astype(jnp.float8_e5m2), preferred_element_type=jnp.float32), f32(6, 8), f32(8, 5), 1e-3, 1e-3),
    "int4": (lambda x: x.astype(jnp.int4).astype(jnp.int32) * 2, s32(20, low=-8, high=8)),
    "bf16_chain": (lambda x: (jnp.exp(x.astype(jnp.bfloat16)) * 3).astype(jnp.float32), f32(30), 2e-2, 2e-2),
    "ragged_dot": (lambda a, b, g: lax.ragged_dot(a, b, g), f32(10, 4), f32(3, 4, 5), np.array([3, 5, 2], np.int32)),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 7), f32(30)),
    "reduce_and_or_xor": (lambda x: (lax.reduce(x, np.int32(-1), lax.bitwise_and, (0,)), lax.reduce(x, np.int32(0), lax.bitwise_xor, (0,))), s32(9, 5)),
    "variadic_reduce": (lambda x, y: lax.reduce((x, y), (np.float32(0), np.int32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)), f32(6, 3), s32(6, 3, low=1, high=3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_jax_program(name):
    f, *rest = CASES[name]
    tolerances = {}
    if len(rest) >= 2 and all(isinstance(t, float) for t in rest[-2:]):
        tolerances = dict(rtol=rest[-2], atol=rest[-1])
        rest = rest[:-2]
    check(f, *rest, **tolerances)

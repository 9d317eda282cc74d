"""Every elementwise op, conversion, comparison and reduction on every dtype, against NumPy and ml_dtypes."""

import zlib

import ml_dtypes
import numpy as np
import pytest
import scipy.special

from weft_eval import DTYPES, assert_close, evaluate, shape_text

INTS = ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"]
SMALL_INTS = ["s2", "s4", "u2", "u4"]
WIDE_FLOATS = ["f16", "bf16", "f32", "f64"]
SMALL_FLOATS = ["f8e3m4", "f8e4m3", "f8e4m3fn", "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1fn"]
FLOATS = WIDE_FLOATS + SMALL_FLOATS
COMPLEX = ["c64", "c128"]


def rng(*key):
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def sample(name, n=257, seed=0, low=None, high=None):
    """Random values of a dtype; floats spread over magnitudes, with zeros of both signs and edge values."""
    r = rng(name, seed, n)
    dtype = np.dtype(DTYPES[name])
    if name == "pred":
        return r.integers(0, 2, n).astype(np.bool_)
    if name in INTS:
        info = np.iinfo(dtype)
        x = r.integers(info.min if low is None else low, info.max if high is None else high, n, dtype=dtype, endpoint=True)
        if low is None:
            x[:4] = [info.min, info.max, 0, 1]
        return x
    if name in SMALL_INTS:
        info = ml_dtypes.iinfo(dtype)
        return r.integers(int(info.min), int(info.max), n, endpoint=True).astype(np.int8).astype(dtype)
    if name in COMPLEX:
        return (r.standard_normal(n) * 2 + 1j * r.standard_normal(n) * 2).astype(dtype)
    x = r.standard_normal(n) * np.exp2(r.integers(-6, 4, n))
    if low is not None:
        x = r.uniform(low, high, n)
    x = x.astype(dtype)
    if low is None:
        x[0] = 0
    return x


def run(op, inputs, result, attributes="", *, called=""):
    operands = ", ".join(f"p{i}" for i in range(len(inputs)))
    parameters = "".join(f"  p{i} = {shape_text(x)} parameter({i})\n" for i, x in enumerate(inputs))
    text = f"HloModule m\n{called}\nENTRY main {{\n{parameters}  ROOT r = {result} {op}({operands}){attributes}\n}}\n"
    results = evaluate(text, *inputs)
    return results[0] if len(results) == 1 else results


def wide(x):
    return x.astype(np.float64)


UNARY = {  # op: (function in f64, low, high)
    "abs": (np.abs, None, None), "negate": (np.negative, None, None), "sign": (np.sign, None, None),
    "floor": (np.floor, None, None), "ceil": (np.ceil, None, None), "round-nearest-even": (np.rint, None, None),
    "round-nearest-afz": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), None, None),
    "sqrt": (np.sqrt, 0, 8), "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 8), "cbrt": (np.cbrt, None, None),
    "exponential": (np.exp, -4, 4), "exponential-minus-one": (np.expm1, -4, 4), "log": (np.log, 0.1, 8),
    "log-plus-one": (np.log1p, -0.9, 8), "logistic": (scipy.special.expit, -4, 4), "tanh": (np.tanh, -4, 4),
    "sine": (np.sin, -8, 8), "cosine": (np.cos, -8, 8), "tan": (np.tan, -1.5, 1.5), "erf": (scipy.special.erf, -3, 3),
    "sinh": (np.sinh, -3, 3), "cosh": (np.cosh, -3, 3), "asin": (np.arcsin, -1, 1), "acos": (np.arccos, -1, 1),
    "asinh": (np.arcsinh, -4, 4), "acosh": (np.arccosh, 1, 8), "atanh": (np.arctanh, -0.9, 0.9),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_unary_float(op, dtype):
    f, low, high = UNARY[op]
    x = sample(dtype, low=low, high=high)
    if low is not None:
        x = x[(wide(x) >= low) & (wide(x) <= high)]
    with np.errstate(all="ignore"):
        want = f(wide(x)).astype(x.dtype)
    assert_close(run(op, [x], shape_text(x)), want, ulps=0 if f in (np.abs, np.negative, np.floor, np.sqrt) else 2)


UNARY_COMPLEX = {"negate": np.negative, "exponential": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh,
                 "sine": np.sin, "cosine": np.cos, "exponential-minus-one": np.expm1, "log-plus-one": np.log1p,
                 "rsqrt": lambda x: 1 / np.sqrt(x), "tan": np.tan, "logistic": lambda x: 1 / (1 + np.exp(-x)),
                 "sign": lambda x: x / np.abs(x)}  # fmt: skip


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("op", UNARY_COMPLEX)
def test_unary_complex(op, dtype):
    x = sample(dtype)
    want = UNARY_COMPLEX[op](x.astype(np.complex128)).astype(x.dtype)
    tolerance = 1e-5 if dtype == "c64" else 1e-12
    assert_close(run(op, [x], shape_text(x)), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("op", ["real", "imag", "abs"])
def test_complex_parts(op, dtype):
    x = sample(dtype)
    want = {"real": x.real, "imag": x.imag, "abs": np.abs(x)}[op].copy()
    assert_close(run(op, [x], shape_text(want)), want, rtol=1e-6)


def population(x):
    return np.array([bin(int(v) & (2 ** (8 * x.dtype.itemsize) - 1)).count("1") for v in x]).astype(x.dtype)


def leading_zeros(x):
    bits = 8 * x.dtype.itemsize
    return np.array([bits - (int(v) & (2**bits - 1)).bit_length() for v in x]).astype(x.dtype)


INT_UNARY = {"negate": np.negative, "not": np.invert, "popcnt": population, "count-leading-zeros": leading_zeros}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", INT_UNARY)
def test_unary_int(op, dtype):
    x = sample(dtype)
    with np.errstate(all="ignore"):
        want = INT_UNARY[op](x)
    assert_close(run(op, [x], shape_text(x)), want)


@pytest.mark.parametrize("dtype", ["s8", "s16", "s32", "s64"])
@pytest.mark.parametrize("op", ["abs", "sign"])
def test_unary_signed(op, dtype):
    x = sample(dtype)
    with np.errstate(all="ignore"):
        want = {"abs": np.abs, "sign": np.sign}[op](x)
    assert_close(run(op, [x], shape_text(x)), want)


BINARY_FLOAT = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
                "maximum": np.maximum, "minimum": np.minimum, "remainder": np.fmod, "atan2": np.arctan2}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", BINARY_FLOAT)
def test_binary_float(op, dtype):
    x, y = sample(dtype, seed=1), sample(dtype, seed=2)
    if op in ("divide", "remainder"):
        y = np.where(wide(y) == 0, np.ones_like(y), y).astype(y.dtype)
    with np.errstate(all="ignore"):
        compute = np.float64 if dtype == "f64" or op == "atan2" else np.float32
        want = BINARY_FLOAT[op](x.astype(compute), y.astype(compute)).astype(x.dtype)
    assert_close(run(op, [x, y], shape_text(x)), want, ulps=2 if op == "atan2" else 0)


@pytest.mark.parametrize("dtype", WIDE_FLOATS)
def test_power_float(dtype):
    x, y = sample(dtype, seed=1, low=0.1, high=4), sample(dtype, seed=2, low=-3, high=3)
    assert_close(run("power", [x, y], shape_text(x)), np.power(wide(x), wide(y)).astype(x.dtype), ulps=2)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "power"])
def test_binary_complex(op, dtype):
    x, y = sample(dtype, seed=1), sample(dtype, seed=2)
    f = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "power": np.power}[op]
    want = f(x.astype(np.complex128), y.astype(np.complex128)).astype(x.dtype)
    tolerance = 1e-4 if dtype == "c64" else 1e-11
    assert_close(run(op, [x, y], shape_text(x)), want, rtol=tolerance, atol=tolerance)


def wrap(values, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    return np.array([int(v) & (2**bits - 1) for v in values], dtype=np.uint64).astype(f"u{bits // 8}").view(dtype)


def divide(x, y):
    if y == 0:
        return -1
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x, y):
    return x if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)


INT_BINARY = {
    "add": lambda x, y, b: x + y, "subtract": lambda x, y, b: x - y, "multiply": lambda x, y, b: x * y,
    "divide": lambda x, y, b: divide(x, y), "remainder": lambda x, y, b: remainder(x, y),
    "maximum": lambda x, y, b: max(x, y), "minimum": lambda x, y, b: min(x, y), "and": lambda x, y, b: x & y,
    "or": lambda x, y, b: x | y, "xor": lambda x, y, b: x ^ y,
    "shift-left": lambda x, y, b: x << y if 0 <= y < b else 0,
    "shift-right-logical": lambda x, y, b: (x & (2**b - 1)) >> y if 0 <= y < b else 0,
    "shift-right-arithmetic": lambda x, y, b: (x if x < 2 ** (b - 1) else x - 2**b) >> (y if 0 <= y < b else b - 1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", INT_BINARY)
def test_binary_int(op, dtype):
    bits = 8 * np.dtype(DTYPES[dtype]).itemsize
    x, y = sample(dtype, seed=1), sample(dtype, seed=2)
    if op.startswith("shift"):
        y = sample(dtype, seed=3, low=0, high=min(bits + 3, 127))
    if op in ("divide", "remainder"):
        y[10] = 0
    want = wrap([INT_BINARY[op](int(a), int(b), bits) for a, b in zip(x, y)], x.dtype)
    assert_close(run(op, [x, y], shape_text(x)), want)


@pytest.mark.parametrize("dtype", SMALL_INTS)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor"])
def test_binary_small_int(op, dtype):
    x, y = sample(dtype, seed=1), sample(dtype, seed=2)
    bits = int(dtype[1:])
    values = []
    for a, b in zip(x.astype(np.int64), y.astype(np.int64)):
        v = INT_BINARY[op](int(a), int(b), bits) & (2**bits - 1)
        values.append(v - 2**bits if dtype[0] == "s" and v >= 2 ** (bits - 1) else v)
    assert_close(run(op, [x, y], shape_text(x)).astype(np.int64), np.array(values, np.int64))


@pytest.mark.parametrize("op", ["and", "or", "xor", "add", "multiply", "maximum", "minimum"])
def test_binary_pred(op):
    x, y = sample("pred", seed=1), sample("pred", seed=2)
    f = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "add": np.logical_or,
         "multiply": np.logical_and, "maximum": np.logical_or, "minimum": np.logical_and}[op]  # fmt: skip
    assert_close(run(op, [x, y], shape_text(x)), f(x, y))


COMPARE = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}


@pytest.mark.parametrize("dtype", INTS + FLOATS + ["pred"])
@pytest.mark.parametrize("direction", COMPARE)
def test_compare(direction, dtype):
    x, y = sample(dtype, seed=1), sample(dtype, seed=2)
    y[::3] = x[::3]
    if dtype in WIDE_FLOATS:
        x[5] = y[6] = np.nan
    want = COMPARE[direction](x.astype(np.float64) if dtype in SMALL_FLOATS else x, y.astype(np.float64) if dtype in SMALL_FLOATS else y)
    assert_close(run("compare", [x, y], f"pred[{x.size}]", f", direction={direction}"), np.asarray(want, np.bool_))


@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64", "s8", "s32", "s64", "u8", "u32", "pred", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "c64"])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "s8", "s32", "s64", "u8", "u64", "pred", "f8e4m3fn", "f8e5m2", "f8e3m4"])
def test_convert(dtype, to):
    x = sample(dtype, low=-100 if dtype[0] == "s" else 0 if dtype[0] == "u" else None, high=100 if dtype[0] in "su" else None)
    target = np.dtype(DTYPES[to])
    with np.errstate(all="ignore"):
        if to[0] in "su" and dtype in FLOATS:
            info = np.iinfo(target)
            v = np.trunc(wide(x))
            want = np.array([info.max if a >= info.max else info.min if a <= info.min else int(a) for a in v], dtype=target)
        elif to == "pred":
            want = wide(x) != 0
        elif to in SMALL_FLOATS and dtype not in FLOATS:
            want = x.astype(np.float32).astype(target)
        else:
            want = x.astype(target)
    assert_close(run("convert", [x], f"{to}[{x.size}]"), want)


@pytest.mark.parametrize("dtype", INTS + WIDE_FLOATS + COMPLEX + SMALL_FLOATS)
def test_select(dtype):
    p, x, y = sample("pred"), sample(dtype, seed=1), sample(dtype, seed=2)
    assert_close(run("select", [p, x, y], shape_text(x)), np.where(p, x, y).astype(x.dtype))


@pytest.mark.parametrize("dtype", INTS + WIDE_FLOATS)
def test_clamp(dtype):
    x = sample(dtype, seed=1)
    low, high = np.sort(sample(dtype, n=6, seed=7)[4:6].astype(np.float64)).astype(x.dtype) if dtype in WIDE_FLOATS else np.sort(sample(dtype, n=6, seed=7)[4:6])
    low, high = np.asarray(low, x.dtype), np.asarray(high, x.dtype)
    assert_close(run("clamp", [low, x, high], shape_text(x)), np.minimum(np.maximum(x, low), high))


@pytest.mark.parametrize("bits", [(8, 7), (5, 10), (5, 2), (4, 3), (8, 23), (3, 4)])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_reduce_precision(dtype, bits):
    x = sample(dtype).astype(np.float32).astype(DTYPES[dtype])  # ml_dtypes rounds f64 twice
    got = run("reduce-precision", [x], shape_text(x), f", exponent_bits={bits[0]}, mantissa_bits={bits[1]}")
    formats = {(8, 7): ml_dtypes.bfloat16, (5, 10): np.float16, (5, 2): ml_dtypes.float8_e5m2, (8, 23): np.float32, (4, 3): ml_dtypes.float8_e4m3, (3, 4): ml_dtypes.float8_e3m4}
    narrow = x.astype(formats[bits])
    info = ml_dtypes.finfo(narrow.dtype)
    normal = np.abs(x) >= float(info.smallest_normal)  # HLO flushes what would be subnormal
    want = np.where(normal | (x == 0), narrow.astype(x.dtype), got)
    assert_close(got, want.astype(x.dtype))


REDUCERS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "s32", "u8"])
@pytest.mark.parametrize("op", REDUCERS)
def test_reduce(op, dtype, dims):
    low, high = (-3, 3) if dtype[0] != "u" else (0, 3)
    x = sample(dtype, n=3 * 5 * 4, low=low, high=high).reshape(3, 5, 4)
    name = shape_text(x)[: shape_text(x).index("[")]
    init = np.asarray({"add": 0, "multiply": 1, "maximum": low, "minimum": high}[op], x.dtype)
    called = f"red {{\n  a = {name}[] parameter(0)\n  b = {name}[] parameter(1)\n  ROOT c = {name}[] {op}(a, b)\n}}"
    if dtype[0] in "su":
        want = x.astype(np.int64)
        want = REDUCERS[op].reduce(want, axis=dims).astype(x.dtype)
        tolerance = {}
    else:
        want = REDUCERS[op].reduce(x.astype(np.float64), axis=dims).astype(x.dtype)
        tolerance = dict(rtol=0.1, atol=0.2) if dtype == "bf16" else dict(rtol=1e-5, atol=1e-5)
    want = np.asarray(want)
    got = run("reduce", [x, init], shape_text(want), f", dimensions={{{','.join(map(str, dims))}}}, to_apply=red", called=called)
    assert_close(got, want, **tolerance)

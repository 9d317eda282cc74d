"""Conversions between number formats, compared with numpy and ml_dtypes bit by bit.

The program under test is weft_convert_elements (raw elements in, raw elements out). Where numpy does
not define a result (float to integer out of range), the expected one is computed here.
"""

import functools
import os
import subprocess
import warnings

import ml_dtypes
import numpy as np
import pytest

PROGRAM = os.path.join(os.environ.get("WEFT_BUILD_DIR", "build"), "weft_convert_elements")

SMALL_FLOATS = {
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "f6e2m3fn": ml_dtypes.float6_e2m3fn,
    "f6e3m2fn": ml_dtypes.float6_e3m2fn,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}
FLOATS = SMALL_FLOATS | {"f32": np.float32, "f64": np.float64}
COMPLEX = {"c64": np.complex64, "c128": np.complex128}
INTS = {f"{'u' if u else 's'}{b}": np.dtype(f"{'u' if u else ''}int{b}").type
        for u in (False, True) for b in (8, 16, 32, 64)}
SUB_BYTE_INTS = {"s1": (-1, 0), "s2": (-2, 1), "s4": (-8, 7), "u1": (0, 1), "u2": (0, 3), "u4": (0, 15)}
BITS = {"f4e2m1fn": 4, "f6e2m3fn": 6, "f6e3m2fn": 6}


def storage(name):
    if name == "pred":
        return np.dtype(np.bool_)
    if name in SUB_BYTE_INTS:
        return np.dtype(np.int8 if name[0] == "s" else np.uint8)
    return np.dtype((FLOATS | INTS | COMPLEX)[name])


def int_range(name):
    if name in SUB_BYTE_INTS:
        return SUB_BYTE_INTS[name]
    info = np.iinfo(INTS[name])
    return int(info.min), int(info.max)


def convert(values, source, target):
    out = subprocess.run([PROGRAM, source, target], input=values.tobytes(), capture_output=True, check=True)
    return np.frombuffer(out.stdout, storage(target))


def unsigned_view(array):
    return array.view(f"u{array.dtype.itemsize}")


def all_patterns(name):
    bits = BITS.get(name, storage(name).itemsize * 8)
    return np.arange(1 << bits, dtype=f"u{storage(name).itemsize}").view(storage(name))


def random_patterns(name, n=20000):
    rng = np.random.default_rng(7)
    return np.frombuffer(rng.bytes(n * storage(name).itemsize), storage(name))


@functools.cache
def halfway_cases(name):
    """All values of the small formats (16-bit ones thinned), their midpoints, and the neighbours."""
    dtype = storage(name)
    cases = []
    for small in SMALL_FLOATS:
        v = all_patterns(small).astype(np.float64)
        v = np.unique(v[np.isfinite(v)])
        if v.size > 4096:
            v = np.concatenate([v[:600], v[::23], v[-600:]])
            v = np.unique(np.concatenate([v, np.nextafter(v.astype(np.float32), np.float32(9e37))]))
        # One step past the largest, where overflow is decided.
        top = v[-1] + (v[-1] - v[-2])
        v = np.concatenate([[-top], v, [top]]) if np.isfinite(top) else v
        middle = (v[1:] + v[:-1]) / 2
        cases += [v, middle, (middle + v[1:]) / 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = np.unique(np.concatenate(cases)).astype(dtype)
        up = np.nextafter(exact, dtype.type(np.inf))
        down = np.nextafter(exact, dtype.type(-np.inf))
    return np.concatenate([exact, up, down, np.array([np.inf, -np.inf, np.nan, -np.nan, 0, -0.0], dtype)])


def inputs(name):
    if name in ("f32", "f64"):
        return np.concatenate([random_patterns(name), halfway_cases(name)])
    if name in FLOATS:
        return all_patterns(name)
    if name == "pred":
        return np.array([False, True])
    low, high = int_range(name)
    dtype = storage(name)
    if high - low < 1 << 16:
        return np.arange(low, high + 1).astype(dtype)
    edges = [0, 1, 2, 3, low, high]
    for shift in range(0, 64):
        for extra in range(0, 64, 3):
            middle = (1 << shift) + ((1 << shift) >> 1 >> extra if extra else 0)
            edges += [s * (middle + d) for d in (-1, 0, 1) for s in (1, -1)]
    edges = [e for e in set(edges) if low <= e <= high]
    return np.concatenate([np.array(sorted(edges), dtype), random_patterns(name)])


def once_rounded(values, target):
    """astype without double rounding: ml_dtypes goes through float for several pairs."""
    if np.issubdtype(values.dtype, np.integer) and values.dtype.itemsize == 8:
        return int_to_float(values, target)
    wide = values.astype(np.float64)
    if storage(target) == np.float64:
        return wide
    if storage(target) in (np.float32, np.float16):
        return wide.astype(storage(target))
    return f64_to_small(wide, target)


def f64_to_odd_f32(wide):
    """The nearest floats, but with the last bit set when inexact: a second rounding is then exact."""
    near = wide.astype(np.float32)
    away = np.abs(near.astype(np.float64)) > np.abs(wide)
    toward_zero = np.where(away, np.nextafter(near, np.float32(0)), near)
    bits = toward_zero.view(np.uint32).copy()
    finite = np.isfinite(wide)
    inexact = finite & (toward_zero.astype(np.float64) != wide)
    bits[inexact] |= 1
    return bits.view(np.float32)


def f64_to_small(wide, target):
    return f64_to_odd_f32(wide).astype(storage(target))


def int_to_float(values, target):
    """64-bit integers: round to odd at 53 bits, by Python's integers."""
    def to_odd(x):
        sign, x = (-1, -x) if x < 0 else (1, x)
        shift = max(0, x.bit_length() - 53)
        kept = x >> shift
        return sign * float((kept | (kept << shift != x)) << shift)
    if target == "f64":
        return values.astype(np.float64)
    wide = np.array([to_odd(int(x)) for x in values], np.float64)
    if target == "f32":
        return wide.astype(np.float32)
    return wide.astype(np.float16) if target == "f16" else f64_to_small(wide, target)


def assert_same(got, want, values):
    if got.dtype.kind in "biu":
        different = got != want
    else:
        real = lambda x: x.view(x.real.dtype) if x.dtype.kind == "c" else x
        got_r, want_r = real(got), real(want.astype(got.dtype, copy=False))
        both_nan = np.isnan(got_r.astype(np.float64)) & np.isnan(want_r.astype(np.float64))
        sign = np.signbit(got_r.astype(np.float64)) == np.signbit(want_r.astype(np.float64))
        different = (unsigned_view(got_r) != unsigned_view(want_r)) & ~(both_nan & sign)
        different = different.reshape(len(values), -1).any(axis=1)
    bad = np.nonzero(different)[0]
    assert bad.size == 0, (
        f"{bad.size} of {len(values)} differ, first: {[(values[i], got[i], want[i]) for i in bad[:5]]}")


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_float(source, target):
    values = inputs(source)
    if source == target:
        assert convert(values, source, target).tobytes() == values.tobytes()
        return
    got = convert(values, source, target)
    assert_same(got, once_rounded(values, target), values)
    castable = np.can_cast(storage(source), storage(target), "unsafe")
    if source != "f64" and castable:  # what ml_dtypes itself says
        assert_same(got, values.astype(storage(target)), values)


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", [*INTS, *SUB_BYTE_INTS, "pred"])
def test_int_to_float(source, target):
    values = inputs(source)
    assert_same(convert(values, source, target), once_rounded(values, target), values)


@pytest.mark.parametrize("target", [*INTS, *SUB_BYTE_INTS])
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_int_saturates(source, target):
    values = inputs(source)
    low, high = int_range(target)
    wide = values.astype(np.float64)
    want = np.array([0 if np.isnan(x) else low if x <= low else high if x >= high else int(x)
                     for x in wide.tolist()], storage(target))
    assert_same(convert(values, source, target), want, values)
    inside = (wide > low) & (wide < high)
    if target in INTS:
        assert_same(want[inside], values[inside].astype(np.float64).astype(storage(target)), values[inside])


@pytest.mark.parametrize("target", [*INTS, *SUB_BYTE_INTS])
@pytest.mark.parametrize("source", [*INTS, *SUB_BYTE_INTS, "pred"])
def test_int_to_int_wraps(source, target):
    values = inputs(source)
    low, high = int_range(target)
    want = np.array([(int(x) - low) % (high - low + 1) + low for x in values], storage(target))
    assert_same(convert(values, source, target), want, values)


@pytest.mark.parametrize("source", [*FLOATS, *INTS, *SUB_BYTE_INTS, "pred"])
def test_to_pred(source):
    values = inputs(source)
    assert_same(convert(values, source, "pred"), values.astype(np.float64) != 0, values)


@pytest.mark.parametrize("target", COMPLEX)
@pytest.mark.parametrize("source", [*FLOATS, *INTS, *SUB_BYTE_INTS, "pred"])
def test_real_to_complex(source, target):
    values = inputs(source)
    part = "f32" if target == "c64" else "f64"
    want = np.zeros((len(values), 2), storage(part))
    want[:, 0] = once_rounded(values, part)
    assert_same(convert(values, source, target), want.view(storage(target)).reshape(-1), values)


@pytest.mark.parametrize("target", [*FLOATS, "s8", "s32", "u64"])
@pytest.mark.parametrize("source", COMPLEX)
def test_complex_to_real_takes_the_real_part(source, target):
    part = "f32" if source == "c64" else "f64"
    real = inputs(part)
    values = np.stack([real, real[::-1]], axis=1).copy().view(storage(source)).reshape(-1)
    assert convert(values, source, target).tobytes() == convert(real, part, target).tobytes()


def test_complex_to_complex_and_pred():
    real = halfway_cases("f64")
    values = np.stack([real, real[::-1]], axis=1).copy().view(np.complex128).reshape(-1)
    single = convert(values, "c128", "c64")
    assert_same(single, values.astype(np.complex64), values)
    assert_same(convert(single, "c64", "c128"), single.astype(np.complex128), single)
    assert convert(np.array([0, 1j, 1, np.nan]), "c128", "pred").tolist() == [False, True, True, True]


def test_bad_arguments():
    assert subprocess.run([PROGRAM, "f32", "f31"], capture_output=True).returncode == 2
    assert subprocess.run([PROGRAM, "f32"], capture_output=True).returncode == 2

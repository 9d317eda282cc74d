"""Runs `weft eval` on HLO text with NumPy inputs and gives the results back as NumPy arrays."""

import os
import pathlib
import re
import subprocess
import tempfile

import ml_dtypes
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEFT = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build")).resolve() / "weft"

# HLO name -> NumPy dtype; sub-byte integers are held one a byte, as ml_dtypes does.
DTYPES = {
    "pred": np.bool_,
    "s2": ml_dtypes.int2, "s4": ml_dtypes.int4,
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u2": ml_dtypes.uint2, "u4": ml_dtypes.uint4,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "f6e2m3fn": ml_dtypes.float6_e2m3fn, "f6e3m2fn": ml_dtypes.float6_e3m2fn,
    "f8e3m4": ml_dtypes.float8_e3m4, "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
NAMES = {np.dtype(t): n for n, t in DTYPES.items()}
SMALL_INTS = ("s2", "s4", "u2", "u4")


def native(name):
    """Whether .npy has the type itself."""
    return DTYPES[name] in (np.bool_, np.float16, np.float32, np.float64, np.complex64, np.complex128) or (
        name[0] in "su" and name not in SMALL_INTS
    )


def shape_text(array):
    dims = ",".join(str(d) for d in array.shape)
    return f"{NAMES[array.dtype]}[{dims}]"


def to_npy(array):
    name = NAMES[array.dtype]
    if native(name):
        return array
    if name in SMALL_INTS:
        return array.astype(np.int8 if name[0] == "s" else np.uint8)
    return array.view(np.uint8 if array.dtype.itemsize == 1 else np.uint16)


def from_npy(array, name):
    dtype = np.dtype(DTYPES[name])
    if native(name):
        assert array.dtype == dtype, (array.dtype, name)
        return array
    if name in SMALL_INTS:
        return array.astype(dtype)
    return array.view(dtype)


def evaluate(text, *inputs, flags=()):
    """The list of results (leaves of a tuple root) of the module, text or bytes, on the inputs."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "m.hlo").write_bytes(text if isinstance(text, bytes) else text.encode())
        command = [str(WEFT), "eval", str(folder / "m.hlo"), "--out", str(folder / "out"), *flags]
        for i, x in enumerate(inputs):
            np.save(folder / f"in{i}.npy", to_npy(np.asarray(x)))
            command += ["--input", str(folder / f"in{i}.npy")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{done.stderr}\n{done.stdout[-2000:]}\n{text if isinstance(text, str) else ''}"
        out = folder / "out"
        types = {}
        if (out / "types.txt").exists():
            for line in (out / "types.txt").read_text().splitlines():
                index, shape = line.split(None, 1)
                types[int(index)] = re.match(r"[a-z0-9]+", shape)[0]
        results = []
        while (out / f"{len(results)}.npy").exists():
            raw = np.load(out / f"{len(results)}.npy")
            name = types.get(len(results)) or NAMES[raw.dtype]
            results.append(from_npy(raw, name))
        return results


def ulp_error(got, want):
    """Largest distance in units of the last place of `want`'s type; NaNs must agree."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype, got.shape, want.shape)
    if got.size == 0:
        return 0
    g, w = got.astype(np.float64), want.astype(np.float64)
    assert np.array_equal(np.isnan(g), np.isnan(w)), (got, want)
    finite = np.isfinite(w) & np.isfinite(g)
    bad = ~finite & ~np.isnan(w) & (g != w)
    if got.dtype == np.float64:
        spacing = np.spacing(np.abs(w))
    elif got.dtype == np.float32:
        spacing = np.spacing(np.abs(want)).astype(np.float64)
    else:
        info = ml_dtypes.finfo(got.dtype)
        exponent = np.floor(np.log2(np.maximum(np.abs(w), float(info.smallest_normal))))
        spacing = np.exp2(exponent - info.nmant)
    error = np.abs(g[finite] - w[finite]) / spacing[finite]
    return float("inf") if bad.any() else float(error.max(initial=0))


def assert_close(got, want, *, ulps=0, rtol=0.0, atol=0.0):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype, got.shape, want.shape)
    kind = NAMES[got.dtype][0]
    if kind in "psu":
        np.testing.assert_array_equal(got, want)
    elif rtol or atol:
        wide = np.complex128 if kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol)
    elif kind == "c":
        assert max(ulp_error(got.real.copy(), want.real.copy()), ulp_error(got.imag.copy(), want.imag.copy())) <= ulps
    else:
        assert ulp_error(got, want) <= ulps

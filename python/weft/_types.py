"""Element types: PJRT_Buffer_Type and DLPack's codes as NumPy dtypes."""

import ml_dtypes
import numpy as np

TOKEN = 23

# In the order of PJRT_Buffer_Type; None where NumPy has no such type.
_PJRT = (
    None, "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "bfloat16", "complex64", "complex128", "float8_e5m2",
    "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e4m3fnuz", "int4", "uint4",
    None, "int2", "uint2", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn",
    "int1", "uint1", "float6_e2m3fn", "float6_e3m2fn",
)

# DLPack's (code, bits); types whose elements are narrower than a byte do not travel.
_DLPACK = {
    "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8),
    "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64), "float16": (2, 16),
    "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16), "complex64": (5, 64),
    "complex128": (5, 128), "bool": (6, 8), "float8_e3m4": (7, 8), "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8), "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8), "float8_e8m0fnu": (14, 8),
}


def _named(name):
    if name is None:
        return None
    if hasattr(ml_dtypes, name):
        return np.dtype(getattr(ml_dtypes, name))
    try:
        return np.dtype(name)
    except TypeError:
        return None


_PJRT_DTYPES = tuple(_named(name) for name in _PJRT)


def pjrt_dtype(code):
    dtype = _PJRT_DTYPES[code] if 0 <= code < len(_PJRT_DTYPES) else None
    if dtype is None:
        raise TypeError(f"no NumPy type for PJRT_Buffer_Type {code}")
    return dtype


def dlpack_code(dtype):
    try:
        return _DLPACK[np.dtype(dtype).name]
    except KeyError:
        raise BufferError(f"DLPack has no type for {dtype}") from None


_FROM_DLPACK = {code: _named(name) for name, code in _DLPACK.items()}


def dlpack_dtype(code, bits, lanes):
    dtype = _FROM_DLPACK.get((code, bits)) if lanes == 1 else None
    if dtype is None:
        raise BufferError(f"no NumPy type for DLPack's code {code}, {bits} bits, {lanes} lanes")
    return dtype

// Blocks of elements of any dtype to and from the few types we compute in. Loading is exact
// whenever the compute type can hold the value; storing rounds to nearest even and follows each
// format's NaN/Inf/saturation rules (floats), wraps (integers), or tests against zero (pred). n
// elements, storage form (dtype.h).
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace weft {

void LoadF32(DType from, const std::byte* src, int64_t n, float* dst);   // real types
void LoadF64(DType from, const std::byte* src, int64_t n, double* dst);  // real types
void LoadI64(DType from, const std::byte* src, int64_t n,
             int64_t* dst);  // integers, pred; u64 is bit-cast
void LoadC128(DType from, const std::byte* src, int64_t n,
              std::complex<double>* dst);  // any numeric type

void StoreF32(DType to, const float* src, int64_t n,
              std::byte* dst);  // float types; ints saturate, NaN -> 0
void StoreF64(DType to, const double* src, int64_t n, std::byte* dst);  // likewise
void StoreI64(DType to, const int64_t* src, int64_t n,
              std::byte* dst);  // integers (wrap), pred (!= 0)
void StoreC128(DType to, const std::complex<double>* src, int64_t n,
               std::byte* dst);  // complex; else real part

// The `convert` op: value-preserving where possible; float -> int truncates toward zero and
// saturates (NaN -> 0), int -> int wraps, anything -> pred is != 0, complex -> real drops the
// imaginary part.
void ConvertElements(DType from, const std::byte* src, DType to, std::byte* dst, int64_t n);

}  // namespace weft

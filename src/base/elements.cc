#include "base/elements.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/float_formats.h"

namespace weft {
namespace {

constexpr int64_t kElementBlock =
    512;  // elements converted at a time through a buffer on the stack

// Calls fn(T()) with the storage type of an integer type or pred (as a byte).
template <class Fn>
void WithIntegerStorage(DType t, const Fn& fn) {
  switch (t) {
    case DType::kS1:
    case DType::kS2:
    case DType::kS4:
    case DType::kS8: return fn(int8_t());
    case DType::kS16: return fn(int16_t());
    case DType::kS32: return fn(int32_t());
    case DType::kS64: return fn(int64_t());
    case DType::kPred:
    case DType::kU1:
    case DType::kU2:
    case DType::kU4:
    case DType::kU8: return fn(uint8_t());
    case DType::kU16: return fn(uint16_t());
    case DType::kU32: return fn(uint32_t());
    case DType::kU64: return fn(uint64_t());
    default: CHECK(false) << "not an integer type: " << Name(t);
  }
}

// Calls fn(block_src, block_n, block_start) for pieces of at most kElementBlock elements.
template <class Fn>
void ForBlocks(int64_t n, const Fn& fn) {
  for (int64_t i = 0; i < n; i += kElementBlock) fn(i, std::min(kElementBlock, n - i));
}

template <class To>
void LoadIntegers(DType from, const std::byte* src, int64_t n, To* dst) {
  WithIntegerStorage(from, [&](auto tag) {
    const auto* values = reinterpret_cast<const decltype(tag)*>(src);
    for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<To>(values[i]);
  });
}

template <class Part, class To>
void LoadRealParts(const std::byte* src, int64_t n, To* dst) {
  const Part* parts = reinterpret_cast<const Part*>(src);
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<To>(parts[2 * i]);
}

template <class Part, class From>
void StoreRealParts(const From* src, int64_t n, std::byte* dst) {
  Part* parts = reinterpret_cast<Part*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    parts[2 * i] = static_cast<Part>(src[i]);
    parts[2 * i + 1] = 0;
  }
}

// Integers of fewer than 8 bits in their bytes: sign- or zero-extended from the low bits.
void WrapSubByte(DType t, std::byte* data, int64_t n) {
  int shift = 8 - BitWidth(t);
  if (IsSigned(t)) {
    int8_t* values = reinterpret_cast<int8_t*>(data);
    for (int64_t i = 0; i < n; ++i) {
      values[i] = static_cast<int8_t>(
          static_cast<int8_t>(static_cast<uint8_t>(values[i]) << shift) >> shift);
    }
  } else {
    uint8_t mask = static_cast<uint8_t>(0xff >> shift);
    for (int64_t i = 0; i < n; ++i) data[i] &= static_cast<std::byte>(mask);
  }
}

// Truncates toward zero into [low, high]; high + 1 is a power of two, so that the bounds are exact.
template <class Int, class From>
void StoreSaturated(DType to, const From* src, int64_t n, std::byte* dst) {
  int value_bits = BitWidth(to) - (IsSigned(to) ? 1 : 0);
  Int high = static_cast<Int>(std::numeric_limits<Int>::max() >>
                              (std::numeric_limits<Int>::digits - value_bits));
  Int low = IsSigned(to) ? static_cast<Int>(-high - 1) : Int{0};
  From above = value_bits == 0 ? 1 : static_cast<From>(uint64_t{1} << (value_bits - 1)) * 2;
  From below = static_cast<From>(low);
  Int* out = reinterpret_cast<Int*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    From v = src[i];
    From inside = v < below ? below : v;
    inside = v >= above || v != v ? 0 : inside;
    Int truncated = static_cast<Int>(inside);
    out[i] = v >= above ? high : truncated;
  }
}

template <class From>
void StoreReal(DType to, const From* src, int64_t n, std::byte* dst) {
  switch (Class(to)) {
    case DTypeClass::kPred:
      for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<std::byte>(src[i] != 0);
      return;
    case DTypeClass::kSigned:
    case DTypeClass::kUnsigned:
      return WithIntegerStorage(to,
                                [&](auto tag) { StoreSaturated<decltype(tag)>(to, src, n, dst); });
    case DTypeClass::kComplex:
      return to == DType::kC64 ? StoreRealParts<float>(src, n, dst)
                               : StoreRealParts<double>(src, n, dst);
    default: break;
  }
  if (to != DType::kF64) return EncodeFloats(to, src, n, dst);
  double* out = reinterpret_cast<double*>(dst);
  for (int64_t i = 0; i < n; ++i) out[i] = src[i];
}

// Integers wider than a double's mantissa to a small float: rounded once.
void ConvertWideIntegers(DType from, const std::byte* src, DType to, std::byte* dst, int64_t n) {
  double block[kElementBlock];
  WithIntegerStorage(from, [&](auto tag) {
    using Int = decltype(tag);
    if constexpr (sizeof(Int) == 8) {
      const Int* values = reinterpret_cast<const Int*>(src);
      ForBlocks(n, [&](int64_t start, int64_t count) {
        for (int64_t i = 0; i < count; ++i) block[i] = RoundToOdd(values[start + i]);
        EncodeFloats(to, block, count, dst + start * ByteWidth(to));
      });
    }
  });
}

// Through a buffer of a type that holds every value of `from` exactly (or of `to`, for integers
// wrapping).
template <class Buffer, class Load, class Store>
void ConvertThrough(DType from, const std::byte* src, DType to, std::byte* dst, int64_t n,
                    const Load& load, const Store& store) {
  Buffer block[kElementBlock];
  ForBlocks(n, [&](int64_t start, int64_t count) {
    load(from, src + start * ByteWidth(from), count, block);
    store(to, block, count, dst + start * ByteWidth(to));
  });
}

void ConvertComplex(DType from, const std::byte* src, DType to, std::byte* dst, int64_t n) {
  if (IsComplex(to)) return ConvertElements(RealType(from), src, RealType(to), dst, 2 * n);
  if (to == DType::kPred) {
    std::complex<double> block[kElementBlock];
    return ForBlocks(n, [&](int64_t start, int64_t count) {
      LoadC128(from, src + start * ByteWidth(from), count, block);
      for (int64_t i = 0; i < count; ++i) dst[start + i] = static_cast<std::byte>(block[i] != 0.0);
    });
  }
  if (from == DType::kC64) {
    return ConvertThrough<float>(from, src, to, dst, n, LoadF32, StoreF32);
  }
  ConvertThrough<double>(from, src, to, dst, n, LoadF64, StoreF64);
}

}  // namespace

void LoadF32(DType from, const std::byte* src, int64_t n, float* dst) {
  if (from == DType::kF64) {
    const double* values = reinterpret_cast<const double*>(src);
    for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<float>(values[i]);
  } else if (IsFloat(from)) {
    DecodeFloats(from, src, n, dst);
  } else if (from == DType::kC64) {
    LoadRealParts<float>(src, n, dst);
  } else if (from == DType::kC128) {
    LoadRealParts<double>(src, n, dst);
  } else {
    LoadIntegers(from, src, n, dst);
  }
}

void LoadF64(DType from, const std::byte* src, int64_t n, double* dst) {
  if (from == DType::kF64) {
    if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(double));
  } else if (from == DType::kF32) {
    const float* values = reinterpret_cast<const float*>(src);
    for (int64_t i = 0; i < n; ++i) dst[i] = values[i];
  } else if (IsFloat(from)) {
    float block[kElementBlock];
    ForBlocks(n, [&](int64_t start, int64_t count) {
      DecodeFloats(from, src + start * ByteWidth(from), count, block);
      for (int64_t i = 0; i < count; ++i) dst[start + i] = block[i];
    });
  } else if (from == DType::kC64) {
    LoadRealParts<float>(src, n, dst);
  } else if (from == DType::kC128) {
    LoadRealParts<double>(src, n, dst);
  } else {
    LoadIntegers(from, src, n, dst);
  }
}

void LoadI64(DType from, const std::byte* src, int64_t n, int64_t* dst) {
  if (!IsFloat(from) && !IsComplex(from)) return LoadIntegers(from, src, n, dst);
  ConvertThrough<double>(from, src, DType::kS64, reinterpret_cast<std::byte*>(dst), n, LoadF64,
                         StoreF64);
}

void LoadC128(DType from, const std::byte* src, int64_t n, std::complex<double>* dst) {
  if (from == DType::kC128) {
    if (n > 0) std::memcpy(static_cast<void*>(dst), src, static_cast<size_t>(n) * sizeof(*dst));
  } else if (from == DType::kC64) {
    LoadF64(DType::kF32, src, 2 * n, reinterpret_cast<double*>(dst));
  } else {
    ConvertThrough<double>(from, src, DType::kC128, reinterpret_cast<std::byte*>(dst), n, LoadF64,
                           StoreF64);
  }
}

void StoreF32(DType to, const float* src, int64_t n, std::byte* dst) {
  StoreReal(to, src, n, dst);
}

void StoreF64(DType to, const double* src, int64_t n, std::byte* dst) {
  StoreReal(to, src, n, dst);
}

void StoreI64(DType to, const int64_t* src, int64_t n, std::byte* dst) {
  if (to == DType::kPred) {
    for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<std::byte>(src[i] != 0);
  } else if (IsInteger(to)) {
    WithIntegerStorage(to, [&](auto tag) {
      auto* out = reinterpret_cast<decltype(tag)*>(dst);
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<decltype(tag)>(src[i]);
    });
    if (IsSubByte(to)) WrapSubByte(to, dst, n);
  } else {
    ConvertElements(DType::kS64, reinterpret_cast<const std::byte*>(src), to, dst, n);
  }
}

void StoreC128(DType to, const std::complex<double>* src, int64_t n, std::byte* dst) {
  ConvertElements(DType::kC128, reinterpret_cast<const std::byte*>(src), to, dst, n);
}

void ConvertElements(DType from, const std::byte* src, DType to, std::byte* dst, int64_t n) {
  CHECK(IsArrayType(from) && IsArrayType(to)) << Name(from) << " to " << Name(to);
  if (from == to) {
    if (n > 0) std::memmove(dst, src, static_cast<size_t>(n * ByteWidth(to)));
    return;
  }
  // Straight from or into memory where one side is a type we compute in.
  if (from == DType::kF32) return StoreF32(to, reinterpret_cast<const float*>(src), n, dst);
  if (from == DType::kF64) return StoreF64(to, reinterpret_cast<const double*>(src), n, dst);
  if (IsComplex(from)) return ConvertComplex(from, src, to, dst, n);
  if (to == DType::kF32) return LoadF32(from, src, n, reinterpret_cast<float*>(dst));
  if (to == DType::kF64) return LoadF64(from, src, n, reinterpret_cast<double*>(dst));
  if (IsFloat(from) || to == DType::kC64) {
    return ConvertThrough<float>(from, src, to, dst, n, LoadF32, StoreF32);
  }
  if (to == DType::kC128) return ConvertThrough<double>(from, src, to, dst, n, LoadF64, StoreF64);
  if (IsFloat(to)) {
    if (BitWidth(from) == 64) return ConvertWideIntegers(from, src, to, dst, n);
    return ConvertThrough<double>(from, src, to, dst, n, LoadF64, StoreF64);
  }
  if (from == DType::kS64) return StoreI64(to, reinterpret_cast<const int64_t*>(src), n, dst);
  if (to == DType::kS64) return LoadI64(from, src, n, reinterpret_cast<int64_t*>(dst));
  ConvertThrough<int64_t>(from, src, to, dst, n, LoadI64, StoreI64);
}

}  // namespace weft

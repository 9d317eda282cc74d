// Element types: every number format of HLO, one row each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

enum class DTypeClass : uint8_t {
  kInvalid,
  kPred,
  kSigned,
  kUnsigned,
  kFloat,
  kComplex,
  kToken,
  kOpaque,
  kTuple,
  kBuffer
};

// DTYPE(enumerator, text name, bits, class, storage type in a Literal)
// Sub-byte and one-byte formats occupy one byte an element in memory (integers sign- or
// zero-extended); they are packed only at the edges (Literal::Pack).
#define WEFT_DTYPES(DTYPE)                                   \
  DTYPE(kPred, "pred", 1, kPred, bool)                       \
  DTYPE(kS1, "s1", 1, kSigned, int8_t)                       \
  DTYPE(kS2, "s2", 2, kSigned, int8_t)                       \
  DTYPE(kS4, "s4", 4, kSigned, int8_t)                       \
  DTYPE(kS8, "s8", 8, kSigned, int8_t)                       \
  DTYPE(kS16, "s16", 16, kSigned, int16_t)                   \
  DTYPE(kS32, "s32", 32, kSigned, int32_t)                   \
  DTYPE(kS64, "s64", 64, kSigned, int64_t)                   \
  DTYPE(kU1, "u1", 1, kUnsigned, uint8_t)                    \
  DTYPE(kU2, "u2", 2, kUnsigned, uint8_t)                    \
  DTYPE(kU4, "u4", 4, kUnsigned, uint8_t)                    \
  DTYPE(kU8, "u8", 8, kUnsigned, uint8_t)                    \
  DTYPE(kU16, "u16", 16, kUnsigned, uint16_t)                \
  DTYPE(kU32, "u32", 32, kUnsigned, uint32_t)                \
  DTYPE(kU64, "u64", 64, kUnsigned, uint64_t)                \
  DTYPE(kF4E2M1FN, "f4e2m1fn", 4, kFloat, uint8_t)           \
  DTYPE(kF6E2M3FN, "f6e2m3fn", 6, kFloat, uint8_t)           \
  DTYPE(kF6E3M2FN, "f6e3m2fn", 6, kFloat, uint8_t)           \
  DTYPE(kF8E3M4, "f8e3m4", 8, kFloat, uint8_t)               \
  DTYPE(kF8E4M3, "f8e4m3", 8, kFloat, uint8_t)               \
  DTYPE(kF8E4M3FN, "f8e4m3fn", 8, kFloat, uint8_t)           \
  DTYPE(kF8E4M3FNUZ, "f8e4m3fnuz", 8, kFloat, uint8_t)       \
  DTYPE(kF8E4M3B11FNUZ, "f8e4m3b11fnuz", 8, kFloat, uint8_t) \
  DTYPE(kF8E5M2, "f8e5m2", 8, kFloat, uint8_t)               \
  DTYPE(kF8E5M2FNUZ, "f8e5m2fnuz", 8, kFloat, uint8_t)       \
  DTYPE(kF8E8M0FNU, "f8e8m0fnu", 8, kFloat, uint8_t)         \
  DTYPE(kF16, "f16", 16, kFloat, uint16_t)                   \
  DTYPE(kBF16, "bf16", 16, kFloat, uint16_t)                 \
  DTYPE(kF32, "f32", 32, kFloat, float)                      \
  DTYPE(kF64, "f64", 64, kFloat, double)                     \
  DTYPE(kC64, "c64", 64, kComplex, std::complex<float>)      \
  DTYPE(kC128, "c128", 128, kComplex, std::complex<double>)

enum class DType : uint8_t {
  kInvalid,
#define WEFT_DTYPE_ENUM(e, name, bits, cls, storage) e,
  WEFT_DTYPES(WEFT_DTYPE_ENUM)
#undef WEFT_DTYPE_ENUM
      kToken,
  kOpaque,
  kTuple,
  kBuffer,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::kBuffer) + 1;

struct DTypeInfo {
  std::string_view name;
  uint8_t bits;
  DTypeClass cls;
};
namespace detail {
inline constexpr DTypeInfo kDTypeInfo[kDTypeCount] = {
    {"invalid", 0, DTypeClass::kInvalid},
#define WEFT_DTYPE_ROW(e, name, bits, cls, storage) {name, bits, DTypeClass::cls},
    WEFT_DTYPES(WEFT_DTYPE_ROW)
#undef WEFT_DTYPE_ROW
        {"token", 0, DTypeClass::kToken},
    {"opaque", 0, DTypeClass::kOpaque},
    {"tuple", 0, DTypeClass::kTuple},
    {"buffer", 0, DTypeClass::kBuffer},
};
}  // namespace detail

constexpr const DTypeInfo& Info(DType t) {
  return detail::kDTypeInfo[static_cast<int>(t)];
}
constexpr std::string_view Name(DType t) {
  return Info(t).name;
}
constexpr int BitWidth(DType t) {
  return Info(t).bits;
}
constexpr DTypeClass Class(DType t) {
  return Info(t).cls;
}
// Bytes of one element in a Literal or a buffer of unpacked elements.
constexpr int64_t ByteWidth(DType t) {
  return (BitWidth(t) + 7) / 8;
}

constexpr bool IsArrayType(DType t) {
  return t > DType::kInvalid && t < DType::kToken;
}
constexpr bool IsSigned(DType t) {
  return Class(t) == DTypeClass::kSigned;
}
constexpr bool IsUnsigned(DType t) {
  return Class(t) == DTypeClass::kUnsigned;
}
constexpr bool IsInteger(DType t) {
  return IsSigned(t) || IsUnsigned(t);
}
constexpr bool IsFloat(DType t) {
  return Class(t) == DTypeClass::kFloat;
}
constexpr bool IsComplex(DType t) {
  return Class(t) == DTypeClass::kComplex;
}
constexpr bool IsSubByte(DType t) {
  return IsArrayType(t) && t != DType::kPred && BitWidth(t) < 8;
}

// f32 for c64, f64 for c128; otherwise the type itself.
constexpr DType RealType(DType t) {
  return t == DType::kC64 ? DType::kF32 : t == DType::kC128 ? DType::kF64 : t;
}
// c64 for f32, c128 for f64; otherwise kInvalid.
constexpr DType ComplexType(DType t) {
  return t == DType::kF32 ? DType::kC64 : t == DType::kF64 ? DType::kC128 : DType::kInvalid;
}
// The integer type of this class and width, e.g. (kUnsigned, 32) -> u32.
DType IntegerType(DTypeClass cls, int bits);

// Array types, "token" and "opaque" by name.
std::optional<DType> ParseDType(std::string_view name);

}  // namespace weft

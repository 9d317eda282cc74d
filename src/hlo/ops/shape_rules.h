// Small rules that the shape inference of several op families shares.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "base/float_formats.h"
#include "base/shape.h"
#include "hlo/op.h"

namespace weft::hlo {

// "{0,2}"
inline std::string DimList(std::span<const int64_t> dims) {
  return StrCat("{", StrJoin(dims, ","), "}");
}

inline Status ExpectArrayOperand(const InferArgs& args, int64_t i) {
  if (args.operand(i).IsArray()) return {};
  return InvalidArgument(Mnemonic(args.op), ": operand ", i, " must be an array, got ",
                         args.operand(i).ToStringWithoutLayout());
}

inline Status ExpectDeclaredShape(const InferArgs& args) {
  if (args.declared != nullptr && args.declared->IsValid()) return {};
  return InvalidArgument(Mnemonic(args.op), ": the result shape must be written");
}

inline Status ExpectDeclaredArray(const InferArgs& args) {
  TRY(ExpectDeclaredShape(args));
  if (args.declared->IsArray()) return {};
  return InvalidArgument(Mnemonic(args.op), ": the result must be an array, got ",
                         args.declared->ToStringWithoutLayout());
}

// Equal, or one of them is `?`.
inline bool SizesAgree(int64_t a, int64_t b) {
  return a == b || a == Shape::kUnbounded || b == Shape::kUnbounded;
}

// A float type agrees with any other float type.
inline bool TypesAgree(DType a, DType b) {
  return a == b || (IsFloat(a) && IsFloat(b));
}

// Of two types the one with the larger range, then precision, then width; signed before unsigned.
inline DType HigherPrecision(DType a, DType b) {
  auto key = [](DType t) {
    FloatFormat f = FormatOf(RealType(t));
    return std::tuple(IsComplex(t), f.exponent_bits, f.mantissa_bits, BitWidth(t), IsSigned(t));
  };
  return key(b) > key(a) ? b : a;
}

// The dtype of the result of ops that may accumulate in another type than that of their operands:
// the declared one, else the higher of the two.
inline DType DeclaredTypeOr(const InferArgs& args, DType a, DType b) {
  if (args.declared != nullptr && args.declared->IsArray()) return args.declared->dtype();
  return HigherPrecision(a, b);
}

inline bool Contains(std::span<const int64_t> list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Every dimension within [0, rank), none twice.
inline Status CheckDimList(Op op, std::string_view what, std::span<const int64_t> dims,
                           int64_t rank) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank) {
      return InvalidArgument(Mnemonic(op), ": ", what, "=", DimList(dims), ": dimension ", dims[i],
                             " is not in [0, ", rank, ")");
    }
    if (Contains(dims.first(i), dims[i])) {
      return InvalidArgument(Mnemonic(op), ": ", what, "=", DimList(dims), ": dimension ", dims[i],
                             " occurs twice");
    }
  }
  return {};
}

// As CheckDimList, and ascending.
inline Status CheckSortedDimList(Op op, std::string_view what, std::span<const int64_t> dims,
                                 int64_t rank) {
  TRY(CheckDimList(op, what, dims, rank));
  if (std::is_sorted(dims.begin(), dims.end())) return {};
  return InvalidArgument(Mnemonic(op), ": ", what, "=", DimList(dims), " must be ascending");
}

// The shape without its layout.
inline Shape WithoutLayout(Shape shape) {
  shape.ClearLayout();
  return shape;
}

}  // namespace weft::hlo

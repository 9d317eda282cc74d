#include "gpu/cuda_text.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace weft::gpu {
namespace {

std::string Hex(uint64_t bits) {
  char buffer[17];
  auto [end, ec] = std::to_chars(buffer, buffer + sizeof(buffer), bits, 16);
  return StrCat("0x", std::string_view(buffer, static_cast<size_t>(end - buffer)));
}

// Digits with a point or an exponent.
std::string WithPoint(std::string digits) {
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

std::string FloatConstant(double value, DType type) {
  if (type == DType::kF32) {
    float narrow = static_cast<float>(value);
    if (!std::isfinite(narrow)) {
      return StrCat("__uint_as_float(", Hex(std::bit_cast<uint32_t>(narrow)), "u)");
    }
    std::string digits = WithPoint(StrCat(narrow));
    return std::signbit(narrow) ? StrCat("(", digits, "f)") : StrCat(digits, "f");
  }
  if (!std::isfinite(value)) {
    return StrCat("__longlong_as_double(", Hex(std::bit_cast<uint64_t>(value)), "ull)");
  }
  std::string digits = WithPoint(StrCat(value));
  return std::signbit(value) ? StrCat("(", digits, ")") : digits;
}

}  // namespace

std::string_view CudaType(DType compute_type) {
  CHECK(program::IsComputeType(compute_type)) << Name(compute_type);
  return Name(compute_type);
}

std::string CudaType(program::Type type) {
  if (type.lanes == 1) return std::string(CudaType(type.dtype));
  return StrCat("Vec<", CudaType(type.dtype), ", ", type.lanes, ">");
}

std::string_view CudaStorageType(DType storage) {
  if (storage == DType::kF32 || storage == DType::kF64) return Name(storage);
  if (IsSigned(storage) && BitWidth(storage) < 8) return "s8";
  if (IsInteger(storage) && BitWidth(storage) >= 8) return Name(storage);
  return ByteWidth(storage) == 2 ? "u16" : "u8";
}

std::string CudaConstant(const program::Value& value) {
  DType type = value.type.dtype;
  if (IsFloat(type)) return FloatConstant(value.AsDouble(), type);
  if (type == DType::kPred) return value.AsInt() != 0 ? "true" : "false";
  int64_t number = value.AsInt();
  if (type == DType::kU64) return StrCat(value.bits, "ull");
  if (type == DType::kU32) return StrCat(number, "u");
  if (BitWidth(type) < 32) return StrCat(CudaType(type), "(", number, ")");
  std::string_view suffix = type == DType::kS64 ? "ll" : "";
  bool lowest = number == (type == DType::kS64 ? std::numeric_limits<int64_t>::min()
                                               : std::numeric_limits<int32_t>::min());
  if (lowest) return StrCat("(", number + 1, suffix, " - 1)");
  return number < 0 ? StrCat("(", number, suffix, ")") : StrCat(number, suffix);
}

std::string CudaName(std::string_view prefix, std::string_view name) {
  std::string out(prefix);
  for (char c : name) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    out += plain ? c : '_';
  }
  return out;
}

}  // namespace weft::gpu

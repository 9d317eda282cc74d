#include "cpu/render/ir_text.h"

#include <bit>

#include "base/check.h"
#include "base/digest.h"

namespace weft::cpu {
namespace {

std::string_view Element(DType dtype) {
  switch (dtype) {
    case DType::kPred: return "i1";
    case DType::kF32: return "float";
    case DType::kF64: return "double";
    default: break;
  }
  switch (BitWidth(dtype)) {
    case 8: return "i8";
    case 16: return "i16";
    case 32: return "i32";
    default: return "i64";
  }
}

void AppendHex(std::string& out, uint64_t bits) {
  out.append("0x");
  for (int shift = 60; shift >= 0; shift -= 4)
    out.push_back("0123456789ABCDEF"[bits >> shift & 15]);
}

}  // namespace

std::string IrVector(std::string_view element, int lanes) {
  return lanes == 1 ? std::string(element) : StrCat("<", lanes, " x ", element, ">");
}

std::string IrType(program::Type type) {
  return IrVector(Element(type.dtype), type.lanes);
}

std::string IrSuffix(program::Type type) {
  std::string_view element = Element(type.dtype);
  if (type.dtype == DType::kF32) element = "f32";
  if (type.dtype == DType::kF64) element = "f64";
  return type.lanes == 1 ? std::string(element) : StrCat("v", type.lanes, element);
}

std::string_view StorageType(DType dtype) {
  if (dtype == DType::kF16) return "half";
  if (dtype == DType::kF32) return "float";
  if (dtype == DType::kF64) return "double";
  switch (ByteWidth(dtype)) {
    case 1: return "i8";
    case 2: return "i16";
    case 4: return "i32";
    default: return "i64";
  }
}

std::string_view StorageSuffix(DType dtype) {
  if (dtype == DType::kF16) return "f16";
  if (dtype == DType::kF32) return "f32";
  if (dtype == DType::kF64) return "f64";
  return StorageType(dtype);
}

std::string IrFloat(double value) {
  std::string out;
  AppendHex(out, std::bit_cast<uint64_t>(value));
  return out;
}

void AppendComment(std::string& out, std::string_view text) {
  out.append("; ");
  for (char c : text) out.push_back(c >= ' ' ? c : '?');
  out.push_back('\n');
}

std::string IrFloatBits(uint32_t bits) {
  return IrFloat(std::bit_cast<float>(bits));
}

std::string IrSplat(std::string_view element, std::string_view number, int lanes) {
  if (lanes == 1) return std::string(number);
  return StrCat("splat (", element, " ", number, ")");
}

std::string IrConstant(const program::Value& value) {
  DType dtype = value.type.dtype;
  std::string number;
  if (dtype == DType::kPred) {
    number = value.bits != 0 ? "true" : "false";
  } else if (dtype == DType::kF32) {
    number = IrFloat(static_cast<float>(value.AsDouble()));
  } else if (dtype == DType::kF64) {
    number = IrFloat(value.AsDouble());
  } else {
    number = StrCat(value.AsInt());
  }
  return IrSplat(Element(dtype), number, value.type.lanes);
}

std::string IrMetadata::AddFunction(std::string_view result, std::string_view rest) {
  Digest digest;
  digest.Update(result);
  digest.Update(rest);
  auto raw = digest.Finish();
  std::string name =
      StrCat("@part_", ToHex(std::string_view(reinterpret_cast<const char*>(raw.data()), 16)));
  if (known_.insert(name).second) {
    StrAppend(functions_, "define internal ", result, " ", name, rest);
  }
  return name;
}

}  // namespace weft::cpu

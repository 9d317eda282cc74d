#include "base/str.h"
#include "hlo/import/tree.h"

namespace weft::hlo::mlir {
namespace {

std::string_view FloatTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF4E2M1FN: return "f4E2M1FN";
    case DType::kF6E2M3FN: return "f6E2M3FN";
    case DType::kF6E3M2FN: return "f6E3M2FN";
    case DType::kF8E3M4: return "f8E3M4";
    case DType::kF8E4M3: return "f8E4M3";
    case DType::kF8E4M3FN: return "f8E4M3FN";
    case DType::kF8E4M3FNUZ: return "f8E4M3FNUZ";
    case DType::kF8E4M3B11FNUZ: return "f8E4M3B11FNUZ";
    case DType::kF8E5M2: return "f8E5M2";
    case DType::kF8E5M2FNUZ: return "f8E5M2FNUZ";
    case DType::kF8E8M0FNU: return "f8E8M0FNU";
    default: return Name(dtype);  // f16, bf16, f32, f64
  }
}

}  // namespace

void AppendElementType(std::string& out, DType dtype) {
  if (dtype == DType::kPred) {
    out += "i1";
  } else if (IsInteger(dtype)) {
    StrAppend(out, IsUnsigned(dtype) ? "ui" : "i", BitWidth(dtype));
  } else if (IsComplex(dtype)) {
    StrAppend(out, "complex<", FloatTypeName(RealType(dtype)), ">");
  } else if (dtype == DType::kInvalid) {
    out += "tf32";
  } else {
    out += FloatTypeName(dtype);
  }
}

}  // namespace weft::hlo::mlir

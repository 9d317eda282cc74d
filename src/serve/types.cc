#include "serve/types.h"

namespace weft::serve {
namespace {

constexpr TypeNames kTypes[] = {
    {DType::kPred, "BOOL", "BOOL", 10, "DT_BOOL"},
    {DType::kS8, "I8", "INT8", 6, "DT_INT8"},
    {DType::kS16, "I16", "INT16", 5, "DT_INT16"},
    {DType::kS32, "I32", "INT32", 3, "DT_INT32"},
    {DType::kS64, "I64", "INT64", 9, "DT_INT64"},
    {DType::kU8, "U8", "UINT8", 4, "DT_UINT8"},
    {DType::kU16, "U16", "UINT16", 17, "DT_UINT16"},
    {DType::kU32, "U32", "UINT32", 22, "DT_UINT32"},
    {DType::kU64, "U64", "UINT64", 23, "DT_UINT64"},
    {DType::kF16, "F16", "FP16", 19, "DT_HALF"},
    {DType::kBF16, "BF16", "BF16", 14, "DT_BFLOAT16"},
    {DType::kF32, "F32", "FP32", 1, "DT_FLOAT"},
    {DType::kF64, "F64", "FP64", 2, "DT_DOUBLE"},
    {DType::kC64, "C64", "", 8, "DT_COMPLEX64"},
    {DType::kC128, "", "", 18, "DT_COMPLEX128"},
    {DType::kF8E5M2, "F8_E5M2", "", 24, "DT_FLOAT8_E5M2"},
    {DType::kF8E4M3FN, "F8_E4M3", "", 25, "DT_FLOAT8_E4M3FN"},
    {DType::kF8E8M0FNU, "F8_E8M0", "", 0, ""},
};

}  // namespace

const TypeNames* FindType(DType type) {
  for (const TypeNames& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

std::optional<DType> TypeFromSafetensors(std::string_view name) {
  for (const TypeNames& row : kTypes) {
    if (!name.empty() && row.safetensors == name) return row.type;
  }
  return std::nullopt;
}

std::optional<DType> TypeFromInference(std::string_view name) {
  for (const TypeNames& row : kTypes) {
    if (!name.empty() && row.inference == name) return row.type;
  }
  return std::nullopt;
}

std::optional<DType> TypeFromTensorflow(int number) {
  for (const TypeNames& row : kTypes) {
    if (number != 0 && row.tensorflow == number) return row.type;
  }
  return std::nullopt;
}

}  // namespace weft::serve

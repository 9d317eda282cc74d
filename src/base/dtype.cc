#include "base/dtype.h"

namespace weft {

DType IntegerType(DTypeClass cls, int bits) {
  for (int i = 0; i < kDTypeCount; ++i) {
    DType t = static_cast<DType>(i);
    if (Class(t) == cls && BitWidth(t) == bits) return t;
  }
  return DType::kInvalid;
}

std::optional<DType> ParseDType(std::string_view name) {
  // The common ones first: the parser asks for every identifier that may be a shape.
  if (name == "f32") return DType::kF32;
  if (name == "bf16") return DType::kBF16;
  if (name == "s32") return DType::kS32;
  if (name.size() < 2 || name.size() > 13) return std::nullopt;
  for (int i = 1; i <= static_cast<int>(DType::kOpaque); ++i) {
    if (detail::kDTypeInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace weft

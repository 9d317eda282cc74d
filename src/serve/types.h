// How element types are called by the formats and protocols that the server speaks. One table.
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace weft::serve {

struct TypeNames {
  DType type;
  std::string_view safetensors;      // "F32"; empty: it has no such type
  std::string_view inference;        // "FP32", Open Inference; likewise
  int tensorflow;                    // DataType of TensorFlow; 0: none
  std::string_view tensorflow_name;  // "DT_FLOAT"
};

const TypeNames* FindType(DType type);  // null: the protocols have no name for it
std::optional<DType> TypeFromSafetensors(std::string_view name);
std::optional<DType> TypeFromInference(std::string_view name);
std::optional<DType> TypeFromTensorflow(int number);

}  // namespace weft::serve

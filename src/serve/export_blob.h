// What jax.export writes (Exported.serialize): a FlatBuffers table around a StableHLO module.
// Schema versions 1 to 12; what a server does not need (trees, shardings, derivatives) is not read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"

namespace weft::serve {

struct ExportedValue {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;         // -1: symbolic
  std::vector<std::string> symbols;  // of the dimensions, empty where they are numbers
  bool IsStatic() const;
};

struct ExportBlob {
  std::string function_name;
  std::vector<ExportedValue> inputs, outputs;  // flat, in order
  std::vector<std::string> platforms;          // "cpu", "cuda", ...
  std::vector<int64_t> kept;  // inputs that the module takes, ascending; others are not used
  int64_t calling_convention = 0, devices = 1, ordered_effects = 0;
  std::string_view module;  // StableHLO bytecode, within the blob
};

// `bytes` must outlive the result.
Result<ExportBlob> ParseExportBlob(std::string_view bytes);

}  // namespace weft::serve

// A version of a model on disk: <base>/<version>/ with signature.json, programs and weights; or one
// program alone (model.jaxexport, model.mlirbc, model.mlir, model.hlo), whose inputs are then
// called arg_0, arg_1, ... and whose outputs output_0, ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "serve/signature.h"

namespace weft::serve {

// A program as a device compiles it.
struct ProgramText {
  std::string text;             // StableHLO or HLO
  std::vector<int64_t> kept;    // arguments of the graph that it takes, in order
  bool platform_index = false;  // a first argument s32[] says which platform it runs on ...
  int32_t platform = 0;         // ... this one
};

struct ModelFolder {
  std::string path;
  ModelSpec spec;
};

Result<ModelFolder> ReadModelFolder(const std::string& path);
// A program of the folder. Errors name the file.
Result<ProgramText> ReadProgram(const ModelFolder& folder, const GraphSpec& graph,
                                const ProgramSpec& program, bool on_gpu);

// The versions in a base folder: sub-folders with a number for a name, ascending.
Result<std::vector<int64_t>> ListVersions(const std::string& base);

}  // namespace weft::serve

// Which models are served, as TF Serving's ModelServerConfig: in a reload request, or a file of
// protobuf text (--model_config_file).
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "serve/models.h"
#include "tensorflow_serving.pb.h"

namespace weft::serve {

Result<std::vector<ModelConfig>> FromConfigProto(
    const tensorflow::serving::ModelServerConfig& proto);
// Errors name the file, line and column.
Result<std::vector<ModelConfig>> ReadConfigFile(const std::string& path);

}  // namespace weft::serve

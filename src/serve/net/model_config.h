// Which models are served, as TF Serving's ModelServerConfig: in a reload request, or a file of
// protobuf text (--model_config_file).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "serve/models.h"
#include "tensorflow_serving.pb.h"

namespace weft::serve {

Result<std::vector<ModelConfig>> FromConfigProto(
    const tensorflow::serving::ModelServerConfig& proto);
// A file of protobuf text; errors name the file, line and column.
Status ReadTextProto(const std::string& path, std::string_view type,
                     google::protobuf::Message& proto);
Result<std::vector<ModelConfig>> ReadConfigFile(const std::string& path);

}  // namespace weft::serve

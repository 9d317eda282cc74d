#include "serve/net/model_config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>

#include "base/file.h"

namespace weft::serve {
namespace {

namespace tfs = tensorflow::serving;

// Keeps the first error of the parser.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text) text = StrCat(line + 1, ":", column + 1, ": ", message);
  }
  std::optional<std::string> text;
};

}  // namespace

Result<std::vector<ModelConfig>> FromConfigProto(const tfs::ModelServerConfig& proto) {
  if (proto.has_custom_model_config()) return Unimplemented("custom_model_config");
  std::vector<ModelConfig> configs;
  for (const tfs::ModelConfig& model : proto.model_config_list().config()) {
    ModelConfig& config = configs.emplace_back();
    config.name = model.name();
    config.base_path = model.base_path();
    const auto& policy = model.model_version_policy();
    if (policy.has_all()) {
      config.policy.kind = VersionPolicy::Kind::kAll;
    } else if (policy.has_specific()) {
      const auto& versions = policy.specific().versions();
      config.policy.kind = VersionPolicy::Kind::kSpecific;
      config.policy.specific.assign(versions.begin(), versions.end());
    } else if (policy.has_latest()) {
      config.policy.latest = std::max<int64_t>(policy.latest().num_versions(), 1);
    }
    for (const auto& [label, version] : model.version_labels()) config.labels[label] = version;
  }
  return configs;
}

Status ReadTextProto(const std::string& path, std::string_view type,
                     google::protobuf::Message& proto) {
  std::string text = TRY(ReadFile(path));
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  // Fields of TF Serving that mean nothing here (logging, platform types) are no error.
  parser.AllowUnknownField(true);
  if (parser.ParseFromString(text, &proto)) return {};
  return InvalidArgument(path, ":", error.text.value_or(StrCat("not a ", type)));
}

Result<std::vector<ModelConfig>> ReadConfigFile(const std::string& path) {
  tfs::ModelServerConfig proto;
  TRY(ReadTextProto(path, "ModelServerConfig", proto));
  return FromConfigProto(proto);
}

}  // namespace weft::serve

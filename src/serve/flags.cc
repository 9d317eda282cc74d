#include "serve/flags.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <variant>

#include "base/nearest.h"

namespace weft::serve {
namespace {

using FlagTarget =
    std::variant<std::string ServeFlags::*, int64_t ServeFlags::*, double ServeFlags::*,
                 bool ServeFlags::*, std::vector<std::string> ServeFlags::*>;

struct Flag {
  std::string_view name, takes, help;
  FlagTarget target;
};

using F = ServeFlags;
const Flag kFlags[] = {
    {"model_base_path", "DIR", "the folder with the model's versions: DIR/1, DIR/2, ...",
     &F::model_base_path},
    {"model_name", "NAME", "what that model is called (default)", &F::model_name},
    {"model", "NAME=DIR", "one more model; may be given several times", &F::models},
    {"model_repository", "DIR", "every sub-folder is a model", &F::model_repository},
    {"model_config_file", "FILE", "models as TF Serving's ModelServerConfig, protobuf text",
     &F::model_config_file},
    {"version_policy", "P", "latest:N, all, or specific:1,2 (latest:1)", &F::version_policy},
    {"version_label", "NAME:LABEL=V", "a name for a version of a model", &F::labels},
    {"file_system_poll_wait_seconds", "S", "how often the folders are looked at; 0: never (1)",
     &F::file_system_poll_wait_seconds},
    {"host", "ADDRESS", "where to listen (0.0.0.0)", &F::host},
    {"port", "N", "for gRPC; 0: a free one, -1: none (8500)", &F::port},
    {"rest_api_port", "N", "for HTTP; 0: a free one, -1: none (8501)", &F::rest_api_port},
    {"rest_api_num_threads", "N", "threads that read and write HTTP; 0: by the cores",
     &F::rest_api_num_threads},
    {"grpc_max_threads", "N", "threads that receive gRPC and run what is short; 0: by the cores",
     &F::grpc_max_threads},
    {"enable_batching", "BOOL", "join requests that wait into one run (true)", &F::enable_batching},
    {"dedicated_cores", "BOOL",
     "no other program uses the cores: runs take what urgent work leaves (false)",
     &F::dedicated_cores},
    {"run_placement", "P",
     "with --dedicated_cores, threads of runs: free (but for those that stand behind), pinned "
     "(each "
     "to a core), behind (that too, and all others first) (free)",
     &F::run_placement},
    {"batch_timeout_micros", "N",
     "how long a request waits for others while the device is free (0)", &F::batch_timeout_micros},
    {"device_selection", "P",
     "which of several GPU devices runs a request: soonest_free or round_robin (soonest_free)",
     &F::device_selection},
    {"device_lanes", "N",
     "runs that a GPU is given side by side; 0: eight, or as many as WEFT_GPU_DEVICES (0)",
     &F::device_lanes},
    {"slots", "N", "runs at once; 0: by the cores", &F::slots},
    {"reserved_slots", "N", "of those, for requests of high priority; -1: by the cores",
     &F::reserved_slots},
    {"max_queue", "N", "requests that wait, at most (1000)", &F::max_queue},
    {"max_queue_delay_ms", "N",
     "requests without a deadline that would wait longer are turned away (1000)",
     &F::max_queue_delay_ms},
    {"max_request_bytes", "N", "larger requests are refused (268435456)", &F::max_request_bytes},
    {"max_connections", "N", "of HTTP, at once (20000)", &F::max_connections},
    {"max_inflight_bytes", "N", "inputs of requests that wait or run, together; 0: no limit (0)",
     &F::max_inflight_bytes},
    {"max_weights_bytes", "N", "weights of all versions together; 0: no limit (0)",
     &F::max_weights_bytes},
    {"tls_cert", "FILE", "the server's certificates, PEM: TLS for HTTP and gRPC", &F::tls_cert},
    {"tls_key", "FILE", "the key of the certificate, PEM", &F::tls_key},
    {"tls_client_ca", "FILE", "clients must have a certificate of this authority, PEM",
     &F::tls_client_ca},
    {"ssl_config_file", "FILE", "the same as TF Serving's SSLConfig, protobuf text",
     &F::ssl_config_file},
    {"bearer_token_file", "FILE", "clients must send one of these tokens, one a line",
     &F::bearer_token_file},
    {"access_log", "FILE",
     "a line of JSON for each request; -: standard output; SIGHUP opens it anew", &F::access_log},
    {"enable_shared_memory", "BOOL", "clients may name shared memory of this machine (false)",
     &F::enable_shared_memory},
    {"rest_api_timeout_in_ms", "N", "a deadline for REST requests that have none; 0: none (0)",
     &F::rest_api_timeout_in_ms},
    {"grpc_socket_path", "PATH", "a Unix socket for gRPC, beside the port", &F::grpc_socket_path},
    {"batching_parameters_file", "FILE", "TF Serving's BatchingParameters, protobuf text",
     &F::batching_parameters_file},
    {"model_config_file_poll_wait_seconds", "S", "how often that file is read anew; 0: never (0)",
     &F::model_config_file_poll_wait_seconds},
    {"drain_seconds", "N", "for requests under way when the server is told to end (30)",
     &F::drain_seconds},
    {"help", "", "this text", &F::help},
    {"version", "", "which version this is", &F::version},
};

// Of TF Serving: accepted, so that its command lines work, and said to mean nothing.
constexpr std::string_view kWithoutMeaning[] = {
    "allow_version_labels_for_unavailable_models",
    "enable_grpc_healthcheck_service",
    "enable_model_warmup",
    "enable_profiler",
    "enable_signature_method_name_check",
    "flush_filesystem_caches",
    "grpc_channel_arguments",
    "load_retry_interval_micros",
    "max_num_load_retries",
    "mixed_precision",
    "monitoring_config_file",
    "num_load_threads",
    "num_request_iterations_for_warmup",
    "num_tflite_interpreters_per_pool",
    "num_tflite_pools",
    "num_unload_threads",
    "per_process_gpu_memory_fraction",
    "platform_config_file",
    "prefer_tflite_model",
    "remove_unused_fields_from_bundle_metagraph",
    "rest_api_enable_cors_support",
    "saved_model_tags",
    "skip_initialize_tpu",
    "tensorflow_inter_op_parallelism",
    "tensorflow_intra_op_parallelism",
    "tensorflow_session_config_file",
    "tensorflow_session_parallelism",
    "thread_pool_factory_config_file",
    "xla_cpu_compilation_enabled",
};

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : kFlags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

Status SetFlag(const Flag& flag, std::string_view text, ServeFlags& flags) {
  auto wrong = [&](std::string_view wanted) {
    return InvalidArgument("--", flag.name, "=", text, ": expected ", wanted);
  };
  if (auto* target = std::get_if<std::string ServeFlags::*>(&flag.target)) {
    flags.*(*target) = std::string(text);
  } else if (auto* list = std::get_if<std::vector<std::string> ServeFlags::*>(&flag.target)) {
    (flags.*(*list)).emplace_back(text);
  } else if (auto* number = std::get_if<int64_t ServeFlags::*>(&flag.target)) {
    std::optional<int64_t> value = ParseInt(text);
    if (!value || *value < -1) return wrong("a number");
    flags.*(*number) = *value;
  } else if (auto* real = std::get_if<double ServeFlags::*>(&flag.target)) {
    std::optional<double> value = ParseDouble(text);
    if (!value || !(*value >= 0)) return wrong("seconds");
    flags.*(*real) = *value;
  } else {
    if (text != "true" && text != "false" && text != "1" && text != "0")
      return wrong("true or false");
    flags.*(std::get<bool ServeFlags::*>(flag.target)) = text == "true" || text == "1";
  }
  return {};
}

bool IsFolder(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::vector<std::string>> SubFolders(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return NotFound(path, ": cannot be opened");
  std::vector<std::string> names;
  while (dirent* entry = readdir(directory)) {
    std::string name = entry->d_name;
    if (name[0] != '.' && IsFolder(path + "/" + name)) names.push_back(std::move(name));
  }
  closedir(directory);
  std::ranges::sort(names);
  return names;
}

}  // namespace

Result<ServeFlags> ParseFlags(std::span<const char* const> arguments) {
  ServeFlags flags;
  std::vector<std::string_view> known;
  for (const Flag& flag : kFlags) known.push_back(flag.name);
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view word = arguments[i];
    if (!word.starts_with("--")) return InvalidArgument("unexpected argument: ", word);
    word.remove_prefix(2);
    size_t equals = word.find('=');
    std::string_view name = word.substr(0, equals);
    const Flag* flag = FindFlag(name);
    if (std::ranges::count(kWithoutMeaning, name) > 0) {
      flags.without_meaning.emplace_back(name);
      continue;
    }
    if (flag == nullptr) return InvalidArgument("unknown flag: --", name, DidYouMean(name, known));
    bool is_bool = std::holds_alternative<bool ServeFlags::*>(flag->target);
    std::string_view value = "true";
    if (equals != word.npos) {
      value = word.substr(equals + 1);
    } else if (!is_bool) {
      if (i + 1 >= arguments.size()) return InvalidArgument("--", name, ": expected ", flag->takes);
      value = arguments[++i];
    }
    TRY(SetFlag(*flag, value, flags));
  }
  return flags;
}

std::string FlagsHelp() {
  std::string out =
      "usage: weft-serve --model_base_path=DIR [FLAG]...\n\n"
      "Serves JAX models from folders that weft.serve.export wrote, over gRPC and HTTP, to clients "
      "of TF "
      "Serving\nand of Open Inference (KServe v2, Triton).\n\n";
  for (const Flag& flag : kFlags) {
    std::string left = StrCat("  --", flag.name, flag.takes.empty() ? "" : "=", flag.takes);
    left.resize(std::max<size_t>(left.size() + 1, 38), ' ');
    StrAppend(out, left, flag.help, "\n");
  }
  return out +
         "\nexample:\n  weft-serve --model_base_path=models/mlp --model_name=mlp\n"
         "  curl -d '{\"instances\": [[1, 2]]}' localhost:8501/v1/models/mlp:predict\n";
}

Result<VersionPolicy> ParseVersionPolicy(std::string_view text) {
  VersionPolicy policy;
  if (text == "all") {
    policy.kind = VersionPolicy::Kind::kAll;
    return policy;
  }
  auto wrong = [&] {
    return InvalidArgument("version policy '", text, "': expected latest:N, all or specific:1,2");
  };
  size_t colon = text.find(':');
  if (colon == text.npos) return wrong();
  std::string_view kind = text.substr(0, colon), rest = text.substr(colon + 1);
  policy.kind = kind == "latest" ? VersionPolicy::Kind::kLatest : VersionPolicy::Kind::kSpecific;
  if (kind != "latest" && kind != "specific") return wrong();
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::optional<int64_t> number = ParseInt(rest.substr(0, comma));
    if (!number || *number < 0) return wrong();
    policy.specific.push_back(*number);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (policy.specific.empty()) return wrong();
  if (kind == "latest") policy.latest = std::max<int64_t>(policy.specific[0], 1);
  return policy;
}

Result<std::vector<ModelConfig>> ModelsOf(const ServeFlags& flags) {
  std::vector<ModelConfig> models;
  VersionPolicy policy = TRY(ParseVersionPolicy(flags.version_policy));
  auto add = [&](std::string name, std::string path) {
    models.push_back({std::move(name), std::move(path), policy, {}});
  };
  if (!flags.model_base_path.empty()) add(flags.model_name, flags.model_base_path);
  for (const std::string& model : flags.models) {
    size_t equals = model.find('=');
    if (equals == model.npos || equals == 0)
      return InvalidArgument("--model=", model, ": expected NAME=DIR");
    add(model.substr(0, equals), model.substr(equals + 1));
  }
  if (!flags.model_repository.empty()) {
    for (std::string& name : TRY(SubFolders(flags.model_repository))) {
      std::string path = StrCat(flags.model_repository, "/", name);
      add(std::move(name), std::move(path));
    }
  }
  if (models.empty() && flags.model_config_file.empty())
    return InvalidArgument(
        "no model: give --model_base_path, --model, --model_repository or --model_config_file");
  for (const std::string& label : flags.labels) {
    size_t colon = label.find(':'), equals = label.rfind('=');
    auto model = std::ranges::find(models, label.substr(0, colon), &ModelConfig::name);
    std::optional<int64_t> version;
    if (equals != label.npos) version = ParseInt(std::string_view(label).substr(equals + 1));
    if (colon == label.npos || equals == label.npos || equals < colon || model == models.end() ||
        !version) {
      return InvalidArgument("--version_label=", label,
                             ": expected NAME:LABEL=VERSION of a model that is served");
    }
    model->labels[label.substr(colon + 1, equals - colon - 1)] = *version;
  }
  return models;
}

}  // namespace weft::serve

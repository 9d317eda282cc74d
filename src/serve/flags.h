// What weft-serve is started with. TF Serving's names where it has some; one table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "serve/models.h"

namespace weft::serve {

struct ServeFlags {
  std::string host = "0.0.0.0";
  int64_t port = 8500, rest_api_port = 8501;  // -1: none
  std::string model_name = "default", model_base_path, model_repository, model_config_file;
  std::vector<std::string> models;  // NAME=PATH
  std::vector<std::string> labels;  // NAME:LABEL=VERSION
  std::string version_policy = "latest:1";
  std::string device_selection = "soonest_free";
  double file_system_poll_wait_seconds = 1;
  bool enable_batching = true, dedicated_cores = false;
  std::string run_placement = "free";
  int64_t batch_timeout_micros = 0;
  int64_t device_lanes = 0, slots = 0, reserved_slots = -1, max_queue = 1000,
          max_queue_delay_ms = 1000;
  int64_t rest_api_num_threads = 0, grpc_max_threads = 0, max_request_bytes = int64_t{256} << 20,
          max_connections = 20'000;
  int64_t drain_seconds = 30;
  std::string tls_cert, tls_key, tls_client_ca, ssl_config_file;
  std::string bearer_token_file, access_log;
  bool enable_shared_memory = false;
  int64_t max_inflight_bytes = 0, max_weights_bytes = 0;
  std::string grpc_socket_path, batching_parameters_file;
  int64_t rest_api_timeout_in_ms = 0;
  double model_config_file_poll_wait_seconds = 0;
  // Flags of TF Serving that mean nothing here, as they were given.
  std::vector<std::string> without_meaning;
  bool help = false, version = false;
};

// `--name=value`, `--name value`, and `--name` alone for booleans.
Result<ServeFlags> ParseFlags(std::span<const char* const> arguments);
std::string FlagsHelp();
// The models that the flags name, but for those of a config file. A repository's are its
// sub-folders.
Result<std::vector<ModelConfig>> ModelsOf(const ServeFlags& flags);
Result<VersionPolicy> ParseVersionPolicy(std::string_view text);

}  // namespace weft::serve

// weft-serve: models from folders, over gRPC and HTTP. SIGTERM drains: no new requests, those under
// way are finished.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "base/cores.h"
#include "base/log.h"
#include "serve/client_backend.h"
#include "serve/flags.h"
#include "serve/gate.h"
#include "serve/net/grpc_server.h"
#include "serve/net/http_server.h"
#include "serve/net/model_config.h"
#include "serve/net/tls.h"
#include "serve/rest.h"
#include "serve/server.h"

namespace weft::serve {
namespace {

constexpr int kExitFailed = 1, kExitUsage = 2;
constexpr Time kFlush = 5 * kSecond;  // for answers that are ready to leave the process

Result<ServerOptions> OptionsOf(const ServeFlags& flags, int lanes) {
  ServerOptions options = DefaultServerOptions(lanes);
  SchedulerOptions& scheduler = options.scheduler;
  if (flags.reserved_slots >= 0) {
    scheduler.slots += static_cast<int>(flags.reserved_slots) - scheduler.reserved;
    scheduler.reserved = static_cast<int>(flags.reserved_slots);
  }
  if (flags.slots > 0) scheduler.slots = static_cast<int>(flags.slots);
  scheduler.reserved = std::min(scheduler.reserved, scheduler.slots - 1);
  scheduler.max_queue = static_cast<size_t>(std::max<int64_t>(flags.max_queue, 1));
  scheduler.own_cores = flags.dedicated_cores;
  const auto placement = ParsePlacement(flags.run_placement);
  if (!placement) {
    return InvalidArgument("--run_placement=", flags.run_placement,
                           ": expected free, pinned or behind");
  }
  if (scheduler.own_cores) scheduler.placement = *placement;
  scheduler.max_queue_delay = std::max<int64_t>(flags.max_queue_delay_ms, 1) * kMillisecond;
  options.batching.enabled = flags.enable_batching;
  options.batching.max_delay = std::max<int64_t>(flags.batch_timeout_micros, 0) * kMicrosecond;
  scheduler.least_slots = std::min(scheduler.least_slots, scheduler.slots);
  options.max_inflight_bytes = std::max<int64_t>(flags.max_inflight_bytes, 0);
  options.models.weights_bytes = std::max<int64_t>(flags.max_weights_bytes, 0);
  options.models.repository = flags.model_repository;
  return options;
}

Status ReadBatchingFile(const std::string& path, ServeFlags& flags) {
  if (path.empty()) return {};
  tensorflow::serving::BatchingParameters batching;
  TRY(ReadTextProto(path, "BatchingParameters", batching));
  flags.enable_batching = true;
  if (batching.has_batch_timeout_micros())
    flags.batch_timeout_micros = batching.batch_timeout_micros().value();
  if (batching.has_max_enqueued_batches()) {
    int64_t most = batching.has_max_batch_size() ? batching.max_batch_size().value() : 1;
    flags.max_queue = batching.max_enqueued_batches().value() * std::max<int64_t>(most, 1);
  }
  if (batching.has_num_batch_threads()) flags.slots = batching.num_batch_threads().value();
  return {};
}

Status OpenGate(const ServeFlags& flags, Gate& gate) {
  if (!flags.bearer_token_file.empty()) TRY(gate.ReadTokens(flags.bearer_token_file));
  if (!flags.access_log.empty()) gate.SetLog(TRY(AccessLog::Open(flags.access_log)));
  return {};
}

Result<DeviceSelector::Policy> SelectionOf(const ServeFlags& flags) {
  std::optional<DeviceSelector::Policy> policy = ParseSelection(flags.device_selection);
  if (policy) return *policy;
  return InvalidArgument("--device_selection=", flags.device_selection,
                         ": expected soonest_free or round_robin");
}

Result<TlsOptions> TlsOf(const ServeFlags& flags) {
  if (!flags.ssl_config_file.empty()) return ReadSslConfig(flags.ssl_config_file);
  return ReadTls(flags.tls_cert, flags.tls_key, flags.tls_client_ca);
}

Result<std::vector<ModelConfig>> AllModels(const ServeFlags& flags) {
  std::vector<ModelConfig> models = TRY(ModelsOf(flags));
  if (!flags.model_config_file.empty()) {
    for (ModelConfig& config : TRY(ReadConfigFile(flags.model_config_file))) {
      models.push_back(std::move(config));
    }
  }
  return models;
}

// Reads the file of models anew while it lives. What is wrong with it is said, and what is served
// stays.
class ConfigWatch {
 public:
  ConfigWatch(const ServeFlags& flags, Server& server) {
    double seconds = flags.model_config_file_poll_wait_seconds;
    if (seconds <= 0 || flags.model_config_file.empty()) return;
    thread_ = std::jthread([&flags, &server, seconds](const std::stop_token& stop) {
      Time next = Now();
      while (!stop.stop_requested()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        if (Now() < next) continue;
        next = Now() + static_cast<Time>(seconds * 1e9);
        Result<std::vector<ModelConfig>> models = AllModels(flags);
        Status status;
        if (models) {
          status = server.models().SetConfig(std::move(*models));
        } else {
          status = std::unexpected(models.error());
        }
        if (!status) {
          LOG(warn) << status.error();
        }
      }
    });
  }

 private:
  std::jthread thread_;
};

// The line that scripts wait for.
void SayReady(const Server& server, const HttpServer* http, const GrpcServer* grpc) {
  std::string where;
  if (grpc != nullptr) StrAppend(where, ", gRPC at port ", grpc->port());
  if (http != nullptr) StrAppend(where, ", HTTP at port ", http->port());
  std::fprintf(stderr, "weft-serve: %s: %s%s\n", server.Ready() ? "ready" : "not ready",
               server.backend().description().c_str(), where.c_str());
}

// Until a signal says so; SIGHUP only has the log opened anew.
void WaitForTheEnd(const sigset_t& signals, Gate& gate) {
  int signal = 0;
  do {
    sigwait(&signals, &signal);
    if (signal == SIGHUP && gate.log() != nullptr) gate.log()->Reopen();
  } while (signal == SIGHUP);
  std::fprintf(stderr, "weft-serve: %s: draining\n", strsignal(signal));
}

Result<int> Serve(const ServeFlags& flags, const sigset_t& signals) {
  for (const std::string& name : flags.without_meaning) {
    std::fprintf(stderr, "weft-serve: --%s: of TF Serving, means nothing here\n", name.c_str());
  }
  std::vector<ModelConfig> models = TRY(AllModels(flags));
  TlsOptions tls = TRY(TlsOf(flags));
  Gate gate;
  TRY(OpenGate(flags, gate));
  // Queues of one GPU that the driver would otherwise give the same channel wait for each other.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  BackendOptions on = {.selection = TRY(SelectionOf(flags))};
  if (flags.device_lanes > 0) on.lanes = static_cast<int>(flags.device_lanes);
  std::unique_ptr<Backend> backend = TRY(MakeClientBackend(on));
  const ServerOptions options = TRY(OptionsOf(flags, backend->Lanes()));
  Server server(std::move(backend), options);
  if (flags.enable_shared_memory) server.shared_memory().Enable();
  RestApi rest(server, &gate);
  if (flags.rest_api_timeout_in_ms > 0)
    rest.SetTimeout(flags.rest_api_timeout_in_ms * kMillisecond);
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<GrpcServer> grpc;
  auto set = [&](auto& options, std::string_view protocol, int64_t port, int64_t threads) {
    options.address = flags.host;
    options.port = static_cast<int>(port);
    options.threads = threads > 0 ? static_cast<int>(threads) : std::max(AvailableCores(), 2);
    options.max_request_bytes = flags.max_request_bytes;
    options.max_connections = static_cast<int>(flags.max_connections);
    options.tls = tls;
    if (server.own_cores()) options.may_poll = [&server] { return server.HasIdleCore(); };
    server.AddReceivers(protocol, options.threads);
  };
  HttpServerOptions http_options;
  if (flags.rest_api_port >= 0)
    set(http_options, "receiving HTTP", flags.rest_api_port, flags.rest_api_num_threads);
  GrpcServerOptions grpc_options;
  if (flags.port >= 0) set(grpc_options, "receiving gRPC", flags.port, flags.grpc_max_threads);
  // Open from the start: a server that loads is alive, but not ready.
  if (flags.rest_api_port >= 0) http = TRY(HttpServer::Start(http_options, rest));
  grpc_options.socket_path = flags.grpc_socket_path;
  if (flags.port >= 0) grpc = TRY(GrpcServer::Start(grpc_options, server, &gate));
  if (Status status = server.models().SetConfig(std::move(models)); !status) {
    std::fprintf(stderr, "weft-serve: %s\n", status.error().ToString().c_str());
    if (!server.models().Ready() && flags.file_system_poll_wait_seconds <= 0) return kExitFailed;
  }
  if (flags.file_system_poll_wait_seconds > 0) {
    server.models().Watch(static_cast<Time>(flags.file_system_poll_wait_seconds * 1e9));
  }
  ConfigWatch watch(flags, server);
  SayReady(server, http.get(), grpc.get());
  WaitForTheEnd(signals, gate);
  if (http != nullptr) http->StopAccepting();
  bool all = server.Drain(Now() + std::max<int64_t>(flags.drain_seconds, 0) * kSecond + 1);
  if (http != nullptr) all = http->Flush(Now() + kFlush) && all;
  if (grpc != nullptr) grpc->Shutdown();
  std::fprintf(stderr, "weft-serve: %s\n", all ? "all requests are done" : "requests were left");
  if (!all) std::_Exit(kExitFailed);  // what still runs would use what is taken down
  return 0;
}

// Connections are descriptors: as many as the system lets this process have, not the few of shells.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(std::span<const char* const> arguments) {
  Result<ServeFlags> flags = ParseFlags(arguments.subspan(1));
  if (!flags) {
    std::fprintf(stderr, "weft-serve: %s\n`weft-serve --help` lists the flags\n",
                 flags.error().ToString().c_str());
    return kExitUsage;
  }
  if (flags->help || flags->version) {
    std::string text = flags->help ? FlagsHelp() : StrCat("weft-serve ", kServerVersion, "\n");
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  // Before any thread starts, so that none but this one is told.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  Result<int> status = [&]() -> Result<int> {
    TRY(ReadBatchingFile(flags->batching_parameters_file, *flags));
    return Serve(*flags, signals);
  }();
  if (status) return *status;
  std::fprintf(stderr, "weft-serve: %s\n", status.error().ToString().c_str());
  return status.error().code() == Code::kInvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace
}  // namespace weft::serve

int main(int argc, char** argv) {
  return weft::serve::Main({argv, static_cast<size_t>(argc)});
}

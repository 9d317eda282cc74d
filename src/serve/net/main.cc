// weft-serve: models from folders, over gRPC and HTTP. SIGTERM drains: no new requests, those under
// way are finished.
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "base/cores.h"
#include "base/log.h"
#include "serve/client_backend.h"
#include "serve/flags.h"
#include "serve/net/grpc_server.h"
#include "serve/net/http_server.h"
#include "serve/net/model_config.h"
#include "serve/rest.h"
#include "serve/server.h"

namespace weft::serve {
namespace {

constexpr int kExitFailed = 1, kExitUsage = 2;
constexpr Time kFlush = 5 * kSecond;  // for answers that are ready to leave the process

ServerOptions OptionsOf(const ServeFlags& flags) {
  ServerOptions options = DefaultServerOptions();
  SchedulerOptions& scheduler = options.scheduler;
  if (flags.reserved_slots >= 0) {
    scheduler.slots += static_cast<int>(flags.reserved_slots) - scheduler.reserved;
    scheduler.reserved = static_cast<int>(flags.reserved_slots);
  }
  if (flags.slots > 0) scheduler.slots = static_cast<int>(flags.slots);
  scheduler.reserved = std::min(scheduler.reserved, scheduler.slots - 1);
  scheduler.max_queue = static_cast<size_t>(std::max<int64_t>(flags.max_queue, 1));
  scheduler.max_queue_delay = std::max<int64_t>(flags.max_queue_delay_ms, 1) * kMillisecond;
  options.batching.enabled = flags.enable_batching;
  options.batching.max_delay = std::max<int64_t>(flags.batch_timeout_micros, 0) * kMicrosecond;
  return options;
}

// The line that scripts wait for.
void SayReady(const Server& server, const HttpServer* http, const GrpcServer* grpc) {
  std::string where;
  if (grpc != nullptr) StrAppend(where, ", gRPC at port ", grpc->port());
  if (http != nullptr) StrAppend(where, ", HTTP at port ", http->port());
  std::fprintf(stderr, "weft-serve: %s: %s%s\n", server.Ready() ? "ready" : "not ready",
               server.backend().description().c_str(), where.c_str());
}

Result<int> Serve(const ServeFlags& flags, const sigset_t& signals) {
  std::vector<ModelConfig> models = TRY(ModelsOf(flags));
  if (!flags.model_config_file.empty()) {
    for (ModelConfig& config : TRY(ReadConfigFile(flags.model_config_file))) {
      models.push_back(std::move(config));
    }
  }
  Server server(TRY(MakeClientBackend()), OptionsOf(flags));
  RestApi rest(server);
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<GrpcServer> grpc;
  // Open from the start: a server that loads is alive, but not ready.
  if (flags.rest_api_port >= 0) {
    HttpServerOptions options;
    options.address = flags.host;
    options.port = static_cast<int>(flags.rest_api_port);
    options.threads = flags.rest_api_num_threads > 0 ? static_cast<int>(flags.rest_api_num_threads)
                                                     : std::max(AvailableCores(), 2);
    options.max_request_bytes = flags.max_request_bytes;
    options.max_connections = static_cast<int>(flags.max_connections);
    http = TRY(HttpServer::Start(options, rest));
  }
  if (flags.port >= 0) {
    grpc = TRY(GrpcServer::Start(
        {flags.host, static_cast<int>(flags.port), flags.max_request_bytes}, server));
  }
  if (Status status = server.models().SetConfig(std::move(models)); !status) {
    std::fprintf(stderr, "weft-serve: %s\n", status.error().ToString().c_str());
    if (!server.models().Ready() && flags.file_system_poll_wait_seconds <= 0) return kExitFailed;
  }
  if (flags.file_system_poll_wait_seconds > 0) {
    server.models().Watch(static_cast<Time>(flags.file_system_poll_wait_seconds * 1e9));
  }
  SayReady(server, http.get(), grpc.get());
  int signal = 0;
  sigwait(&signals, &signal);
  std::fprintf(stderr, "weft-serve: %s: draining\n", strsignal(signal));
  if (http != nullptr) http->StopAccepting();
  bool all = server.Drain(Now() + std::max<int64_t>(flags.drain_seconds, 0) * kSecond + 1);
  if (http != nullptr) all = http->Flush(Now() + kFlush) && all;
  if (grpc != nullptr) grpc->Shutdown();
  std::fprintf(stderr, "weft-serve: %s\n", all ? "all requests are done" : "requests were left");
  if (!all) std::_Exit(kExitFailed);  // what still runs would use what is taken down
  return 0;
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
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  Result<int> status = Serve(*flags, signals);
  if (status) return *status;
  std::fprintf(stderr, "weft-serve: %s\n", status.error().ToString().c_str());
  return status.error().code() == Code::kInvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace
}  // namespace weft::serve

int main(int argc, char** argv) {
  return weft::serve::Main({argv, static_cast<size_t>(argc)});
}

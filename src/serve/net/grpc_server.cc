#include "serve/net/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "serve/net/inference_service.h"
#include "serve/net/tf_service.h"

namespace weft::serve {
namespace {

constexpr auto kShutdownGrace = std::chrono::seconds(5);
constexpr auto kHealthInterval = std::chrono::milliseconds(100);

std::shared_ptr<grpc::ServerCredentials> Credentials(const TlsOptions& tls) {
  if (!tls.on()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      tls.client_authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                   : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = tls.client_authority;
  options.pem_key_cert_pairs.push_back({tls.key, tls.certificates});
  return grpc::SslServerCredentials(options);
}

}  // namespace

struct GrpcServer::State {
  State(Server& s, const Gate* gate)
      : server(s), prediction(s, gate), models(s, gate), inference(s, gate) {}

  // grpc.health.v1: serving while the server is ready, of each service by name and as a whole.
  void WatchHealth() {
    grpc::HealthCheckServiceInterface* health = grpc->GetHealthCheckService();
    bool told = true;
    health->SetServingStatus(told = false);
    while (!stopping) {
      bool ready = server.Ready();
      if (ready != told) health->SetServingStatus(told = ready);
      std::this_thread::sleep_for(kHealthInterval);
    }
  }

  Server& server;
  PredictionService prediction;
  ModelService models;
  InferenceService inference;
  std::unique_ptr<grpc::Server> grpc;
  std::atomic<bool> stopping = false;
  std::thread health;
  int port = 0;
};

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

GrpcServer::~GrpcServer() {
  Shutdown();
  state_->stopping = true;
  if (state_->health.joinable()) state_->health.join();
}

int GrpcServer::port() const {
  return state_->port;
}

void GrpcServer::Shutdown() {
  state_->grpc->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                      Server& server, const Gate* gate) {
  auto state = std::make_unique<State>(server, gate);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  std::string address = StrCat(options.address, ":", options.port);
  builder.AddListeningPort(address, Credentials(options.tls), &state->port);
  if (!options.socket_path.empty()) {
    builder.AddListeningPort(StrCat("unix:", options.socket_path),
                             grpc::InsecureServerCredentials());
  }
  // A second server at the same port is an error, not half of the requests.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int64_t most = std::min<int64_t>(options.max_request_bytes, std::numeric_limits<int>::max());
  builder.SetMaxReceiveMessageSize(static_cast<int>(most));
  builder.SetMaxSendMessageSize(-1);
  builder.RegisterService(&state->prediction);
  builder.RegisterService(&state->models);
  builder.RegisterService(&state->inference);
  state->grpc = builder.BuildAndStart();
  if (state->grpc == nullptr || state->port == 0) {
    return MakeError(Code::kUnavailable, address, ": cannot be listened at");
  }
  State* raw = state.get();
  state->health = std::thread([raw] { raw->WatchHealth(); });
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

}  // namespace weft::serve

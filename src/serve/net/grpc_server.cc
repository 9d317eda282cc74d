#include "serve/net/grpc_server.h"

#include <utility>
#include <vector>

#include "serve/net/event_loop.h"
#include "serve/net/grpc_connection.h"
#include "serve/net/health_service.h"
#include "serve/net/services.h"

namespace weft::serve {
namespace {

constexpr Time kShutdownGrace = 5 * kSecond;
constexpr std::string_view kWatchMethod = "/grpc.health.v1.Health/Watch";

bool IsReflection(std::string_view method) {
  return method == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" ||
         method == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
}

}  // namespace

struct GrpcServer::State final : CallHandler {
  State(const GrpcServerOptions& o, Server& s, const Gate* gate)
      : options(o),
        services({"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
                  "inference.GRPCInferenceService", std::string(kHealthService),
                  "grpc.reflection.v1alpha.ServerReflection"}),
        methods(gate),
        health(s, services) {
    AddInferenceMethods(methods, s);
    AddManageMethods(methods, s);
    AddTfMethods(methods, s);
    health.AddMethods(methods);
    limits.max_request_bytes = options.max_request_bytes;
  }

  CallKind KindOf(std::string_view method) const override {
    if (IsReflection(method)) return CallKind::kConversation;
    return method == kWatchMethod ? CallKind::kWatch : CallKind::kUnary;
  }

  void Handle(const CallRef& call) override {
    const Methods::Method* method = methods.Find(call->method());
    if (method != nullptr) return (*method)(call);
    call->Finish(Unimplemented("no method ", call->method()));
  }

  std::string Converse(const CallRef& call, std::string_view message) override {
    return IsReflection(call->method()) ? Reflect(services, message) : health.Watch(call, message);
  }

  Status Open() {
    std::shared_ptr<TlsContext> tls;
    if (options.tls.on()) tls = TRY(TlsContext::Make(options.tls, "h2"));
    loop = TRY(EventLoop::Make(options.max_connections));
    port = options.port;
    loop->Listen(TRY(ListenTcp(options.address, port)), [this, tls](int descriptor) {
      return GrpcConnection::Make(descriptor, tls, limits, *this);
    });
    if (options.socket_path.empty()) return {};
    loop->Listen(TRY(ListenUnix(options.socket_path)), [this](int descriptor) {
      return GrpcConnection::Make(descriptor, nullptr, limits, *this);
    });
    return {};
  }

  const GrpcServerOptions options;
  GrpcLimits limits;
  const std::vector<std::string> services;
  Methods methods;
  HealthService health;
  int port = 0;
  std::unique_ptr<EventLoop> loop;  // last: its threads use the rest
};

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

GrpcServer::~GrpcServer() {
  Shutdown();
}

int GrpcServer::port() const {
  return state_->port;
}

void GrpcServer::Shutdown() {
  state_->loop->Stop(kShutdownGrace);
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                      Server& server, const Gate* gate) {
  auto state = std::make_unique<State>(options, server, gate);
  TRY(state->Open());
  server.SetAnswerHooks({GrpcConnection::HoldWrites, GrpcConnection::ReleaseWrites});
  state->loop->Start(
      options.threads, [raw = state.get()] { raw->health.Tell(); }, options.may_poll);
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

}  // namespace weft::serve

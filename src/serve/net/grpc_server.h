// gRPC: TF Serving's and Open Inference's services, health and reflection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "serve/gate.h"
#include "serve/net/tls.h"
#include "serve/server.h"

namespace weft::serve {

struct GrpcServerOptions {
  std::string address = "0.0.0.0";
  int port = 8500;  // 0: one that is free
  int threads = 2;  // that receive, and run what is short
  int64_t max_request_bytes = int64_t{256} << 20;
  int max_connections = 20'000;
  std::string socket_path = {};  // a Unix socket beside; empty: none
  TlsOptions tls = {};
  std::function<bool()> may_poll = nullptr;  // see EventLoop::Start
};

class GrpcServer {
 public:
  // `gate` may be null.
  static Result<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options, Server& server,
                                                   const Gate* gate);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  int port() const;
  void Shutdown();  // calls under way are finished, for a while

 private:
  struct State;
  explicit GrpcServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft::serve

// HTTP/1.1 over TCP, asynchronous: a connection that waits costs its buffers and no thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "serve/net/tls.h"
#include "serve/rest.h"

namespace weft::serve {

struct HttpServerOptions {
  std::string address = "0.0.0.0";
  int port = 8501;  // 0: one that is free
  int threads = 2;
  int64_t max_request_bytes = int64_t{256} << 20;
  int max_connections = 20'000;
  int idle_seconds = 600;     // for a connection without a request
  int header_seconds = 20;    // from a request's first byte to the end of its header
  int request_seconds = 120;  // for a body to arrive, and for an answer to leave
  TlsOptions tls = {};
  std::function<bool()> may_poll = nullptr;  // see EventLoop::Start
};

class HttpServer {
 public:
  static Result<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                   const RestApi& api);
  ~HttpServer();  // closes all connections
  HttpServer(const HttpServer&) = delete;
  int port() const;
  void StopAccepting();
  // Waits until every request that was read is answered, at most until then; whether all are.
  bool Flush(Time deadline) const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft::serve

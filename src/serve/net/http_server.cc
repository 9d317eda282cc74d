#include "serve/net/http_server.h"

#include <chrono>
#include <thread>
#include <utility>

#include "serve/net/event_loop.h"
#include "serve/net/http_connection.h"

namespace weft::serve {

struct HttpServer::State {
  std::shared_ptr<HttpShared> shared;
  int port = 0;
  std::unique_ptr<EventLoop> loop;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  state_->loop->Stop(0);
}

int HttpServer::port() const {
  return state_->port;
}

void HttpServer::StopAccepting() {
  state_->loop->StopAccepting();
}

bool HttpServer::Flush(Time deadline) const {
  while (state_->shared->unanswered > 0) {
    if (Now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                      const RestApi& api) {
  auto state = std::make_unique<State>();
  state->shared.reset(new HttpShared{options, api});
  std::shared_ptr<TlsContext> tls;
  if (options.tls.on()) tls = TRY(TlsContext::Make(options.tls, ""));
  state->loop = TRY(EventLoop::Make(options.max_connections));
  state->port = options.port;
  int listener = TRY(ListenTcp(options.address, state->port));
  state->loop->Listen(listener, [tls, shared = state->shared](int descriptor) {
    return std::make_shared<HttpConnection>(descriptor, tls, shared);
  });
  state->loop->Start(options.threads, nullptr, options.may_poll);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

}  // namespace weft::serve

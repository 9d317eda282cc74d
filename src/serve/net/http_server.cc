#include "serve/net/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "serve/net/http_session.h"

namespace weft::serve {

using namespace http_detail;

struct HttpServer::State {
  State(const HttpServerOptions& options, const RestApi& api)
      : context(options.threads),
        acceptor(asio::make_strand(context)),
        shared(new Shared{options, api}) {}

  Status UseTls(const TlsOptions& options) {
    using Ssl = asio::ssl::context;
    auto& own = tls.emplace(Ssl::tls_server);
    BoostError error;
    own.set_options(Ssl::default_workarounds | Ssl::no_sslv2 | Ssl::no_sslv3 | Ssl::no_tlsv1 |
                    Ssl::no_tlsv1_1);
    own.use_certificate_chain(asio::buffer(options.certificates), error);
    if (error) return InvalidArgument("TLS: the certificate cannot be used: ", error.message());
    own.use_private_key(asio::buffer(options.key), Ssl::pem, error);
    if (error) return InvalidArgument("TLS: the key cannot be used: ", error.message());
    if (options.client_authority.empty()) return {};
    own.add_certificate_authority(asio::buffer(options.client_authority), error);
    if (error) return InvalidArgument("TLS: the authority cannot be used: ", error.message());
    own.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
    return {};
  }

  void Open(Tcp::socket socket) {
    if (tls) {
      std::make_shared<Session<TlsStream>>(shared, std::move(socket), *tls)->Start();
    } else {
      std::make_shared<Session<PlainStream>>(shared, std::move(socket))->Start();
    }
  }

  void Accept() {
    acceptor.async_accept(asio::make_strand(context), [this](BoostError error, Tcp::socket socket) {
      if (!acceptor.is_open()) return;
      // Beyond the limit connections are closed at once; out of descriptors, a moment is waited.
      if (!error && shared->connections < shared->options.max_connections) {
        Open(std::move(socket));
      } else if (error) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      Accept();
    });
  }

  asio::io_context context;
  std::optional<asio::ssl::context> tls;
  Tcp::acceptor acceptor;
  std::shared_ptr<Shared> shared;
  std::vector<std::thread> threads;
  int port = 0;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  state_->context.stop();
  for (std::thread& thread : state_->threads) thread.join();
}

int HttpServer::port() const {
  return state_->port;
}

void HttpServer::StopAccepting() {
  asio::post(state_->acceptor.get_executor(), [this] {
    BoostError ignored;
    state_->acceptor.close(ignored);
  });
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
  auto state = std::make_unique<State>(options, api);
  if (options.tls.on()) TRY(state->UseTls(options.tls));
  BoostError error;
  auto address = asio::ip::make_address(options.address, error);
  auto fail = [&](std::string_view what) {
    return MakeError(Code::kUnavailable, options.address, ":", options.port, ": ", what, ": ",
                     error.message());
  };
  if (error) return fail("not an address");
  Tcp::endpoint endpoint(address, static_cast<uint16_t>(options.port));
  state->acceptor.open(endpoint.protocol(), error);
  if (error) return fail("cannot be opened");
  state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  state->acceptor.bind(endpoint, error);
  if (error) return fail("cannot be bound");
  state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail("cannot be listened at");
  state->port = state->acceptor.local_endpoint(error).port();
  State* raw = state.get();
  state->Accept();
  for (int i = 0; i < options.threads; ++i) {
    state->threads.emplace_back([raw] { raw->context.run(); });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

}  // namespace weft::serve

#include "serve/net/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace weft::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using BoostError = boost::system::error_code;

struct Shared {
  HttpServerOptions options;
  const RestApi& api;
  std::atomic<int> connections = 0;
  std::atomic<int> unanswered = 0;  // requests
};

HttpRequest ToRequest(http::request<http::string_body>&& message) {
  HttpRequest request;
  request.received = Now();
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message.body());
  return request;
}

// One connection: reads a request, hands it on, writes the answer, reads the next.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Tcp::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)), shared_(std::move(shared)) {
    shared_->connections.fetch_add(1);
    BoostError ignored;
    stream_.socket().set_option(Tcp::no_delay(true), ignored);
  }
  ~Session() {
    Answered();
    shared_->connections.fetch_sub(1);
  }

  void Start() {
    asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->ReadHeader(); });
  }

 private:
  void ReadHeader() {
    parser_.emplace();
    parser_->body_limit(static_cast<uint64_t>(shared_->options.max_request_bytes));
    stream_.expires_after(std::chrono::seconds(shared_->options.idle_seconds));
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](BoostError error, size_t) { self->OnHeader(error); });
  }

  void OnHeader(BoostError error) {
    if (error == http::error::end_of_stream) return Close();
    if (error) return Fail(error);
    stream_.expires_after(std::chrono::seconds(shared_->options.request_seconds));
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) return Continue();
    ReadBody();
  }

  // The client waits to be told before it sends a large body.
  void Continue() {
    auto go = std::make_shared<http::response<http::empty_body>>(http::status::continue_,
                                                                 parser_->get().version());
    http::async_write(stream_, *go, [self = shared_from_this(), go](BoostError error, size_t) {
      if (!error) self->ReadBody();
    });
  }

  void ReadBody() {
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](BoostError error, size_t) {
                       if (error) return self->Fail(error);
                       self->OnRequest();
                     });
  }

  void OnRequest() {
    shared_->unanswered.fetch_add(1);
    answering_ = true;
    stream_.expires_never();  // how long it may take is the request's own affair
    keep_alive_ = parser_->get().keep_alive();
    version_ = parser_->get().version();
    bool head = parser_->get().method() == http::verb::head;
    HttpRequest request = ToRequest(parser_->release());
    if (head) request.method = "GET";
    shared_->api.Handle(std::move(request), [self = shared_from_this(), head](HttpResponse answer) {
      if (head) answer.body.clear();
      asio::dispatch(self->stream_.get_executor(), [self, answer = std::move(answer)]() mutable {
        self->Write(std::move(answer));
      });
    });
  }

  void Write(HttpResponse answer) {
    response_.emplace(static_cast<http::status>(answer.status), version_);
    response_->set(http::field::server, "weft-serve");
    response_->set(http::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) response_->set(name, value);
    response_->keep_alive(keep_alive_);
    response_->body() = std::move(answer.body);
    response_->prepare_payload();
    stream_.expires_after(std::chrono::seconds(shared_->options.request_seconds));
    http::async_write(stream_, *response_, [self = shared_from_this()](BoostError error, size_t) {
      self->Answered();
      if (error) return;
      if (!self->keep_alive_) return self->Close();
      self->ReadHeader();
    });
  }

  // What was wrong with a request is said where it can be; then the connection ends.
  void Fail(BoostError error) {
    keep_alive_ = false;
    bool too_large = error == http::error::body_limit;
    if (!too_large && error.category() != make_error_code(http::error::bad_method).category())
      return;
    HttpResponse answer = ErrorResponse(Error(
        Code::kInvalidArgument, too_large ? StrCat("the request is larger than ",
                                                   shared_->options.max_request_bytes, " bytes")
                                          : StrCat("not HTTP: ", error.message())));
    if (too_large) answer.status = 413;
    Write(std::move(answer));
  }

  void Answered() {
    if (std::exchange(answering_, false)) shared_->unanswered.fetch_sub(1);
  }

  void Close() {
    BoostError ignored;
    stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  }

  beast::tcp_stream stream_;
  std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  bool keep_alive_ = true, answering_ = false;
  unsigned version_ = 11;
};

}  // namespace

struct HttpServer::State {
  State(const HttpServerOptions& options, const RestApi& api)
      : context(options.threads),
        acceptor(asio::make_strand(context)),
        shared(new Shared{options, api}) {}

  void Accept() {
    acceptor.async_accept(asio::make_strand(context), [this](BoostError error, Tcp::socket socket) {
      if (!acceptor.is_open()) return;
      // Beyond the limit connections are closed at once; out of descriptors, a moment is waited.
      if (!error && shared->connections < shared->options.max_connections) {
        std::make_shared<Session>(std::move(socket), shared)->Start();
      } else if (error) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      Accept();
    });
  }

  asio::io_context context;
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

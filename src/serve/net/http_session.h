// One connection of HTTP/1.1, over TCP or TLS.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cctype>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "serve/net/http_server.h"

namespace weft::serve::http_detail {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using BoostError = boost::system::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

// What all connections have in common.
struct Shared {
  HttpServerOptions options;
  const RestApi& api;
  std::atomic<int> connections = 0;
  std::atomic<int> unanswered = 0;  // requests
};

inline HttpRequest ToRequest(http::request<http::string_body>&& message) {
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

// Reads a request, hands it on, writes the answer, reads the next.
template <class Stream>
class Session : public std::enable_shared_from_this<Session<Stream>> {
 public:
  // `stream`: what a stream is made of: a socket, and for TLS a context.
  template <class... Args>
  Session(std::shared_ptr<Shared> shared, Args&&... stream)
      : stream_(std::forward<Args>(stream)...), shared_(std::move(shared)) {
    shared_->connections.fetch_add(1);
    BoostError ignored;
    Lowest().socket().set_option(Tcp::no_delay(true), ignored);
    if (auto remote = Lowest().socket().remote_endpoint(ignored); !ignored) {
      peer_ = remote.address().to_string(ignored);
    }
  }
  ~Session() {
    Answered();
    shared_->connections.fetch_sub(1);
  }

  void Start() {
    asio::dispatch(stream_.get_executor(), [self = this->shared_from_this()] { self->Open(); });
  }

 private:
  PlainStream& Lowest() { return beast::get_lowest_layer(stream_); }
  void ExpireAfter(int seconds) { Lowest().expires_after(std::chrono::seconds(seconds)); }

  void Open() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      ExpireAfter(shared_->options.header_seconds);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](BoostError error) {
                                if (!error) self->WaitForRequest();
                              });
    } else {
      WaitForRequest();
    }
  }

  // A connection may be idle for long; a request that has begun must go on.
  void WaitForRequest() {
    if (buffer_.size() > 0) return ReadHeader();
    constexpr size_t kFirst = 4096;
    ExpireAfter(shared_->options.idle_seconds);
    stream_.async_read_some(buffer_.prepare(kFirst),
                            [self = this->shared_from_this()](BoostError error, size_t bytes) {
                              if (error == asio::error::eof) return self->Close();
                              if (error) return;
                              self->buffer_.commit(bytes);
                              self->ReadHeader();
                            });
  }

  void ReadHeader() {
    parser_.emplace();
    parser_->body_limit(static_cast<uint64_t>(shared_->options.max_request_bytes));
    ExpireAfter(shared_->options.header_seconds);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](BoostError error, size_t) { self->OnHeader(error); });
  }

  void OnHeader(BoostError error) {
    if (error == http::error::end_of_stream) return Close();
    if (error) return Fail(error);
    ExpireAfter(shared_->options.request_seconds);
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) return Continue();
    ReadBody();
  }

  // The client waits to be told before it sends a large body.
  void Continue() {
    auto go = std::make_shared<http::response<http::empty_body>>(http::status::continue_,
                                                                 parser_->get().version());
    http::async_write(stream_, *go,
                      [self = this->shared_from_this(), go](BoostError error, size_t) {
                        if (!error) self->ReadBody();
                      });
  }

  void ReadBody() {
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](BoostError error, size_t) {
                       if (error) return self->Fail(error);
                       self->OnRequest();
                     });
  }

  void OnRequest() {
    shared_->unanswered.fetch_add(1);
    answering_ = true;
    Lowest().expires_never();  // how long it may take is the request's own affair
    keep_alive_ = parser_->get().keep_alive();
    version_ = parser_->get().version();
    bool head = parser_->get().method() == http::verb::head;
    HttpRequest request = ToRequest(parser_->release());
    request.peer = peer_;
    if (head) request.method = "GET";
    auto answer = [self = this->shared_from_this(), head](HttpResponse response) {
      if (head) response.body.clear();
      asio::dispatch(
          self->stream_.get_executor(),
          [self, response = std::move(response)]() mutable { self->Write(std::move(response)); });
    };
    shared_->api.Handle(std::move(request), std::move(answer));
  }

  void Write(HttpResponse answer) {
    response_.emplace(static_cast<http::status>(answer.status), version_);
    response_->set(http::field::server, "weft-serve");
    response_->set(http::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) response_->set(name, value);
    response_->keep_alive(keep_alive_);
    response_->body() = std::move(answer.body);
    response_->prepare_payload();
    ExpireAfter(shared_->options.request_seconds);
    http::async_write(stream_, *response_,
                      [self = this->shared_from_this()](BoostError error, size_t) {
                        self->Answered();
                        if (error) return;
                        if (!self->keep_alive_) return self->Close();
                        self->WaitForRequest();
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
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      ExpireAfter(1);
      stream_.async_shutdown([self = this->shared_from_this()](BoostError) {});
    } else {
      BoostError ignored;
      stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
    }
  }

  Stream stream_;
  std::shared_ptr<Shared> shared_;
  std::string peer_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  bool keep_alive_ = true, answering_ = false;
  unsigned version_ = 11;
};

}  // namespace weft::serve::http_detail

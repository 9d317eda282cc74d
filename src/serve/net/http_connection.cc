#include "serve/net/http_connection.h"

#include <array>
#include <utility>

#include "serve/run_handler.h"

namespace weft::serve {
namespace {

constexpr size_t kHttpReadBytes = 64 << 10;  // at once
constexpr size_t kMostAhead = 64 << 10;      // of later requests, while one is answered
constexpr int kLingerSeconds = 2;            // for a client to read why it is sent away

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Payload Too Large";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return status < 400 ? "OK" : "Error";
  }
}

}  // namespace

HttpConnection::HttpConnection(int descriptor, std::shared_ptr<TlsContext> tls,
                               std::shared_ptr<HttpShared> shared)
    : shared_(std::move(shared)),
      wire_(descriptor, std::move(tls)),
      peer_(wire_.Peer()),
      since_(Now()) {}

HttpConnection::~HttpConnection() {
  if (answering_) shared_->unanswered.fetch_sub(1);
}

void HttpConnection::Take(std::string_view bytes) {
  if (ends_) return;
  using State = HttpParser::State;
  if (!answering_ && !bytes.empty()) {
    if (!parser_) parser_.emplace(shared_->options.max_request_bytes);
    State before = parser_->state(), state = parser_->Feed(bytes);
    if (before != state) since_ = Now();
    if (state == State::kWrong) return Fail();
    if (state == State::kBody && parser_->TakeExpects()) out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    answering_ = state == State::kDone;
  }
  in_ += bytes;
}

void HttpConnection::ReadSome(bool ending) {
  thread_local std::array<char, kHttpReadBytes> buffer;
  if (!answering_ && !in_.empty()) Take(std::exchange(in_, {}));
  unread_ = false;
  while (!eof_ && !over_) {
    if (answering_ && in_.size() >= kMostAhead) {
      unread_ = true;
      return;
    }
    ssize_t got = wire_.Read(buffer);
    if (got == 0) return;
    if (got < 0) {
      eof_ = true;
      return;
    }
    Take({buffer.data(), static_cast<size_t>(got)});
    if (!ending && wire_.IsDrained(static_cast<size_t>(got), buffer.size())) return;
  }
}

void HttpConnection::Write() {
  while (out_at_ < out_.size()) {
    ssize_t sent = wire_.Write(std::string_view(out_).substr(out_at_));
    if (sent < 0) {
      over_ = true;
      return wire_.Shutdown();
    }
    if (sent == 0) return;
    out_at_ += static_cast<size_t>(sent);
    since_ = Now();
  }
  out_.clear();
  out_at_ = 0;
  if (ends_) wire_.ShutdownWrite();
}

bool HttpConnection::Serve(bool ending) {
  HttpRequest request;
  {
    MutexLock lock(mutex_);
    const bool before = answering_;
    ReadSome(ending);
    Write();
    // A client that has said all still gets the answer to what was whole.
    if (over_ || (eof_ && !answering_ && out_.empty())) {
      over_ = true;
      wire_.Shutdown();
      return false;
    }
    if (before || !answering_) return true;
    shared_->unanswered.fetch_add(1);
    keep_alive_ = parser_->keep_alive();
    head_ = parser_->is_head();
    request = parser_->TakeRequest();
    parser_.reset();
  }
  request.received = Now();
  request.peer = peer_;
  request.thread_use = IsLastReceiver() ? ThreadUse::kWanted : ThreadUse::kFree;
  shared_->api.Handle(std::move(request), [self = shared_from_this()](HttpResponse response) {
    self->Answer(std::move(response));
  });
  return true;
}

void HttpConnection::Say(const HttpResponse& response) {
  StrAppend(out_, "HTTP/1.1 ", response.status, " ", ReasonOf(response.status),
            "\r\nServer: weft-serve\r\nContent-Type: ", response.content_type, "\r\n");
  for (const auto& [name, value] : response.headers) StrAppend(out_, name, ": ", value, "\r\n");
  StrAppend(out_, "Content-Length: ", response.body.size(),
            "\r\nConnection: ", keep_alive_ ? "keep-alive" : "close", "\r\n\r\n");
  if (!head_) out_ += response.body;
  if (!keep_alive_) ends_ = true;
  since_ = Now();
}

void HttpConnection::Answer(HttpResponse response) {
  MutexLock lock(mutex_);
  answering_ = false;
  shared_->unanswered.fetch_sub(1);
  if (over_) return;
  if (eof_) keep_alive_ = false;
  Say(response);
  Write();
  // What came meanwhile, the end too, is for a thread that receives.
  if (!in_.empty() || unread_ || eof_) Wake();
}

// What was wrong with a request is said; then the connection ends.
void HttpConnection::Fail() {
  keep_alive_ = false;
  HttpResponse answer = ErrorResponse(Error(Code::kInvalidArgument, parser_->why()));
  answer.status = parser_->status();
  Say(answer);
}

void HttpConnection::Shutdown() {
  MutexLock lock(mutex_);
  wire_.Shutdown();
}

bool HttpConnection::Check(Time now) {
  MutexLock lock(mutex_);
  using State = HttpParser::State;
  const HttpServerOptions& options = shared_->options;
  const bool idle = !answering_ && out_.empty();
  State state = parser_ ? parser_->state() : State::kNothing;
  int seconds = options.idle_seconds;
  if (!out_.empty() || state == State::kBody) {
    seconds = options.request_seconds;
  } else if (state == State::kHeader) {
    seconds = options.header_seconds;
  } else if (ends_) {
    seconds = kLingerSeconds;
  } else if (answering_) {
    return false;  // how long it may take is the request's own affair
  }
  if (now - since_ > seconds * kSecond) wire_.Shutdown();
  return idle;
}

}  // namespace weft::serve

// A call of gRPC as services see it: what came, and the answer that goes back. Over HTTP/2, one
// stream each (grpc_connection.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/message.h"
#include "serve/scheduler.h"

namespace weft::serve {

class GrpcConnection;

// Messages go out behind a prefix, for which place is left at their begin.
inline constexpr size_t kMessagePrefix = 5;
inline std::string NewMessage() {
  return std::string(kMessagePrefix, '\0');
}

class Call {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  Call(std::shared_ptr<GrpcConnection> connection, int32_t stream);
  ~Call();
  Call(const Call&) = delete;

  const std::string& method() const { return method_; }  // "/package.Service/Method"
  std::string_view Metadata(std::string_view name) const;
  std::string_view message() const { return message_; }  // of the request
  Time received() const { return received_; }
  Time deadline() const { return deadline_; }
  const std::string& peer() const;
  ThreadUse thread_use() const { return thread_use_; }

  // What the message lies in.
  const std::shared_ptr<std::byte[]>& storage() const { return body_.storage(); }

  // The next may be called from any thread. A message begins with NewMessage().
  void Send(std::string message);
  // The end; once. `message`: the last one; empty: none. `first`: metadata before the messages,
  // `last`: behind them.
  void Finish(const Status& status, Message message = {}, const Pairs& first = {},
              const Pairs& last = {});
  // When the client goes before the end; at once, where it has gone.
  void OnCancel(std::function<void()> cancel);

 private:
  friend class GrpcSession;
  friend class GrpcConnection;

  const std::shared_ptr<GrpcConnection> connection_;
  const int32_t stream_;
  // Settled before services see it.
  std::string method_;
  Pairs metadata_;
  MessageBody body_;
  std::string_view message_;
  Time received_ = 0, deadline_ = kNever;
  ThreadUse thread_use_ = ThreadUse::kFree;
};
using CallRef = std::shared_ptr<Call>;

enum class CallKind : uint8_t {
  kUnary,
  kConversation,  // an answer to each message, over when the client is
  kWatch,         // answers to one message, until the client goes
};

// What is called; implemented by the server of the methods.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  virtual CallKind KindOf(std::string_view method) const = 0;
  // A unary call with its request, on the thread that received it.
  virtual void Handle(const CallRef& call) = 0;
  // A message of the other kinds; the answer to it. The connection waits: nothing of the call that
  // sends may be called.
  virtual std::string Converse(const CallRef& call, std::string_view message) = 0;
};

}  // namespace weft::serve

// What services share: request facts from metadata, tokens and the access log; calls that answer
// with a message of protobuf, and inference.
#pragma once

#include <google/protobuf/message_lite.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "serve/gate.h"
#include "serve/net/grpc_call.h"
#include "serve/server.h"

namespace weft::serve {

// Behind the place for its prefix.
std::string ToMessage(const google::protobuf::MessageLite& proto);

// One call from its begin to its end: who asks, and the line that the log gets.
class CallFacts {
 public:
  // `gate` may be null.
  CallFacts(const Gate* gate, CallRef call);
  // The token, where one is wanted.
  Status Check() const;
  // x-weft-priority, traceparent, and the call's deadline.
  Status Read(InferRequest& request) const;
  // Ends the call with this message, or with the error.
  void End(const Status& status, Message message) const;
  const CallRef& call() const { return call_; }

 private:
  const Gate* gate_;
  CallRef call_;
  std::optional<TraceContext> trace_;
};

// Methods by their names.
class Methods {
 public:
  using Method = std::function<void(const CallRef&)>;
  explicit Methods(const Gate* gate) : gate_(gate) {}
  const Gate* gate() const { return gate_; }
  void Add(std::string name, Method method) { methods_[std::move(name)] = std::move(method); }
  const Method* Find(std::string_view name) const;

  enum class How : uint8_t {
    kHere,   // on the thread that received it
    kOpen,   // the same, without a token
    kLater,  // on a thread of its own: it takes long
  };
  // A method that turns one message into another.
  template <class Request, class Response, class Work>
  void Unary(std::string name, Work work, How how = How::kHere) {
    using Proto = google::protobuf::MessageLite;
    AddUnary(
        std::move(name), Request::default_instance(), Response::default_instance(),
        [work](const Proto& request, Proto& response) -> Status {
          return work(static_cast<const Request&>(request), static_cast<Response&>(response));
        },
        how);
  }

 private:
  using Proto = google::protobuf::MessageLite;
  void AddUnary(std::string name, const Proto& request, const Proto& response,
                std::function<Status(const Proto&, Proto&)> work, How how);

  const Gate* const gate_;
  std::map<std::string, Method, std::less<>> methods_;
};

// Runs `request`; `write` makes the message of its response. A client that goes withdraws it.
void InferCall(Server& server, const CallFacts& facts, InferRequest request,
               std::function<Result<Message>(const InferResponse&)> write);

}  // namespace weft::serve

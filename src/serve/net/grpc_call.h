// What the services share: statuses, request facts from metadata, tokens and the access log, and a
// call that ends once.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"
#include "serve/gate.h"
#include "serve/server.h"

namespace weft::serve {

grpc::Status ToGrpcStatus(const Error& error);
// An empty version: the latest.
Result<ModelQuery> ToModelQuery(const std::string& name, const std::string& version);

// One call from its begin to its end: who asks, and the line that the log gets.
class CallFacts {
 public:
  // `gate` may be null.
  CallFacts(const Gate* gate, grpc::CallbackServerContext* context, std::string_view method);
  // The token, where one is wanted.
  Status Check() const;
  // x-weft-priority, traceparent, and the call's deadline.
  Status Read(InferRequest& request) const;
  // Before the call ends: what goes out in metadata, and the log's line.
  void End(const Status& status, size_t request_bytes, size_t response_bytes) const;
  bool logs() const { return gate_ != nullptr && gate_->log() != nullptr; }

 private:
  std::string_view Metadata(const char* name) const;

  const Gate* gate_;
  grpc::CallbackServerContext* context_;
  std::string_view method_;
  Time received_;
  std::optional<TraceContext> trace_;
};

// Answers with what `work` says, on this thread. `open`: without a token.
template <class Work>
grpc::ServerUnaryReactor* AnswerCall(const Gate* gate, grpc::CallbackServerContext* context,
                                     std::string_view method, Work work, bool open = false) {
  CallFacts facts(gate, context, method);
  Status status;
  if (!open) status = facts.Check();
  if (status) status = work();
  facts.End(status, 0, 0);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status ? grpc::Status::OK : ToGrpcStatus(status.error()));
  return reactor;
}

// The same on a thread of its own, for work that takes long: the threads of gRPC do not wait.
// Request and response live until the call ends, for which a server that shuts down waits.
template <class Work>
grpc::ServerUnaryReactor* AnswerLater(const Gate* gate, grpc::CallbackServerContext* context,
                                      std::string_view method, Work work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  CallFacts facts(gate, context, method);
  if (Status status = facts.Check(); !status) {
    facts.End(status, 0, 0);
    reactor->Finish(ToGrpcStatus(status.error()));
    return reactor;
  }
  std::thread([facts, reactor, work] {
    Status status = work();
    facts.End(status, 0, 0);
    reactor->Finish(status ? grpc::Status::OK : ToGrpcStatus(status.error()));
  }).detach();
  return reactor;
}

// One call of Infer behind a reactor of gRPC: cancelled by the client, it is withdrawn.
class InferReactor : public grpc::ServerUnaryReactor {
 public:
  InferReactor(grpc::CallbackServerContext* context, const CallFacts& facts)
      : context_(context), facts_(facts) {}

  // `fill` writes the response; called before the call ends. `sizes`: bytes of request and
  // response, asked for when the call is logged.
  template <class Fill, class Sizes>
  void Start(Server& server, InferRequest request, Fill fill, Sizes sizes) {
    Server::Ticket ticket =
        server.Infer(std::move(request), [this, fill, sizes](Result<InferResponse> response) {
          Status status;
          if (response) {
            status = fill(*response);
          } else {
            status = std::unexpected(response.error());
          }
          std::pair<size_t, size_t> bytes;
          if (facts_.logs()) bytes = sizes();
          facts_.End(status, bytes.first, bytes.second);
          End(status);
        });
    Keep(std::move(ticket));
  }

 private:
  void End(const Status& status);
  void Keep(Server::Ticket ticket);
  void OnCancel() override;
  void OnDone() override { Release(); }
  // All that it does here is short: no other thread is woken for it.
  bool InternalInlineable() override { return true; }
  void Release();

  grpc::CallbackServerContext* context_;
  const CallFacts facts_;
  Mutex mutex_;
  Server::Ticket ticket_ WEFT_GUARDED_BY(mutex_);
  bool cancelled_ WEFT_GUARDED_BY(mutex_) = false;
  // gRPC is done with it, and Start too: whoever comes last deletes it.
  std::atomic<int> holders_ = 2;
};

}  // namespace weft::serve

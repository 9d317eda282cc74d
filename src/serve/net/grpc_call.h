// What the services share: statuses, request facts from metadata, and a call that ends once.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "serve/server.h"

namespace weft::serve {

grpc::Status ToGrpcStatus(const Error& error);
// x-weft-priority, and the call's deadline.
Status ReadCallFacts(const grpc::CallbackServerContext& context, InferRequest& request);

// One call of Infer behind a reactor of gRPC: cancelled by the client, it is withdrawn.
class InferReactor : public grpc::ServerUnaryReactor {
 public:
  explicit InferReactor(grpc::CallbackServerContext* context) : context_(context) {}

  // `fill` writes the response; called before the call ends.
  template <class Fill>
  void Start(Server& server, InferRequest request, Fill fill) {
    Server::Ticket ticket =
        server.Infer(std::move(request), [this, fill](Result<InferResponse> response) {
          Status status;
          if (response) {
            status = fill(*response);
          } else {
            status = std::unexpected(response.error());
          }
          End(status);
        });
    Keep(std::move(ticket));
  }
  void End(const Status& status);

 private:
  void Keep(Server::Ticket ticket);
  void OnCancel() override;
  void OnDone() override { Release(); }
  void Release();

  grpc::CallbackServerContext* context_;
  Mutex mutex_;
  Server::Ticket ticket_ WEFT_GUARDED_BY(mutex_);
  bool cancelled_ WEFT_GUARDED_BY(mutex_) = false;
  // gRPC is done with it, and Start too: whoever comes last deletes it.
  std::atomic<int> holders_ = 2;
};

}  // namespace weft::serve

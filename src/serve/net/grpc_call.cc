#include "serve/net/grpc_call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "serve/rest.h"

namespace weft::serve {

grpc::Status ToGrpcStatus(const Error& error) {
  // The codes are gRPC's own numbers.
  return grpc::Status(static_cast<grpc::StatusCode>(error.code()), error.ToString());
}

Status ReadCallFacts(const grpc::CallbackServerContext& context, InferRequest& request) {
  request.received = Now();
  const auto& metadata = context.client_metadata();
  if (auto found = metadata.find("x-weft-priority"); found != metadata.end()) {
    request.priority = TRY(ReadPriority({found->second.data(), found->second.size()}));
  }
  auto deadline = context.deadline();
  auto left = deadline - std::chrono::system_clock::now();
  if (left < std::chrono::hours(24)) {
    request.deadline =
        request.received + std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  }
  return {};
}

void InferReactor::End(const Status& status) {
  if (!status) {
    if (std::optional<int64_t> wait = RetryAfter(status.error())) {
      // As gRPC's own clients understand it when they retry.
      context_->AddTrailingMetadata("grpc-retry-pushback-ms", StrCat(*wait));
    }
    return Finish(ToGrpcStatus(status.error()));
  }
  Finish(grpc::Status::OK);
}

void InferReactor::Keep(Server::Ticket ticket) {
  bool cancel = false;
  {
    MutexLock lock(mutex_);
    ticket_ = std::move(ticket);
    cancel = cancelled_;
  }
  if (cancel) OnCancel();
  Release();
}

void InferReactor::OnCancel() {
  Server::Ticket ticket;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    ticket = ticket_;
  }
  ticket.Cancel();
}

void InferReactor::Release() {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace weft::serve

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

Result<ModelQuery> ToModelQuery(const std::string& name, const std::string& version) {
  ModelQuery query{name};
  if (version.empty()) return query;
  query.version = ParseInt(version);
  if (!query.version) return InvalidArgument("version '", version, "': not a number");
  return query;
}

CallFacts::CallFacts(const Gate* gate, grpc::CallbackServerContext* context,
                     std::string_view method)
    : gate_(gate), context_(context), method_(method), received_(Now()) {
  if (std::string_view text = Metadata("traceparent"); !text.empty()) {
    trace_ = ParseTraceparent(text);
  }
}

std::string_view CallFacts::Metadata(const char* name) const {
  const auto& metadata = context_->client_metadata();
  auto found = metadata.find(name);
  if (found == metadata.end()) return {};
  return {found->second.data(), found->second.size()};
}

Status CallFacts::Check() const {
  if (gate_ == nullptr || !gate_->asks()) return {};
  return gate_->Check(Metadata("authorization"));
}

Status CallFacts::Read(InferRequest& request) const {
  request.received = received_;
  request.trace = trace_;
  if (std::string_view text = Metadata("x-weft-priority"); !text.empty()) {
    request.priority = TRY(ReadPriority(text));
  }
  auto left = context_->deadline() - std::chrono::system_clock::now();
  if (left < std::chrono::hours(24)) {
    request.deadline =
        request.received + std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  }
  return {};
}

void CallFacts::End(const Status& status, size_t request_bytes, size_t response_bytes) const {
  if (trace_) context_->AddInitialMetadata("traceparent", trace_->Child().ToString());
  if (!logs()) return;
  AccessEntry entry{"grpc", "POST", std::string(method_), context_->peer()};
  entry.status = status ? 0 : static_cast<int>(status.error().code());
  entry.took = Now() - received_;
  entry.request_bytes = request_bytes;
  entry.response_bytes = response_bytes;
  entry.trace = trace_;
  gate_->log()->Write(entry);
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

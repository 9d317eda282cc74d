#include "serve/net/call_facts.h"

#include <thread>

#include "serve/rest.h"

namespace weft::serve {

std::string ToMessage(const google::protobuf::MessageLite& proto) {
  std::string message = NewMessage();
  proto.AppendToString(&message);
  return message;
}

CallFacts::CallFacts(const Gate* gate, CallRef call) : gate_(gate), call_(std::move(call)) {
  if (std::string_view text = call_->Metadata("traceparent"); !text.empty()) {
    trace_ = ParseTraceparent(text);
  }
}

Status CallFacts::Check() const {
  if (gate_ == nullptr || !gate_->asks()) return {};
  return gate_->Check(call_->Metadata("authorization"));
}

Status CallFacts::Read(InferRequest& request) const {
  request.received = call_->received();
  request.deadline = call_->deadline();
  request.trace = trace_;
  request.thread_use = call_->thread_use();
  if (std::string_view text = call_->Metadata("x-weft-priority"); !text.empty()) {
    request.priority = TRY(ReadPriority(text));
  }
  return {};
}

void CallFacts::End(const Status& status, Message message) const {
  const size_t bytes = message.size();
  Call::Pairs first, last;
  if (trace_) first.emplace_back("traceparent", trace_->Child().ToString());
  if (!status) {
    message = {};
    // As gRPC's own clients understand it when they retry.
    if (std::optional<int64_t> wait = RetryAfter(status.error()))
      last.emplace_back("grpc-retry-pushback-ms", StrCat(*wait));
  }
  call_->Finish(status, std::move(message), first, last);
  if (gate_ == nullptr || gate_->log() == nullptr) return;
  AccessEntry entry{"grpc", "POST", call_->method(), call_->peer()};
  entry.status = status ? 0 : static_cast<int>(status.error().code());
  entry.took = Now() - call_->received();
  entry.request_bytes = call_->message().size();
  entry.response_bytes = status ? bytes - kMessagePrefix : 0;
  entry.trace = trace_;
  gate_->log()->Write(entry);
}

const Methods::Method* Methods::Find(std::string_view name) const {
  auto found = methods_.find(name);
  return found == methods_.end() ? nullptr : &found->second;
}

void Methods::AddUnary(std::string name, const Proto& request, const Proto& response,
                       std::function<Status(const Proto&, Proto&)> work, How how) {
  auto answer = [&request, &response, work](const CallFacts& facts) {
    std::unique_ptr<Proto> asked(request.New()), said(response.New());
    std::string_view bytes = facts.call()->message();
    Status status;
    if (asked->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      status = work(*asked, *said);
    } else {
      status = InvalidArgument("not a ", asked->GetTypeName());
    }
    facts.End(status, status ? ToMessage(*said) : std::string());
  };
  Add(std::move(name), [this, answer, how](const CallRef& call) {
    CallFacts facts(gate_, call);
    Status status;
    if (how != How::kOpen) status = facts.Check();
    if (!status) return facts.End(status, {});
    if (how != How::kLater) return answer(facts);
    // A server that shuts down waits for its calls.
    std::thread([facts, answer] { answer(facts); }).detach();
  });
}

void InferCall(Server& server, const CallFacts& facts, InferRequest request,
               std::function<Result<Message>(const InferResponse&)> write) {
  Server::Ticket ticket = server.Infer(
      std::move(request), [facts, write = std::move(write)](Result<InferResponse> response) {
        if (!response) return facts.End(std::unexpected(response.error()), {});
        Result<Message> message = write(*response);
        if (!message) return facts.End(std::unexpected(message.error()), {});
        facts.End({}, std::move(*message));
      });
  if (ticket.MayCancel()) facts.call()->OnCancel([ticket] { ticket.Cancel(); });
}

}  // namespace weft::serve

#include "senders.h"

#include <cstdio>

#include "serve/net/event_loop.h"
#include "serve/net/grpc_connection.h"
#include "serve/net/socket.h"

namespace weft::serve {
namespace {

class LocalSender final : public Sender {
 public:
  LocalSender(Server& server, const std::vector<LoadTarget>& targets, Time timeout)
      : server_(server), targets_(targets), timeout_(timeout) {
    for (const LoadTarget& target : targets) {
      values_.push_back(Literal(Shape(DType::kF32, target.dims)));
    }
  }
  void Send(size_t target, bool high, std::function<void(int)> done) override {
    InferRequest request;
    request.model.name = targets_[target].model;
    request.inputs.push_back({targets_[target].input, values_[target]});
    if (high) request.priority = Priority::kHigh;
    request.received = Now();
    if (timeout_ > 0) request.deadline = request.received + timeout_;
    server_.Infer(std::move(request), [done = std::move(done)](Result<InferResponse> response) {
      done(response ? 0 : static_cast<int>(response.error().code()));
    });
  }

 private:
  Server& server_;
  const std::vector<LoadTarget>& targets_;
  const Time timeout_;
  std::vector<Literal> values_;
};

// Answers a request's bytes, which are no less than an answer's.
class EchoHandler final : public CallHandler {
  CallKind KindOf(std::string_view) const override { return CallKind::kUnary; }
  void Handle(const CallRef& call) override {
    std::string message = NewMessage();
    message += call->message();
    call->Finish({}, std::move(message));
  }
  std::string Converse(const CallRef&, std::string_view) override { return {}; }
};

}  // namespace

std::unique_ptr<Sender> MakeLocalSender(Server& server, const std::vector<LoadTarget>& targets,
                                        Time timeout) {
  return std::make_unique<LocalSender>(server, targets, timeout);
}

int ServeWireEcho() {
  EchoHandler handler;
  const GrpcLimits limits;
  int port = 0;
  auto loop = EventLoop::Make(1000);
  auto listener = ListenTcp("127.0.0.1", port);
  if (!loop || !listener) return 1;
  (*loop)->Listen(*listener, [&](int descriptor) {
    return GrpcConnection::Make(descriptor, nullptr, limits, handler);
  });
  (*loop)->Start(2, nullptr);
  std::printf("%d\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace weft::serve

// One connection of gRPC: HTTP/2 by nghttp2, which knows frames, header compression and flow
// control; here are gRPC's messages, statuses and timeouts upon it. Whichever thread has something
// for a connection does it under its lock, from reading to writing: an answer leaves on the thread
// that computed it, and no other is woken; or, where another has the lock, on that one, and nobody
// waits.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "serve/net/event_loop.h"
#include "serve/net/grpc_call.h"
#include "serve/net/out_queue.h"
#include "serve/net/socket.h"

namespace weft::serve {

class GrpcSession;

struct GrpcLimits {
  int64_t max_request_bytes = int64_t{256} << 20;
  int open_seconds = 20;    // from a connection's begin to the first frame of its client
  int stall_seconds = 120;  // without a byte, while a request or an answer is under way
};

class GrpcConnection final : public Connection,
                             public std::enable_shared_from_this<GrpcConnection> {
 public:
  static std::shared_ptr<GrpcConnection> Make(int descriptor, std::shared_ptr<TlsContext> tls,
                                              const GrpcLimits& limits, CallHandler& handler);
  ~GrpcConnection() override;
  GrpcConnection(const GrpcConnection&) = delete;

  bool Serve(bool ending) override WEFT_EXCLUDES(mutex_);
  void RefuseCalls() override WEFT_EXCLUDES(mutex_);  // GOAWAY
  bool Check(Time now) override WEFT_EXCLUDES(mutex_);
  void Shutdown() override WEFT_EXCLUDES(mutex_);

  // From one to the other, answers that this thread gives wait, so that those of one connection
  // leave together.
  static void HoldWrites();
  static void ReleaseWrites();

  int descriptor() const override { return wire_.descriptor(); }
  const std::string& peer() const { return peer_; }

  // Of calls.
  void Send(int32_t stream, std::string message) WEFT_EXCLUDES(mutex_);
  void Finish(int32_t stream, const Status& status, Message message, const Call::Pairs& first,
              const Call::Pairs& last) WEFT_EXCLUDES(mutex_);
  void OnCancel(int32_t stream, std::function<void()> cancel) WEFT_EXCLUDES(mutex_);

 private:
  GrpcConnection(int descriptor, std::shared_ptr<TlsContext> tls, const GrpcLimits& limits,
                 CallHandler& handler);
  struct Ending {
    int32_t stream;
    Status status;
    Message message;
    Call::Pairs first, last;
  };
  // Ends of calls that others left to whoever has the lock.
  void TakeEndings() WEFT_REQUIRES(mutex_);
  // The same, written, where nobody has the lock: who has it calls this when he has let go.
  void Deliver() WEFT_EXCLUDES(mutex_);
  // Reads what is there, up to a limit; whether more may be.
  bool ReadSome(bool ending) WEFT_REQUIRES(mutex_);
  // Requests of one read; `more`: there is more to be read.
  void HandleAll(std::span<const CallRef> calls, bool more);
  void Write() WEFT_REQUIRES(mutex_);
  bool Hold();  // whether its writes wait
  void End() WEFT_REQUIRES(mutex_);
  bool IsIdle(Time now) WEFT_EXCLUDES(mutex_);

  const GrpcLimits limits_;
  CallHandler& handler_;
  const Time opened_;
  Mutex mutex_;
  Wire wire_;
  const std::string peer_;
  std::unique_ptr<GrpcSession> session_ WEFT_GUARDED_BY(mutex_);
  OutQueue out_ WEFT_GUARDED_BY(mutex_);  // what the socket did not take yet
  Time progress_ WEFT_GUARDED_BY(mutex_) = 0;
  bool over_ WEFT_GUARDED_BY(mutex_) = false;
  Mutex endings_mutex_;  // held for a moment only, by threads that others may displace
  std::vector<Ending> endings_ WEFT_GUARDED_BY(endings_mutex_);
  std::atomic<bool> ended_ = false;  // there are some
};

}  // namespace weft::serve

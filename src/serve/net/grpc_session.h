// HTTP/2 and gRPC's framing of one connection, without a socket and without a lock: bytes in, calls
// and bytes out.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/net/grpc_call.h"
#include "serve/net/out_queue.h"

struct nghttp2_session;

namespace weft::serve {

struct GrpcLimits;
struct SessionCallbacks;

class GrpcSession {
 public:
  GrpcSession(GrpcConnection& connection, const GrpcLimits& limits, CallHandler& handler);
  ~GrpcSession();
  GrpcSession(const GrpcSession&) = delete;

  // False: not HTTP/2, or over.
  bool Feed(std::string_view bytes);
  // Appends the next bytes to send; false: none for now.
  bool Fill(OutQueue& out);
  bool WantsMore() const;  // the connection goes on
  bool opened() const { return opened_; }
  bool idle() const;       // no request is answered; who watches does not count
  bool Receiving() const;  // a request is there in part
  void RefuseCalls();
  // All streams are gone.
  void Abandon();

  void Send(int32_t stream, std::string message);
  void Finish(int32_t stream, const Status& status, Message message, const Call::Pairs& first,
              const Call::Pairs& last);
  // False: the stream is gone, and `cancel` is left as it is.
  bool OnCancel(int32_t stream, std::function<void()>& cancel);

  // What came of feeding; for whoever fed, to be done without the connection's lock.
  std::vector<CallRef> TakeCalls() { return std::exchange(calls_, {}); }
  std::vector<std::function<void()>> TakeCancelled() { return std::exchange(cancelled_, {}); }

 private:
  friend struct SessionCallbacks;
  struct Stream {
    CallRef call;
    CallKind kind = CallKind::kUnary;
    std::string encoding;
    struct Part {
      std::shared_ptr<const void> owner;
      std::string_view bytes;
    };
    std::deque<Part> out;   // of messages that go out
    size_t out_bytes = 0;   // of all
    bool complete = false;  // the client has said all
    bool begun = false, ended = false, deferred = false;
    Call::Pairs trailers;
    std::function<void()> cancel;
  };

  Stream* Find(int32_t id);
  static void Queue(Stream& stream, Message message);
  void Begin(int32_t id);
  void AddHeader(Stream& stream, std::string_view name, std::string_view value);
  void AddData(int32_t id, Stream& stream, std::string_view bytes);
  void Complete(int32_t id, Stream& stream);
  void Converse(int32_t id, Stream& stream);
  // The first message of the bytes, as it was before compression; none: there is not a whole one.
  Result<bool> TakeMessage(Stream& stream, std::string_view& bytes, std::string& unpacked,
                           std::string_view& message) const;
  void Close(int32_t id);
  void Refuse(int32_t id, Stream& stream, const Error& error);
  void SubmitHeaders(int32_t id, Stream& stream, const Call::Pairs& first, bool end);
  void Resume(int32_t id, Stream& stream);

  GrpcConnection& connection_;
  const GrpcLimits& limits_;
  CallHandler& handler_;
  nghttp2_session* session_ = nullptr;
  OutQueue* filling_ = nullptr;  // what Fill appends to
  bool opened_ = false;
  std::unordered_map<int32_t, std::unique_ptr<Stream>> streams_;
  std::vector<CallRef> calls_;
  std::vector<std::function<void()>> cancelled_;
};

}  // namespace weft::serve

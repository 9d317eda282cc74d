// A client of gRPC by nghttp2 alone: a thread for each connection, which reads, and sends on. It
// takes a tenth of what gRPC's own library takes for a call, so that the server is what is
// measured.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/str.h"
#include "infer_request.h"
#include "inference.pb.h"
#include "senders.h"
#include "serve/net/grpc_call.h"

namespace weft::serve {
namespace {

constexpr int32_t kWindow = 64 << 20;
constexpr int kNoStatus = static_cast<int>(Code::kUnavailable);

std::string FramedRequest(const LoadTarget& target) {
  std::string text(kMessagePrefix, '\0');
  InferRequest(target).AppendToString(&text);
  uint32_t length = htonl(static_cast<uint32_t>(text.size() - kMessagePrefix));
  std::memcpy(text.data() + 1, &length, sizeof(length));
  return text;
}

nghttp2_nv HeaderField(std::string_view name, std::string_view value) {
  auto bytes = [](std::string_view text) {
    return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

int Connect(const std::string& address) {
  size_t colon = address.rfind(':');
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(ParseInt(address.substr(colon + 1)).value_or(0)));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int yes = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (connect(descriptor, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return descriptor;
  std::perror(address.c_str());
  std::exit(1);
}

class WireSender final : public Sender {
 public:
  WireSender(const std::string& address, const std::vector<LoadTarget>& targets, Time timeout,
             Time poll)
      : address_(address), timeout_(timeout), poll_(poll), descriptor_(Connect(address)) {
    for (const LoadTarget& target : targets) requests_.push_back(FramedRequest(target));
    if (timeout > 0) timeout_text_ = StrCat(timeout / kMicrosecond, "u");
    Open();
    reader_ = std::thread([this] { Read(); });
  }
  ~WireSender() override {
    shutdown(descriptor_, SHUT_RDWR);
    reader_.join();
    nghttp2_session_del(session_);
    close(descriptor_);
  }

  void Send(size_t target, bool high, std::function<void(int)> done) override {
    std::vector<nghttp2_nv> fields = {
        HeaderField(":method", "POST"),
        HeaderField(":scheme", "http"),
        HeaderField(":path", "/inference.GRPCInferenceService/ModelInfer"),
        HeaderField(":authority", address_),
        HeaderField("content-type", "application/grpc"),
        HeaderField("te", "trailers")};
    if (high) fields.push_back(HeaderField("x-weft-priority", "high"));
    if (timeout_ > 0) fields.push_back(HeaderField("grpc-timeout", timeout_text_));
    auto* call = new Call{requests_[target], std::move(done), Now()};
    nghttp2_data_provider body = {{.ptr = call}, ReadBody};
    MutexLock lock(mutex_);
    nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &body, call);
    if (sends_together != this) Flush();
  }

 private:
  struct Call {
    std::string_view body;
    std::function<void(int)> done;
    Time began = 0;
    int status = kNoStatus;
  };
  // The reader's thread: what its answers send leaves in one write.
  static thread_local WireSender* sends_together;

  static ssize_t ReadBody(nghttp2_session*, int32_t, uint8_t* to, size_t size, uint32_t* flags,
                          nghttp2_data_source* source, void*) {
    std::string_view& body = static_cast<Call*>(source->ptr)->body;
    size_t count = std::min(size, body.size());
    std::memcpy(to, body.data(), count);
    body.remove_prefix(count);
    if (body.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }
  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t, void*) {
    auto view = [](const uint8_t* text, size_t size) {
      return std::string_view(reinterpret_cast<const char*>(text), size);
    };
    auto* call =
        static_cast<Call*>(nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
    if (call != nullptr && view(name, name_size) == "grpc-status")
      call->status = static_cast<int>(ParseInt(view(value, value_size)).value_or(kNoStatus));
    return 0;
  }
  static int OnClose(nghttp2_session* session, int32_t id, uint32_t, void* user) {
    auto* call = static_cast<Call*>(nghttp2_session_get_stream_user_data(session, id));
    if (call != nullptr) static_cast<WireSender*>(user)->done_.push_back(call);
    return 0;
  }

  void Open() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnClose);
    nghttp2_session_client_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<uint32_t>(kWindow)}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow);
    MutexLock lock(mutex_);
    Flush();
  }

  void Flush() WEFT_REQUIRES(mutex_) {
    for (;;) {
      const uint8_t* data = nullptr;
      ssize_t size = nghttp2_session_mem_send(session_, &data);
      if (size <= 0) break;
      out_.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
    }
    for (size_t at = 0; at < out_.size();) {
      ssize_t sent = send(descriptor_, out_.data() + at, out_.size() - at, MSG_NOSIGNAL);
      if (sent < 0) break;
      at += static_cast<size_t>(sent);
    }
    out_.clear();
  }

  // Looks for so long without sleeping: waking up takes long on a machine that idles.
  ssize_t Receive(std::span<char> to) const {
    for (Time until = poll_ > 0 ? Now() + poll_ : 0; poll_ > 0 && Now() < until;) {
      ssize_t got = recv(descriptor_, to.data(), to.size(), MSG_DONTWAIT);
      if (got >= 0) return got;
    }
    return recv(descriptor_, to.data(), to.size(), 0);
  }

  void Read() {
    sends_together = this;
    std::vector<char> buffer(256 << 10);
    for (;;) {
      ssize_t got = Receive(buffer);
      if (got <= 0) return;
      {
        MutexLock lock(mutex_);
        nghttp2_session_mem_recv(session_, reinterpret_cast<uint8_t*>(buffer.data()),
                                 static_cast<size_t>(got));
      }
      for (Call* call : std::exchange(done_, {})) {
        // An answer behind the deadline is of no use.
        bool late = timeout_ > 0 && Now() - call->began > timeout_;
        call->done(late ? static_cast<int>(Code::kDeadlineExceeded) : call->status);
        delete call;
      }
      MutexLock lock(mutex_);
      Flush();
    }
  }

  const std::string address_;
  const Time timeout_, poll_;
  const int descriptor_;
  std::string timeout_text_;
  std::vector<std::string> requests_;
  Mutex mutex_;
  nghttp2_session* session_ = nullptr;
  std::string out_ WEFT_GUARDED_BY(mutex_);
  std::vector<Call*> done_;  // of the reader
  std::thread reader_;
};

thread_local WireSender* WireSender::sends_together = nullptr;

}  // namespace

std::unique_ptr<Sender> MakeWireSender(const std::string& address,
                                       const std::vector<LoadTarget>& targets, Time timeout,
                                       Time poll) {
  return std::make_unique<WireSender>(address, targets, timeout, poll);
}

}  // namespace weft::serve

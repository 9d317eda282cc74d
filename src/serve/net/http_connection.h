// One connection of HTTP/1.1: reads a request, hands it on, writes the answer, reads the next.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "serve/http_parser.h"
#include "serve/net/event_loop.h"
#include "serve/net/http_server.h"
#include "serve/net/socket.h"

namespace weft::serve {

// What all connections have in common.
struct HttpShared {
  HttpServerOptions options;
  const RestApi& api;
  std::atomic<int> unanswered = 0;  // requests
};

class HttpConnection final : public Connection,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(int descriptor, std::shared_ptr<TlsContext> tls,
                 std::shared_ptr<HttpShared> shared);
  ~HttpConnection() override;
  bool Serve(bool ending) override WEFT_EXCLUDES(mutex_);
  bool Check(Time now) override WEFT_EXCLUDES(mutex_);
  void Shutdown() override WEFT_EXCLUDES(mutex_);
  int descriptor() const override { return wire_.descriptor(); }

 private:
  // Reads as long as there is something and a request is not whole.
  void ReadSome(bool ending) WEFT_REQUIRES(mutex_);
  void Take(std::string_view bytes) WEFT_REQUIRES(mutex_);
  void Write() WEFT_REQUIRES(mutex_);
  void Answer(HttpResponse response) WEFT_EXCLUDES(mutex_);
  void Say(const HttpResponse& response) WEFT_REQUIRES(mutex_);
  void Fail() WEFT_REQUIRES(mutex_);

  const std::shared_ptr<HttpShared> shared_;
  Mutex mutex_;
  Wire wire_;
  const std::string peer_;
  std::optional<HttpParser> parser_ WEFT_GUARDED_BY(mutex_);
  std::string in_ WEFT_GUARDED_BY(mutex_);  // behind the request that is answered
  std::string out_ WEFT_GUARDED_BY(mutex_);
  size_t out_at_ WEFT_GUARDED_BY(mutex_) = 0;
  Time since_ WEFT_GUARDED_BY(mutex_) = 0;  // what it waits for now
  bool answering_ WEFT_GUARDED_BY(mutex_) = false, over_ WEFT_GUARDED_BY(mutex_) = false;
  bool ends_ WEFT_GUARDED_BY(mutex_) = false;  // when all is written; what still comes is dropped
  bool eof_ WEFT_GUARDED_BY(mutex_) = false, head_ WEFT_GUARDED_BY(mutex_) = false;
  bool keep_alive_ WEFT_GUARDED_BY(mutex_) = true;
  // Bytes were left in the socket: nobody says again that they are there.
  bool unread_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft::serve

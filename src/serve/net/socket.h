// Sockets that do not block: listening, and the bytes of a connection over TCP, a Unix socket or
// TLS.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "serve/net/out_queue.h"
#include "serve/net/tls.h"

struct ssl_ctx_st;
struct ssl_st;

namespace weft::serve {

class TlsContext {
 public:
  // `protocol`: what clients must ask for (ALPN); empty: whatever they do.
  static Result<std::shared_ptr<TlsContext>> Make(const TlsOptions& options, std::string protocol);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  ssl_ctx_st* get() const { return context_; }
  const std::string& protocol() const { return protocol_; }

 private:
  explicit TlsContext(std::string protocol);
  Status Use(const TlsOptions& options);

  const std::string protocol_;
  ssl_ctx_st* context_;
};

// A descriptor that listens; `port`: 0 for one that is free, and then which it is.
Result<int> ListenTcp(const std::string& address, int& port);
// What lies at the path is replaced.
Result<int> ListenUnix(const std::string& path);

class Wire {
 public:
  // Takes the descriptor. `tls` null: plain.
  Wire(int descriptor, std::shared_ptr<TlsContext> tls);
  ~Wire();
  Wire(const Wire&) = delete;
  // Bytes moved; 0: none for now; -1: the connection is over.
  ssize_t Read(std::span<char> to);
  ssize_t Write(std::string_view from);
  ssize_t Write(const OutQueue& from);  // of its begin; it is not empty
  // Whether a read of `got` of `asked` bytes took all: what comes later is an event of its own. TLS
  // may have more that it decrypted.
  bool IsDrained(size_t got, size_t asked) const { return tls_ == nullptr && got < asked; }
  // Both directions: whoever waits for it is told.
  void Shutdown();
  void ShutdownWrite();  // nothing more is said
  int descriptor() const { return descriptor_; }
  std::string Peer() const;

 private:
  ssize_t TlsResult(int result);

  const int descriptor_;
  const std::shared_ptr<TlsContext> context_;
  ssl_st* tls_ = nullptr;
};

}  // namespace weft::serve

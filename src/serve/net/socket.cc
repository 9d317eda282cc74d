#include "serve/net/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weft::serve {
namespace {

// The protocol that clients offer by its name; none: the handshake fails.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* offered, unsigned size, void* context) {
  const std::string& wanted = static_cast<const TlsContext*>(context)->protocol();
  for (unsigned at = 0; at < size; at += offered[at] + 1u) {
    std::string_view name(reinterpret_cast<const char*>(offered) + at + 1, offered[at]);
    if (name != wanted) continue;
    *out = offered + at + 1;
    *out_size = offered[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioRef = std::unique_ptr<BIO, FreeBio>;

BioRef BytesOf(const std::string& pem) {
  return BioRef(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

X509* NextCertificate(BIO* bio) {
  return PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
}

bool UseChain(SSL_CTX* context, const std::string& pem) {
  BioRef bio = BytesOf(pem);
  X509* first = NextCertificate(bio.get());
  bool good = first != nullptr && SSL_CTX_use_certificate(context, first) == 1;
  X509_free(first);
  while (X509* next = good ? NextCertificate(bio.get()) : nullptr) {
    if (SSL_CTX_add0_chain_cert(context, next) != 1) {
      X509_free(next);
      return false;
    }
  }
  ERR_clear_error();  // of the end of the file
  return good;
}

bool UseKey(SSL_CTX* context, const std::string& pem) {
  BioRef bio = BytesOf(pem);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr);
  bool good = key != nullptr && SSL_CTX_use_PrivateKey(context, key) == 1;
  EVP_PKEY_free(key);
  return good;
}

bool UseAuthority(SSL_CTX* context, const std::string& pem) {
  BioRef bio = BytesOf(pem);
  int count = 0;
  while (X509* next = NextCertificate(bio.get())) {
    count += X509_STORE_add_cert(SSL_CTX_get_cert_store(context), next) == 1;
    SSL_CTX_add_client_CA(context, next);
    X509_free(next);
  }
  ERR_clear_error();
  return count > 0;
}

Error SocketError(std::string_view where, std::string_view what) {
  return Error(Code::kUnavailable, StrCat(where, ": ", what, ": ", std::strerror(errno)));
}

// Binds and listens; the descriptor is closed where that fails.
Result<int> Listen(int descriptor, const sockaddr* address, socklen_t size,
                   std::string_view where) {
  if (bind(descriptor, address, size) == 0 && listen(descriptor, SOMAXCONN) == 0) return descriptor;
  Error error = SocketError(where, "cannot be listened at");
  close(descriptor);
  return std::unexpected(std::move(error));
}

constexpr int kSocketFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

}  // namespace

TlsContext::TlsContext(std::string protocol)
    : protocol_(std::move(protocol)), context_(SSL_CTX_new(TLS_server_method())) {}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

Status TlsContext::Use(const TlsOptions& options) {
  SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
  if (!protocol_.empty()) SSL_CTX_set_alpn_select_cb(context_, ChooseProtocol, this);
  if (!UseChain(context_, options.certificates))
    return InvalidArgument("TLS: the certificate cannot be used");
  if (!UseKey(context_, options.key)) return InvalidArgument("TLS: the key cannot be used");
  if (options.client_authority.empty()) return {};
  if (!UseAuthority(context_, options.client_authority))
    return InvalidArgument("TLS: the authority cannot be used");
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return {};
}

Result<std::shared_ptr<TlsContext>> TlsContext::Make(const TlsOptions& options,
                                                     std::string protocol) {
  std::shared_ptr<TlsContext> context(new TlsContext(std::move(protocol)));
  if (context->get() == nullptr) return MakeError(Code::kInternal, "TLS: no context");
  TRY(context->Use(options));
  return context;
}

Result<int> ListenTcp(const std::string& address, int& port) {
  std::string where = StrCat(address, ":", port);
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int failed = getaddrinfo(address.c_str(), StrCat(port).c_str(), &hints, &found); failed != 0)
    return MakeError(Code::kUnavailable, where, ": not an address: ", gai_strerror(failed));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> held(found, freeaddrinfo);
  int descriptor = socket(found->ai_family, kSocketFlags, 0);
  if (descriptor < 0) return std::unexpected(SocketError(where, "cannot be opened"));
  // A second server at the same port is an error, not half of the requests: no SO_REUSEPORT.
  int yes = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  TRY(Listen(descriptor, found->ai_addr, found->ai_addrlen, where));
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size);
  port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  return descriptor;
}

Result<int> ListenUnix(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return InvalidArgument("unix:", path, ": longer than ", sizeof(address.sun_path) - 1, " bytes");
  std::memcpy(address.sun_path, path.data(), path.size());
  int descriptor = socket(AF_UNIX, kSocketFlags, 0);
  if (descriptor < 0) return std::unexpected(SocketError(path, "cannot be opened"));
  unlink(path.c_str());
  return Listen(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address), path);
}

Wire::Wire(int descriptor, std::shared_ptr<TlsContext> tls)
    : descriptor_(descriptor), context_(std::move(tls)) {
  int yes = 1;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (context_ == nullptr) return;
  tls_ = SSL_new(context_->get());
  SSL_set_fd(tls_, descriptor_);
  SSL_set_accept_state(tls_);
}

Wire::~Wire() {
  SSL_free(tls_);
  close(descriptor_);
}

ssize_t Wire::TlsResult(int result) {
  if (result > 0) return result;
  int reason = SSL_get_error(tls_, result);
  ERR_clear_error();  // the queue is the thread's, and the next connection's
  return reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

ssize_t Wire::Read(std::span<char> to) {
  if (tls_ != nullptr) return TlsResult(SSL_read(tls_, to.data(), static_cast<int>(to.size())));
  ssize_t got = recv(descriptor_, to.data(), to.size(), 0);
  if (got > 0) return got;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

ssize_t Wire::Write(std::string_view from) {
  if (tls_ != nullptr)
    return TlsResult(SSL_write(tls_, from.data(), static_cast<int>(from.size())));
  ssize_t sent = send(descriptor_, from.data(), from.size(), MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

ssize_t Wire::Write(const OutQueue& from) {
  std::array<iovec, 64> pieces;
  const size_t count = tls_ != nullptr ? 1 : from.Pieces(pieces);
  if (count == 1) return Write(from.front());
  msghdr message = {};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  ssize_t sent = sendmsg(descriptor_, &message, MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

void Wire::Shutdown() {
  shutdown(descriptor_, SHUT_RDWR);
}

void Wire::ShutdownWrite() {
  if (tls_ != nullptr) SSL_shutdown(tls_);
  ERR_clear_error();
  shutdown(descriptor_, SHUT_WR);
}

std::string Wire::Peer() const {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6) {
    auto* ip = reinterpret_cast<sockaddr_in6*>(&address);
    inet_ntop(AF_INET6, &ip->sin6_addr, text, sizeof(text));
  } else if (address.ss_family == AF_INET) {
    auto* ip = reinterpret_cast<sockaddr_in*>(&address);
    inet_ntop(AF_INET, &ip->sin_addr, text, sizeof(text));
  } else {
    return "unix";
  }
  return text;
}

}  // namespace weft::serve

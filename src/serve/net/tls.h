// Certificates, as both servers take them.
#pragma once

#include <string>

#include "base/error.h"

namespace weft::serve {

struct TlsOptions {
  std::string certificates, key;  // PEM; empty: no TLS
  std::string client_authority;  // PEM; clients must have a certificate of it; empty: none is asked
  bool on() const { return !certificates.empty(); }
};

// From files in PEM. No names: no TLS.
Result<TlsOptions> ReadTls(const std::string& certificates, const std::string& key,
                           const std::string& client_authority);
// From TF Serving's SSLConfig, protobuf text.
Result<TlsOptions> ReadSslConfig(const std::string& path);

}  // namespace weft::serve

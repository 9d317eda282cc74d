#include "serve/net/tls.h"

#include <utility>

#include "base/file.h"
#include "serve/net/model_config.h"
#include "tensorflow_serving.pb.h"

namespace weft::serve {

Result<TlsOptions> ReadTls(const std::string& certificates, const std::string& key,
                           const std::string& client_authority) {
  TlsOptions tls;
  if (certificates.empty() != key.empty()) {
    return InvalidArgument("TLS: --tls_cert and --tls_key go together");
  }
  if (certificates.empty()) {
    if (client_authority.empty()) return tls;
    return InvalidArgument("TLS: --tls_client_ca needs --tls_cert and --tls_key");
  }
  tls.certificates = TRY(ReadFile(certificates));
  tls.key = TRY(ReadFile(key));
  if (!client_authority.empty()) tls.client_authority = TRY(ReadFile(client_authority));
  return tls;
}

Result<TlsOptions> ReadSslConfig(const std::string& path) {
  tensorflow::serving::SSLConfig proto;
  TRY(ReadTextProto(path, "SSLConfig", proto));
  if (proto.server_key().empty() || proto.server_cert().empty()) {
    return InvalidArgument(path, ": server_key and server_cert are wanted");
  }
  TlsOptions tls{proto.server_cert(), proto.server_key(), {}};
  if (!proto.client_verify()) return tls;
  if (proto.custom_ca().empty()) return InvalidArgument(path, ": client_verify needs custom_ca");
  tls.client_authority = proto.custom_ca();
  return tls;
}

}  // namespace weft::serve

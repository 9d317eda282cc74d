// grpc.health.v1 and reflection (v1 and v1alpha), which clients and probes expect of any server.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "serve/net/call_facts.h"
#include "serve/net/grpc_call.h"
#include "serve/server.h"

namespace weft::serve {

inline constexpr std::string_view kHealthService = "grpc.health.v1.Health";

class HealthService {
 public:
  HealthService(Server& server, std::vector<std::string> services);
  void AddMethods(Methods& methods);
  // grpc.health.v1.Health/Watch: the state now, and as it changes.
  std::string Watch(const CallRef& call, std::string_view request) WEFT_EXCLUDES(mutex_);
  // Tells those who watch, if something changed.
  void Tell() WEFT_EXCLUDES(mutex_);

 private:
  std::string StateOf(std::string_view request) const;

  Server& server_;
  const std::vector<std::string> services_;
  Mutex mutex_;
  bool told_ WEFT_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<Call>> watchers_ WEFT_GUARDED_BY(mutex_);
};

// The answer to one message of ServerReflectionInfo. `services`: full names.
std::string Reflect(const std::vector<std::string>& services, std::string_view request);

}  // namespace weft::serve

// HTTP requests and answers as plain data: what handlers see, without a socket.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/scheduler.h"

namespace weft::serve {

struct HttpRequest {
  std::string method, target;                                     // "POST", "/v2/models/m/infer"
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in lower case
  std::string body = {};
  Time received = 0;
  std::string peer = {};  // who asks; empty: not known
  ThreadUse thread_use = ThreadUse::kFree;

  // Empty: it is not there.
  std::string_view Header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Called once, on any thread.
using HttpDone = std::function<void(HttpResponse)>;

}  // namespace weft::serve

// The REST protocols: TF Serving's (/v1/...), Open Inference (/v2/...) and Prometheus (/metrics).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "serve/http.h"
#include "serve/server.h"

namespace weft::serve {

class RestApi {
 public:
  explicit RestApi(Server& server) : server_(server) {}
  void Handle(HttpRequest request, HttpDone done) const;

 private:
  // What stands behind /vN/models/: the model, and what is asked of it ("predict", "infer", "").
  struct Target {
    ModelQuery model;
    std::string action;
  };
  static Result<Target> ParseTarget(std::string_view rest);
  Status HandleV1(HttpRequest& request, HttpDone& done) const;
  Status HandleV2(HttpRequest& request, HttpDone& done) const;
  // rest_predict.cc
  Status Predict(const Target& target, HttpRequest& request, HttpDone& done) const;
  Result<std::string> TfStatus(const Target& target) const;
  Result<std::string> TfMetadata(const Target& target) const;
  // rest_infer.cc
  Status Infer(const Target& target, HttpRequest& request, HttpDone& done) const;
  Result<std::string> ModelMetadata(const Target& target) const;
  Result<std::string> ModelStatistics(const Target& target) const;
  std::string ServerMetadata() const;
  std::string RepositoryIndex() const;

  Server& server_;
};

int HttpStatusOf(Code code);
// {"error": "..."}, and when to come back where that is known.
HttpResponse ErrorResponse(const Error& error);
// Milliseconds that a client that was turned away should wait.
std::optional<int64_t> RetryAfter(const Error& error);

// Priority by name or by Triton's number (1: the highest, 0: the default).
Result<Priority> ReadPriority(std::string_view text);
Priority PriorityFromNumber(int64_t number);
// The headers X-Weft-Priority and X-Weft-Timeout-Ms.
Status ReadRequestHeaders(const HttpRequest& http, InferRequest& request);

}  // namespace weft::serve

// The REST protocols: TF Serving's (/v1/...), Open Inference (/v2/...) with Triton's
// extensions, Prometheus (/metrics), a status page (/) and traces (/v2/debug/trace).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "serve/gate.h"
#include "serve/http.h"
#include "serve/server.h"
#include "serve/trace_recorder.h"

namespace weft::serve {

class RestApi {
 public:
  // `gate` may be null: everybody may call, nothing is logged.
  explicit RestApi(Server& server, const Gate* gate = nullptr)
      : server_(server), gate_(gate), recorder_(server) {}
  // For requests that have no deadline of their own.
  void SetTimeout(Time timeout) { timeout_ = timeout; }
  void Handle(HttpRequest request, HttpDone done) const;

 private:
  // What stands behind /vN/models/: the model, and what is asked of it ("predict", "infer", "").
  struct Target {
    ModelQuery model;
    std::string action;
  };
  static Result<Target> ParseTarget(std::string_view rest);
  Status Dispatch(HttpRequest& request, HttpDone& done) const;
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
  // rest_manage.cc: repository, shared memory, status, traces. Whether the path is one of these.
  Result<bool> Manage(std::string_view path, HttpRequest& request, HttpDone& done) const;
  Status ManageRepository(std::string_view path, HttpRequest& request, HttpDone& done) const;
  Status ManageSharedMemory(std::string_view path, HttpRequest& request, HttpDone& done) const;
  Result<std::string> ModelConfiguration(const Target& target) const;
  std::string RepositoryIndex(bool only_ready) const;

  Server& server_;
  const Gate* const gate_;
  Time timeout_ = kNever;
  mutable TraceRecorder recorder_;
};

int HttpStatusOf(Code code);
// {"error": "..."}, and when to come back where that is known.
HttpResponse ErrorResponse(const Error& error);
// Milliseconds that a client that was turned away should wait.
std::optional<int64_t> RetryAfter(const Error& error);

HttpResponse WrongMethod(std::string_view wanted);
HttpResponse JsonResponse(std::string body);
bool TakePrefix(std::string_view& text, std::string_view prefix);
// Percent-decoded.
Result<std::string> DecodePath(std::string_view text);

// Priority by name or by Triton's number (1: the highest, 0: the default).
Result<Priority> ReadPriority(std::string_view text);
Priority PriorityFromNumber(int64_t number);
// The headers X-Weft-Priority, X-Weft-Timeout-Ms and traceparent.
Status ReadRequestHeaders(const HttpRequest& http, InferRequest& request);

}  // namespace weft::serve

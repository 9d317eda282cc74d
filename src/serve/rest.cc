#include "serve/rest.h"

#include <algorithm>
#include <utility>

#include "serve/json.h"
#include "serve/status.h"

namespace weft::serve {
namespace {

constexpr int kWrongMethod = 405;

// What probes ask for: open to everybody.
bool IsProbe(std::string_view target) {
  return target.starts_with("/v2/health/");
}

}  // namespace

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

Result<std::string> DecodePath(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    int value = 0;
    auto hex = text.substr(i + 1, 2);
    auto [end, ec] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    if (hex.size() < 2 || ec != std::errc() || end != hex.data() + 2) {
      return InvalidArgument("the path is not percent-encoded: ", text);
    }
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

HttpResponse WrongMethod(std::string_view wanted) {
  HttpResponse response = ErrorResponse(Error(Code::kInvalidArgument, StrCat("use ", wanted)));
  response.status = kWrongMethod;
  response.headers.emplace_back("Allow", std::string(wanted));
  return response;
}

HttpResponse JsonResponse(std::string body) {
  return {.status = 200, .body = std::move(body)};
}

int HttpStatusOf(Code code) {
  switch (code) {
    case Code::kOk: return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange: return 400;
    case Code::kUnauthenticated: return 401;
    case Code::kPermissionDenied: return 403;
    case Code::kNotFound: return 404;
    case Code::kAlreadyExists:
    case Code::kAborted: return 409;
    case Code::kFailedPrecondition: return 412;
    case Code::kCancelled: return 499;
    case Code::kUnimplemented: return 501;
    case Code::kResourceExhausted:
    case Code::kUnavailable: return 503;
    case Code::kDeadlineExceeded: return 504;
    default: return 500;
  }
}

std::optional<int64_t> RetryAfter(const Error& error) {
  std::string_view hint = error.hint();
  if (!TakePrefix(hint, "retry after ") || !hint.ends_with(" ms")) return std::nullopt;
  return ParseInt(hint.substr(0, hint.size() - 3));
}

HttpResponse ErrorResponse(const Error& error) {
  HttpResponse response{.status = HttpStatusOf(error.code())};
  response.body = "{\"error\":";
  AppendJsonText(response.body, error.ToString());
  response.body += "}";
  if (error.code() == Code::kUnauthenticated) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  if (std::optional<int64_t> wait = RetryAfter(error)) {
    response.headers.emplace_back("Retry-After", StrCat((*wait + 999) / 1000));
    response.headers.emplace_back("X-Weft-Retry-After-Ms", StrCat(*wait));
  }
  return response;
}

Priority PriorityFromNumber(int64_t number) {
  if (number == 1) return Priority::kHigh;
  return number <= 2 ? Priority::kNormal : Priority::kLow;
}

Result<Priority> ReadPriority(std::string_view text) {
  if (std::optional<Priority> named = ParsePriority(text)) return *named;
  std::optional<int64_t> number = ParseInt(text);
  if (number && *number >= 0) return PriorityFromNumber(*number);
  return InvalidArgument("priority '", text,
                         "': expected high, normal, low or a number (1: highest)");
}

Status ReadRequestHeaders(const HttpRequest& http, InferRequest& request) {
  request.received = http.received;
  request.thread_use = http.thread_use;
  request.trace = ParseTraceparent(http.Header("traceparent"));
  if (std::string_view text = http.Header("x-weft-priority"); !text.empty()) {
    request.priority = TRY(ReadPriority(text));
  }
  if (std::string_view text = http.Header("x-weft-timeout-ms"); !text.empty()) {
    std::optional<double> wait = ParseDouble(text);
    if (!wait || !(*wait >= 0) || *wait > 1e9) return InvalidArgument("x-weft-timeout-ms: ", text);
    request.deadline = http.received + static_cast<Time>(*wait * static_cast<double>(kMillisecond));
  }
  return {};
}

// NAME[/versions/V|/labels/L][:action|/action].
Result<RestApi::Target> RestApi::ParseTarget(std::string_view rest) {
  Target target;
  rest = rest.substr(0, rest.find('?'));
  if (size_t colon = rest.rfind(':'); colon != rest.npos && rest.find('/', colon) == rest.npos) {
    target.action = std::string(rest.substr(colon + 1));
    rest = rest.substr(0, colon);
  }
  auto next = [&] {
    size_t slash = rest.find('/');
    std::string_view part = rest.substr(0, slash);
    rest = slash == rest.npos ? std::string_view() : rest.substr(slash + 1);
    return part;
  };
  target.model.name = TRY(DecodePath(next()));
  if (TakePrefix(rest, "versions/")) {
    std::string_view text = next();
    target.model.version = ParseInt(text);
    if (!target.model.version) return InvalidArgument("version '", text, "': not a number");
  } else if (TakePrefix(rest, "labels/")) {
    target.model.label = TRY(DecodePath(next()));
  }
  if (!rest.empty()) target.action = std::string(rest);
  return target;
}

Status RestApi::HandleV1(HttpRequest& request, HttpDone& done) const {
  std::string target_text = request.target;
  std::string_view rest = target_text;
  if (!TakePrefix(rest, "/v1/models/")) return NotFound("no such path: ", request.target);
  Target target = TRY(ParseTarget(rest));
  if (target.action == "predict") {
    if (request.method != "POST") return done(WrongMethod("POST")), Status();
    return Predict(target, request, done);
  }
  if (target.action == "classify" || target.action == "regress") {
    return Unimplemented(target.action, ": models of JAX have no tf.Example inputs; use predict");
  }
  if (request.method != "GET") return done(WrongMethod("GET")), Status();
  if (target.action.empty()) {
    std::string body = TRY(TfStatus(target));
    done(JsonResponse(std::move(body)));
  } else if (target.action == "metadata") {
    std::string body = TRY(TfMetadata(target));
    done(JsonResponse(std::move(body)));
  } else {
    return NotFound("no such path: ", request.target);
  }
  return {};
}

Status RestApi::HandleV2(HttpRequest& request, HttpDone& done) const {
  std::string target_text = request.target;
  std::string_view path = target_text;
  path = path.substr(0, path.find('?'));
  if (path.ends_with('/')) path.remove_suffix(1);
  auto probe = [&](bool good) { done({.status = good ? 200 : 503, .body = "{}"}); };
  if (path == "/v2") return done(JsonResponse(ServerMetadata())), Status();
  if (path == "/v2/health/live") return probe(true), Status();
  if (path == "/v2/health/ready") return probe(server_.Ready()), Status();
  if (TRY(Manage(path, request, done))) return {};
  if (!TakePrefix(path, "/v2/models/")) return NotFound("no such path: ", request.target);
  Target target = TRY(ParseTarget(path));
  if (target.action == "infer") {
    if (request.method != "POST") return done(WrongMethod("POST")), Status();
    return Infer(target, request, done);
  }
  if (target.action == "ready") {
    return probe(server_.models().Find(target.model).has_value()), Status();
  }
  if (target.action == "stats" || (target.action.empty() && target.model.name == "stats")) {
    std::string body = TRY(ModelStatistics(target));
    return done(JsonResponse(std::move(body))), Status();
  }
  if (target.action == "config") {
    std::string body = TRY(ModelConfiguration(target));
    return done(JsonResponse(std::move(body))), Status();
  }
  if (!target.action.empty()) return NotFound("no such path: ", request.target);
  std::string body = TRY(ModelMetadata(target));
  return done(JsonResponse(std::move(body))), Status();
}

Status RestApi::Dispatch(HttpRequest& request, HttpDone& done) const {
  // The page itself says nothing: it asks for what it shows, with a token where one is wanted.
  if (request.target == "/" || request.target == "/status") {
    done({.status = 200,
          .body = std::string(StatusPage()),
          .content_type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "connect-src 'self'; img-src data:"},
                      {"Cache-Control", "no-store"}}});
    return {};
  }
  if (gate_ != nullptr && !IsProbe(request.target)) {
    TRY(gate_->Check(request.Header("authorization")));
  }
  if (request.target == "/metrics" || request.target == "/monitoring/prometheus/metrics") {
    done({.status = 200,
          .body = server_.PrometheusText(),
          .content_type = "text/plain; version=0.0.4"});
    return {};
  }
  if (request.target.starts_with("/v1")) return HandleV1(request, done);
  if (request.target.starts_with("/v2")) return HandleV2(request, done);
  return NotFound("no such path: ", request.target);
}

void RestApi::Handle(HttpRequest request, HttpDone done) const {
  if (request.received == 0) request.received = Now();
  std::optional<TraceContext> trace = ParseTraceparent(request.Header("traceparent"));
  AccessLog* log = gate_ != nullptr ? gate_->log() : nullptr;
  if (trace || log != nullptr) {
    AccessEntry entry{"http", request.method, request.target, request.peer};
    entry.request_bytes = request.body.size();
    entry.trace = trace;
    done = [log, entry = std::move(entry), received = request.received,
            done = std::move(done)](HttpResponse response) mutable {
      if (entry.trace)
        response.headers.emplace_back("traceparent", entry.trace->Child().ToString());
      entry.status = response.status;
      entry.response_bytes = response.body.size();
      entry.took = Now() - received;
      if (log != nullptr) log->Write(entry);
      done(std::move(response));
    };
  }
  Status status = Dispatch(request, done);
  if (!status) done(ErrorResponse(status.error()));
}

}  // namespace weft::serve

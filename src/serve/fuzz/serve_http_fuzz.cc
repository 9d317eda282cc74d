// HTTP/1.1 as bytes of a connection: however they are cut into reads the same requests come out,
// and each of them is answered. The first two bytes say where reads end.
#include <cstdlib>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "serve/fuzz/echo_server.h"
#include "serve/http_parser.h"
#include "serve/rest.h"

namespace weft::serve {
namespace {

constexpr int64_t kMaxBody = 4096;

struct Parsed {
  std::vector<HttpRequest> requests;
  HttpParser::State last = HttpParser::State::kNothing;
  int status = 0;
};

// Reads of `first` bytes, then of `step`.
Parsed Parse(std::string_view all, size_t first, size_t step) {
  Parsed parsed;
  auto parser = std::make_unique<HttpParser>(kMaxBody);
  for (size_t at = 0, size = first; at < all.size(); at += size, size = step) {
    size = std::min(size, all.size() - at);
    for (std::string_view bytes = all.substr(at, size); !bytes.empty();) {
      HttpParser::State state = parser->Feed(bytes);
      if (state == HttpParser::State::kWrong) {
        parsed.last = state;
        parsed.status = parser->status();
        return parsed;
      }
      if (state != HttpParser::State::kDone) {
        if (!bytes.empty()) std::abort();  // it waits for more and leaves what is there
        break;
      }
      parsed.requests.push_back(parser->TakeRequest());
      parser = std::make_unique<HttpParser>(kMaxBody);
    }
  }
  parsed.last = parser->state();
  return parsed;
}

bool Same(const Parsed& a, const Parsed& b) {
  if (a.last != b.last || a.status != b.status || a.requests.size() != b.requests.size())
    return false;
  for (size_t i = 0; i < a.requests.size(); ++i) {
    const HttpRequest &x = a.requests[i], &y = b.requests[i];
    if (x.method != y.method || x.target != y.target || x.headers != y.headers || x.body != y.body)
      return false;
  }
  return true;
}

}  // namespace
}  // namespace weft::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft::serve;
  static RestApi* rest = new RestApi(*MakeEchoServer());
  if (size < 2) return 0;
  std::string_view all(reinterpret_cast<const char*>(data) + 2, size - 2);
  Parsed whole = Parse(all, all.size(), 1);
  if (!Same(whole, Parse(all, data[0] + size_t{1}, data[1] % 32 + size_t{1}))) std::abort();
  for (HttpRequest& request : whole.requests) {
    if (request.target.starts_with("/v2/debug/trace")) continue;  // answers when its time is over
    request.received = Now();
    std::promise<void> answered;
    rest->Handle(std::move(request), [&](HttpResponse) { answered.set_value(); });
    answered.get_future().get();
  }
  return 0;
}

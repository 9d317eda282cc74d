// Ways to send a request to a model server: over gRPC, by nghttp2 or by gRPC's own library, or in
// process. And bare servers that answer at once, for what the wire alone costs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "serve/server.h"

namespace weft::serve {

// A model and the shape of its one input, f32.
struct LoadTarget {
  std::string model, input;
  std::vector<int64_t> dims;

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    return count;
  }
};

class Sender {
 public:
  virtual ~Sender() = default;
  // `done` gets the status code, on any thread, maybe before this returns.
  virtual void Send(size_t target, bool high, std::function<void(int)> done) = 0;
};

// A connection of its own. `timeout`: nanoseconds; 0: none. `poll`: so long an answer is looked for
// before its reader sleeps.
std::unique_ptr<Sender> MakeWireSender(const std::string& address,
                                       const std::vector<LoadTarget>& targets, Time timeout,
                                       Time poll);
std::unique_ptr<Sender> MakeLocalSender(Server& server, const std::vector<LoadTarget>& targets,
                                        Time timeout);
// Answers ModelInfer with what came, until standard input ends; the port is printed.
int ServeWireEcho();

#ifdef WEFT_GRPC_CLIENT
std::unique_ptr<Sender> MakeGrpcSender(const std::string& address,
                                       const std::vector<LoadTarget>& targets, Time timeout);
int ServeGrpcEcho();
#endif

}  // namespace weft::serve

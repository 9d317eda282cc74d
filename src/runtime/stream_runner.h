// Programs on Literals where the host does not see the device's memory: arguments are copied there,
// the program is enqueued, results are copied back.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "runtime/device.h"
#include "runtime/literals.h"

namespace weft::runtime {

// A stream and memory for one execution at a time. Device and program stay until it is gone.
class StreamRunner {
 public:
  static Result<StreamRunner> Create(Device& device, const LoadedProgram& program);
  StreamRunner(StreamRunner&&) = default;
  ~StreamRunner();

  // Arguments as LiteralRunner takes them; they are copied when this returns.
  Status Upload(std::span<const Literal> arguments);
  // Once more, in the order of the stream: donated parameters have the uploaded values again.
  // `call`: everything but parameters and results.
  Status Enqueue(Call call);
  // What the last execution gave; waits for it.
  Result<std::vector<Literal>> Download();

  // All three.
  Result<std::vector<Literal>> Run(std::span<const Literal> arguments, const Call& call);
  Stream& stream() { return *stream_; }

 private:
  StreamRunner(const LoadedProgram& program, StreamPtr stream)
      : program_(&program), signature_(program.program()), stream_(std::move(stream)) {}
  Status Allocate(Device& device);

  const LoadedProgram* program_;
  LiteralSignature signature_;
  StreamPtr stream_;
  // Arrays first, then sizes, as in Call. `fresh_`: values of donated parameters, else empty.
  std::vector<Allocation> parameters_, results_, fresh_;
};

}  // namespace weft::runtime

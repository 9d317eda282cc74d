// Library routines on GPUs: what `call "name"` steps enqueue. program/library.h documents names,
// attributes and semantics; the interpreter's versions there are what these are checked against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "gpu/cuda_stream.h"
#include "gpu/libraries/libraries.h"
#include "program/program.h"

namespace weft::gpu {

// One run of a routine. Nothing of it may wait for the device.
struct RoutineCall {
  CudaStream& stream;
  std::span<std::byte* const> memory;  // an address for each use of the step, in order
  std::byte* scratch = nullptr;        // of scratch_bytes(), aligned to 256 bytes
  int64_t device = 0;
};

// A step prepared once (plans, kernels), enqueued many times and from many threads.
class PreparedRoutine {
 public:
  virtual ~PreparedRoutine() = default;
  virtual Status Enqueue(const RoutineCall& call) const = 0;
  virtual int64_t scratch_bytes() const { return 0; }
  // Whether what is enqueued may be part of a graph: known of kernels and of cuBLASLt.
  virtual bool capturable() const { return false; }
};
using PreparedPtr = std::unique_ptr<PreparedRoutine>;

struct RoutineInputs {
  const program::Program& program;
  const program::Step& step;
  CudaCore& core;
  Libraries& libraries;
  const KernelCompiler& compiler;

  const program::LibraryStep& call() const { return std::get<program::LibraryStep>(step.op); }
  DType type(size_t use) const;
  int64_t elements(size_t use) const;
  // The largest power of two, up to 256, that the address of the use is surely a multiple of.
  int64_t alignment(size_t use) const { return alignment(step.uses[use]); }
  int64_t alignment(const program::Use& use) const;
};

// One way to run a routine. `prepare` refuses with UNIMPLEMENTED, NOT_FOUND or UNAVAILABLE what it
// does not take; the next way of the same name is tried then, and at last the host.
struct RoutineWay {
  std::string_view name, way;
  Result<PreparedPtr> (*prepare)(const RoutineInputs& inputs);
};
std::span<const RoutineWay> RoutineWays();

// The first way that takes the step; null: none does, and why is logged.
Result<PreparedPtr> PrepareRoutine(const RoutineInputs& inputs);

// The step with the kernel of the step behind it as one launch (epilogue fusion). The routine's
// memory is the uses of the step, then those of `next`.
struct EpilogueWay {
  std::string_view name, way;
  Result<PreparedPtr> (*prepare)(const RoutineInputs& inputs, const program::Step& next);
};
// Null: no way takes them together, and why is logged.
PreparedPtr PrepareWithEpilogue(const RoutineInputs& inputs, const program::Step& next);

}  // namespace weft::gpu

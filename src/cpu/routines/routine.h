// Library routines of the CPU: what `call "name"` steps run. program/library.h documents the names,
// attributes and semantics; the interpreter's versions there are what these are checked against.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cpu/routines/scratch.h"
#include "program/program.h"

namespace weft::cpu {

// A scalar kernel of the program as a native function: the addresses of its parameters, in order.
using KernelFunction = void (*)(std::byte* const* parameters);

// The rounds [begin, end) of a kernel's grid.
using KernelTask = void (*)(std::byte* const* parameters, int64_t begin, int64_t end);

struct RoutineContext {
  ThreadPool& pool;
  std::span<std::byte* const> memory;  // one address for each use of the step, in order
  ScratchRoom* room = nullptr;

  Means means() const { return {&pool, room}; }
};

// A step prepared once (attributes read, tables made), run many times and from many threads.
class PreparedRoutine {
 public:
  virtual ~PreparedRoutine() = default;
  virtual Status Run(const RoutineContext& context) const = 0;
  // The most scratch memory that a run on so many threads takes.
  virtual int64_t ScratchBytes(int64_t /*threads*/) const { return 0; }
};

struct RoutineInputs {
  const program::Program& program;
  const program::Step& step;
  // The native function of a kernel by its name; null when the program has none of that name.
  std::function<KernelFunction(std::string_view)> kernel;
  // The same for the kernel of an epilogue.
  std::function<KernelTask(std::string_view)> task = {};
};

struct Routine {
  std::string_view name;
  Result<std::unique_ptr<PreparedRoutine>> (*prepare)(const RoutineInputs& inputs);
};
const Routine* FindRoutine(std::string_view name);  // null: not one of the CPU's

}  // namespace weft::cpu

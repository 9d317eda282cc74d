// Where Programs run. A Device has memory and streams, and turns a Program into a LoadedProgram; a
// LoadedProgram is enqueued, or runs at once on memory of the host's, from any number of threads.
// Neither has heard of HLO: what the Program does not say comes in through Call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "program/program.h"
#include "program/target.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace weft::runtime {

class DeviceGroup;  // device_group.h

// One execution. Addresses are in the space that the buffer says, and aligned to 16 bytes where a
// buffer has 64 or more (arguments may be memory of the user's own), else to the element.
struct Call {
  std::span<std::byte* const> parameters;  // by parameter number
  // By result number. A result that lies in a donated parameter is written there: the caller passes
  // a parameter that may be overwritten, and the same address here.
  std::span<std::byte* const> results;
  ThreadPool* pool = nullptr;                 // null: the default one
  int64_t device = 0;                         // number of the one that runs, of the program's
  DeviceGroup* group = nullptr;               // where its devices meet; null: there is only one
  const std::atomic<bool>* cancel = nullptr;  // set: loops end with an error
  uint64_t flow = 0;                          // timelines: from the request to the run
  // Routines that the device does not know (custom calls, callbacks): one span for each use.
  const std::function<Status(const program::Step&, std::span<const std::span<std::byte>>)>* call =
      nullptr;
  // Tools: called before and after each step of the program's list or of a loop that is not one
  // native region, with what it took and one span for each use; the program then runs step by step.
  // Loops and conditionals whose steps are reported are not reported themselves. An error ends the
  // run.
  const std::function<Status(const program::Step&, std::span<const std::span<std::byte>>)>*
      before_step = nullptr;
  const std::function<Status(const program::Step&, double seconds,
                             std::span<const std::span<std::byte>>)>* after_step = nullptr;
  // The steps inside native regions one by one too, which is not how they run otherwise.
  bool inside_regions = false;
};

struct LoadStats {
  int64_t kernels = 0;     // native functions in the program
  int64_t compiled = 0;    // object files made now ...
  int64_t from_cache = 0;  // ... and found in the cache
  int64_t code_bytes = 0;
  double milliseconds = 0;  // of rendering, optimising, code generation and linking
};

// The most that a step takes for itself while it runs.
struct Scratch {
  int64_t bytes = 0;
  const program::Step* step = nullptr;
};

class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  // At once, on this thread, where the host sees the device's memory.
  virtual Status Run(const Call& call) const = 0;
  // In the order of a stream of the device. The call is checked now, and read now but for what it
  // points to other than addresses, which stays until an event behind it is done. What goes wrong
  // later is the stream's error. Some programs have the caller wait for the device on the way.
  virtual Status Enqueue(const Call& call, Stream& stream) const;
  virtual const program::Program& program() const = 0;
  virtual const LoadStats& stats() const = 0;
  virtual int64_t temp_bytes() const = 0;  // taken for the time of a run, scratch included
  virtual Scratch scratch() const { return {}; }
};

// Object files by a key that covers all that they depend on, given the compiler. One that is kept
// for longer than a process must tell compilers apart.
class ObjectCache {
 public:
  virtual ~ObjectCache() = default;
  virtual std::optional<std::string> Find(std::string_view key) = 0;
  virtual void Store(std::string_view key, std::string_view object) = 0;
};

struct LoadOptions {
  ObjectCache* cache = nullptr;
  // Generated code, by name ("k003.ll", "main.s"); for dumps and WEFT_DEBUG=4.
  std::function<void(std::string_view name, std::string_view text)> show;
  // So many modules of code are made, of those to be made; from any thread.
  std::function<void(int64_t done, int64_t of)> progress;
  std::vector<std::string> disabled_passes;  // over LLVM IR (cpu.disable)
  int compile_threads = 0;                   // 0: as many as there are cores
  // Set: no more code is made, and loading ends with an error.
  const std::atomic<bool>* cancel = nullptr;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const program::TargetInfo& target() const = 0;
  virtual std::string description() const { return target().name; }  // "NVIDIA H200"
  virtual Result<std::unique_ptr<LoadedProgram>> Load(program::Program program,
                                                      const LoadOptions& options) = 0;

  // Aligned to kDeviceAlignment; `label` is what errors call it. Usable by that stream at once, by
  // others when they have waited for it. RESOURCE_EXHAUSTED says what is in use, and by whom.
  virtual Result<Allocation> AllocateOn(Stream& stream, int64_t bytes, MemorySpace space,
                                        std::string_view label = {}) = 0;
  virtual MemoryStats memory() const = 0;
  // Host memory that AllocateOn gave as pinned: copies need no way round.
  virtual bool IsPinned(const std::byte*) const { return false; }
  virtual Result<StreamPtr> NewStream(StreamKind kind) = 0;
  // Behind all that another library has enqueued so far on a stream of its own.
  virtual Result<EventPtr> RecordOn(void* native_stream);
  virtual bool host_visible() const = 0;  // the host may read and write device memory
};

}  // namespace weft::runtime

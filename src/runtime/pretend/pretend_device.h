// A GPU that is none: its memory traps the host, its streams are threads that dawdle, its kernels
// are interpreted. What is wrong with the order of work or with who touches what shows on any
// machine. A device that runs nothing only checks and counts, with as much memory as one likes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "program/interpret.h"
#include "runtime/device.h"

namespace weft::runtime {

struct PretendOptions {
  int64_t memory_bytes = int64_t{64} << 20;
  bool runs = true;        // false: nothing is copied, filled or computed; functions are called
  int64_t most_delay = 0;  // microseconds, before any piece of work, at random ...
  uint64_t seed = 0;       // ... by this
  program::TargetInfo target = program::TargetInfo::H200();
  program::InterpretOptions interpret = {};
};

// Work that was done, or would have been.
struct PretendCounts {
  std::atomic<int64_t> programs = 0, steps = 0;  // steps: of the list, without those inside them
  std::atomic<int64_t> copies = 0, copied_bytes = 0, fills = 0, calls = 0, allocations = 0;
};

class PretendDevice : public Device {
 public:
  static Result<std::unique_ptr<PretendDevice>> Create(const PretendOptions& options,
                                                       int64_t number = 0);
  // Several, with memory of their own.
  static Result<std::vector<std::unique_ptr<PretendDevice>>> CreateSeveral(
      int64_t count, const PretendOptions& options);

  const program::TargetInfo& target() const override;
  std::string description() const override;
  Result<std::unique_ptr<LoadedProgram>> Load(program::Program program,
                                              const LoadOptions& options) override;
  Result<Allocation> AllocateOn(Stream& stream, int64_t bytes, MemorySpace space,
                                std::string_view label = {}) override;
  MemoryStats memory() const override;
  Result<StreamPtr> NewStream(StreamKind kind) override;
  bool host_visible() const override { return false; }

  const PretendCounts& counts() const;

 private:
  explicit PretendDevice(std::shared_ptr<class PretendCore> core) : core_(std::move(core)) {}
  std::shared_ptr<class PretendCore> core_;
};

}  // namespace weft::runtime

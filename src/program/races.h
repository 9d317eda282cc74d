// A data race detector: finds iterations of concurrent loops that touch memory which another
// iteration writes, while a kernel is interpreted. It remembers the last writer and the last reader
// of every element, so a race between a write and an earlier reader that was not the last one can
// go unseen.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "program/kernel.h"

namespace weft::program::detail {

class RaceDetector {
 public:
  RaceDetector(const Kernel& kernel, bool enabled)
      : kernel_(kernel), enabled_(enabled), last_(enabled ? kernel.memories.size() : 0) {}

  void BeginLoop(int64_t counter);
  void NextIteration(int64_t counter);
  void EndLoop();
  void NewArray(int32_t memory);
  Status Touch(int32_t memory, int64_t element, bool write);
  // Atomics of one kind may meet.
  Status TouchAtomic(int32_t memory, int64_t element, Op op);

 private:
  // One iteration of one run of a concurrent loop, inside that of the enclosing loop.
  struct Task {
    int32_t parent, depth;
    int64_t run, counter;
  };
  struct Touched {
    int32_t writer = -1, reader = -1, updater = -1;
    Op atomic = Op::kAdd;  // of the updater
  };

  bool Concurrent(int32_t a, int32_t b) const;
  std::unexpected<Error> Race(int32_t memory, int64_t element, bool write) const;

  const Kernel& kernel_;
  bool enabled_;
  int64_t runs_ = 0;
  int32_t current_ = 0;
  std::vector<Task> tasks_ = {{-1, 0, 0, 0}};
  std::vector<std::unordered_map<int64_t, Touched>> last_;
};

}  // namespace weft::program::detail

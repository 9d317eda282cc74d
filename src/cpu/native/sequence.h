// Sequences: straight-line runs of steps as data (what each does, where its memory is), walked by
// C++.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/doing.h"
#include "base/thread_pool.h"
#include "cpu/plan.h"
#include "cpu/render/program.h"

namespace weft::cpu {

struct SequenceStep {
  enum class Kind : uint8_t { kKernel, kCopy, kFill, kCall };
  // An address: a slot of the table, and an offset to what is there.
  struct Argument {
    int32_t slot;
    int64_t offset;
  };

  Kind kind;
  TaskFunction task = nullptr;  // kKernel
  int64_t n = 0;                // iterations of the grid, bytes, or the number of the call
  std::vector<Argument> arguments;
  std::vector<std::byte> pattern;  // kFill
  const program::Step* step = nullptr;
  DoingItem item = {};  // the step
  // Kernels from this one on that share one parallel region, since none needs another's results.
  int64_t together = 1;
};

// Where a step's uses lie.
std::vector<SequenceStep::Argument> ArgumentsOf(const program::Program& program, const Plan& plan,
                                                const program::Step& step);
// Neighbouring kernels that do not depend on each other become one parallel region: threads wake
// and meet once, and those of a small one do not wait for its last piece.
void JoinIndependentKernels(std::vector<SequenceStep>& steps);

// By several threads where it pays.
void CopyMemory(ThreadPool& pool, std::byte* to, const std::byte* from, int64_t bytes);
void FillMemory(std::byte* to, int64_t bytes, std::span<const std::byte> pattern);

}  // namespace weft::cpu

// What a schedule executes: every op in order, loops unrolled, with the ops it waits for and the
// buffers it touches. The trace is what timelines, bounds and peak memory are computed from.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/schedule/costs.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

struct TraceOp {
  const hlo::Instruction* instruction = nullptr;
  OpCost cost;
  std::vector<int32_t> deps;  // earlier ops that made what it reads; of a wait: the start
  int32_t done = -1;          // of an async op: the wait for it, -1 where there is none
};

// Bytes held from one op to another, both included.
struct TraceBuffer {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;
};

struct Trace {
  std::vector<TraceOp> ops;
  std::vector<TraceBuffer> buffers;
  std::vector<std::pair<int32_t, int32_t>> iterations;  // of outermost loops: [begin, end)
  std::vector<std::string> warnings;

  // The most bytes live at once: arguments and results throughout, operands of an async op until
  // its done, in-place results in their operand's memory. No workspaces, no fragmentation.
  int64_t Peak() const;
};

// Executes the schedule of a module, which is the order of its lists. Of a conditional the costlier
// branch runs. Async values may be carried by loops; one that is read without its done is an error.
Result<Trace> Execute(const hlo::Module& module, Costs& costs);

}  // namespace weft::compiler::schedule

// Which temporary buffers of a Program hold something at which step, and when that is most.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace weft::inspect {

// A value in memory of its own, or in the arena; what lies in arguments and results while these
// hold nothing takes no room and is left out.
struct BufferLife {
  program::BufferId buffer = -1;
  int64_t bytes = 0;
  int64_t first = 0, last = 0;           // numbers of steps (program::ForEachStep), inclusive
  const program::Step* maker = nullptr;  // the first that writes it, else that reads it
};
struct MemoryTimeline {
  std::vector<BufferLife> lives;  // by buffer
  int64_t steps = 0;
  int64_t peak = 0, peak_at = 0;  // bytes of temporaries at once, and at which step first
};
// What a loop keeps from round to round lives as long as the loop.
MemoryTimeline TimelineOf(const program::Program& program);

}  // namespace weft::inspect

// The timeline of a trace on one machine. Streams are queues: compute runs in order; an async op is
// enqueued by its start, begins when its turn on its stream comes, and only its done waits for it.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/trace.h"

namespace weft::compiler::schedule {

struct TimedOp {
  double begin = 0, end = 0;
  double exposed = 0;   // time that compute waits while it is on the wire
  int32_t waiter = -1;  // the op that waited longest for it
};

struct Timeline {
  std::vector<TimedOp> ops;  // as the trace has them
  double length = 0;
  double compute = 0, wire = 0, copy = 0;  // busy
  double exposed = 0, exposed_sync = 0;    // waiting for the wire; of it synchronous ops
  double copy_wait = 0;
};

// `rules`: of the costs that the trace was made with.
Timeline Simulate(const Trace& trace, int64_t overlap, const WireRules& rules = {});

// XLA's statistics walk: a transfer begins at its start whatever is under way, its limit counts
// from start to done.
double InFlightWalk(const Trace& trace);

// No order of these ops takes less time.
struct Bounds {
  double compute = 0, wire = 0, copy = 0, critical_path = 0;
  double one_machine_compute = 0, one_machine_wire = 0, one_machine_copy = 0;
  double in_loop = 0;            // with every op kept in its iteration of an outermost loop
  double best = 0;               // the largest but for in_loop
  const char* kind = "compute";  // which one that is
};
Bounds LowerBounds(const Trace& trace, int64_t overlap);

// A job of one machine: not before `head`, and `tail` to follow.
struct MachineJob {
  double head = 0, time = 0, tail = 0;
};
// Jackson's preemptive schedule: no order of the jobs on one machine ends earlier.
double OneMachineBound(std::vector<MachineJob> jobs);

}  // namespace weft::compiler::schedule

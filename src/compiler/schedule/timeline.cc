#include "compiler/schedule/timeline.h"

#include <algorithm>

namespace weft::compiler::schedule {
namespace {

// One stream: its lanes, and what was issued to it.
struct Queue {
  explicit Queue(int64_t lanes) : free(static_cast<size_t>(lanes), 0.0) {}
  std::vector<double> free;  // when each lane is
  std::vector<int32_t> issued;

  double Take(double now, double last_begin, const OpCost& cost, WireGate& gate) {
    auto lane = std::min_element(free.begin(), free.end());
    double begin = gate.Earliest(cost.wire_class, std::max({now, last_begin, *lane}));
    *lane = begin + cost.seconds;
    gate.Take(cost.wire_class, begin + cost.seconds);
    return begin;
  }
};

}  // namespace

Timeline Simulate(const Trace& trace, int64_t overlap, const WireRules& rules) {
  Timeline line;
  line.ops.resize(trace.ops.size());
  Queue wire(overlap), copy(1);
  WireGate gate(rules);
  auto at = [&](int32_t n) -> TimedOp& { return line.ops[static_cast<size_t>(n)]; };
  double now = 0;
  for (size_t n = 0; n < trace.ops.size(); ++n) {
    const OpCost& cost = trace.ops[n].cost;
    TimedOp& op = line.ops[n];
    op.begin = now;
    int32_t target = -1;
    Queue* queue = cost.stream == Stream::kWire ? &wire : &copy;
    if (cost.stream == Stream::kCompute) {
      now += cost.seconds;
      line.compute += cost.seconds;
    } else if (cost.stream == Stream::kWait) {
      target = trace.ops[n].deps[0];
      queue = trace.ops[static_cast<size_t>(target)].cost.stream == Stream::kWire ? &wire : &copy;
    } else {
      (queue == &wire ? line.wire : line.copy) += cost.seconds;
      double last = queue->issued.empty() ? 0 : at(queue->issued.back()).begin;
      op.begin = queue->Take(now, last, cost, gate);
      queue->issued.push_back(static_cast<int32_t>(n));
      if (!cost.is_async) target = static_cast<int32_t>(n);
    }
    op.end = op.begin + cost.seconds;
    if (target < 0 || at(target).end <= now) continue;
    // Blame what is under way, the last issued first.
    double high = at(target).end;
    (queue == &wire ? line.exposed : line.copy_wait) += high - now;
    double end = high;
    for (size_t k = queue->issued.size(); k-- > 0;) {
      TimedOp& other = at(queue->issued[k]);
      if (other.end < high || high <= std::max(now, other.begin)) continue;
      double part = high - std::max(now, other.begin);
      if (part > other.exposed) other.waiter = static_cast<int32_t>(n);
      other.exposed += part;
      high = std::max(now, other.begin);
      if (high <= now) break;
    }
    now = op.end = end;
  }
  line.length = now;
  for (size_t n = 0; n < line.ops.size(); ++n) {
    line.length = std::max(line.length, line.ops[n].end);
    const OpCost& cost = trace.ops[n].cost;
    if (cost.stream == Stream::kWire && !cost.is_async) line.exposed_sync += line.ops[n].exposed;
  }
  return line;
}

double InFlightWalk(const Trace& trace) {
  std::vector<double> end(trace.ops.size(), 0);
  double now = 0;
  for (size_t n = 0; n < trace.ops.size(); ++n) {
    const OpCost& cost = trace.ops[n].cost;
    if (cost.stream == Stream::kWait) {
      now = std::max(now, end[static_cast<size_t>(trace.ops[n].deps[0])]);
    } else if (cost.is_async) {
      end[n] = now + cost.seconds;
    } else {
      now += cost.seconds;
    }
  }
  return now;
}

}  // namespace weft::compiler::schedule

// Lower bounds on the length of a schedule.
#include <algorithm>
#include <queue>
#include <span>

#include "compiler/schedule/timeline.h"

namespace weft::compiler::schedule {
namespace {

struct BoundItem {
  Stream stream = Stream::kCompute;
  double seconds = 0;
  std::vector<int32_t> deps;
};

Bounds BoundsOf(std::span<const BoundItem> items, int64_t overlap) {
  size_t n = items.size();
  std::vector<double> head(n, 0), tail(n, 0);
  Bounds bounds;
  for (size_t i = 0; i < n; ++i) {
    for (int32_t d : items[i].deps) {
      auto k = static_cast<size_t>(d);
      head[i] = std::max(head[i], head[k] + items[k].seconds);
    }
    bounds.critical_path = std::max(bounds.critical_path, head[i] + items[i].seconds);
  }
  for (size_t i = n; i-- > 0;) {
    for (int32_t d : items[i].deps) {
      auto k = static_cast<size_t>(d);
      tail[k] = std::max(tail[k], items[i].seconds + tail[i]);
    }
  }
  auto one = [&](Stream stream, int64_t lanes, double& sum, double& machine) {
    std::vector<MachineJob> jobs;
    for (size_t i = 0; i < n; ++i) {
      if (items[i].stream != stream) continue;
      sum += items[i].seconds;
      jobs.push_back({head[i], items[i].seconds, tail[i]});
    }
    sum /= static_cast<double>(lanes);
    if (lanes == 1) machine = OneMachineBound(std::move(jobs));
  };
  one(Stream::kCompute, 1, bounds.compute, bounds.one_machine_compute);
  one(Stream::kWire, overlap, bounds.wire, bounds.one_machine_wire);
  one(Stream::kCopy, 1, bounds.copy, bounds.one_machine_copy);
  auto take = [&](double value, const char* kind) {
    if (value > bounds.best * (1 + 1e-12)) bounds.best = value, bounds.kind = kind;
  };
  take(bounds.compute, "compute");
  take(bounds.wire, "wire");
  take(bounds.copy, "copy");
  take(bounds.critical_path, "critical path");
  take(bounds.one_machine_compute, "one machine: compute");
  take(bounds.one_machine_wire, "one machine: wire");
  take(bounds.one_machine_copy, "one machine: copy");
  return bounds;
}

}  // namespace

double OneMachineBound(std::vector<MachineJob> jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const MachineJob& a, const MachineJob& b) {
    return a.head != b.head ? a.head < b.head : a.tail > b.tail;
  });
  auto later = [](const MachineJob& a, const MachineJob& b) { return a.tail < b.tail; };
  std::priority_queue<MachineJob, std::vector<MachineJob>, decltype(later)> ready(later);
  double now = 0, best = 0;
  for (size_t next = 0; next < jobs.size() || !ready.empty();) {
    if (ready.empty()) now = std::max(now, jobs[next].head);
    while (next < jobs.size() && jobs[next].head <= now) ready.push(jobs[next++]);
    MachineJob job = ready.top();
    ready.pop();
    double run = job.time;
    if (next < jobs.size()) run = std::min(run, jobs[next].head - now);
    now += run;
    job.time -= run;
    if (job.time <= 1e-15) {
      best = std::max(best, now + job.tail);
    } else {
      ready.push(job);
    }
  }
  return best;
}

Bounds LowerBounds(const Trace& trace, int64_t overlap) {
  std::vector<BoundItem> items;
  double compute = 0;
  for (const TraceOp& op : trace.ops) {
    items.push_back({op.cost.stream, op.cost.seconds, op.deps});
    if (op.cost.stream == Stream::kCompute) compute += op.cost.seconds;
  }
  Bounds bounds = BoundsOf(items, overlap);
  // Each iteration holds the compute stream for its own bound.
  for (auto [begin, end] : trace.iterations) {
    std::vector<BoundItem> part;
    for (int32_t n = begin; n < end; ++n) {
      const TraceOp& op = trace.ops[static_cast<size_t>(n)];
      bool inside = op.cost.stream == Stream::kCompute || !op.cost.is_async ||
                    (op.done >= begin && op.done < end);
      BoundItem item{op.cost.stream, inside ? op.cost.seconds : 0, {}};
      for (int32_t d : op.deps) {
        if (d >= begin) item.deps.push_back(d - begin);
      }
      part.push_back(std::move(item));
    }
    Bounds of_part = BoundsOf(part, overlap);
    compute += of_part.best - of_part.compute;
  }
  bounds.in_loop = std::max(bounds.best, compute);
  return bounds;
}

}  // namespace weft::compiler::schedule

// One computation as a scheduling problem: jobs on streams, what has to come before what, and the
// buffers that they make and read. Free instructions (tuples, their elements, bitcasts) are no
// jobs: dependences go through them.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/schedule/costs.h"
#include "compiler/schedule/wire_rules.h"
#include "hlo/module.h"

namespace weft::compiler::schedule {

struct Job {
  hlo::Instruction* op = nullptr;    // of an async pair: the start
  hlo::Instruction* done = nullptr;  // of an async pair that ends in this computation
  Stream stream = Stream::kCompute;
  bool is_async = false;
  double seconds = 0;
  int32_t wire_class = -1;   // where the machine has rules for transfers
  int64_t wires_inside = 0;  // of control flow and groups: collectives in flight at once
  std::vector<hlo::Instruction*> group;  // a scheduling group, as it is placed; else empty
  std::vector<double> transfers;         // of a group: those on the wire, as it issues them
  double beside = 0;                     // of such a group: compute beside them
  std::vector<int32_t> preds, succs;     // each once, ascending
  std::vector<int32_t> reads, makes;     // buffers, each once
};

// What decides which of two orders is the better one.
enum class Metric : uint8_t {
  kQueues,    // streams are queues; a limit counts what is on the wire
  kInFlight,  // XLA's walk: a transfer begins at its start; a limit counts from start to done
};

struct Problem {
  std::vector<Job> jobs;         // in the order of the list, which is a topological one
  std::vector<int64_t> bytes;    // of buffers; 0 for what is there throughout
  std::vector<int32_t> readers;  // of buffers: jobs that read it, one more when it is kept
  // Of buffers: the numbers of what `readers` counts, xor-ed; kKept for what keeps it. When one is
  // left, this is who.
  std::vector<int32_t> reader_set;
  static constexpr int32_t kKept = 0x7fffffff;
  std::vector<double> tail;  // by job: the longest path from its end
  int64_t overlap = 1;
  WireRules rules;
  Metric metric = Metric::kQueues;

  size_t size() const { return jobs.size(); }
  // Lanes of the wire are not all that limits transfers: branch and bound does not know of the
  // rest.
  bool HasMoreRules() const;
  void FindTails();
};

// Seconds that the computations inside of control flow take; filled in callees first.
using Lengths = std::unordered_map<const hlo::Computation*, double>;

Problem MakeProblem(hlo::Computation& computation, Costs& costs, const Lengths& lengths);

// Members of a scheduling group become one job, and hints (`scheduler_hint`: force_early,
// force_delay, force_delay_async; `scheduler_delay_priority`) become precedence. True: there were
// some. Groups are legal (groups.h).
bool ContractGroups(Problem& problem);

// Whether an instruction has an effect that keeps its place among others: not so collectives, which
// are functions of their groups.
bool HasOrderedEffect(const hlo::Instruction& i);

// An order of jobs as it would run. A step costs what the job's edges do, and the logarithm of how
// many transfers are in flight.
class Walker {
 public:
  // When each lane is free, and when the last transfer began.
  struct Streams {
    double now = 0, last_wire = 0, last_copy = 0;
    std::vector<double> wire, copy;
  };

  // `follows_ready`: what became ready, and how much memory jobs would let go, is kept up to date.
  explicit Walker(const Problem& problem, bool follows_ready = false);
  Streams streams() const { return {now_, last_wire_, last_copy_, wire_, copy_}; }
  void Place(int32_t job);
  // Dones that nothing waited for.
  void Finish();

  bool IsPlaced(int32_t job) const { return end_[static_cast<size_t>(job)] >= 0; }
  double now() const { return now_; }
  double end(int32_t job) const { return end_[static_cast<size_t>(job)]; }
  double length() const { return length_; }
  double FreeWire() const;              // when a lane of the wire is free
  double ReadyTime(int32_t job) const;  // when what it waits for has arrived
  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  int64_t Increase(int32_t job) const;  // bytes that it takes
  // Bytes that go when it is done; follows_ready.
  int64_t Release(int32_t job) const { return release_[static_cast<size_t>(job)]; }
  // Since the last Place: jobs whose last predecessor was placed, and jobs that let go of more.
  const std::vector<int32_t>& fresh() const { return fresh_; }
  const std::vector<int32_t>& released() const { return released_; }
  // Jobs as placed; ~job stands for its done.
  const std::vector<int32_t>& events() const { return events_; }
  double SlotTime(int32_t job) const;  // when it may begin without holding up compute

 private:
  using Heap = std::priority_queue<std::pair<double, int32_t>,
                                   std::vector<std::pair<double, int32_t>>, std::greater<>>;
  double PlaceGroup(const Job& job);
  void Close(int32_t job);
  void CloseFinished();
  void MakeRoom(int64_t needed);
  void Free(int32_t number);
  void NoteRelease(int32_t buffer);

  const Problem& problem_;
  const bool follows_ready_;
  double now_ = 0, length_ = 0;
  std::vector<double> wire_, copy_;  // when each lane is free
  WireGate gate_;
  double last_wire_ = 0, last_copy_ = 0;
  std::vector<double> end_;
  std::vector<int32_t> waiting_, left_, left_set_, fresh_, released_, events_;
  std::vector<int64_t> release_;
  std::vector<uint8_t> is_open_;
  Heap open_,
      open_wires_;      // by when they may be closed; by end. Those closed stay in it for a while
  int64_t flying_ = 0;  // open wires
  int64_t live_ = 0, peak_ = 0;
};

// A done that nothing waits for is put where its transfer has ended even if the link is slower than
// the model says by this part of it.
inline constexpr double kDoneSlack = 0.3;

struct Evaluation {
  double length = 0;
  int64_t peak = 0;
};
Evaluation Evaluate(const Problem& problem, const std::vector<int32_t>& order);

// The largest of the lower bounds.
double LowerBound(const Problem& problem);

}  // namespace weft::compiler::schedule

#include "compiler/schedule/problem.h"

#include <algorithm>

#include "compiler/analysis/in_place.h"
#include "compiler/schedule/resources.h"
#include "compiler/schedule/timeline.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

class ProblemBuilder {
 public:
  ProblemBuilder(Computation& c, Costs& costs, const Lengths& lengths)
      : computation_(c), costs_(costs), lengths_(lengths) {}

  Problem Run() {
    for (Instruction* i : computation_) Add(*i);
    for (int32_t v : known_[computation_.root()].leaves) kept_[static_cast<size_t>(v)] = true;
    ShareBuffers();
    Link();
    problem_.overlap = costs_.machine().overlap;
    problem_.rules = costs_.rules();
    problem_.FindTails();
    ContractGroups(problem_);
    return std::move(problem_);
  }

 private:
  struct Known {
    std::vector<int32_t> jobs;    // that must have ended
    std::vector<int32_t> leaves;  // values
  };

  int32_t NewValue(const Shape& shape, bool is_held) {
    buffer_.push_back(static_cast<int32_t>(problem_.bytes.size()));
    problem_.bytes.push_back(is_held || !shape.IsArray() ? 0 : shape.ByteSize());
    value_readers_.emplace_back();
    kept_.push_back(false);
    return static_cast<int32_t>(buffer_.size()) - 1;
  }
  void NewLeaves(const Shape& shape, bool is_held, std::vector<int32_t>& leaves) {
    ForEachLeaf(shape, [&](const Shape& s) { leaves.push_back(NewValue(s, is_held)); });
  }
  static void Append(std::vector<int32_t>& to, const std::vector<int32_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  static void SortUnique(std::vector<int32_t>& set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
  }
  static void Merge(std::vector<int32_t>& to, const std::vector<int32_t>& from) {
    Append(to, from);
    SortUnique(to);
  }

  void Add(Instruction& i) {
    Known known;
    for (const Instruction* operand : i.operands()) Append(known.jobs, known_[operand].jobs);
    for (const Instruction* before : i.control_predecessors()) {
      Append(known.jobs, known_[before].jobs);
    }
    SortUnique(known.jobs);
    if (HasTrait(i.op(), hlo::kAsyncDone) && EndsPair(i, known)) return;
    if (i.op() == Op::kTuple) {
      for (const Instruction* operand : i.operands()) {
        const auto& leaves = known_[operand].leaves;
        known.leaves.insert(known.leaves.end(), leaves.begin(), leaves.end());
      }
    } else if (i.op() == Op::kGetTupleElement) {
      known.leaves = ForwardedLeaves(
          i, [&](const Instruction& x) -> const auto& { return known_[&x].leaves; });
    } else if (costs_.Forwards(i)) {
      known.leaves = known_[i.operand(0)].leaves;
    } else if (IsFree(i)) {
      NewLeaves(i.shape(), true, known.leaves);
    } else {
      AddJob(i, known);
    }
    known_[&i] = std::move(known);
  }

  bool EndsPair(Instruction& done, Known& known) {
    const Instruction* start = done.operand(0);
    while (start->op() == Op::kAsyncUpdate) start = start->operand(0);
    auto it = job_of_.find(start);
    if (it == job_of_.end()) return false;
    Job& job = problem_.jobs[static_cast<size_t>(it->second)];
    job.done = &done;
    Merge(known.jobs, {it->second});
    known.leaves = results_[it->second];
    known_[&done] = std::move(known);
    return true;
  }

  double InsideOf(const Instruction& i) const {
    double most = 0;
    for (const Computation* c : i.called_computations()) {
      auto it = lengths_.find(c);
      if (it != lengths_.end()) most = std::max(most, it->second);
    }
    if (i.op() == Op::kWhile) most *= static_cast<double>(std::max<int64_t>(KnownTripCount(i), 1));
    return most;
  }

  void AddJob(Instruction& i, Known& known) {
    auto number = static_cast<int32_t>(problem_.jobs.size());
    Job job;
    job.op = &i;
    bool is_control = i.op() == Op::kWhile || i.op() == Op::kConditional || i.op() == Op::kCall;
    if (is_control) {
      job.seconds = InsideOf(i);
      job.wires_inside = use_.Inside(i)[static_cast<size_t>(Resource::kWire)];
    } else if (!HasTrait(i.op(), hlo::kAsyncDone)) {
      OpCost cost = costs_.Of(i);
      job.stream = cost.stream;
      job.is_async = cost.is_async;
      job.seconds = cost.seconds;
      job.wire_class = cost.wire_class;
    }
    if (HasOrderedEffect(i)) {
      if (last_effect_ >= 0) Merge(known.jobs, {last_effect_});
      last_effect_ = number;
    }
    job.preds = std::move(known.jobs);
    std::vector<int32_t> read;
    for (const Instruction* operand : i.operands()) Append(read, known_[operand].leaves);
    SortUnique(read);
    for (int32_t v : read) value_readers_[static_cast<size_t>(v)].push_back(number);
    NewLeaves(ResultOfStart(i), false, known.leaves);
    made_.push_back(known.leaves);
    read_.push_back(std::move(read));
    if (HasTrait(i.op(), hlo::kAsyncStart)) {
      results_[number] = known.leaves;
      job_of_[&i] = number;
    }
    if (!is_control) FindUpdates(i, number, known);
    known.jobs = {number};
    problem_.jobs.push_back(std::move(job));
  }

  void FindUpdates(const Instruction& i, int32_t number, const Known& known) {
    for (const AliasedResult& a : costs_.InPlace(i)) {
      if (a.operand >= i.operand_count()) continue;
      const std::vector<int32_t>& from = known_[i.operand(a.operand)].leaves;
      auto k = static_cast<size_t>(std::max<int64_t>(a.result, 0));
      if (from.size() != 1 || k >= known.leaves.size()) continue;
      updates_.push_back({number, from[0], known.leaves[k]});
    }
  }

  // An update lies in its operand's buffer when everything else that reads that value may run
  // before it; an edge keeps it so.
  void ShareBuffers() {
    for (const Update& u : updates_) {
      auto from = static_cast<size_t>(u.from), to = static_cast<size_t>(u.to);
      const std::vector<int32_t>& readers = value_readers_[from];
      bool last = !kept_[from] && readers.back() == u.job;
      if (!last) continue;
      problem_.bytes[static_cast<size_t>(buffer_[to])] = 0;
      buffer_[to] = buffer_[from];
      Merge(problem_.jobs[static_cast<size_t>(u.job)].preds, readers);
      auto& preds = problem_.jobs[static_cast<size_t>(u.job)].preds;
      preds.erase(std::remove(preds.begin(), preds.end(), u.job), preds.end());
    }
  }

  void Link() {
    problem_.readers.assign(problem_.bytes.size(), 0);
    problem_.reader_set.assign(problem_.bytes.size(), 0);
    auto reads = [&](int32_t buffer, int32_t reader) {
      ++problem_.readers[static_cast<size_t>(buffer)];
      problem_.reader_set[static_cast<size_t>(buffer)] ^= reader;
    };
    auto buffers = [&](const std::vector<int32_t>& values) {
      std::vector<int32_t> found;
      for (int32_t v : values) {
        int32_t b = buffer_[static_cast<size_t>(v)];
        if (problem_.bytes[static_cast<size_t>(b)] > 0) found.push_back(b);
      }
      std::sort(found.begin(), found.end());
      found.erase(std::unique(found.begin(), found.end()), found.end());
      return found;
    };
    for (size_t n = 0; n < problem_.jobs.size(); ++n) {
      Job& job = problem_.jobs[n];
      job.reads = buffers(read_[n]);
      for (int32_t b : buffers(made_[n])) {
        // In place: the buffer is there already.
        if (!std::binary_search(job.reads.begin(), job.reads.end(), b)) job.makes.push_back(b);
      }
      for (int32_t b : job.reads) reads(b, static_cast<int32_t>(n));
      for (int32_t p : job.preds) {
        problem_.jobs[static_cast<size_t>(p)].succs.push_back(static_cast<int32_t>(n));
      }
    }
    std::vector<uint8_t> is_kept(problem_.bytes.size(), 0);
    for (size_t v = 0; v < kept_.size(); ++v) {
      if (kept_[v]) is_kept[static_cast<size_t>(buffer_[v])] = 1;
    }
    for (size_t b = 0; b < is_kept.size(); ++b) {
      if (is_kept[b]) reads(static_cast<int32_t>(b), Problem::kKept);
    }
  }

  struct Update {
    int32_t job, from, to;
  };
  Computation& computation_;
  Costs& costs_;
  const Lengths& lengths_;
  ResourceUse use_;
  Problem problem_;
  std::unordered_map<const Instruction*, Known> known_;
  std::unordered_map<const Instruction*, int32_t> job_of_;         // starts
  std::unordered_map<int32_t, std::vector<int32_t>> results_;      // of starts
  std::vector<int32_t> buffer_;                                    // of values
  std::vector<std::vector<int32_t>> value_readers_, made_, read_;  // by value; by job
  std::vector<bool> kept_;
  std::vector<Update> updates_;
  int32_t last_effect_ = -1;
};

}  // namespace

bool HasOrderedEffect(const Instruction& i) {
  if (i.op() == Op::kCustomCall) return i.attrs<hlo::CustomCallAttrs>().custom_call_has_side_effect;
  bool is_transfer = i.op() == Op::kSend || i.op() == Op::kRecv || i.op() == Op::kSendDone ||
                     i.op() == Op::kRecvDone;
  if (is_transfer) return true;
  if (HasSideEffect(i.op()) && !IsCollective(i.op()) &&
      !HasTrait(i.op(), hlo::kAsyncStart | hlo::kAsyncDone)) {
    return i.op() != Op::kAsyncUpdate;
  }
  if (HasTrait(i.op(), hlo::kAsyncDone)) return false;
  for (const Computation* c : i.called_computations()) {
    for (const Instruction* inside : *c) {
      if (HasOrderedEffect(*inside)) return true;
    }
  }
  return false;
}

Problem MakeProblem(Computation& computation, Costs& costs, const Lengths& lengths) {
  return ProblemBuilder(computation, costs, lengths).Run();
}

bool Problem::HasMoreRules() const {
  return !rules.empty() || std::any_of(jobs.begin(), jobs.end(), [&](const Job& j) {
    return !j.transfers.empty() || (metric == Metric::kInFlight && j.wires_inside > 0);
  });
}

void Problem::FindTails() {
  tail.assign(jobs.size(), 0);
  for (size_t n = jobs.size(); n-- > 0;) {
    for (int32_t s : jobs[n].succs) {
      auto k = static_cast<size_t>(s);
      tail[n] = std::max(tail[n], jobs[k].seconds + tail[k]);
    }
  }
}

double LowerBound(const Problem& p) {
  std::vector<double> head(p.size(), 0);
  double best = 0;
  for (size_t n = 0; n < p.size(); ++n) {
    for (int32_t d : p.jobs[n].preds) {
      auto k = static_cast<size_t>(d);
      head[n] = std::max(head[n], head[k] + p.jobs[k].seconds);
    }
    best = std::max(best, head[n] + p.jobs[n].seconds + p.tail[n]);
  }
  for (Stream stream : {Stream::kCompute, Stream::kWire, Stream::kCopy}) {
    std::vector<MachineJob> jobs;
    double sum = 0;
    for (size_t n = 0; n < p.size(); ++n) {
      if (p.jobs[n].stream != stream) continue;
      jobs.push_back({head[n], p.jobs[n].seconds, p.tail[n]});
      sum += p.jobs[n].seconds;
    }
    int64_t lanes = stream == Stream::kWire ? p.overlap : 1;
    if (p.metric == Metric::kInFlight && stream == Stream::kCopy) continue;
    best = std::max(best, sum / static_cast<double>(lanes));
    if (lanes == 1) best = std::max(best, OneMachineBound(std::move(jobs)));
  }
  return best;
}

}  // namespace weft::compiler::schedule

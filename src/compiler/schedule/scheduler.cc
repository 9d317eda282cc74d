#include "compiler/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "compiler/schedule/prepare.h"
#include "compiler/schedule/trace.h"
#include "compiler/schedule/verify_schedule.h"
#include "hlo/verify.h"

namespace weft::compiler::schedule {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

std::vector<Computation*> RunOrder(hlo::Module& module) {
  std::vector<uint8_t> runs(static_cast<size_t>(module.id_limit()), 0);
  runs[static_cast<size_t>(module.entry()->id())] = 1;
  for (const auto& c : module.computations()) {
    for (const Instruction* i : *c) {
      if (i->op() != Op::kWhile && i->op() != Op::kConditional && i->op() != Op::kCall) continue;
      for (const Computation* called : i->called_computations()) {
        runs[static_cast<size_t>(called->id())] = 1;
      }
    }
  }
  std::vector<Computation*> found;
  for (const auto& c : module.computations()) {
    if (runs[static_cast<size_t>(c->id())]) found.push_back(c.get());
  }
  return found;
}

namespace {

// Writes the order into the list. Free instructions come right before what first needs them.
class Emitter {
 public:
  explicit Emitter(Computation& c) : computation_(c), ids_(c.module()->id_limit(), 0) {
    for (Instruction* i : c) {
      if (i->IsParameter()) Emit(i);
    }
  }

  void Emit(Instruction* i) {
    if (IsEmitted(i)) return;
    work_.push_back(i);
    while (!work_.empty()) {
      Instruction* at = work_.back();
      size_t before = work_.size();
      for (Instruction* operand : at->operands()) {
        if (!IsEmitted(operand)) work_.push_back(operand);
      }
      for (Instruction* p : at->control_predecessors()) {
        if (!IsEmitted(p)) work_.push_back(p);
      }
      if (work_.size() != before) continue;
      work_.pop_back();
      if (!IsEmitted(at)) {
        ids_[static_cast<size_t>(at->id())] = 1;
        order_.push_back(at);
      }
    }
  }

  void Finish() {
    for (Instruction* i : computation_.Snapshot()) Emit(i);
    for (Instruction* i : order_) computation_.MoveBefore(i, nullptr);
  }

 private:
  bool IsEmitted(const Instruction* i) const { return ids_[static_cast<size_t>(i->id())]; }
  Computation& computation_;
  std::vector<uint8_t> ids_;
  std::vector<Instruction*> work_, order_;
};

}  // namespace

void WriteOrder(Computation& c, const Problem& problem, const Order& order) {
  Walker walker(problem);
  for (int32_t job : order.jobs) walker.Place(job);
  walker.Finish();
  Emitter emitter(c);
  for (int32_t event : walker.events()) {
    const Job& job = problem.jobs[static_cast<size_t>(event < 0 ? ~event : event)];
    if (event >= 0 && !job.group.empty()) {
      for (Instruction* member : job.group) emitter.Emit(member);
    } else if (event >= 0) {
      emitter.Emit(job.op);
    } else if (job.done != nullptr) {
      emitter.Emit(job.done);
    }
  }
  emitter.Finish();
}

namespace {

// Arguments and constants, which the model holds throughout; what is left of the limit is for the
// jobs.
int64_t HeldBytes(const Computation& c) {
  int64_t bytes = 0;
  for (const Instruction* i : c) {
    if (i->IsParameter() || i->IsConstant()) bytes += i->shape().ByteSize();
  }
  return bytes;
}

void ExplainConfiguration(const Computation& c, const Problem& p, const SchedulerOptions& o,
                          const Machine& m, const Order& best) {
  VLOG("schedule", 1) << c.name() << ": " << p.size() << " jobs, " << best.value.length * 1e3
                      << " ms by " << best.rule << ", bound " << LowerBound(p) * 1e3 << " ms"
                      << (best.is_optimal ? ", optimal" : "");
  VLOG("schedule", 2) << "target " << m.name << ", overlap " << m.overlap << ", memory limit "
                      << o.memory_limit << ", metric "
                      << (o.metric == Metric::kQueues ? "queues" : "in flight") << ", unroll "
                      << o.unroll;
}

// The choices of the first rule set, told again for whoever asks.
void ExplainChoices(const Problem& p, const SchedulerOptions& o) {
  if (!weft::detail::LogIsOn("schedule", 2)) return;
  ListRules rules;
  rules.name = "critical path";
  rules.priority = p.tail;
  rules.need.assign(p.size(), 0);
  rules.memory_limit = o.search.memory_limit;
  rules.explain = true;
  ListSchedule(p, rules);
}

// Orders every computation that runs, callees first, each within `room` bytes (0: as it likes).
std::vector<ScheduledComputation> OrderAll(hlo::Module& module, Costs& costs,
                                           const Machine& machine, const SchedulerOptions& options,
                                           int64_t room) {
  Lengths lengths;
  std::vector<ScheduledComputation> done;
  for (Computation* c : RunOrder(module)) {
    Problem problem = MakeProblem(*c, costs, lengths);
    problem.metric = options.metric;
    SchedulerOptions own = options;
    own.memory_limit = room;
    if (room > 0) own.search.memory_limit = std::max<int64_t>(room - HeldBytes(*c), 1);
    Order best = FindOrder(problem, own.search);
    ExplainConfiguration(*c, problem, own, machine, best);
    ExplainChoices(problem, own);
    WriteOrder(*c, problem, best);
    lengths[c] = best.value.length;
    done.push_back({c->name(), best.rule, static_cast<int64_t>(problem.size()), best.value.length,
                    LowerBound(problem), best.is_optimal});
  }
  return done;
}

// The lists of a module's computations, to go back to.
class KeptOrder {
 public:
  explicit KeptOrder(hlo::Module& module) {
    for (Computation* c : RunOrder(module)) lists_.emplace_back(c, c->Snapshot());
  }
  void Restore() const {
    for (const auto& [c, list] : lists_) {
      for (Instruction* i : list) c->MoveBefore(i, nullptr);
    }
  }

 private:
  std::vector<std::pair<Computation*, std::vector<Instruction*>>> lists_;
};

// A computation keeps to the limit by itself, and does not see what a loop's body holds besides the
// loop's state, nor the body what its caller holds. Where the whole program takes more than it may,
// all of them are ordered again with as much less room, as long as that helps.
Result<std::vector<ScheduledComputation>> OrderWithinLimit(hlo::Module& module, Costs& costs,
                                                           const Machine& machine,
                                                           const SchedulerOptions& options) {
  const int64_t limit = options.memory_limit;
  KeptOrder before(module);
  std::vector<ScheduledComputation> best = OrderAll(module, costs, machine, options, limit);
  if (limit == 0) return best;
  int64_t peak = TRY(Execute(module, costs)).Peak();
  for (int64_t room = limit - (peak - limit); peak > limit && room > 0;) {
    KeptOrder kept(module);
    before.Restore();
    std::vector<ScheduledComputation> done = OrderAll(module, costs, machine, options, room);
    int64_t less = TRY(Execute(module, costs)).Peak();
    VLOG("schedule", 1) << "memory limit " << limit << ": " << peak << " bytes, with room for "
                        << room << " in each computation " << less;
    if (less >= peak) {
      kept.Restore();
      break;
    }
    best = std::move(done);
    peak = less;
    room -= peak - limit;
  }
  return best;
}

}  // namespace

Result<std::vector<ScheduledComputation>> ScheduleModule(hlo::Module& module,
                                                         const Machine& machine,
                                                         const Profile* profile,
                                                         const SchedulerOptions& options) {
  TRY(WriteOutGroups(module));
  TRY(RenameReshapes(module));
  TRY(SplitTuples(module));
  if (options.unroll > 0) {
    TRY(UnrollLoops(module, options.unroll));
    TRY(SplitTuples(module));
  }
  TRY(MakeAsync(module, options.keep_sync));
  TRY(LegalizeGroups(module, options.groups));
  Costs costs(module, machine, profile);
  std::vector<ScheduledComputation> done = TRY(OrderWithinLimit(module, costs, machine, options));
  module.config().is_scheduled = true;
  TRY(VerifySchedules(module));
  TRY(hlo::Verify(module));
  return done;
}

}  // namespace weft::compiler::schedule

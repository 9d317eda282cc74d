#include "compiler/schedule/verify_schedule.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "hlo/call_graph.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

class ScheduleVerifier {
 public:
  ScheduleVerifier(const Computation& c, std::span<const Instruction* const> order,
                   const ScheduleRules& rules)
      : computation_(c), order_(order), rules_(rules) {}

  Status Run() {
    TRY(CheckComplete());
    TRY(CheckPrecedence());
    TRY(CheckPairs());
    TRY(CheckLimits());
    return CheckBuffers();
  }

 private:
  template <class... Args>
  std::unexpected<Error> Fail(const Instruction& i, const Args&... args) const {
    auto error =
        InvalidArgument("schedule: ", i.name(), " of ", computation_.name(), ": ", args...);
    error.error().Source(i.SourceLocation());
    return error;
  }
  int64_t At(const Instruction* i) const { return position_.at(i); }

  Status CheckComplete() {
    for (const Instruction* i : order_) {
      if (i->parent() != &computation_) return Fail(*i, "is of another computation");
      if (!position_.emplace(i, static_cast<int64_t>(position_.size())).second) {
        return Fail(*i, "is scheduled twice");
      }
    }
    for (const Instruction* i : computation_) {
      if (!position_.contains(i)) return Fail(*i, "is not scheduled");
    }
    return {};
  }

  Status CheckPrecedence() const {
    for (const Instruction* i : order_) {
      for (const Instruction* operand : i->operands()) {
        if (At(operand) >= At(i)) return Fail(*i, "runs before its operand ", operand->name());
      }
      for (const Instruction* before : i->control_predecessors()) {
        if (At(before) >= At(i)) {
          return Fail(*i, "runs before its control predecessor ", before->name());
        }
      }
    }
    return {};
  }

  // The done of a start, behind updates; null: it is carried out of the computation.
  const Instruction* DoneOf(const Instruction* start) const {
    for (const Instruction* user : start->users()) {
      if (HasTrait(user->op(), hlo::kAsyncDone)) return user;
      if (user->op() == Op::kAsyncUpdate) return DoneOf(user);
    }
    return nullptr;
  }

  Status CheckPairs() {
    done_.resize(order_.size(), -1);
    for (const Instruction* i : order_) {
      if (!HasTrait(i->op(), hlo::kAsyncStart)) continue;
      int dones = 0;
      bool is_carried = i->IsRoot();
      for (const Instruction* user : i->users()) {
        bool is_done = HasTrait(user->op(), hlo::kAsyncDone);
        dones += is_done || user->op() == Op::kAsyncUpdate;
        bool carries = user->op() == Op::kTuple || user->op() == Op::kGetTupleElement ||
                       user->op() == Op::kWhile || user->op() == Op::kOptBarrier;
        is_carried |= carries;
        if (!is_done && user->op() != Op::kAsyncUpdate && !carries) {
          return Fail(*user, "reads ", i->name(), ", which is in flight");
        }
      }
      if (dones > 1) return Fail(*i, "has ", dones, " dones");
      if (dones == 0 && !is_carried) return Fail(*i, "has no done");
      if (const Instruction* done = DoneOf(i)) {
        if (At(done) <= At(i)) return Fail(*done, "waits before its start ", i->name());
        done_[static_cast<size_t>(At(i))] = At(done);
      }
    }
    return {};
  }

  bool IsLimited() const {
    return rules_.in_flight > 0 || std::any_of(rules_.limits.most.begin(), rules_.limits.most.end(),
                                               [](int64_t most) { return most >= 0; });
  }

  Status CheckCounts(const Instruction& i, const ResourceCounts& counts) const {
    for (size_t k = 0; k < kResources; ++k) {
      int64_t most = rules_.limits.most[k];
      if (most >= 0 && counts[k] > most) {
        return Fail(i, counts[k], " of ", ResourceName(static_cast<Resource>(k)),
                    " are in flight at once: the limit is ", most);
      }
    }
    int64_t wires = counts[static_cast<size_t>(Resource::kWire)];
    if (rules_.in_flight > 0 && wires > rules_.in_flight) {
      return Fail(i, "is in flight with ", wires - 1, " others: the limit is ", rules_.in_flight);
    }
    return {};
  }

  // What is between start and done at each place, with what loops and branches have there inside.
  Status CheckLimits() const {
    Status status;
    if (!IsLimited()) return status;
    ResourceUse().Walk(order_, [&](const Instruction& i, const ResourceCounts& counts) {
      if (status) status = CheckCounts(i, counts);
    });
    return status;
  }

  // The array behind names.
  static const Instruction* Source(const Instruction* i) {
    while (true) {
      if (i->op() == Op::kBitcast || i->op() == Op::kOptBarrier || i->op() == Op::kDomain) {
        i = i->operand(0);
      } else if (i->op() == Op::kGetTupleElement && i->operand(0)->op() == Op::kTuple) {
        i = i->operand(0)->operand(i->tuple_index());
      } else {
        return i;
      }
    }
  }

  // What an instruction must overwrite: its aliasing attribute says so. An update without one is
  // copied where it has to be, but never while its operand is in flight.
  static bool MustOverwrite(const Instruction& i, int64_t operand) {
    const hlo::OperandAliases* aliases = nullptr;
    if (i.op() == Op::kFusion) aliases = &i.attrs<hlo::FusionAttrs>().output_to_operand_aliasing;
    if (i.op() == Op::kAsyncStart) aliases = &i.attrs<hlo::AsyncAttrs>().output_to_operand_aliasing;
    if (i.op() == Op::kCustomCall) {
      aliases = &i.attrs<hlo::CustomCallAttrs>().output_to_operand_aliasing;
    }
    return aliases != nullptr && std::any_of(aliases->begin(), aliases->end(),
                                             [&](const auto& a) { return a.operand == operand; });
  }
  static bool MayOverwrite(const Instruction& i, int64_t operand) {
    return (i.op() == Op::kDynamicUpdateSlice && operand == 0) || MustOverwrite(i, operand);
  }

  Status CheckBuffers() const {
    // By array: until when it is read by something in flight, and when it was overwritten, by whom.
    std::unordered_map<const Instruction*, int64_t> in_flight_until;
    std::unordered_map<const Instruction*, const Instruction*> overwritten;
    for (size_t n = 0; n < order_.size(); ++n) {
      const Instruction& i = *order_[n];
      if (i.op() == Op::kTuple || i.op() == Op::kGetTupleElement || i.op() == Op::kBitcast)
        continue;
      for (int64_t k = 0; k < i.operand_count(); ++k) {
        const Instruction* source = Source(i.operand(k));
        auto gone = overwritten.find(source);
        if (gone != overwritten.end()) {
          return Fail(i, "reads ", source->name(), ", which ", gone->second->name(), " overwrote");
        }
        auto until = in_flight_until.find(source);
        if (until != in_flight_until.end() && until->second > static_cast<int64_t>(n) &&
            MayOverwrite(i, k)) {
          return Fail(i, "overwrites ", source->name(), ", which is read in flight");
        }
      }
      for (int64_t k = 0; k < i.operand_count(); ++k) {
        const Instruction* source = Source(i.operand(k));
        if (MustOverwrite(i, k) && !source->IsParameter()) overwritten.emplace(source, &i);
        if (!HasTrait(i.op(), hlo::kAsyncStart) || done_[n] < 0) continue;
        int64_t& until = in_flight_until[source];
        until = std::max(until, done_[n]);
      }
    }
    return {};
  }

  const Computation& computation_;
  std::span<const Instruction* const> order_;
  const ScheduleRules& rules_;
  std::unordered_map<const Instruction*, int64_t> position_;  // lookups only
  std::vector<int64_t> done_;                                 // by position of a start; -1: none
};

}  // namespace

Status VerifySchedule(const Computation& computation, std::span<const Instruction* const> order,
                      const ScheduleRules& rules) {
  return ScheduleVerifier(computation, order, rules).Run();
}

Status VerifySchedules(const hlo::Module& module, const ScheduleRules& rules) {
  hlo::CallGraph calls(module);
  for (const auto& c : module.computations()) {
    hlo::CallContext context = calls.context(c.get());
    if (c.get() != module.entry() && context != hlo::CallContext::kControlFlow &&
        context != hlo::CallContext::kBoth) {
      continue;
    }
    std::vector<const Instruction*> order;
    for (const Instruction* i : *c) order.push_back(i);
    TRY(VerifySchedule(*c, order, rules));
  }
  return {};
}

}  // namespace weft::compiler::schedule

#include "compiler/passes/loops/hoist_invariants.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/analysis/queries.h"
#include "compiler/analysis/work.h"
#include "compiler/passes/collectives/fresh_ids.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "program/target.h"
#include "program/target_facts.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// Results up to this size are moved though they are larger than what they are computed from.
constexpr int64_t kSmallBytes = program::TargetFacts::kLeastPageBytes;

// Where elements of a gather or scatter lie, put together of numbers that follow from positions:
// each reader knows which of them it asks for, and that their distances are even.
bool IsPlaces(const Instruction& i) {
  auto of_positions = [](const Instruction* o) {
    while (o->op() == Op::kBroadcast || o->op() == Op::kReshape) o = o->operand(0);
    return IsOfIndices(*o) || o->IsConstant();
  };
  auto reads_places = [&](const Instruction* user) {
    return (user->op() == Op::kGather || user->op() == Op::kScatter) && user->operand(1) == &i &&
           user->operand(0) != &i && user->operand_count() <= 3;
  };
  return i.op() == Op::kConcatenate && std::ranges::all_of(i.operands(), of_positions) &&
         std::ranges::all_of(i.users(), reads_places);
}

// Costs more than loading the result.
bool IsCostly(const Instruction& i) {
  if (IsPlaces(i)) return false;
  switch (i.op()) {
    case Op::kAcos:
    case Op::kAcosh:
    case Op::kAsin:
    case Op::kAsinh:
    case Op::kAtan2:
    case Op::kAtanh:
    case Op::kCbrt:
    case Op::kCholesky:
    case Op::kConcatenate:
    case Op::kConvolution:
    case Op::kCosh:
    case Op::kCosine:
    case Op::kDivide:
    case Op::kDot:
    case Op::kErf:
    case Op::kExpm1:
    case Op::kExponential:
    case Op::kFft:
    case Op::kGather:
    case Op::kLog:
    case Op::kLog1p:
    case Op::kLogistic:
    case Op::kPad:
    case Op::kPower:
    case Op::kReduce:
    case Op::kReduceWindow:
    case Op::kRemainder:
    case Op::kReverse:
    case Op::kRsqrt:
    case Op::kScatter:
    case Op::kSine:
    case Op::kSinh:
    case Op::kSort:
    case Op::kSqrt:
    case Op::kTan:
    case Op::kTanh:
    case Op::kTranspose:
    case Op::kTriangularSolve: return i.shape().IsArray() && i.shape().elements() > 1;
    default: return false;
  }
}

// Calls that are functions of their operands and take longer than anything around them.
bool IsFactorization(const Instruction& i) {
  if (i.op() != Op::kCustomCall) return false;
  const auto& attrs = i.attrs<hlo::CustomCallAttrs>();
  const std::string& target = attrs.custom_call_target;
  return !attrs.custom_call_has_side_effect &&
         (target == "weft.lu" || target == "Qr" ||
          target == "ProductOfElementaryHouseholderReflectors");
}

// A meeting of devices is a function of what its group brings; annotated ones stay where they are.
bool IsMeeting(const Instruction& i) {
  return hlo::IsCollective(i.op()) && !HasTrait(i.op(), hlo::kAsyncStart | hlo::kAsyncDone) &&
         i.shape().IsArray() && i.FrontendAttributeValue("_scheduling_group_id") == nullptr &&
         i.FrontendAttributeValue("_xla_stream_annotation") == nullptr;
}

// Several results of one costly instruction.
bool IsCostlyTuple(const Instruction& i) {
  return i.shape().IsTuple() &&
         (IsFactorization(i) || i.op() == Op::kSort || i.op() == Op::kReduce);
}

// Reads its operands from memory, so that they are written in every iteration.
bool ReadsMemory(const Instruction& i) {
  switch (i.op()) {
    case Op::kConvolution:
    case Op::kCustomCall:
    case Op::kDot:
    case Op::kFft:
    case Op::kSort:
    case Op::kTriangularSolve: return true;
    default: return false;
  }
}

bool IsSmallEnough(const Instruction& i) {
  int64_t read = 0;
  for (const Instruction* operand : i.operands()) {
    read += std::min(operand->shape().ByteSize(), int64_t{1} << 40);
  }
  // A factorization has a little more than the matrix: pivots, scales.
  if (IsFactorization(i)) read *= 2;
  return i.shape().ByteSize() <= std::max(read, kSmallBytes);
}

// May be computed outside when its operands can.
bool MayMove(const Instruction& i, const Effects& effects) {
  if (!i.shape().IsArray() && !IsCostlyTuple(i)) return false;
  if (!i.shape().IsStatic() || HasControlDependencies(i)) return false;
  if (i.IsParameter() || i.sharding() != nullptr) return false;
  if (IsFactorization(i) || IsMeeting(i)) return true;
  if (!effects.IsFunction(i)) return false;
  switch (i.op()) {
    case Op::kAddDependency:
    case Op::kCall:
    case Op::kConditional:
    case Op::kCopy:
    case Op::kCustomCall:
    case Op::kDomain:
    case Op::kFusion:
    case Op::kOptBarrier:
    case Op::kWhile: return false;
    default: return !HasTrait(i.op(), hlo::kAsyncStart | hlo::kAsyncDone);
  }
}

class Hoister {
 public:
  Hoister(const Loop& loop, std::optional<int64_t> trips, const Effects& effects,
          const program::TargetInfo& target)
      : loop_(loop),
        trips_(trips ? static_cast<double>(*trips) : kLikelyTrips),
        effects_(effects),
        target_(target),
        spare_bytes_(target.memory_bytes / kHoistedPartOfMemory) {}

  Result<std::optional<Loop>> Run() {
    FindMovable();
    std::vector<Instruction*> moved = FindNewElements();
    if (moved.empty()) return std::nullopt;
    std::vector<Instruction*> outside;
    for (Instruction* i : moved) outside.push_back(TRY(CloneOutside(i)));
    std::vector<int64_t> kept;
    for (int64_t k = 0; k < loop_.size(); ++k) kept.push_back(k);
    Loop changed = TRY(RebuildLoop(loop_, kept, outside));
    for (size_t n = 0; n < moved.size(); ++n) {
      Instruction* element = changed.Next(std::ssize(kept) + static_cast<int64_t>(n));
      changed.body->MoveBefore(element, changed.body_state->next());
      moved[n]->ReplaceAllUsesWith(element);
    }
    RemoveMeetings(*changed.body);
    return changed;
  }

 private:
  bool IsMovable(const Instruction* i) const { return movable_.contains(i); }

  void FindMovable() {
    for (Instruction* i : *loop_.body) {
      bool reads_invariant = i->op() == Op::kGetTupleElement && i->operand(0) == loop_.body_state &&
                             loop_.IsInvariant(i->tuple_index()) && i->shape().IsArray();
      bool computed = MayMove(*i, effects_) &&
                      std::all_of(i->operands().begin(), i->operands().end(),
                                  [&](const Instruction* operand) { return IsMovable(operand); });
      if (!reads_invariant && !computed) continue;
      movable_.insert(i);
      if ((reads_invariant && i->shape().elements() > 1) ||
          std::any_of(i->operands().begin(), i->operands().end(),
                      [&](const Instruction* operand) { return of_arrays_.contains(operand); })) {
        of_arrays_.insert(i);
      }
    }
  }

  bool IsWorthMoving(const Instruction& i) const {
    if (IsMeeting(i)) return i.shape().ByteSize() <= spare_bytes_ && trips_ > 1;
    // The results of a tuple are moved together, whatever each of them is.
    bool part = i.op() == Op::kGetTupleElement && i.operand(0) != loop_.body_state;
    const Instruction& work = part ? *i.operand(0) : i;
    bool array = i.shape().IsArray() && (part || i.shape().elements() > 1);
    bool costly = part || IsCostly(i) || IsFactorization(i) || IsWrittenForOthers(i);
    if (!array || !costly || !IsSmallEnough(work)) return false;
    return i.shape().ByteSize() <= spare_bytes_ && Gains(work);
  }

  // Whether computing it once, writing it and reading it in each iteration takes less than
  // computing it in each. What is written for others in any case is read in any case.
  bool Gains(const Instruction& i) const {
    double work = WorkOfInstruction(i), reading = WorkOfReading(i.shape().ByteSize(), target_);
    bool written = IsWrittenForOthers(i) || !HasTrait(i.op(), hlo::kElementwise);
    double saved = written ? work : work - reading;
    return trips_ * saved > work + reading;
  }

  bool IsWrittenForOthers(const Instruction& i) const {
    return HasTrait(i.op(), hlo::kElementwise) && IsReadFromMemory(i, of_arrays_.contains(&i));
  }
  // Whether what stays reads it from memory. Places that no array says (`of_arrays` is false) are
  // arithmetic, of which lowering may know more.
  bool IsReadFromMemory(const Instruction& i, bool of_arrays) const {
    return std::any_of(i.users().begin(), i.users().end(), [&](const Instruction* u) {
      if (IsMovable(u)) return u->op() == Op::kReshape && IsReadFromMemory(*u, of_arrays);
      return u->op() == Op::kGather ? of_arrays && u->operand(1) == &i : ReadsMemory(*u);
    });
  }

  // What is worth moving and is needed by what stays, in order.
  std::vector<Instruction*> FindNewElements() {
    std::unordered_set<const Instruction*> stays;  // movable, yet still computed inside
    std::vector<Instruction*> moved;
    for (Instruction* i = loop_.body->last(); i != nullptr; i = i->prev()) {
      if (!IsMovable(i)) continue;
      bool needed = std::any_of(i->users().begin(), i->users().end(), [&](const Instruction* u) {
        return !IsMovable(u) || stays.contains(u);
      });
      if (!needed) continue;
      if (IsWorthMoving(*i)) {
        moved.push_back(i);
        spare_bytes_ -= i->shape().ByteSize();
      } else {
        stays.insert(i);
      }
    }
    std::reverse(moved.begin(), moved.end());
    return moved;
  }

  // Collectives that are done before the loop now, and what read them on the way: nobody else takes
  // these away.
  void RemoveMeetings(hlo::Computation& body) const {
    const std::vector<Instruction*> all = body.Snapshot();
    std::unordered_set<const Instruction*> before;  // copied, a collective among what it reads
    for (const Instruction* i : all) {
      if (!map_.instructions.contains(i)) continue;
      const bool reads = std::ranges::any_of(
          i->operands(), [&](const Instruction* operand) { return before.contains(operand); });
      if (reads || IsMeeting(*i)) before.insert(i);
    }
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      const bool is_read = !(*it)->users().empty() || (*it)->IsRoot();
      if (!before.contains(*it)) continue;
      if (!is_read) {
        body.Remove(*it);
      } else if (IsMeeting(**it)) {  // it is done here too
        FreshIds(*body.module()).Renumber(*map_.Find(*it));
      }
    }
  }

  // A copy before the loop of an instruction of the body and all it is computed from.
  Result<Instruction*> CloneOutside(Instruction* i) {
    std::vector<Instruction*> stack = {i};
    while (!stack.empty()) {
      Instruction* at = stack.back();
      if (map_.instructions.contains(at)) {
        stack.pop_back();
        continue;
      }
      if (at->op() == Op::kGetTupleElement && at->operand(0) == loop_.body_state) {
        map_.instructions[at] = TRY(ReadInit(loop_, at->tuple_index()));
        continue;
      }
      size_t waiting = stack.size();
      for (Instruction* operand : at->operands()) {
        if (!map_.instructions.contains(operand)) stack.push_back(operand);
      }
      if (stack.size() == waiting) {
        hlo::CloneInstruction(*at, *loop_.op->parent(), map_, loop_.op);
      }
    }
    return map_.Find(i);
  }

  const Loop& loop_;
  double trips_;
  const Effects& effects_;
  const program::TargetInfo& target_;
  int64_t spare_bytes_;                                         // for what is moved
  std::unordered_set<const Instruction*> movable_, of_arrays_;  // latter: computed from arrays
  hlo::CloneMap map_;
};

}  // namespace

Result<std::optional<Loop>> HoistInvariants(const Loop& loop, std::optional<int64_t> trips,
                                            const Effects& effects,
                                            const program::TargetInfo& target) {
  return Hoister(loop, trips, effects, target).Run();
}

}  // namespace weft::compiler

#include "compiler/passes/loops/hoist_invariants.h"

#include <algorithm>
#include <unordered_set>

#include "hlo/builder.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using hlo::Op;

// What may be computed though the loop may not run at all.
constexpr int64_t kMaxSpeculativeElements = 1024;
// Results up to this size are moved though they are larger than what they are computed from.
constexpr int64_t kSmallBytes = 4096;

// Costs more than loading the result.
bool IsCostly(const Instruction& i) {
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

// Several results of one costly instruction.
bool IsCostlyTuple(const Instruction& i) {
  return i.shape().IsTuple() &&
         (IsFactorization(i) || i.op() == Op::kSort || i.op() == Op::kReduce);
}

// Reads its operands from memory, so that they are written in every round.
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
  if (IsFactorization(i)) return true;
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
  Hoister(const Loop& loop, bool runs, const Effects& effects)
      : loop_(loop), runs_(runs), effects_(effects) {}

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
      if (reads_invariant || computed) movable_.insert(i);
    }
  }

  bool IsWorthMoving(const Instruction& i) const {
    // The results of a tuple are moved together, whatever each of them is.
    bool part = i.op() == Op::kGetTupleElement && i.operand(0) != loop_.body_state;
    const Instruction& work = part ? *i.operand(0) : i;
    bool array = i.shape().IsArray() && (part || i.shape().elements() > 1);
    bool costly = part || IsCostly(i) || IsFactorization(i) || IsWrittenForOthers(i);
    if (!array || !costly || !IsSmallEnough(work)) return false;
    if (runs_) return true;
    int64_t elements = i.shape().elements();
    for (const Instruction* operand : work.operands()) {
      elements = std::max(elements, operand->shape().elements());
    }
    return elements <= kMaxSpeculativeElements;
  }

  bool IsWrittenForOthers(const Instruction& i) const {
    return HasTrait(i.op(), hlo::kElementwise) &&
           std::any_of(i.users().begin(), i.users().end(),
                       [&](const Instruction* u) { return !IsMovable(u) && ReadsMemory(*u); });
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
      } else {
        stays.insert(i);
      }
    }
    std::reverse(moved.begin(), moved.end());
    return moved;
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
  bool runs_;
  const Effects& effects_;
  std::unordered_set<const Instruction*> movable_;
  hlo::CloneMap map_;
};

}  // namespace

Result<std::optional<Loop>> HoistInvariants(const Loop& loop, bool runs, const Effects& effects) {
  return Hoister(loop, runs, effects).Run();
}

}  // namespace weft::compiler

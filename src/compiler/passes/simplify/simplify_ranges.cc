#include <vector>

#include "compiler/analysis/value_range.h"
#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/computation.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// What an instruction is instead: one of its operands, or true or false in all elements.
struct Simpler {
  Instruction* instruction;
  int64_t operand = -1;
  bool value = false;
};

bool HasIntegers(const Instruction& i) {
  return i.shape().IsArray() && (IsInteger(i.shape().dtype()) || i.shape().dtype() == DType::kPred);
}

std::optional<Simpler> FindSimpler(Instruction& i, ValueRanges& ranges) {
  auto operand = [&](int64_t k) -> std::optional<Simpler> {
    if (i.operand(k)->shape().dims() != i.shape().dims()) return std::nullopt;
    return Simpler{&i, k};
  };
  switch (i.op()) {
    case Op::kCompare:
      if (std::optional<bool> value = ranges.Outcome(i)) return Simpler{&i, -1, *value};
      return std::nullopt;
    case Op::kAnd:
    case Op::kOr: {
      if (i.shape().dtype() != DType::kPred) return std::nullopt;
      if (std::optional<bool> value = ranges.Outcome(i)) return Simpler{&i, -1, *value};
      // One that is always the same, and does not decide, leaves the other.
      if (ranges.Outcome(*i.operand(0))) return operand(1);
      if (ranges.Outcome(*i.operand(1))) return operand(0);
      return std::nullopt;
    }
    case Op::kSelect:
      if (std::optional<bool> first = ranges.Outcome(*i.operand(0))) return operand(*first ? 1 : 2);
      return std::nullopt;
    case Op::kMinimum:
    case Op::kMaximum: {
      std::optional<ValueRange> x = ranges.Of(*i.operand(0)), y = ranges.Of(*i.operand(1));
      if (!x || !y) return std::nullopt;
      bool least = i.op() == Op::kMinimum;
      if (x->high <= y->low) return operand(least ? 0 : 1);
      if (y->high <= x->low) return operand(least ? 1 : 0);
      return std::nullopt;
    }
    case Op::kClamp: {
      std::optional<ValueRange> low = ranges.Of(*i.operand(0)), x = ranges.Of(*i.operand(1)),
                                high = ranges.Of(*i.operand(2));
      if (!low || !x || !high || low->high > x->low || x->high > high->low) return std::nullopt;
      return operand(1);
    }
    default: return std::nullopt;
  }
}

}  // namespace

Result<bool> SimplifyRanges(hlo::Module& module, const PassContext&) {
  if (module.config().is_scheduled) return false;
  std::vector<Simpler> found;
  {
    ValueRanges ranges(module);
    for (const auto& computation : module.computations()) {
      for (Instruction* i : *computation) {
        bool chooses = i->op() == Op::kCompare || HasIntegers(*i) || i->op() == Op::kSelect;
        if (!chooses || !IsStaticallyShaped(*i)) continue;
        if (std::optional<Simpler> simpler = FindSimpler(*i, ranges)) found.push_back(*simpler);
      }
    }
  }
  for (const Simpler& simpler : found) {
    Instruction* i = simpler.instruction;
    if (simpler.operand >= 0) {
      ReplaceWithValue(i, i->operand(simpler.operand));
      continue;
    }
    Builder b(*i->parent(), i, i);
    Literal literal{Shape::Scalar(DType::kPred)};
    literal.SetInt(0, simpler.value);
    hlo::ReplaceInstruction(i, TRY(FillWith(b, b.Constant(std::move(literal)), i->shape())));
  }
  return !found.empty();
}

}  // namespace weft::compiler

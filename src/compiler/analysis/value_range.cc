// Value-range analysis: transfer functions and assumptions.
#include "compiler/analysis/value_range.h"

#include <algorithm>
#include <limits>

#include "compiler/analysis/queries.h"
#include "compiler/analysis/search.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/analysis/value_range_math.h"
#include "hlo/computation.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Direction;
using hlo::Instruction;
using hlo::Op;

constexpr int64_t kMaxRangeVisits = program::WorkBounds::kVisits;  // for one question

}  // namespace

ValueRanges::ValueRanges(const hlo::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const Instruction* i : *computation) {
      for (const Computation* called : i->called_computations()) {
        auto [it, added] = callers_.emplace(called, i);
        if (!added) it->second = nullptr;
      }
    }
  }
}

const Instruction* ValueRanges::CallerOf(const Instruction& parameter) const {
  auto it = callers_.find(parameter.parent());
  return it == callers_.end() ? nullptr : it->second;
}

// What a parameter of a conditional's branch is given.
const Instruction* ValueRanges::BranchOperand(const Instruction& parameter) const {
  const Instruction* caller = CallerOf(parameter);
  if (!caller || caller->op() != Op::kConditional) return nullptr;
  auto branches = caller->called_computations();
  for (size_t k = 0; k < branches.size(); ++k) {
    if (branches[k] == parameter.parent()) return caller->operand(static_cast<int64_t>(k) + 1);
  }
  return nullptr;
}

// The instruction that the elements come from, through fusions and what only moves them. `one`:
// only as far as it is the same single number.
const Instruction& ValueRanges::Peel(const Instruction& instruction, bool one) const {
  const Instruction* i = &instruction;
  for (int n = 0; n < kMaxChain; ++n) {
    const Instruction* next = nullptr;
    switch (i->op()) {
      case Op::kFusion: next = i->attrs<hlo::FusionAttrs>().calls->root(); break;
      case Op::kParameter: {
        const Instruction* caller = CallerOf(*i);
        if (caller && caller->op() == Op::kFusion) next = caller->operand(i->parameter_number());
        if (next == nullptr) next = BranchOperand(*i);
        break;
      }
      case Op::kGetTupleElement: {
        const Instruction* from = i->operand(0);
        if (from->op() == Op::kFusion) from = from->attrs<hlo::FusionAttrs>().calls->root();
        if (from->IsParameter()) {
          const Instruction* given = BranchOperand(*from);
          if (given != nullptr) from = given;
        }
        if (from->op() == Op::kTuple) next = from->operand(i->tuple_index());
        break;
      }
      case Op::kCopy:
      case Op::kOptBarrier:
      case Op::kReshape:
      case Op::kBitcast:
      case Op::kBroadcast:
      case Op::kSlice:
      case Op::kDynamicSlice:
      case Op::kTranspose:
      case Op::kReverse: next = i->operand(0); break;
      default: break;
    }
    if (!next || !next->shape().IsArray() || !i->shape().IsArray() ||
        next->shape().dtype() != i->shape().dtype() || (one && next->shape().elements() != 1)) {
      return *i;
    }
    i = next;
  }
  return *i;
}

// The element of the state of the loop, whose body or condition c is, that the numbers are of;
// -1: none.
int64_t ValueRanges::StateElement(const Instruction& i, const Computation& c) const {
  const Instruction& read = Peel(i);
  bool state = read.op() == Op::kGetTupleElement && read.operand(0)->IsParameter() &&
               read.parent() == &c && read.shape().IsArray();
  return state ? read.tuple_index() : -1;
}

std::optional<ValueRange> ValueRanges::Of(const Instruction& instruction) {
  if (!instruction.shape().IsArray()) return std::nullopt;
  std::optional<ValueRange> full = FullRangeOf(instruction.shape().dtype());
  if (!full) return std::nullopt;
  const Instruction& i = Peel(instruction);
  const Instruction& number = Peel(instruction, true);
  auto refined = [&](ValueRange range) {
    for (auto& [which, assumed] : refined_) {
      if (which == &i || which == &number) range = RangeIntersection(range, assumed);
    }
    return range;
  };
  if (auto it = known_.find(&i); it != known_.end()) {
    if (conditions_.empty() || it->second.low == it->second.high) return it->second;
  }
  if (auto it = local_.find(&i); it != local_.end()) return refined(it->second);
  if (depth_ == 0) budget_ = kMaxRangeVisits;
  if (--budget_ < 0 || depth_ > kMaxChain) return full;
  ++depth_;
  ValueRange range = Compute(i, *full);
  --depth_;
  // What a question came to that ran out of visits is true as well; asked again, it would again.
  if (budget_ >= 0 || depth_ == 0) {
    (open_.empty() && conditions_.empty() && !in_relations_ ? known_ : local_)[&i] = range;
  }
  return refined(range);
}

std::optional<bool> ValueRanges::Outcome(const Instruction& instruction, int depth) {
  const Instruction& compare = Peel(instruction);
  if (compare.shape().dtype() != DType::kPred || depth > kMaxTree) return std::nullopt;
  if (compare.op() == Op::kNot) {
    std::optional<bool> inner = Outcome(*compare.operand(0), depth + 1);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  if (compare.op() == Op::kAnd || compare.op() == Op::kOr) {
    bool decides = compare.op() == Op::kOr;  // by itself, whatever the other one is
    std::optional<bool> x = Outcome(*compare.operand(0), depth + 1);
    if (x == decides) return decides;
    std::optional<bool> y = Outcome(*compare.operand(1), depth + 1);
    if (y == decides) return decides;
    return x && y ? std::optional(!decides) : std::nullopt;
  }
  if (compare.op() != Op::kCompare) return std::nullopt;
  std::optional<ValueRange> x = Of(*compare.operand(0)), y = Of(*compare.operand(1));
  if (!x || !y) return std::nullopt;
  return DecideByRanges(compare.attrs<hlo::CompareAttrs>().direction, *x, *y);
}

bool ValueRanges::NeverWraps(const Instruction& i) {
  if (i.operand_count() != 2 || !i.shape().IsArray()) return false;
  std::optional<ValueRange> full = FullRangeOf(i.shape().dtype());
  if (!full || i.shape().dtype() == DType::kPred) return false;
  std::optional<ValueRange> x = Of(*i.operand(0)), y = Of(*i.operand(1));
  if (!x || !y) return false;
  ValueRange everything{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  ValueRange exact = everything;
  switch (i.op()) {
    case Op::kAdd:
      exact = RangeWithin(Int128{x->low} + y->low, Int128{x->high} + y->high, everything);
      break;
    case Op::kSubtract:
      exact = RangeWithin(Int128{x->low} - y->high, Int128{x->high} - y->low, everything);
      break;
    case Op::kMultiply: exact = RangeProduct(*x, *y, everything); break;
    default: break;
  }
  return exact != everything && RangeContains(*full, exact);
}

ValueRange ValueRanges::Compute(const Instruction& i, ValueRange full) {
  switch (i.op()) {
    case Op::kConstant: {
      const Literal& literal = i.literal();
      if (!literal.IsValid() || literal.size() == 0 || literal.size() > kMaxLookedAt) return full;
      ValueRange range{literal.GetInt(0), literal.GetInt(0)};
      for (int64_t k = 1; k < literal.size(); ++k) {
        range = RangeUnion(range, {literal.GetInt(k), literal.GetInt(k)});
      }
      return range;
    }
    case Op::kIota: {
      int64_t size = i.shape().dim(i.attrs<hlo::IotaAttrs>().iota_dimension);
      return RangeWithin(0, std::max<int64_t>(size - 1, 0), full);
    }
    case Op::kConvert: {
      std::optional<ValueRange> from = Of(*i.operand(0));
      return from && i.shape().dtype() != DType::kPred ? RangeWithin(from->low, from->high, full)
                                                       : full;
    }
    case Op::kGetTupleElement: return OfLoopValue(i, full);
    case Op::kSelect: return OfSelect(i);
    case Op::kClamp: {
      ValueRange low = *Of(*i.operand(0)), x = *Of(*i.operand(1)), high = *Of(*i.operand(2));
      ValueRange above{std::max(low.low, x.low), std::max(low.high, x.high)};
      return {std::min(above.low, high.low), std::min(above.high, high.high)};
    }
    case Op::kConcatenate: {
      ValueRange range = *Of(*i.operand(0));
      for (const Instruction* operand : i.operands()) range = RangeUnion(range, *Of(*operand));
      return range;
    }
    case Op::kPad:
    case Op::kDynamicUpdateSlice: return RangeUnion(*Of(*i.operand(0)), *Of(*i.operand(1)));
    case Op::kGather: return *Of(*i.operand(0));
    case Op::kScatter: return OfScatter(i, full);
    case Op::kConditional: return OfBranches(i, -1, full);
    case Op::kSign: {
      ValueRange x = *Of(*i.operand(0));
      auto sign = [](int64_t value) { return int64_t{value > 0} - int64_t{value < 0}; };
      return {sign(x.low), sign(x.high)};
    }
    case Op::kNegate: {
      ValueRange x = *Of(*i.operand(0));
      return RangeWithin(-Int128{x.high}, -Int128{x.low}, full);
    }
    case Op::kAbs: {
      ValueRange x = *Of(*i.operand(0));
      Int128 low = x.low > 0 ? Int128{x.low} : x.high < 0 ? -Int128{x.high} : 0;
      return RangeWithin(low, std::max(Int128{x.high}, -Int128{x.low}), full);
    }
    default: return i.operand_count() == 2 && hlo::IsElementwise(i.op()) ? OfBinary(i, full) : full;
  }
}

ValueRange ValueRanges::OfBinary(const Instruction& i, ValueRange full) {
  std::optional<ValueRange> left = Of(*i.operand(0)), right = Of(*i.operand(1));
  if (!left || !right || i.shape().dtype() != i.operand(0)->shape().dtype()) return full;
  ValueRange x = *left, y = *right;
  bool natural = x.low >= 0 && y.low >= 0;
  switch (i.op()) {
    case Op::kAdd:
      return ByRelations(i, RangeWithin(Int128{x.low} + y.low, Int128{x.high} + y.high, full));
    case Op::kSubtract:
      return ByRelations(i, RangeWithin(Int128{x.low} - y.high, Int128{x.high} - y.low, full));
    case Op::kMultiply: return RangeProduct(x, y, full);
    case Op::kMinimum: return {std::min(x.low, y.low), std::min(x.high, y.high)};
    case Op::kMaximum: return {std::max(x.low, y.low), std::max(x.high, y.high)};
    case Op::kDivide:
      return natural && y.low > 0 ? ValueRange{x.low / y.high, x.high / y.low} : full;
    case Op::kRemainder:
      if (y.low <= 0) return full;
      return {x.low >= 0 ? 0 : std::max(x.low, 1 - y.high),
              x.high <= 0 ? 0 : std::min(x.high, y.high - 1)};
    case Op::kAnd:
      if (x.low < 0 && y.low < 0) return full;
      return {0, x.low < 0 ? y.high : y.low < 0 ? x.high : std::min(x.high, y.high)};
    case Op::kOr:
    case Op::kXor: return natural ? ValueRange{0, AllBitsUpTo(std::max(x.high, y.high))} : full;
    case Op::kShiftLeft:
      if (y.low != y.high || y.low < 0 || y.low >= BitWidth(i.shape().dtype()) - 1) return full;
      return RangeProduct(x, {int64_t{1} << y.low, int64_t{1} << y.low}, full);
    case Op::kShiftRightArithmetic:  // of unsigned numbers, too, the highest bit is copied
      if (x.high >> (BitWidth(i.shape().dtype()) - 1) != 0) return full;
      [[fallthrough]];
    case Op::kShiftRightLogical:
      if (x.low < 0 || y.low < 0) return full;
      return {0, y.low >= 63 ? 0 : x.high >> y.low};
    default: return full;
  }
}

// Updates take the place of elements, or are the least or greatest with them.
ValueRange ValueRanges::OfScatter(const Instruction& scatter, ValueRange full) {
  if (scatter.operand_count() != 3) return full;
  const Instruction& root = *scatter.attrs<hlo::ScatterAttrs>().to_apply->root();
  bool chooses = root.IsParameter() || root.op() == Op::kMinimum || root.op() == Op::kMaximum;
  for (const Instruction* operand : root.operands()) chooses &= operand->IsParameter();
  return chooses ? RangeUnion(*Of(*scatter.operand(0)), *Of(*scatter.operand(2))) : full;
}

// k: of the tuple that the branches give; -1: they give one array.
ValueRange ValueRanges::OfBranches(const Instruction& conditional, int64_t k, ValueRange full) {
  std::optional<ValueRange> result;
  for (const Computation* branch : conditional.called_computations()) {
    const Instruction* value = branch->root();
    if (k >= 0 && value->op() != Op::kTuple) return full;
    ValueRange range = *Of(k >= 0 ? *value->operand(k) : *value);
    result = result ? RangeUnion(*result, range) : range;
  }
  return result.value_or(full);
}

// Each branch where the condition says it is taken.
ValueRange ValueRanges::OfSelect(const Instruction& select) {
  if (std::optional<bool> chosen = Outcome(*select.operand(0))) {
    return *Of(*select.operand(*chosen ? 1 : 2));
  }
  // Elements of arrays are compared one by one: what holds of one need not of another.
  if (select.shape().elements() != 1) {
    return RangeUnion(*Of(*select.operand(1)), *Of(*select.operand(2)));
  }
  std::optional<ValueRange> result;
  for (int64_t branch : {1, 2}) {
    Cache outside = std::exchange(local_, {});
    BeginAssumption(*select.operand(0), branch == 1);
    ValueRange range = *Of(*select.operand(branch));
    EndAssumption();
    local_ = std::move(outside);
    result = result ? RangeUnion(*result, range) : range;
  }
  return *result;
}

void ValueRanges::Assume(const Instruction& condition, bool value) {
  const Instruction& i = Peel(condition, true);
  if (i.shape().elements() != 1 || refined_.size() > kMaxChain) return;
  if (i.op() == Op::kNot) return Assume(*i.operand(0), !value);
  if (i.op() == (value ? Op::kAnd : Op::kOr)) {
    Assume(*i.operand(0), value);
    Assume(*i.operand(1), value);
    return;
  }
  if (i.op() != Op::kCompare) return;
  std::optional<ValueRange> x = Of(*i.operand(0)), y = Of(*i.operand(1));
  if (!x || !y) return;
  Direction direction = i.attrs<hlo::CompareAttrs>().direction;
  if (!value) direction = hlo::Negated(direction);
  AssumeWithin(*i.operand(0), RangeWhere(direction, *y, *x));
  AssumeWithin(*i.operand(1), RangeWhere(Swapped(direction), *x, *y));
}

// What a number is computed from is then known too.
void ValueRanges::AssumeWithin(const Instruction& number, ValueRange range) {
  for (const Instruction* i = &Peel(number, true);;) {
    std::optional<ValueRange> all = Of(*i);
    bool news = all && range.low <= range.high && !RangeContains(range, *all);
    if (!news || i->shape().elements() != 1) return;
    refined_.emplace_back(i, range);
    if (i->op() == Op::kConvert) {
      std::optional<ValueRange> from = Of(*i->operand(0));
      if (!from || *from != *all) return;
    } else {
      if (!NeverWraps(*i)) return;
      std::optional<ValueRange> c = Of(*i->operand(1));
      if (!c || c->low != c->high) return;
      Int128 low = range.low, high = range.high;
      if (i->op() == Op::kMultiply && c->low > 0) {
        low = low < 0 ? -((-low) / c->low) : (low + c->low - 1) / c->low;
        high = high < 0 ? -((-high + c->low - 1) / c->low) : high / c->low;
      } else if (i->op() != Op::kMultiply) {
        Int128 shift = i->op() == Op::kAdd ? -Int128{c->low} : Int128{c->low};
        low += shift;
        high += shift;
      } else {
        return;
      }
      constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
      constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
      if (low < kMin || high > kMax) return;
      range = {static_cast<int64_t>(low), static_cast<int64_t>(high)};
    }
    i = &Peel(*i->operand(0), true);
  }
}

}  // namespace weft::compiler

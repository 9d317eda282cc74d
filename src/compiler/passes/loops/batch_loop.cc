#include "compiler/passes/loops/batch_loop.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes/loops/counted_loop.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

namespace {

// Numbers that are carried: vectors of them stay in registers.
constexpr int64_t kMostNumbers = program::TargetFacts::kGeneralRegisters / 2;
// Work of all rounds: less is written out by LLVM, which then vectorizes the loop around it.
constexpr double kLeastWork = program::CodeBounds::kStraight;

bool IsState(const Loop& loop, const Instruction& i) {
  return i.op() == Op::kGetTupleElement && i.operand(0) == loop.body_state;
}

// One element of an array that the loop leaves as it is.
bool IsElementRead(const Loop& loop, const Instruction& i) {
  if (i.op() != Op::kDynamicSlice || !IsOneNumber(i)) return false;
  const Instruction& all = *i.operand(0);
  bool stays = IsState(loop, all) && loop.IsInvariant(all.tuple_index());
  return (stays || all.IsConstant()) && all.shape().IsStatic();
}

// Computed from numbers, element by element.
bool IsOfNumbers(const Loop& loop, const Instruction& i) {
  if (!IsOneNumber(i)) return false;
  if (IsElementRead(loop, i)) return i.operand_count() == 2;  // else a gather of several indices
  bool same = i.op() == Op::kReshape || i.op() == Op::kBroadcast;
  bool computed = hlo::IsElementwise(i.op()) && i.called_computations().empty() &&
                  i.op() != Op::kStochasticConvert;
  return (same || computed) && i.operand_count() > 0 &&
         std::ranges::all_of(i.operands(), [](const Instruction* o) { return IsOneNumber(*o); });
}

bool IsPlain(const Instruction& i, const Effects& effects) {
  return !HasControlDependencies(i) && i.sharding() == nullptr && effects.IsFunction(i);
}

}  // namespace

std::optional<NumberLoop> FindNumberLoop(Instruction* while_op, const Effects& effects) {
  if (while_op->op() != Op::kWhile || !IsPlain(*while_op, effects)) return std::nullopt;
  std::optional<Loop> loop = FindLoop(while_op);
  std::optional<LoopBounds> bounds = FindLoopBounds(*while_op);
  if (!loop || !bounds || bounds->trips <= 0) return std::nullopt;
  if (bounds->trips > std::numeric_limits<int32_t>::max()) return std::nullopt;
  if (while_op->operand(0)->op() != Op::kTuple) return std::nullopt;
  int64_t numbers = 0;
  for (int64_t k = 0; k < loop->size(); ++k) {
    const Shape& shape = while_op->shape().tuple_element(k);
    if (!shape.IsArray() || !shape.IsStatic()) return std::nullopt;
    bool changes = !loop->IsInvariant(k);
    if (changes && shape.elements() != 1) return std::nullopt;
    numbers += changes;
  }
  NumberLoop found{*loop, *bounds};
  for (const Instruction* i : *loop->body) {
    if (i->IsParameter() || i->IsRoot() || i->IsConstant() || IsState(*loop, *i)) continue;
    if (i->users().empty() && IsPlain(*i, effects)) continue;
    if (!IsPlain(*i, effects) || !IsOfNumbers(*loop, *i)) return std::nullopt;
    if (!IsFree(*i)) found.cost += ElementCost(*i);
  }
  found.cost *= static_cast<double>(bounds->trips);
  bool pays = numbers <= kMostNumbers && found.cost > kLeastWork;
  return pays ? std::optional(found) : std::nullopt;
}

Result<Instruction*> InAllRows(Builder& b, Instruction* number, int64_t rows) {
  if (!IsOneNumber(*number)) return number;
  Shape shape(number->shape().dtype(), {rows});
  return b.Broadcast(TRY(ReshapeTo(b, number, {})), shape, {});
}

Result<Instruction*> GatherRows(Builder& b, Instruction* array, Instruction* places) {
  hlo::GatherAttrs attrs;
  attrs.collapsed_slice_dims = attrs.start_index_map = {0};
  attrs.index_vector_dim = 1;
  attrs.slice_sizes = {1};
  return b.Add(Op::kGather, {array, places}, std::move(attrs));
}

namespace {

// The body of a batched loop, instruction by instruction.
class BatchedRound {
 public:
  BatchedRound(const NumberLoop& numbers, int64_t rows, std::vector<bool> varies)
      : loop_(numbers.loop), bounds_(numbers.bounds), rows_(rows), varies_(std::move(varies)) {
    FindVarying();
  }
  bool Varies(int64_t k) const { return varies_[static_cast<size_t>(k)]; }

  Result<std::vector<Instruction*>> Emit(Builder& b, Instruction* number,
                                         std::span<Instruction* const> state) {
    map_ = {};
    for (const Instruction* i : *loop_.body) {
      if (i->IsParameter() || i->IsRoot()) continue;
      if (IsState(loop_, *i)) {
        const int64_t k = i->tuple_index();
        map_.instructions[i] =
            k == bounds_.index ? TRY(Counter(b, number)) : state[static_cast<size_t>(k)];
      } else if (!i->users().empty()) {
        map_.instructions[i] = TRY(EmitOne(b, *i));
      }
    }
    std::vector<Instruction*> next;
    for (int64_t k = 0; k < loop_.size(); ++k) {
      Instruction* value =
          k == bounds_.index ? state[static_cast<size_t>(k)] : map_.Find(loop_.Next(k));
      next.push_back(Varies(k) ? TRY(InAllRows(b, value, rows_)) : value);
    }
    return next;
  }

 private:
  // To a fixed point: what is computed from numbers that differ differs.
  void FindVarying() {
    for (bool again = true; again;) {
      again = false;
      varying_.clear();
      for (const Instruction* i : *loop_.body) {
        bool varies =
            IsState(loop_, *i)
                ? Varies(i->tuple_index())
                : std::ranges::any_of(i->operands(), [&](auto* o) { return varying_.contains(o); });
        if (varies) varying_.insert(i);
      }
      for (int64_t k = 0; k < loop_.size(); ++k) {
        if (Varies(k) || !varying_.contains(loop_.Next(k))) continue;
        varies_[static_cast<size_t>(k)] = again = true;
      }
    }
  }

  Result<Instruction*> Counter(Builder& b, Instruction* number) {
    const Shape& shape = loop_.op->shape().tuple_element(bounds_.index);
    Instruction* value = number;
    if (shape.dtype() != DType::kS32) value = TRY(b.Convert(value, shape.dtype()));
    auto constant = [&](int64_t x) {
      return b.ScalarConstant(shape.dtype(), static_cast<double>(x));
    };
    if (bounds_.step != 1) value = TRY(b.Add(Op::kMultiply, {value, constant(bounds_.step)}));
    if (bounds_.init != 0) value = TRY(b.Add(Op::kAdd, {value, constant(bounds_.init)}));
    return ReshapeTo(b, value, shape.dims());
  }

  Result<Instruction*> EmitOne(Builder& b, const Instruction& i) {
    if (!varying_.contains(&i)) return hlo::CloneInstruction(i, b.computation(), map_);
    if (i.op() == Op::kReshape || i.op() == Op::kBroadcast) return map_.Find(i.operand(0));
    if (i.op() == Op::kDynamicSlice) {
      return GatherRows(b, map_.Find(i.operand(0)), map_.Find(i.operand(1)));
    }
    Shape shape(i.shape().dtype(), {rows_});
    std::vector<Instruction*> operands;
    for (Instruction* o : i.operands()) {
      operands.push_back(TRY(InAllRows(b, map_.Find(o), rows_)));
    }
    return b.Add(i.op(), operands, i.attrs(), &shape);
  }

  const Loop& loop_;
  const LoopBounds& bounds_;
  const int64_t rows_;
  std::vector<bool> varies_;  // of the state
  std::unordered_set<const Instruction*> varying_;
  hlo::CloneMap map_;
};

}  // namespace

Result<std::vector<Instruction*>> BatchLoop(Builder& b, const NumberLoop& numbers, int64_t rows,
                                            std::span<Instruction* const> init) {
  const Loop& loop = numbers.loop;
  std::vector<bool> varies;
  for (int64_t k = 0; k < loop.size(); ++k) {
    bool number = loop.op->shape().tuple_element(k).elements() == 1;
    varies.push_back(number && k != numbers.bounds.index &&
                     !IsOneNumber(*init[static_cast<size_t>(k)]));
  }
  BatchedRound round(numbers, rows, std::move(varies));
  std::vector<Instruction*> first(init.begin(), init.end());
  for (int64_t k = 0; k < loop.size(); ++k) {
    Instruction*& value = first[static_cast<size_t>(k)];
    if (round.Varies(k)) value = TRY(InAllRows(b, value, rows));
  }
  auto emit = [&](Builder& r, Instruction* number, std::span<Instruction* const> state) {
    return round.Emit(r, number, state);
  };
  std::vector<Instruction*> last = TRY(AddCountedLoop(b, numbers.bounds.trips, first, emit));
  const LoopBounds& bounds = numbers.bounds;
  const Shape& shape = loop.op->shape().tuple_element(bounds.index);
  Instruction* end = b.ScalarConstant(
      shape.dtype(), static_cast<double>(bounds.init + bounds.trips * bounds.step));
  last[static_cast<size_t>(bounds.index)] = TRY(ReshapeTo(b, end, shape.dims()));
  return last;
}

}  // namespace weft::compiler

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
// Trip counts that are not known are taken for this.
constexpr double kUsualRounds = program::CodeBounds::kWrittenOut;

bool IsState(const Loop& loop, const Instruction& i) {
  return i.op() == Op::kGetTupleElement &&
         (i.operand(0) == loop.body_state || i.operand(0) == loop.condition_state);
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

// Work of body or condition for one set of numbers; nullopt: they do something else.
std::optional<double> CostOfNumbers(const Loop& loop, const hlo::Computation& computation,
                                    bool may_read, const Effects& effects) {
  double cost = 0;
  for (const Instruction* i : computation) {
    bool ends = i == loop.body->root();
    if (i->IsParameter() || ends || i->IsConstant() || IsState(loop, *i)) continue;
    if (!i->IsRoot() && i->users().empty() && IsPlain(*i, effects)) continue;
    if (!IsPlain(*i, effects) || !IsOfNumbers(loop, *i)) return std::nullopt;
    if (!may_read && IsElementRead(loop, *i)) return std::nullopt;
    if (!IsFree(*i)) cost += ElementCost(*i);
  }
  return cost;
}

}  // namespace

std::optional<NumberLoop> FindNumberLoop(Instruction* while_op, const Effects& effects) {
  if (while_op->op() != Op::kWhile || !IsPlain(*while_op, effects)) return std::nullopt;
  std::optional<Loop> loop = FindLoop(while_op);
  std::optional<LoopBounds> bounds = FindLoopBounds(*while_op);
  if (!loop) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (bounds && (bounds->trips <= 0 || bounds->trips > kMost)) return std::nullopt;
  if (while_op->operand(0)->op() != Op::kTuple) return std::nullopt;
  int64_t numbers = 0;
  for (int64_t k = 0; k < loop->size(); ++k) {
    const Shape& shape = while_op->shape().tuple_element(k);
    if (!shape.IsArray() || !shape.IsStatic()) return std::nullopt;
    bool changes = !loop->IsInvariant(k);
    if (changes && shape.elements() != 1) return std::nullopt;
    numbers += changes;
  }
  std::optional<double> cost = CostOfNumbers(*loop, *loop->body, bounds.has_value(), effects);
  if (cost && !bounds) {
    std::optional<double> more = CostOfNumbers(*loop, *loop->condition, false, effects);
    cost = more ? std::optional(*cost + *more) : std::nullopt;
  }
  if (!cost) return std::nullopt;
  NumberLoop found{*loop, bounds};
  found.cost = *cost * (bounds ? static_cast<double>(bounds->trips) : kUsualRounds);
  bool pays = numbers <= kMostNumbers && (!bounds || found.cost > kLeastWork);
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

// Body and condition of a batched loop, instruction by instruction.
class BatchedRound {
 public:
  BatchedRound(const NumberLoop& numbers, int64_t rows, std::vector<bool> varies)
      : loop_(numbers.loop), bounds_(numbers.bounds), rows_(rows), varies_(std::move(varies)) {
    FindVarying();
  }
  bool Varies(int64_t k) const { return varies_[static_cast<size_t>(k)]; }

  // The state after a round, which is the one of this number where rounds are counted.
  Result<std::vector<Instruction*>> Emit(Builder& b, Instruction* number,
                                         std::span<Instruction* const> state) {
    TRY(EmitAll(b, *loop_.body, number, state));
    std::vector<Instruction*> next;
    for (int64_t k = 0; k < loop_.size(); ++k) {
      Instruction* value = IsCounter(k) ? state[static_cast<size_t>(k)] : map_.Find(loop_.Next(k));
      next.push_back(Varies(k) ? TRY(InAllRows(b, value, rows_)) : value);
    }
    return next;
  }

  // The rows that make a further round.
  Result<Instruction*> GoesOn(Builder& b, std::span<Instruction* const> state) {
    TRY(EmitAll(b, *loop_.condition, nullptr, state));
    return InAllRows(b, map_.Find(loop_.condition->root()), rows_);
  }

 private:
  bool IsCounter(int64_t k) const { return bounds_ && k == bounds_->index; }

  Status EmitAll(Builder& b, const hlo::Computation& from, Instruction* number,
                 std::span<Instruction* const> state) {
    map_ = {};
    for (const Instruction* i : from) {
      if (i->IsParameter() || i == loop_.body->root()) continue;
      if (IsState(loop_, *i)) {
        const int64_t k = i->tuple_index();
        map_.instructions[i] =
            IsCounter(k) ? TRY(Counter(b, number)) : state[static_cast<size_t>(k)];
      } else if (i->IsRoot() || !i->users().empty()) {
        map_.instructions[i] = TRY(EmitOne(b, *i));
      }
    }
    return {};
  }

  // What is computed from numbers that differ differs.
  void FindVaryingIn(const hlo::Computation& computation) {
    for (const Instruction* i : computation) {
      bool varies =
          IsState(loop_, *i)
              ? Varies(i->tuple_index())
              : std::ranges::any_of(i->operands(), [&](auto* o) { return varying_.contains(o); });
      if (varies) varying_.insert(i);
    }
  }

  // To a fixed point.
  void FindVarying() {
    for (bool again = true; again;) {
      again = false;
      varying_.clear();
      FindVaryingIn(*loop_.body);
      FindVaryingIn(*loop_.condition);
      for (int64_t k = 0; k < loop_.size(); ++k) {
        if (Varies(k) || !varying_.contains(loop_.Next(k))) continue;
        varies_[static_cast<size_t>(k)] = again = true;
      }
    }
  }

  Result<Instruction*> Counter(Builder& b, Instruction* number) {
    const Shape& shape = loop_.op->shape().tuple_element(bounds_->index);
    Instruction* value = number;
    if (shape.dtype() != DType::kS32) value = TRY(b.Convert(value, shape.dtype()));
    auto constant = [&](int64_t x) {
      return b.ScalarConstant(shape.dtype(), static_cast<double>(x));
    };
    if (bounds_->step != 1) value = TRY(b.Add(Op::kMultiply, {value, constant(bounds_->step)}));
    if (bounds_->init != 0) value = TRY(b.Add(Op::kAdd, {value, constant(bounds_->init)}));
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
  const std::optional<LoopBounds>& bounds_;
  const int64_t rows_;
  std::vector<bool> varies_;  // of the state
  std::unordered_set<const Instruction*> varying_;
  hlo::CloneMap map_;
};

// The loop of one block: while a row goes on; rows that are done stay as they are.
Result<std::vector<Instruction*>> AddMaskedWhile(Builder& b, const Loop& loop, BatchedRound& round,
                                                 std::span<Instruction* const> init) {
  hlo::Module& module = *b.computation().module();
  Instruction* start = TRY(b.Tuple(init));
  auto elements = [&](Builder& in) -> Result<std::vector<Instruction*>> {
    Instruction* tuple = TRY(in.Parameter(0, start->shape()));
    std::vector<Instruction*> state;
    for (int64_t k = 0; k < loop.size(); ++k) state.push_back(TRY(in.GetTupleElement(tuple, k)));
    return state;
  };
  hlo::Computation* any = TRY(AddScalarBinary(module, Op::kOr, DType::kPred, &b.computation()));
  hlo::Computation* condition =
      module.AddComputation(module.UniqueName("any_row_goes_on"), &b.computation());
  Builder c(*condition);
  Instruction* rows = TRY(round.GoesOn(c, TRY(elements(c))));
  condition->set_root(TRY(c.Reduce(rows, c.ScalarConstant(DType::kPred, 0), {0}, any)));

  hlo::Computation* body = module.AddComputation(module.UniqueName("rows"), &b.computation());
  Builder r(*body);
  std::vector<Instruction*> state = TRY(elements(r));
  rows = TRY(round.GoesOn(r, state));
  std::vector<Instruction*> next = TRY(round.Emit(r, nullptr, state));
  for (size_t k = 0; k < state.size(); ++k) {
    bool stays = loop.IsInvariant(static_cast<int64_t>(k));
    next[k] = stays ? state[k] : TRY(r.Add(Op::kSelect, {rows, next[k], state[k]}));
  }
  body->set_root(TRY(r.Tuple(next)));

  Instruction* masked =
      TRY(b.Add(Op::kWhile, {start}, hlo::WhileAttrs{.condition = condition, .body = body}));
  std::vector<Instruction*> last;
  for (int64_t k = 0; k < loop.size(); ++k) last.push_back(TRY(b.GetTupleElement(masked, k)));
  return last;
}

// All rows, block by block; the last one may overlap with the one before.
Result<std::vector<Instruction*>> BatchUntilDone(Builder& b, const Loop& loop, BatchedRound& round,
                                                 int64_t rows, int64_t block,
                                                 std::span<Instruction* const> first) {
  std::vector<Instruction*> all(first.begin(), first.end());
  std::vector<size_t> changing;
  for (size_t k = 0; k < first.size(); ++k) {
    if (loop.IsInvariant(static_cast<int64_t>(k))) continue;
    changing.push_back(k);
    all.push_back(TRY(b.Fill(first[k]->shape(), 0)));  // its results
  }
  auto emit = [&](Builder& r, Instruction* number,
                  std::span<Instruction* const> state) -> Result<std::vector<Instruction*>> {
    auto constant = [&](int64_t x) {
      return r.ScalarConstant(DType::kS32, static_cast<double>(x));
    };
    Instruction* start = TRY(r.Add(Op::kMultiply, {number, constant(block)}));
    if (rows % block != 0) {
      start = TRY(r.Add(Op::kMinimum, {start, constant(rows - block)}));
    }
    std::vector<Instruction*> own, next(state.begin(), state.end());
    for (size_t k = 0; k < first.size(); ++k) {
      hlo::DynamicSliceAttrs attrs{.dynamic_slice_sizes = {block}};
      own.push_back(round.Varies(static_cast<int64_t>(k))
                        ? TRY(r.Add(Op::kDynamicSlice, {state[k], start}, std::move(attrs)))
                        : state[k]);
    }
    std::vector<Instruction*> last = TRY(AddMaskedWhile(r, loop, round, own));
    for (size_t n = 0; n < changing.size(); ++n) {
      Instruction*& result = next[first.size() + n];
      result = TRY(r.Add(Op::kDynamicUpdateSlice, {result, last[changing[n]], start}));
    }
    return next;
  };
  std::vector<Instruction*> last = TRY(AddCountedLoop(b, (rows + block - 1) / block, all, emit));
  std::vector<Instruction*> results(first.begin(), first.end());
  for (size_t n = 0; n < changing.size(); ++n) results[changing[n]] = last[first.size() + n];
  return results;
}

}  // namespace

Result<std::vector<Instruction*>> BatchLoop(Builder& b, const NumberLoop& numbers, int64_t rows,
                                            int64_t block, std::span<Instruction* const> init) {
  const Loop& loop = numbers.loop;
  const std::optional<LoopBounds>& bounds = numbers.bounds;
  std::vector<bool> varies;
  for (int64_t k = 0; k < loop.size(); ++k) {
    bool number = loop.op->shape().tuple_element(k).elements() == 1;
    bool differs = !IsOneNumber(*init[static_cast<size_t>(k)]);
    varies.push_back(number &&
                     (bounds ? k != bounds->index && differs : differs || !loop.IsInvariant(k)));
  }
  BatchedRound round(numbers, bounds ? rows : block, std::move(varies));
  std::vector<Instruction*> first(init.begin(), init.end());
  for (int64_t k = 0; k < loop.size(); ++k) {
    Instruction*& value = first[static_cast<size_t>(k)];
    if (round.Varies(k)) value = TRY(InAllRows(b, value, rows));
  }
  if (!bounds) return BatchUntilDone(b, loop, round, rows, block, first);
  auto emit = [&](Builder& r, Instruction* number, std::span<Instruction* const> state) {
    return round.Emit(r, number, state);
  };
  std::vector<Instruction*> last = TRY(AddCountedLoop(b, bounds->trips, first, emit));
  const Shape& shape = loop.op->shape().tuple_element(bounds->index);
  Instruction* end = b.ScalarConstant(
      shape.dtype(), static_cast<double>(bounds->init + bounds->trips * bounds->step));
  last[static_cast<size_t>(bounds->index)] = TRY(ReshapeTo(b, end, shape.dims()));
  return last;
}

}  // namespace weft::compiler

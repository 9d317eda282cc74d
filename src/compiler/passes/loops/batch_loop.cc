#include "compiler/passes/loops/batch_loop.h"

#include <algorithm>
#include <limits>

#include "compiler/analysis/element_cost.h"
#include "compiler/passes/loops/batched_round.h"
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

// One element of an array that the loop leaves as it is.
bool IsElementRead(const Loop& loop, const Instruction& i) {
  if (i.op() != Op::kDynamicSlice || !IsOneNumber(i)) return false;
  const Instruction& all = *i.operand(0);
  bool stays = loop.ReadsElement(all) && loop.IsInvariant(all.tuple_index());
  return (stays || all.IsConstant()) && all.shape().IsStatic();
}

// Computed from numbers and short vectors of them.
bool IsOfNumbers(const Loop& loop, const Instruction& i) {
  if (!IsFewNumbers(i)) return false;
  if (IsElementRead(loop, i)) return i.operand_count() == 2;  // else a gather of several indices
  bool moved = i.op() == Op::kReshape || i.op() == Op::kBroadcast || i.op() == Op::kTranspose ||
               i.op() == Op::kSlice || i.op() == Op::kConcatenate;
  bool reduced = i.op() == Op::kReduce && i.operand_count() == 2 && i.operand(1)->IsConstant();
  bool computed = hlo::IsElementwise(i.op()) && i.called_computations().empty() &&
                  i.op() != Op::kStochasticConvert;
  return (moved || reduced || computed) && i.operand_count() > 0 &&
         std::ranges::all_of(i.operands(), [](const Instruction* o) { return IsFewNumbers(*o); });
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
    if (i->IsParameter() || ends || i->IsConstant() || loop.ReadsElement(*i)) continue;
    if (!i->IsRoot() && i->users().empty() && IsPlain(*i, effects)) continue;
    if (!IsPlain(*i, effects) || !IsOfNumbers(loop, *i)) return std::nullopt;
    if (!may_read && IsElementRead(loop, *i)) return std::nullopt;
    const Instruction& of = i->op() == Op::kReduce ? *i->operand(0) : *i;
    if (!IsFree(*i)) cost += ElementCost(*i) * static_cast<double>(of.shape().elements());
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
    if (changes && !IsFewNumbers(shape)) return std::nullopt;
    if (changes) numbers += shape.elements();
  }
  std::optional<double> cost = CostOfNumbers(*loop, *loop->body, bounds.has_value(), effects);
  if (cost && !bounds) {
    std::optional<double> more = CostOfNumbers(*loop, *loop->condition, false, effects);
    cost = more ? std::optional(*cost + *more) : std::nullopt;
  }
  if (!cost) return std::nullopt;
  NumberLoop found{.loop = *loop, .bounds = bounds, .read_by_element = {}};
  for (int64_t k = 0; k < loop->size(); ++k) {
    bool is_read = false;
    for (const Instruction* i : *loop->body) {
      is_read |= IsElementRead(*loop, *i) && loop->ReadsElement(*i->operand(0)) &&
                 i->operand(0)->tuple_index() == k;
    }
    found.read_by_element.push_back(is_read);
  }
  found.cost = *cost * (bounds ? static_cast<double>(bounds->trips) : kUsualRounds);
  bool pays = numbers <= kMostNumbers && (!bounds || found.cost > kLeastWork);
  return pays ? std::optional(found) : std::nullopt;
}

namespace {

// A part of the rows, or all of them with a part in the place of theirs.
std::vector<Instruction*> StartOfRows(Builder& b, const Instruction& all, Instruction* start) {
  std::vector<Instruction*> starts(all.shape().dims().size(), start);
  for (size_t d = 0; d + 1 < starts.size(); ++d) starts[d] = b.ScalarConstant(DType::kS32, 0);
  return starts;
}

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
    if (stays) {
      next[k] = state[k];
      continue;
    }
    const Shape& shape = next[k]->shape();
    Instruction* which = rows;
    if (shape.rank() > 1) {
      which = TRY(r.Broadcast(rows, Shape(DType::kPred, shape.dims()), {shape.rank() - 1}));
    }
    next[k] = TRY(r.Add(Op::kSelect, {which, next[k], state[k]}));
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
      if (!round.Varies(static_cast<int64_t>(k))) {
        own.push_back(state[k]);
        continue;
      }
      const Dims& dims = state[k]->shape().dims();
      hlo::DynamicSliceAttrs attrs;
      attrs.dynamic_slice_sizes.assign(dims.begin(), dims.end());
      attrs.dynamic_slice_sizes.back() = block;
      std::vector<Instruction*> operands = StartOfRows(r, *state[k], start);
      operands.insert(operands.begin(), state[k]);
      own.push_back(TRY(r.Add(Op::kDynamicSlice, operands, std::move(attrs))));
    }
    std::vector<Instruction*> last = TRY(AddMaskedWhile(r, loop, round, own));
    for (size_t n = 0; n < changing.size(); ++n) {
      Instruction*& result = next[first.size() + n];
      std::vector<Instruction*> operands = StartOfRows(r, *result, start);
      operands.insert(operands.begin(), {result, last[changing[n]]});
      result = TRY(r.Add(Op::kDynamicUpdateSlice, operands, hlo::NoAttrs()));
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
    const Shape& shape = loop.op->shape().tuple_element(k);
    bool number = IsFewNumbers(shape);
    bool differs = number && init[static_cast<size_t>(k)]->shape().elements() != shape.elements();
    varies.push_back(number &&
                     (bounds ? k != bounds->index && differs : differs || !loop.IsInvariant(k)));
  }
  BatchedRound round(numbers, bounds ? rows : block, std::move(varies));
  std::vector<Instruction*> first(init.begin(), init.end());
  for (int64_t k = 0; k < loop.size(); ++k) {
    Instruction*& value = first[static_cast<size_t>(k)];
    if (round.Varies(k)) {
      value = TRY(InEachRow(b, value, loop.op->shape().tuple_element(k), rows));
    }
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

// Scalar replacement of aggregates in loops over rows: state, rows and what a round computes are
// numbers, so that rounds can be lanes (distribute_loops.cc).
#include <algorithm>
#include <limits>
#include <map>

#include "base/log.h"
#include "compiler/analysis/queries.h"
#include "compiler/analysis/trip_count.h"
#include "compiler/passes/loops/batch_loop.h"
#include "compiler/passes/loops/loop_state.h"
#include "compiler/passes/loops/short_vectors.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "program/work_bounds.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// Instructions of a copy: loops with more are left as they are.
constexpr int64_t kMostEmitted = program::CodeBounds::kMembers;

// A value in the copy: numbers, or an array that stays, as it is and as a row.
struct Value {
  Numbers numbers;
  Instruction *whole = nullptr, *flat = nullptr;
  bool IsNone() const { return numbers.empty() && flat == nullptr; }
};

// Where an element of the state is in the state of the copy.
struct Slot {
  enum Kind { kNumbers, kArray, kRows } kind = kNumbers;
  int64_t first = 0, count = 0;
};

class NumberCopy {
 public:
  NumberCopy(const Loop& loop, const LoopBounds& bounds, const Effects& effects)
      : loop_(loop), bounds_(bounds), effects_(effects) {}
  Result<std::optional<LoopInNumbers>> Copy(bool rows);

 private:
  using Values = std::map<const Instruction*, Value>;

  bool IsPlain(const Instruction& i) const {
    return !HasControlDependencies(i) && i.sharding() == nullptr && effects_.IsFunction(i);
  }
  bool IsRowStore(int64_t k) const;
  bool IsOfRows(int64_t k) const;
  Result<bool> AddStart(Builder& b, int64_t k);
  void AddSlot(Slot::Kind kind, std::span<Instruction* const> init);
  Result<std::vector<Value>> StateOf(Builder& b, Instruction* tuple, std::span<const Slot> slots);
  Result<bool> EmitAll(Builder& b, const Loop& loop, const Computation& from,
                       std::span<const Value> state);
  Result<Value> Emit(Builder& b, const Instruction& i);
  Result<Value> Read(Builder& b, const Instruction& i, const Value& array);
  Result<bool> EmitInner(Builder& b, const Instruction& i);
  Result<Instruction*> AddLoop(Builder& b, const Loop& loop, std::span<Instruction* const> init,
                               std::span<const Slot> slots);
  Result<std::vector<Instruction*>> Next(Builder& b, const Loop& loop, Instruction* state,
                                         std::span<const Slot> slots);
  Result<Numbers> InNumbers(Builder& b, const Instruction& i);
  Result<std::vector<Instruction*>> Results(Builder& b, Instruction* copy);

  const Loop loop_;
  const LoopBounds bounds_;
  const Effects& effects_;
  std::vector<Slot> slots_;
  std::vector<Instruction*> init_;
  Values values_;
  std::map<const Instruction*, std::vector<Value>> tuples_;  // of loops inside
  Instruction* counter_ = nullptr;                           // of the copy's round
  int64_t copied_ = 0;
};

// All of the row of the counter is written, one in every round, and the array is not read.
bool NumberCopy::IsRowStore(int64_t k) const {
  const Instruction& write = *loop_.Next(k);
  if (write.op() != Op::kDynamicUpdateSlice || !IsPlain(write)) return false;
  const Shape &array = write.shape(), &row = write.operand(1)->shape();
  const Instruction *before = write.operand(0), *index = write.operand(2);
  if (!loop_.ReadsElement(*before) || before->tuple_index() != k) return false;
  if (!loop_.ReadsElement(*index) || index->tuple_index() != bounds_.index) return false;
  if (!IsFewNumbers(row) || row.elements() * array.dim(0) != array.elements()) return false;
  if (bounds_.init != 0 || bounds_.step != 1 || bounds_.trips != array.dim(0)) return false;
  auto is_read = [&](const Instruction* state) {
    if (state->tuple_index() != k) return false;
    return std::ranges::any_of(state->users(), [&](auto* user) { return user != &write; });
  };
  return write.users().size() == 1 && std::ranges::none_of(loop_.body_state->users(), is_read) &&
         std::ranges::none_of(loop_.condition_state->users(), is_read);
}

bool NumberCopy::IsOfRows(int64_t k) const {
  return slots_[static_cast<size_t>(k)].kind == Slot::kRows;
}

void NumberCopy::AddSlot(Slot::Kind kind, std::span<Instruction* const> init) {
  slots_.push_back({kind, std::ssize(init_), std::ssize(init)});
  init_.insert(init_.end(), init.begin(), init.end());
}

// What element k of the state is in the copy; false: it is something else.
Result<bool> NumberCopy::AddStart(Builder& b, int64_t k) {
  const Shape& shape = loop_.op->shape().tuple_element(k);
  if (!shape.IsArray() || !shape.IsStatic() || IsPackable(shape.dtype())) return false;
  if (shape.elements() == 1) {
    Instruction* number = TRY(ReshapeTo(b, TRY(ReadInit(loop_, k)), {}));
    AddSlot(Slot::kNumbers, std::span(&number, 1));
    return true;
  }
  if (loop_.IsInvariant(k)) {
    if (shape.elements() > std::numeric_limits<int32_t>::max()) return false;
    std::vector<Instruction*> array = {TRY(ReadInit(loop_, k))};
    const int64_t row[] = {shape.elements()};
    if (shape.rank() > 1) array.push_back(TRY(ReshapeTo(b, array[0], row)));
    AddSlot(Slot::kArray, array);
    return true;
  }
  if (IsFewNumbers(shape) && !IsRowStore(k)) {
    AddSlot(Slot::kNumbers, TRY(ElementsOf(b, TRY(ReadInit(loop_, k)))));
    return true;
  }
  if (!IsRowStore(k)) return false;
  const Shape column(shape.dtype(), {shape.dim(0)});
  std::vector<Instruction*> columns;
  for (int64_t n = 0; n < shape.elements() / shape.dim(0); ++n) {
    columns.push_back(TRY(b.Fill(column, 0)));
  }
  AddSlot(Slot::kRows, columns);
  return true;
}

Result<std::vector<Value>> NumberCopy::StateOf(Builder& b, Instruction* tuple,
                                               std::span<const Slot> slots) {
  std::vector<Value> values;
  for (const Slot& slot : slots) {
    Value& value = values.emplace_back();
    for (int64_t n = 0; n < slot.count && slot.kind != Slot::kRows; ++n) {
      Instruction* element = TRY(b.GetTupleElement(tuple, slot.first + n));
      if (slot.kind == Slot::kNumbers) value.numbers.push_back(element);
      if (slot.kind == Slot::kArray && n == 0) value.whole = element;
      if (slot.kind == Slot::kArray) value.flat = element;
    }
  }
  return values;
}

// The elements of an array that is few numbers; empty: it is not.
Result<Numbers> NumberCopy::InNumbers(Builder& b, const Instruction& i) {
  auto found = values_.find(&i);
  if (found == values_.end()) return Numbers();
  const Value& value = found->second;
  if (!value.numbers.empty() || !IsFewNumbers(i) || value.flat == nullptr) return value.numbers;
  Numbers elements;
  for (int64_t n = 0; n < i.shape().elements(); ++n) {
    Instruction* place = b.ScalarConstant(DType::kS32, static_cast<double>(n));
    Instruction* one = TRY(b.Add(Op::kDynamicSlice, {value.flat, place},
                                 hlo::DynamicSliceAttrs{.dynamic_slice_sizes = {1}}));
    elements.push_back(TRY(b.Reshape(one, {})));
  }
  return elements;
}

// A part of an array that stays: of the counter's row by columns, else at places that are computed.
Result<Value> NumberCopy::Read(Builder& b, const Instruction& i, const Value& array) {
  const Shape &part = i.shape(), &all = i.operand(0)->shape();
  Numbers starts;
  bool is_row = array.whole != nullptr && all.dim(0) == bounds_.trips && part.dim(0) == 1;
  for (int64_t d = 0; d < all.rank(); ++d) {
    Numbers start = TRY(InNumbers(b, *i.operand(1 + d)));
    if (start.empty()) return Value();
    starts.push_back(start[0]);
    is_row &= d == 0 ? start[0] == counter_
                     : part.dim(d) == all.dim(d) || IntegerValue(*i.operand(1 + d)).has_value();
  }
  Value value;
  value.numbers =
      is_row ? TRY(ReadRow(b, i, array.whole, counter_)) : TRY(ReadFlat(b, i, array.flat, starts));
  return value;
}

Result<Value> NumberCopy::Emit(Builder& b, const Instruction& i) {
  Value value;
  if (!i.shape().IsArray() || !i.shape().IsStatic() || IsPackable(i.shape().dtype())) {
    return value;
  }
  if (i.IsConstant() && !IsFewNumbers(i)) {
    if (i.attrs<hlo::ConstantAttrs>().elided) return value;
    value.flat =
        b.Constant(i.literal().WithShape(Shape(i.shape().dtype(), {i.shape().elements()})));
    return value;
  }
  if (!IsFewNumbers(i) || (i.IsConstant() && i.attrs<hlo::ConstantAttrs>().elided)) return value;
  if (i.IsConstant() || i.op() == Op::kIota) {
    value.numbers = ElementsOfLeaf(b, i);
    return value;
  }
  if (i.op() == Op::kDynamicSlice) {
    auto array = values_.find(i.operand(0));
    if (array != values_.end() && array->second.flat != nullptr) return Read(b, i, array->second);
  }
  std::vector<Numbers> operands;
  for (const Instruction* operand : i.operands()) {
    operands.push_back(TRY(InNumbers(b, *operand)));
    if (operands.back().empty()) return value;
  }
  value.numbers = TRY(EmitByElement(b, i, operands));
  return value;
}

Result<bool> NumberCopy::EmitAll(Builder& b, const Loop& loop, const Computation& from,
                                 std::span<const Value> state) {
  for (const Instruction* i : from) {
    if (i->IsParameter() || (i->users().empty() && !i->IsRoot())) continue;
    if (i->op() == Op::kTuple && IsPlain(*i)) continue;  // of a loop's start, or the root
    const Instruction* of = i->op() == Op::kGetTupleElement ? i->operand(0) : nullptr;
    if (of != nullptr && loop.ReadsElement(*i)) {
      values_[i] = state[static_cast<size_t>(i->tuple_index())];
    } else if (of != nullptr && tuples_.contains(of)) {
      values_[i] = tuples_[of][static_cast<size_t>(i->tuple_index())];
    } else if (&from == loop_.body && i->op() == Op::kDynamicUpdateSlice && !IsFewNumbers(*i)) {
      continue;  // a store: IsRowStore
    } else if (!IsPlain(*i)) {
      return false;
    } else if (i->op() == Op::kWhile) {
      if (!TRY(EmitInner(b, *i))) return false;
    } else {
      const int64_t before = b.computation().module()->id_limit();
      values_[i] = TRY(Emit(b, *i));
      copied_ += b.computation().module()->id_limit() - before;
      if (values_[i].IsNone() || copied_ > kMostEmitted) {
        VLOG("pass", 3) << loop_.op->name() << " is not of numbers: " << i->name();
        return false;
      }
    }
  }
  return true;
}

// A loop inside, whose state is numbers and arrays that stay.
Result<bool> NumberCopy::EmitInner(Builder& b, const Instruction& i) {
  std::optional<Loop> inner = FindLoop(const_cast<Instruction*>(&i));
  if (!inner || i.operand(0)->op() != Op::kTuple) return false;
  std::vector<Slot> slots;
  std::vector<Instruction*> init;
  std::vector<Value> last(static_cast<size_t>(inner->size()));
  for (int64_t k = 0; k < inner->size(); ++k) {
    const Instruction& start = *inner->Init(k);
    auto found = values_.find(&start);
    if (found == values_.end()) return false;
    const Value& value = found->second;
    Slot slot{Slot::kNumbers, std::ssize(init), 0};
    if (inner->IsInvariant(k) && value.flat != nullptr) {
      slot.kind = Slot::kArray;
      if (value.whole != nullptr && value.whole != value.flat) init.push_back(value.whole);
      init.push_back(value.flat);
      last[static_cast<size_t>(k)] = value;
    } else {
      Numbers numbers = TRY(InNumbers(b, start));
      if (numbers.empty()) return false;
      init.insert(init.end(), numbers.begin(), numbers.end());
    }
    slot.count = std::ssize(init) - slot.first;
    slots.push_back(slot);
  }
  Instruction* op = TRY(AddLoop(b, *inner, init, slots));
  if (op == nullptr) return false;
  std::vector<Value> behind = TRY(StateOf(b, op, slots));
  for (size_t k = 0; k < last.size(); ++k) {
    if (last[k].IsNone()) last[k] = behind[k];
  }
  tuples_[&i] = std::move(last);
  return true;
}

// The state after a round; empty: it is not of numbers.
Result<std::vector<Instruction*>> NumberCopy::Next(Builder& b, const Loop& loop, Instruction* state,
                                                   std::span<const Slot> slots) {
  std::vector<Instruction*> next;
  for (int64_t k = 0; k < loop.size(); ++k) {
    const Slot& slot = slots[static_cast<size_t>(k)];
    const Instruction& value = *loop.Next(k);
    if (slot.kind == Slot::kArray) {
      for (int64_t n = 0; n < slot.count; ++n) {
        next.push_back(TRY(b.GetTupleElement(state, slot.first + n)));
      }
      continue;
    }
    const Instruction& numbers_of = slot.kind == Slot::kRows ? *value.operand(1) : value;
    Numbers numbers = TRY(InNumbers(b, numbers_of));
    if (std::ssize(numbers) != slot.count) return std::vector<Instruction*>();
    for (int64_t n = 0; n < slot.count; ++n) {
      Instruction* number = numbers[static_cast<size_t>(n)];
      if (slot.kind == Slot::kRows) {
        const int64_t one[] = {1};
        Instruction* column = TRY(b.GetTupleElement(state, slot.first + n));
        number =
            TRY(b.Add(Op::kDynamicUpdateSlice, {column, TRY(b.Reshape(number, one)), counter_}));
      }
      next.push_back(number);
    }
  }
  return next;
}

// The loop over these, added with `b`; null: it cannot be one.
Result<Instruction*> NumberCopy::AddLoop(Builder& b, const Loop& loop,
                                         std::span<Instruction* const> init,
                                         std::span<const Slot> slots) {
  hlo::Module& module = *b.computation().module();
  Instruction* start = TRY(b.Tuple(init));
  Computation* condition =
      module.AddComputation(module.UniqueName(loop.condition->name()), &b.computation());
  Builder c(*condition);
  std::vector<Value> state = TRY(StateOf(c, TRY(c.Parameter(0, start->shape())), slots));
  if (!TRY(EmitAll(c, loop, *loop.condition, state))) return nullptr;
  Numbers goes_on = TRY(InNumbers(c, *loop.condition->root()));
  if (goes_on.size() != 1) return nullptr;
  condition->set_root(goes_on[0]);

  Computation* body = module.AddComputation(module.UniqueName(loop.body->name()), &b.computation());
  Builder r(*body);
  Instruction* parameter = TRY(r.Parameter(0, start->shape()));
  state = TRY(StateOf(r, parameter, slots));
  if (loop.op == loop_.op) counter_ = state[static_cast<size_t>(bounds_.index)].numbers[0];
  if (!TRY(EmitAll(r, loop, *loop.body, state))) return nullptr;
  std::vector<Instruction*> next = TRY(Next(r, loop, parameter, slots));
  if (next.empty()) return nullptr;
  body->set_root(TRY(r.Tuple(next)));
  return b.Add(Op::kWhile, {start}, hlo::WhileAttrs{.condition = condition, .body = body});
}

Result<std::vector<Instruction*>> NumberCopy::Results(Builder& b, Instruction* copy) {
  std::vector<Instruction*> results;
  for (int64_t k = 0; k < loop_.size(); ++k) {
    const Slot& slot = slots_[static_cast<size_t>(k)];
    const Dims& dims = loop_.op->shape().tuple_element(k).dims();
    std::vector<Instruction*> parts;
    for (int64_t n = 0; n < (slot.kind == Slot::kArray ? 1 : slot.count); ++n) {
      parts.push_back(TRY(b.GetTupleElement(copy, slot.first + n)));
      const int64_t column[] = {slot.kind == Slot::kRows ? bounds_.trips : 1, 1};
      if (slot.kind != Slot::kArray) parts.back() = TRY(b.Reshape(parts.back(), column));
    }
    Instruction* all = parts[0];
    if (parts.size() > 1) {
      all = TRY(b.Add(Op::kConcatenate, parts, hlo::DimensionsAttrs{.dimensions = {1}}));
    }
    results.push_back(TRY(ReshapeTo(b, all, dims)));
  }
  return results;
}

Result<std::optional<LoopInNumbers>> NumberCopy::Copy(bool rows) {
  Builder b(*loop_.op->parent(), loop_.op, loop_.op);
  bool stores = false;
  for (int64_t k = 0; k < loop_.size(); ++k) {
    if (!TRY(AddStart(b, k))) return std::nullopt;
    stores |= IsOfRows(k);
  }
  if (stores != rows) return std::nullopt;
  LoopInNumbers copy{.op = TRY(AddLoop(b, loop_, init_, slots_)), .results = {}};
  if (copy.op == nullptr) return std::nullopt;
  copy.results = TRY(Results(b, copy.op));
  return copy;
}

}  // namespace

Result<std::optional<LoopInNumbers>> CopyInNumbers(Instruction* op, bool rows,
                                                   const Effects& effects) {
  std::optional<Loop> loop = FindLoop(op);
  std::optional<LoopBounds> bounds = FindLoopBounds(*op);
  if (!loop || !bounds || op->IsRoot()) return std::nullopt;
  for (const Instruction* user : op->users()) {
    if (user->op() != Op::kGetTupleElement || HasControlDependencies(*user)) return std::nullopt;
  }
  return NumberCopy(*loop, *bounds, effects).Copy(rows);
}

}  // namespace weft::compiler

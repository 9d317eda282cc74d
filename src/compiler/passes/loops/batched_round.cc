#include "compiler/passes/loops/batched_round.h"

#include <algorithm>
#include <numeric>

#include "compiler/passes/rewrite.h"

namespace weft::compiler {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

namespace {

// Of each row a number, or short vectors side by side: rows are lanes.
Shape InRows(const Shape& one, int64_t rows) {
  Dims dims;
  if (one.elements() != 1) dims = one.dims();
  dims.push_back(rows);
  return Shape(one.dtype(), dims);
}

// Operands are moved, not computed with.
bool IsMoved(const Instruction& i) {
  return i.op() == Op::kReshape || i.op() == Op::kBroadcast || i.op() == Op::kTranspose ||
         i.op() == Op::kSlice || i.op() == Op::kConcatenate || i.op() == Op::kReduce;
}

}  // namespace

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

Result<Instruction*> InEachRow(Builder& b, Instruction* value, const Shape& one, int64_t rows) {
  if (value->shape().dims() != one.dims()) return value;
  if (one.elements() == 1) return InAllRows(b, value, rows);
  std::vector<int64_t> dims(one.dims().size());
  std::iota(dims.begin(), dims.end(), 0);
  return b.Broadcast(value, InRows(one, rows), dims);
}

BatchedRound::BatchedRound(const NumberLoop& numbers, int64_t rows, std::vector<bool> varies)
    : loop_(numbers.loop), bounds_(numbers.bounds), rows_(rows), varies_(std::move(varies)) {
  FindVarying();
}

Result<std::vector<Instruction*>> BatchedRound::Emit(Builder& b, Instruction* number,
                                                     std::span<Instruction* const> state) {
  TRY(EmitAll(b, *loop_.body, number, state));
  std::vector<Instruction*> next;
  for (int64_t k = 0; k < loop_.size(); ++k) {
    Instruction* value = IsCounter(k) ? state[static_cast<size_t>(k)] : map_.Find(loop_.Next(k));
    next.push_back(Varies(k) ? TRY(InEachRow(b, value, loop_.Next(k)->shape(), rows_)) : value);
  }
  return next;
}

Result<Instruction*> BatchedRound::GoesOn(Builder& b, std::span<Instruction* const> state) {
  TRY(EmitAll(b, *loop_.condition, nullptr, state));
  return InAllRows(b, map_.Find(loop_.condition->root()), rows_);
}

Status BatchedRound::EmitAll(Builder& b, const hlo::Computation& from, Instruction* number,
                             std::span<Instruction* const> state) {
  map_ = {};
  for (const Instruction* i : from) {
    if (i->IsParameter() || i == loop_.body->root()) continue;
    if (loop_.ReadsElement(*i)) {
      const int64_t k = i->tuple_index();
      map_.instructions[i] = IsCounter(k) ? TRY(Counter(b, number)) : state[static_cast<size_t>(k)];
    } else if (i->IsRoot() || !i->users().empty()) {
      map_.instructions[i] = TRY(EmitOne(b, *i));
    }
  }
  return {};
}

// What is computed from numbers that differ differs.
void BatchedRound::FindVaryingIn(const hlo::Computation& computation) {
  for (const Instruction* i : computation) {
    bool varies =
        loop_.ReadsElement(*i)
            ? Varies(i->tuple_index())
            : std::ranges::any_of(i->operands(), [&](auto* o) { return varying_.contains(o); });
    if (varies) varying_.insert(i);
  }
}

// To a fixed point.
void BatchedRound::FindVarying() {
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

Result<Instruction*> BatchedRound::Counter(Builder& b, Instruction* number) {
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

// An operand in each row, with the dimensions that its vector has and one of the rows.
Result<Instruction*> BatchedRound::Operand(Builder& b, Instruction* o) {
  Instruction* value = TRY(InEachRow(b, map_.Find(o), o->shape(), rows_));
  Dims dims = o->shape().dims();
  dims.push_back(rows_);
  return ReshapeTo(b, value, dims);
}

Result<Instruction*> BatchedRound::EmitOne(Builder& b, const Instruction& i) {
  if (!varying_.contains(&i)) return hlo::CloneInstruction(i, b.computation(), map_);
  if (i.op() == Op::kDynamicSlice) {
    return GatherRows(b, map_.Find(i.operand(0)), map_.Find(i.operand(1)));
  }
  bool numbers =
      IsOneNumber(i) && i.op() != Op::kReduce &&
      std::ranges::all_of(i.operands(), [](const Instruction* o) { return IsOneNumber(*o); });
  if (!numbers) return ReshapeTo(b, TRY(EmitVector(b, i)), InRows(i.shape(), rows_).dims());
  if (i.operand_count() == 1 && IsMoved(i)) return map_.Find(i.operand(0));
  Shape shape(i.shape().dtype(), {rows_});
  std::vector<Instruction*> operands;
  for (Instruction* o : i.operands()) {
    operands.push_back(TRY(InAllRows(b, map_.Find(o), rows_)));
  }
  return b.Add(i.op(), operands, i.attrs(), &shape);
}

// The same with a dimension of rows behind the others.
Result<Instruction*> BatchedRound::EmitVector(Builder& b, const Instruction& i) {
  Dims dims = i.shape().dims();
  dims.push_back(rows_);
  const Shape shape(i.shape().dtype(), dims);
  std::vector<Instruction*> operands;
  for (Instruction* o : i.operands()) {
    bool init = i.op() == Op::kReduce && o == i.operand(1);
    operands.push_back(init ? map_.Find(o) : TRY(Operand(b, o)));
  }
  hlo::Attrs attrs = i.attrs();
  if (i.op() == Op::kReshape) return ReshapeTo(b, operands[0], dims);
  if (i.op() == Op::kBroadcast) {
    auto& to = attrs.Mutable<hlo::BroadcastAttrs>().dimensions;
    to.push_back(i.shape().rank());
    return b.Broadcast(operands[0], shape, to);
  }
  if (i.op() == Op::kTranspose) {
    attrs.Mutable<hlo::DimensionsAttrs>().dimensions.push_back(i.shape().rank());
  } else if (i.op() == Op::kSlice) {
    attrs.Mutable<hlo::SliceAttrs>().slice.push_back({.start = 0, .limit = rows_});
  } else if (!IsMoved(i)) {  // a predicate of all elements is a number
    for (size_t n = 0; n < operands.size(); ++n) {
      if (operands[n]->shape().rank() == shape.rank()) continue;
      Shape wide(operands[n]->shape().dtype(), dims);
      operands[n] = TRY(b.Broadcast(operands[n], wide, {shape.rank() - 1}));
    }
    return b.Add(i.op(), operands, std::move(attrs), &shape);
  }
  return b.Add(i.op(), operands, std::move(attrs));
}

}  // namespace weft::compiler

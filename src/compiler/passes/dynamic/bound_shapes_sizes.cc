// bound-dynamic-shapes: ops that read and set sizes.
#include <algorithm>

#include "compiler/passes/dynamic/bound_shapes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

Instruction* Count(Builder& b, int64_t value) {
  return b.ScalarConstant(DType::kS32, static_cast<double>(value));
}

Result<Instruction*> WithinBound(Builder& b, Instruction* size, int64_t bound) {
  size = TRY(ReshapeTo(b, TRY(b.Convert(size, DType::kS32)), {}));
  return b.Add(Op::kClamp, {Count(b, 0), size, Count(b, bound)});
}

Result<BoundValue> BoundSetSize(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  int64_t dim = i->attrs<hlo::DimensionsAttrs>().dimensions[0];
  Instruction* value = i->operand(0);
  Sizes sizes = known.OfArray(*value);
  sizes[static_cast<size_t>(dim)] = TRY(WithinBound(b, i->operand(1), value->shape().dim(dim)));
  // Not the operand itself, which keeps the sizes that it has.
  Instruction* copy = value->shape().dtype() == i->shape().dtype()
                          ? TRY(b.Add(Op::kCopy, {value}))
                          : TRY(b.Convert(value, i->shape().dtype()));
  hlo::ReplaceInstruction(i, copy);
  return BoundValue{copy, {sizes}};
}

Result<BoundValue> BoundGetSize(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  int64_t dim = i->attrs<hlo::DimensionsAttrs>().dimensions[0];
  Instruction* size = SizeValue(b, known.OfArray(*i->operand(0)), i->operand(0)->shape(), dim);
  ReplaceWithValue(i, size);
  return BoundValue{size, {Sizes()}};
}

// Where each place of the result comes from: its rank among the elements that are there, and which
// place of the operand has that rank.
Result<Instruction*> SourcePlaces(Builder& b, const Shape& shape, const Sizes& to,
                                  const Shape& from_shape, const Sizes& from) {
  Shape places(DType::kS32, shape.dims());
  auto wide = [&](Instruction* scalar) { return b.Broadcast(scalar, places, {}); };
  Instruction* rank = TRY(wide(Count(b, 0)));
  for (int64_t d = 0; d < shape.rank(); ++d) {
    Instruction* at = TRY(b.Add(Op::kIota, {}, hlo::IotaAttrs{.iota_dimension = d}, &places));
    rank = TRY(b.Add(Op::kMultiply, {rank, TRY(wide(to[static_cast<size_t>(d)]))}));
    rank = TRY(b.Add(Op::kAdd, {rank, at}));
  }
  Instruction* place = TRY(wide(Count(b, 0)));
  int64_t stride = 1;
  for (int64_t d = from_shape.rank() - 1; d >= 0; --d) {
    Instruction* size = TRY(b.Add(Op::kMaximum, {SizeValue(b, from, from_shape, d), Count(b, 1)}));
    size = TRY(wide(size));
    Instruction* at = TRY(b.Add(Op::kRemainder, {rank, size}));
    rank = TRY(b.Add(Op::kDivide, {rank, size}));
    at = TRY(b.Add(Op::kMultiply, {at, TRY(wide(Count(b, stride)))}));
    place = TRY(b.Add(Op::kAdd, {place, at}));
    stride *= from_shape.dim(d);
  }
  return place;
}

Result<BoundValue> BoundDynamicReshape(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  Instruction* from = i->operand(0);
  Shape shape(i->shape().dtype(), i->shape().dims());
  Sizes sizes;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    sizes.push_back(TRY(WithinBound(b, i->operand(d + 1), shape.dim(d))));
  }
  Instruction* value = nullptr;
  const int64_t elements = shape.elements();
  if (elements == 0) {
    value = TRY(b.Fill(shape, 0));
  } else {
    Instruction* places = TRY(SourcePlaces(b, shape, sizes, from->shape(), known.OfArray(*from)));
    const int64_t flat[] = {elements};
    hlo::GatherAttrs gather;
    gather.collapsed_slice_dims = gather.start_index_map = {0};
    gather.index_vector_dim = shape.rank();
    gather.slice_sizes = {1};
    value = TRY(b.Add(Op::kGather, {TRY(ReshapeTo(b, from, flat)), places}, gather));
    value = TRY(FillBeyond(b, value, sizes, b.ScalarConstant(shape.dtype(), 0)));
  }
  hlo::ReplaceInstruction(i, value);
  return BoundValue{value, {sizes}};
}

// The bound of an array and its sizes.
Result<BoundValue> BoundPadToStatic(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  Instruction* from = i->operand(0);
  std::vector<Instruction*> results = {TRY(b.Add(Op::kCopy, {from}))};
  for (int64_t d = 0; d < from->shape().rank(); ++d) {
    results.push_back(SizeValue(b, known.OfArray(*from), from->shape(), d));
  }
  Instruction* tuple = TRY(b.Tuple(results));
  hlo::ReplaceInstruction(i, tuple);
  std::vector<Sizes> leaves(results.size());
  leaves[0].resize(static_cast<size_t>(from->shape().rank()), nullptr);
  return BoundValue{tuple, leaves};
}

Result<BoundValue> BoundSliceToDynamic(Instruction* i) {
  Builder b(*i->parent(), i, i);
  Shape shape = i->shape();
  Sizes sizes(static_cast<size_t>(shape.rank()), nullptr);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (!shape.is_dynamic(d)) continue;
    sizes[static_cast<size_t>(d)] = TRY(WithinBound(b, i->operand(d + 1), shape.dim(d)));
  }
  Instruction* value = TRY(b.Add(Op::kCopy, {i->operand(0)}));
  hlo::ReplaceInstruction(i, value);
  return BoundValue{value, {sizes}};
}

bool IsPadToStatic(const Instruction& i) {
  return i.op() == Op::kCustomCall && i.operand_count() == 1 &&
         i.attrs<hlo::CustomCallAttrs>().custom_call_target == "PadToStatic" &&
         i.shape().IsTuple() && i.operand(0)->shape().IsArray() &&
         i.shape().tuple_size() == i.operand(0)->shape().rank() + 1 &&
         Shape::SameDims(i.shape().tuple_element(0), i.operand(0)->shape());
}

bool IsSliceToDynamic(const Instruction& i) {
  if (i.op() != Op::kCustomCall || !i.shape().IsArray() ||
      i.attrs<hlo::CustomCallAttrs>().custom_call_target != "SliceToDynamic" ||
      i.operand_count() != i.shape().rank() + 1 ||
      !Shape::SameDims(i.shape(), i.operand(0)->shape()) ||
      i.shape().dtype() != i.operand(0)->shape().dtype()) {
    return false;
  }
  return std::all_of(i.operands().begin() + 1, i.operands().end(), [](const Instruction* size) {
    return size->shape().IsArray() && IsInteger(size->shape().dtype()) &&
           size->shape().elements() == 1;
  });
}

}  // namespace

bool IsSizeOp(const Instruction& i) {
  return i.op() == Op::kSetDimensionSize || i.op() == Op::kGetDimensionSize ||
         i.op() == Op::kDynamicReshape || IsPadToStatic(i) || IsSliceToDynamic(i);
}

Result<BoundValue> BoundSizeOp(Instruction* i, const KnownSizes& known) {
  switch (i->op()) {
    case Op::kSetDimensionSize: return BoundSetSize(i, known);
    case Op::kGetDimensionSize: return BoundGetSize(i, known);
    case Op::kDynamicReshape: return BoundDynamicReshape(i, known);
    default: return IsPadToStatic(*i) ? BoundPadToStatic(i, known) : BoundSliceToDynamic(i);
  }
}

}  // namespace weft::compiler

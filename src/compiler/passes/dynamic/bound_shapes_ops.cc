// bound-dynamic-shapes: ops by family.
#include <algorithm>

#include "compiler/passes/dynamic/bound_shapes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "hlo/gather_sizes.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

void AppendArrayLeaves(const Shape& shape, std::vector<Shape>& leaves) {
  if (!shape.IsTuple()) {
    leaves.push_back(shape);
    return;
  }
  for (const Shape& element : shape.elements_of_tuple()) AppendArrayLeaves(element, leaves);
}

Sizes Unsized(const Shape& shape) {
  return Sizes(static_cast<size_t>(shape.IsArray() ? shape.rank() : 0), nullptr);
}

Instruction* S32(Builder& b, int64_t value) {
  return b.ScalarConstant(DType::kS32, static_cast<double>(value));
}

Result<Instruction*> Smaller(Builder& b, Instruction* x, Instruction* y) {
  if (x == nullptr || x == y) return y;
  if (y == nullptr) return x;
  return b.Add(Op::kMinimum, {x, y});
}

// Everything that has elements of equal index: the smallest of the operands' sizes.
Result<Sizes> ElementwiseSizes(Builder& b, const Instruction& i, const KnownSizes& known) {
  Sizes sizes = Unsized(i.shape());
  for (const Instruction* operand : i.operands()) {
    if (!operand->shape().IsArray() || operand->shape().rank() != i.shape().rank()) continue;
    Sizes own = known.OfArray(*operand);
    for (size_t d = 0; d < sizes.size(); ++d) sizes[d] = TRY(Smaller(b, sizes[d], own[d]));
  }
  return sizes;
}

// Leading and trailing dimensions that stay keep their sizes.
Sizes ReshapedSizes(const Instruction& i, const Sizes& own) {
  Sizes sizes = Unsized(i.shape());
  const Dims &a = i.operand(0)->shape().dims(), &to = i.shape().dims();
  size_t head = 0, tail = 0, shorter = std::min(a.size(), to.size());
  while (head < shorter && a[head] == to[head]) ++head;
  while (tail < shorter - head && a[a.size() - 1 - tail] == to[to.size() - 1 - tail]) ++tail;
  for (size_t d = 0; d < head; ++d) sizes[d] = own[d];
  for (size_t d = 1; d <= tail; ++d) sizes[to.size() - d] = own[a.size() - d];
  return sizes;
}

Result<Sizes> SlicedSizes(Builder& b, const Instruction& i, const Sizes& own) {
  Sizes sizes = Unsized(i.shape());
  const hlo::SliceDims& slice = i.attrs<hlo::SliceAttrs>().slice;
  for (size_t d = 0; d < own.size(); ++d) {
    if (own[d] == nullptr) continue;
    Instruction* length = TRY(b.Add(Op::kSubtract, {own[d], S32(b, slice[d].start)}));
    length = TRY(b.Add(Op::kClamp, {S32(b, 0), length, S32(b, slice[d].limit - slice[d].start)}));
    if (slice[d].stride != 1) {
      length = TRY(b.Add(Op::kAdd, {length, S32(b, slice[d].stride - 1)}));
      length = TRY(b.Add(Op::kDivide, {length, S32(b, slice[d].stride)}));
    }
    sizes[d] = length;
  }
  return sizes;
}

// What is reversed begins at the run-time size: the reversed bound, moved down by the filler.
Result<Instruction*> Reversed(Builder& b, Instruction* reverse, const Sizes& own) {
  const hlo::Ints dims = reverse->attrs<hlo::DimensionsAttrs>().dimensions;
  const Shape& shape = reverse->shape();
  hlo::PadAttrs pad;
  pad.padding.resize(own.size());
  std::vector<Instruction*> operands = {nullptr};
  bool moves = false;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    Instruction* size = own[static_cast<size_t>(d)];
    bool moved = size != nullptr && std::ranges::find(dims, d) != dims.end();
    moves |= moved;
    if (moved) pad.padding[static_cast<size_t>(d)].high = shape.dim(d);
    operands.push_back(moved ? TRY(b.Add(Op::kSubtract, {S32(b, shape.dim(d)), size})) : S32(b, 0));
  }
  if (!moves) return reverse;
  Instruction* zero = b.ScalarConstant(shape.dtype(), 0);
  operands[0] = TRY(b.Add(Op::kPad, {reverse, zero}, pad));
  hlo::DynamicSliceAttrs slice;
  slice.dynamic_slice_sizes.assign(shape.dims().begin(), shape.dims().end());
  return b.Add(Op::kDynamicSlice, operands, slice);
}

Result<Sizes> PaddedSizes(Builder& b, Instruction* pad, const Sizes& own) {
  const hlo::Padding& padding = pad->attrs<hlo::PadAttrs>().padding;
  Sizes sizes = Unsized(pad->shape());
  for (size_t d = 0; d < own.size(); ++d) {
    if (own[d] == nullptr) continue;
    const hlo::PaddingDim& p = padding[d];
    Instruction* size = own[d];
    if (p.interior > 0) {
      Instruction* gaps = TRY(b.Add(Op::kSubtract, {size, S32(b, 1)}));
      gaps = TRY(b.Add(Op::kMaximum, {gaps, S32(b, 0)}));
      gaps = TRY(b.Add(Op::kMultiply, {gaps, S32(b, p.interior)}));
      size = TRY(b.Add(Op::kAdd, {size, gaps}));
    }
    size = TRY(b.Add(Op::kAdd, {size, S32(b, p.low + p.high)}));
    int64_t bound = pad->shape().dim(static_cast<int64_t>(d));
    sizes[d] = TRY(b.Add(Op::kClamp, {S32(b, 0), size, S32(b, bound)}));
  }
  return sizes;
}

// The parts one behind the other, each over the filler of those before it.
Result<BoundValue> BoundConcatenate(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  const int64_t along = i->attrs<hlo::DimensionsAttrs>().dimensions[0];
  const auto at = static_cast<size_t>(along);
  Sizes sizes = Unsized(i->shape());
  bool moves = false;
  for (const Instruction* operand : i->operands()) {
    Sizes own = known.OfArray(*operand);
    for (size_t d = 0; d < own.size(); ++d) {
      if (own[d] == nullptr) continue;
      moves |= d == at;
      if (d != at) sizes[d] = own[d];
    }
  }
  if (!moves) return BoundValue{i, {sizes}};
  Shape shape(i->shape().dtype(), i->shape().dims());
  Instruction* whole = TRY(b.Fill(shape, 0));
  Instruction* end = S32(b, 0);
  for (Instruction* operand : i->operands()) {
    std::vector<Instruction*> operands = {whole, operand};
    for (int64_t d = 0; d < shape.rank(); ++d) operands.push_back(d == along ? end : S32(b, 0));
    whole = TRY(b.Add(Op::kDynamicUpdateSlice, operands, hlo::NoAttrs{}));
    end =
        TRY(b.Add(Op::kAdd, {end, SizeValue(b, known.OfArray(*operand), operand->shape(), along)}));
  }
  sizes[at] = end;
  hlo::ReplaceInstruction(i, whole);
  return BoundValue{whole, {sizes}};
}

// Of the update only what is there.
Result<BoundValue> BoundUpdate(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  Instruction* update = i->operand(1);
  Sizes sizes = known.OfArray(*i->operand(0)), own = known.OfArray(*update);
  if (!IsSized(own)) return BoundValue{i, {sizes}};
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  operands.erase(operands.begin() + 1);
  hlo::DynamicSliceAttrs slice;
  slice.dynamic_slice_sizes.assign(update->shape().dims().begin(), update->shape().dims().end());
  Instruction* before = TRY(b.Add(Op::kDynamicSlice, operands, slice));
  i->ReplaceOperand(1, TRY(FillBeyond(b, update, own, before)));
  for (int64_t d = 0; d < i->shape().rank(); ++d) {
    auto at = static_cast<size_t>(d);
    if (own[at] == nullptr || update->shape().dim(d) != i->shape().dim(d)) continue;
    Instruction* bound = S32(b, i->shape().dim(d));
    if (sizes[at] == nullptr) {
      sizes[at] = own[at];
    } else {
      Instruction* less = TRY(b.Compare(own[at], bound, hlo::Direction::kLt));
      sizes[at] = TRY(b.Add(Op::kSelect, {less, own[at], sizes[at]}));
    }
  }
  return BoundValue{i, {sizes}};
}

// Sizes that move with their dimensions, and no element does.
Result<Sizes> MovedSizes(Builder& b, const Instruction& i, const Sizes& own) {
  Sizes sizes = Unsized(i.shape());
  switch (i.op()) {
    case Op::kBroadcast: {
      const hlo::Ints& dims = i.attrs<hlo::BroadcastAttrs>().dimensions;
      for (size_t k = 0; k < dims.size(); ++k) sizes[static_cast<size_t>(dims[k])] = own[k];
      return sizes;
    }
    case Op::kTranspose: {
      const hlo::Ints& dims = i.attrs<hlo::DimensionsAttrs>().dimensions;
      for (size_t k = 0; k < dims.size(); ++k) sizes[k] = own[static_cast<size_t>(dims[k])];
      return sizes;
    }
    case Op::kReshape: return ReshapedSizes(i, own);
    case Op::kSlice: return SlicedSizes(b, i, own);
    default:  // dynamic-slice
      for (int64_t d = 0; d < i.shape().rank(); ++d) {
        int64_t size = i.shape().dim(d);
        bool whole = size > 1 && size == i.operand(0)->shape().dim(d);
        if (whole) sizes[static_cast<size_t>(d)] = own[static_cast<size_t>(d)];
      }
      return sizes;
  }
}

Sizes GatheredSizes(const Instruction& i, const KnownSizes& known) {
  Sizes sizes = Unsized(i.shape());
  std::vector<hlo::SizeSource> sources = hlo::GatherSizes(i);
  for (size_t d = 0; d < sources.size(); ++d) {
    auto [operand, dim] = sources[d];
    if (operand >= 0) sizes[d] = known.OfArray(*i.operand(operand))[static_cast<size_t>(dim)];
  }
  return sizes;
}

Result<BoundValue> BoundMovement(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  Sizes own = known.OfArray(*i->operand(0));
  switch (i->op()) {
    case Op::kConcatenate: return BoundConcatenate(i, known);
    case Op::kDynamicUpdateSlice: return BoundUpdate(i, known);
    case Op::kGather: return BoundValue{i, {GatheredSizes(*i, known)}};
    case Op::kPad: {
      if (IsSized(own)) {
        Instruction* fill = TRY(b.Convert(i->operand(1), i->operand(0)->shape().dtype()));
        i->ReplaceOperand(0, TRY(FillBeyond(b, i->operand(0), own, fill)));
      }
      return BoundValue{i, {TRY(PaddedSizes(b, i, own))}};
    }
    case Op::kReverse: {
      Builder behind(*i->parent(), i->next(), i);
      std::vector<Instruction*> users(i->users());
      Instruction* moved = TRY(Reversed(behind, i, own));
      if (moved == i) return BoundValue{i, {own}};
      for (Instruction* user : users) {
        for (int64_t k = 0; k < user->operand_count(); ++k) {
          if (user->operand(k) == i) user->ReplaceOperand(k, moved);
        }
      }
      if (i->IsRoot()) i->parent()->set_root(moved);
      return BoundValue{moved, {own}};
    }
    default: return BoundValue{i, {TRY(MovedSizes(b, *i, own))}};
  }
}

bool IsMovement(Op op) {
  constexpr Op kOps[] = {
      Op::kBroadcast,          Op::kTranspose, Op::kReshape, Op::kSlice,       Op::kDynamicSlice,
      Op::kDynamicUpdateSlice, Op::kPad,       Op::kReverse, Op::kConcatenate, Op::kGather};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

// Tuples and what only passes values on.
std::vector<Sizes> ForwardedSizes(const Instruction& i, const KnownSizes& known) {
  std::vector<Sizes> leaves;
  if (i.op() != Op::kGetTupleElement) {
    for (const Instruction* operand : i.operands()) {
      for (Sizes& sizes : known.Of(*operand)) leaves.push_back(std::move(sizes));
    }
    return leaves;
  }
  std::vector<Sizes> all = known.Of(*i.operand(0));
  const Shape& tuple = i.operand(0)->shape();
  size_t first = 0;
  for (int64_t k = 0; k < i.tuple_index(); ++k) first += LeavesOf(tuple.tuple_element(k)).size();
  for (size_t k = 0; k < LeavesOf(i.shape()).size(); ++k) leaves.push_back(all[first + k]);
  return leaves;
}

}  // namespace

std::vector<Shape> LeavesOf(const Shape& shape) {
  std::vector<Shape> leaves;
  AppendArrayLeaves(shape, leaves);
  return leaves;
}

bool IsSized(const Sizes& sizes) {
  return std::ranges::any_of(sizes, [](const Instruction* size) { return size != nullptr; });
}

bool AnyIsSized(std::span<const Sizes> leaves) {
  return std::ranges::any_of(leaves, IsSized);
}

std::vector<Sizes> KnownSizes::Of(const Instruction& value) const {
  std::vector<Shape> shapes = LeavesOf(value.shape());
  auto found = known_.find(&value);
  std::vector<Sizes> leaves(shapes.size());
  for (size_t k = 0; k < shapes.size(); ++k) {
    if (found != known_.end() && k < found->second.size()) leaves[k] = found->second[k];
    leaves[k].resize(Unsized(shapes[k]).size(), nullptr);
  }
  return leaves;
}

void KnownSizes::Note(const Instruction& value, std::vector<Sizes> leaves) {
  known_[&value] = std::move(leaves);
}

Instruction* SizeValue(Builder& b, const Sizes& sizes, const Shape& shape, int64_t dim) {
  auto at = static_cast<size_t>(dim);
  if (at < sizes.size() && sizes[at] != nullptr) return sizes[at];
  return S32(b, shape.dim(dim));
}

Result<Instruction*> FillBeyond(Builder& b, Instruction* value, const Sizes& sizes,
                                Instruction* fill) {
  const Dims dims = value->shape().dims();
  Shape places(DType::kS32, dims);
  Instruction* there = nullptr;
  for (int64_t d = 0; d < std::ssize(dims); ++d) {
    Instruction* size = sizes[static_cast<size_t>(d)];
    if (size == nullptr) continue;
    Instruction* place = TRY(b.Add(Op::kIota, {}, hlo::IotaAttrs{.iota_dimension = d}, &places));
    Instruction* limit = TRY(b.Broadcast(size, places, {}));
    Instruction* below = TRY(b.Compare(place, limit, hlo::Direction::kLt));
    there = there == nullptr ? below : TRY(b.Add(Op::kAnd, {there, below}));
  }
  if (there == nullptr) return value;
  bool each = fill->shape().rank() == value->shape().rank();  // an element for each, not a scalar
  Instruction* filler = each ? fill : TRY(FillWith(b, fill, value->shape()));
  return b.Add(Op::kSelect, {there, value, filler});
}

Result<BoundValue> BoundOp(Instruction* i, const KnownSizes& known) {
  if (IsSizeOp(*i)) return BoundSizeOp(i, known);
  switch (i->op()) {
    case Op::kTuple:
    case Op::kGetTupleElement:
    case Op::kOptBarrier: return BoundValue{i, ForwardedSizes(*i, known)};
    default: break;
  }
  bool sized = false;
  for (const Instruction* operand : i->operands()) sized |= AnyIsSized(known.Of(*operand));
  std::vector<Sizes> none;
  for (const Shape& leaf : LeavesOf(i->shape())) none.push_back(Unsized(leaf));
  if (!sized) return BoundValue{i, none};
  if (IsFold(i->op())) return BoundFold(i, known);
  if (IsMovement(i->op())) return BoundMovement(i, known);
  if (i->op() == Op::kScatter) {  // arrays that others are put into keep their sizes
    for (size_t k = 0; k < none.size(); ++k) {
      none[k] = known.OfArray(*i->operand(static_cast<int64_t>(k)));
    }
    return BoundValue{i, none};
  }
  if (hlo::IsCollective(i->op())) return BoundCollective(i, known);
  bool same = i->op() == Op::kConvert || i->op() == Op::kCopy || i->op() == Op::kMap ||
              i->op() == Op::kBitcastConvert || i->op() == Op::kReducePrecision ||
              hlo::IsElementwise(i->op());
  if (!same || !i->shape().IsArray()) return BoundValue{i, none};
  Builder b(*i->parent(), i, i);
  return BoundValue{i, {TRY(ElementwiseSizes(b, *i, known))}};
}

}  // namespace weft::compiler

// Rules of simplify about slices and pads.
#include <algorithm>

#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;
using hlo::Padding;
using hlo::PaddingDim;
using hlo::SliceDim;
using hlo::SliceDims;

const SliceDims& SliceOf(const Instruction& i) {
  return i.attrs<hlo::SliceAttrs>().slice;
}

// A range of `count` elements from `start`.
SliceDim Range(int64_t start, int64_t stride, int64_t count) {
  return {start, count == 0 ? start : start + (count - 1) * stride + 1, stride};
}

Result<Instruction*> SliceWith(Builder& b, Instruction* x, SliceDims slice) {
  return b.Add(Op::kSlice, {x}, hlo::SliceAttrs{.slice = std::move(slice)});
}

// slice(slice(x)) = slice(x)
Result<Instruction*> SliceOfSlice(Instruction& i, Builder& b) {
  const SliceDims &outer = SliceOf(i), &inner = SliceOf(*i.operand(0));
  SliceDims both;
  for (size_t d = 0; d < outer.size(); ++d) {
    int64_t start = inner[d].start + outer[d].start * inner[d].stride;
    both.push_back(
        Range(start, inner[d].stride * outer[d].stride, i.shape().dim(static_cast<int64_t>(d))));
  }
  return SliceWith(b, i.operand(0)->operand(0), std::move(both));
}

// slice(concatenate(..., x, ...)) = slice(x), when it takes elements of x alone
Result<Instruction*> SliceOfConcatenate(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  size_t along = static_cast<size_t>(inner.attrs<hlo::DimensionsAttrs>().dimensions[0]);
  SliceDims slice = SliceOf(i);
  int64_t offset = 0;
  for (Instruction* x : inner.operands()) {
    int64_t size = x->shape().dim(static_cast<int64_t>(along));
    if (slice[along].start >= offset && slice[along].limit <= offset + size) {
      slice[along].start -= offset;
      slice[along].limit -= offset;
      return SliceWith(b, x, std::move(slice));
    }
    offset += size;
  }
  return nullptr;
}

// slice(pad(x, v)) = slice(x) when it takes nothing of the padding, fill(v) when nothing of x
Result<Instruction*> SliceOfPad(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  Instruction* x = inner.operand(0);
  const Padding& padding = inner.attrs<hlo::PadAttrs>().padding;
  SliceDims slice = SliceOf(i);
  bool inside = true;
  for (size_t d = 0; d < slice.size(); ++d) {
    int64_t size = x->shape().dim(static_cast<int64_t>(d));
    if (padding[d].interior != 0) return nullptr;
    slice[d] = Range(slice[d].start - padding[d].low, slice[d].stride,
                     i.shape().dim(static_cast<int64_t>(d)));
    if (slice[d].limit <= 0 || slice[d].start >= size) {
      return FillWith(b, inner.operand(1), i.shape());
    }
    inside &= slice[d].start >= 0 && slice[d].limit <= size;
  }
  return inside ? SliceWith(b, x, std::move(slice)) : nullptr;
}

// slice(broadcast(x)) = broadcast(slice(x))
Result<Instruction*> SliceOfBroadcast(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (!IsOrderedBroadcast(inner)) return nullptr;
  const Ints& dims = inner.attrs<hlo::BroadcastAttrs>().dimensions;
  Instruction* x = inner.operand(0);
  SliceDims slice;
  bool is_whole = true;
  for (int64_t d : dims) {
    slice.push_back(SliceOf(i)[static_cast<size_t>(d)]);
    is_whole &= i.shape().dim(d) == inner.shape().dim(d);
  }
  if (!is_whole) x = TRY(SliceWith(b, x, std::move(slice)));
  return b.Broadcast(x, WithoutLayoutOf(i.shape()), dims);
}

// slice(transpose(x)) = transpose(slice(x)): fewer elements are moved
Result<Instruction*> SliceOfTranspose(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (!IsReadOnce(inner)) return nullptr;
  const Ints& permutation = inner.attrs<hlo::DimensionsAttrs>().dimensions;
  SliceDims slice(permutation.size());
  for (size_t d = 0; d < permutation.size(); ++d) {
    slice[static_cast<size_t>(permutation[d])] = SliceOf(i)[d];
  }
  return b.Transpose(TRY(SliceWith(b, inner.operand(0), std::move(slice))), permutation);
}

// slice(reverse(x)) = reverse(slice(x)): fewer elements are moved; none where only one is left
Result<Instruction*> SliceOfReverse(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  SliceDims slice = SliceOf(i);
  Ints left;
  for (int64_t d : inner.attrs<hlo::DimensionsAttrs>().dimensions) {
    SliceDim& at = slice[static_cast<size_t>(d)];
    int64_t count = i.shape().dim(d), last = at.start + (count - 1) * at.stride;
    at = Range(inner.shape().dim(d) - 1 - last, at.stride, count);
    if (count > 1) left.push_back(d);
  }
  if (!left.empty() && !IsReadOnce(inner)) return nullptr;
  Instruction* x = TRY(SliceWith(b, inner.operand(0), std::move(slice)));
  if (left.empty()) return x;
  return b.Add(Op::kReverse, {x}, hlo::DimensionsAttrs{.dimensions = std::move(left)});
}

// slice(iota) = iota, when it takes the first elements along the counted dimension
Result<Instruction*> SliceOfIota(Instruction& i, Builder& b) {
  int64_t along = i.operand(0)->attrs<hlo::IotaAttrs>().iota_dimension;
  const SliceDim& counted = SliceOf(i)[static_cast<size_t>(along)];
  if (counted.start != 0 || counted.stride != 1) return nullptr;
  Shape shape = WithoutLayoutOf(i.shape());
  return b.Add(Op::kIota, {}, i.operand(0)->attrs(), &shape);
}

Result<Instruction*> SimplifySlice(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (i.shape().elements() == 0) return nullptr;
  switch (inner.op()) {
    case Op::kSlice: return SliceOfSlice(i, b);
    case Op::kConcatenate: return SliceOfConcatenate(i, b);
    case Op::kPad: return SliceOfPad(i, b);
    case Op::kBroadcast: return SliceOfBroadcast(i, b);
    case Op::kTranspose: return SliceOfTranspose(i, b);
    case Op::kReverse: return SliceOfReverse(i, b);
    case Op::kIota: return SliceOfIota(i, b);
    default: return nullptr;
  }
}

bool IsSameScalar(const Instruction& x, const Instruction& y) {
  if (&x == &y) return true;
  const Literal *a = SplatValue(x), *z = SplatValue(y);
  return a != nullptr && z != nullptr && *a == *z;
}

// pad(pad(x, v), v) = pad(x, v), when neither takes elements away nor spreads them
Result<Instruction*> PadOfPad(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (inner.op() != Op::kPad || !IsSameScalar(*i.operand(1), *inner.operand(1))) return nullptr;
  Padding both;
  const Padding &outer = i.attrs<hlo::PadAttrs>().padding,
                &first = inner.attrs<hlo::PadAttrs>().padding;
  for (size_t d = 0; d < outer.size(); ++d) {
    for (const PaddingDim& p : {outer[d], first[d]}) {
      if (p.low < 0 || p.high < 0 || p.interior != 0) return nullptr;
    }
    both.push_back({outer[d].low + first[d].low, outer[d].high + first[d].high, 0});
  }
  return b.Add(Op::kPad, {inner.operand(0), i.operand(1)}, hlo::PadAttrs{.padding = both});
}

// pad(fill(v), v) = fill(v);  pad of no elements = fill(v);  pad that only takes away = slice
Result<Instruction*> SimplifyPad(Instruction& i, Builder& b) {
  Instruction *x = i.operand(0), *value = i.operand(1);
  Instruction* fill = FillScalar(*x);
  bool is_fill = fill != nullptr && fill != x && IsSameScalar(*fill, *value);
  if (is_fill || x->shape().elements() == 0) return FillWith(b, value, i.shape());
  if (Instruction* merged = TRY(PadOfPad(i, b))) return merged;
  SliceDims slice;
  const Padding& padding = i.attrs<hlo::PadAttrs>().padding;
  for (size_t d = 0; d < padding.size(); ++d) {
    const PaddingDim& p = padding[d];
    if (p.low > 0 || p.high > 0 || p.interior != 0) return nullptr;
    slice.push_back(Range(-p.low, 1, i.shape().dim(static_cast<int64_t>(d))));
  }
  if (i.shape().elements() == 0) return nullptr;
  return SliceWith(b, x, std::move(slice));
}

}  // namespace

Result<Instruction*> SimplifySlices(Instruction& i, Builder& b) {
  if (i.op() != Op::kSlice && i.op() != Op::kPad) return nullptr;
  Instruction& inner = *i.operand(0);
  if (!IsStaticArray(i) || !IsStaticArray(inner)) return nullptr;
  for (const Instruction* x : i.operands()) {
    if (x->shape().dtype() != i.shape().dtype()) return nullptr;
  }
  for (const Instruction* x : inner.operands()) {
    if (!IsStaticArray(*x)) return nullptr;
  }
  if (inner.op() == Op::kSlice || inner.op() == Op::kConcatenate || inner.op() == Op::kPad) {
    for (const Instruction* x : inner.operands()) {
      if (x->shape().dtype() != i.shape().dtype()) return nullptr;
    }
  }
  return i.op() == Op::kSlice ? SimplifySlice(i, b) : SimplifyPad(i, b);
}

}  // namespace weft::compiler

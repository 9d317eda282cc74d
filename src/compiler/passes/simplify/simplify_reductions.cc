// Rules of simplify about reduce and reduce-window. The order of a reduction is free; how often a
// narrow float is rounded is not.
#include <algorithm>
#include <bit>

#include "compiler/passes/simplify/simplify_rules.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

bool Holds(const Ints& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// op(init, x) of the dimensions of x
Result<Instruction*> ApplyOnce(Builder& b, Op op, Instruction* x, Instruction* init) {
  return b.Add(op, {x, TRY(FillWith(b, init, x->shape()))});
}

// reduce over dimensions of size 1 (or none) = op(reshape(x), init)
Result<Instruction*> ReduceOfSingles(Instruction& i, Op op, Builder& b) {
  Instruction* x = i.operand(0);
  for (int64_t d : i.attrs<hlo::ReduceAttrs>().dimensions) {
    if (x->shape().dim(d) != 1) return nullptr;
  }
  if (!Shape::SameDims(x->shape(), i.shape())) x = TRY(b.Reshape(x, i.shape().dims()));
  return ApplyOnce(b, op, x, i.operand(1));
}

// Dimensions of size 1 that are reduced are reshaped away first.
Result<Instruction*> DropSingles(Instruction& i, Builder& b) {
  const auto& attrs = i.attrs<hlo::ReduceAttrs>();
  Instruction* x = i.operand(0);
  auto is_single = [&](int64_t d) { return x->shape().dim(d) == 1; };
  auto singles = std::count_if(attrs.dimensions.begin(), attrs.dimensions.end(), is_single);
  if (singles == 0 || singles == std::ssize(attrs.dimensions)) return nullptr;
  Ints sizes, dims;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    bool reduced = Holds(attrs.dimensions, d);
    if (reduced && is_single(d)) continue;
    if (reduced) dims.push_back(std::ssize(sizes));
    sizes.push_back(x->shape().dim(d));
  }
  return b.Reduce(TRY(b.Reshape(x, sizes)), i.operand(1), std::move(dims), attrs.to_apply);
}

// reduce(transpose(x)) = reduce(x), transposed where kept dimensions change places
Result<Instruction*> ReduceOfTranspose(Instruction& i, Builder& b) {
  const auto& attrs = i.attrs<hlo::ReduceAttrs>();
  Instruction& inner = *i.operand(0);
  if (inner.op() != Op::kTranspose || attrs.dimensions.empty()) return nullptr;
  if (inner.operand(0)->shape().dtype() != i.shape().dtype()) return nullptr;
  const Ints& permutation = inner.attrs<hlo::DimensionsAttrs>().dimensions;
  Ints reduced, kept;  // of x, kept in the order of the result
  for (size_t d = 0; d < permutation.size(); ++d) {
    bool is_reduced = Holds(attrs.dimensions, static_cast<int64_t>(d));
    (is_reduced ? reduced : kept).push_back(permutation[d]);
  }
  std::sort(reduced.begin(), reduced.end());
  Ints sorted = kept, order;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t d : kept) {
    order.push_back(std::lower_bound(sorted.begin(), sorted.end(), d) - sorted.begin());
  }
  Instruction* result =
      TRY(b.Reduce(inner.operand(0), i.operand(1), std::move(reduced), attrs.to_apply));
  return sorted == kept ? result : b.Transpose(result, std::move(order));
}

// reduce(reshape(x)) = reshape(reduce(x)), when dimensions that belong together in the reshape are
// all reduced or all kept
Result<Instruction*> ReduceOfReshape(Instruction& i, Builder& b) {
  const auto& attrs = i.attrs<hlo::ReduceAttrs>();
  Instruction& inner = *i.operand(0);
  if (inner.op() != Op::kReshape || !IsStaticArray(*inner.operand(0))) return nullptr;
  Instruction* x = inner.operand(0);
  const Dims &from = x->shape().dims(), &to = inner.shape().dims();
  Ints dims;
  for (const DimRun& run : MatchDims(from, to)) {
    bool has_reduced = false, has_kept = false;
    for (int64_t d = run.to_begin; d < run.to_end; ++d) {
      if (to[d] != 1) (Holds(attrs.dimensions, d) ? has_reduced : has_kept) = true;
    }
    if (has_reduced && has_kept) return nullptr;
    for (int64_t d = run.from_begin; has_reduced && d < run.from_end; ++d) {
      if (from[d] == 1) return nullptr;  // reshapes take such dimensions away
      dims.push_back(d);
    }
  }
  if (dims.empty()) return nullptr;
  Instruction* reduced = TRY(b.Reduce(x, i.operand(1), std::move(dims), attrs.to_apply));
  if (Shape::SameDims(reduced->shape(), i.shape())) return reduced;
  return b.Reshape(reduced, i.shape().dims());
}

bool RoundsRarely(DType dtype) {
  return IsInteger(dtype) || dtype == DType::kPred || dtype == DType::kF32 || dtype == DType::kF64;
}

// reduce(reduce(x, init), init) = reduce(x, init), of one op with an init that changes nothing the
// second time
Result<Instruction*> ReduceOfReduce(Instruction& i, Op op, Builder& b) {
  const auto& attrs = i.attrs<hlo::ReduceAttrs>();
  Instruction& inner = *i.operand(0);
  if (inner.op() != Op::kReduce || inner.operand_count() != 2 || !IsReadOnce(inner)) return nullptr;
  const auto& first = inner.attrs<hlo::ReduceAttrs>();
  Instruction* x = inner.operand(0);
  if (BinaryReducer(*first.to_apply) != op || x->shape().dtype() != i.shape().dtype()) {
    return nullptr;
  }
  const Literal *c = SplatValue(*i.operand(1)), *d = SplatValue(*inner.operand(1));
  bool same_init = i.operand(1) == inner.operand(1) || (c != nullptr && d != nullptr && *c == *d);
  bool neutral = c != nullptr && ((op == Op::kAdd && c->GetDouble(0) == 0) ||
                                  (op == Op::kMultiply && c->GetDouble(0) == 1));
  if (!same_init || !(IsIdempotent(op) || (neutral && RoundsRarely(i.shape().dtype())))) {
    return nullptr;
  }
  Ints dims = first.dimensions, kept;
  for (int64_t k = 0; k < x->shape().rank(); ++k) {
    if (!Holds(first.dimensions, k)) kept.push_back(k);
  }
  for (int64_t k : attrs.dimensions) dims.push_back(kept[static_cast<size_t>(k)]);
  std::sort(dims.begin(), dims.end());
  return b.Reduce(x, i.operand(1), std::move(dims), attrs.to_apply);
}

// Times that an element is counted when a sum goes over added dimensions: any number of times for
// integers, 2^k times for floats, which is exact in one of the orders.
bool CanMultiply(DType dtype, int64_t count) {
  if (IsInteger(dtype)) return true;
  bool fits = dtype == DType::kF32 || dtype == DType::kF64;
  return fits && count > 0 && std::has_single_bit(static_cast<uint64_t>(count));
}

// reduce(broadcast(x)) over added dimensions: x once for max, min, and, or; x * count for sums
Result<Instruction*> ReduceOfBroadcast(Instruction& i, Op op, Builder& b) {
  const auto& attrs = i.attrs<hlo::ReduceAttrs>();
  Instruction& inner = *i.operand(0);
  if (!IsOrderedBroadcast(inner) || i.operand(0)->shape().elements() == 0) return nullptr;
  const Ints& dims = inner.attrs<hlo::BroadcastAttrs>().dimensions;
  int64_t count = 1;
  for (int64_t d : attrs.dimensions) {
    if (!Holds(dims, d)) count *= inner.shape().dim(d);
  }
  if (count == 1) return nullptr;
  bool sum = op == Op::kAdd && CanMultiply(i.shape().dtype(), count);
  if (!IsIdempotent(op) && !sum) return nullptr;
  // The broadcast without the added dimensions that are reduced.
  Ints new_dims, new_sizes, still_reduced;
  for (int64_t d = 0; d < inner.shape().rank(); ++d) {
    bool kept = Holds(dims, d), reduced = Holds(attrs.dimensions, d);
    if (!kept && reduced) continue;
    if (kept) new_dims.push_back(std::ssize(new_sizes));
    if (reduced) still_reduced.push_back(std::ssize(new_sizes));
    new_sizes.push_back(inner.shape().dim(d));
  }
  DType dtype = i.shape().dtype();
  Instruction* x = inner.operand(0);
  if (std::ssize(new_sizes) != x->shape().rank()) {
    x = TRY(b.Broadcast(x, Shape(dtype, new_sizes), std::move(new_dims)));
  }
  if (sum) {
    // A count beyond the type wraps, as the sum does.
    Literal number{Shape::Scalar(dtype)};
    if (IsInteger(dtype)) {
      number.SetInt(0, count);
    } else {
      number.SetDouble(0, static_cast<double>(count));
    }
    Instruction* times = b.Constant(std::move(number));
    x = TRY(b.Add(Op::kMultiply, {x, TRY(FillWith(b, times, x->shape()))}));
  }
  if (still_reduced.empty()) return ApplyOnce(b, op, x, i.operand(1));
  return b.Reduce(x, i.operand(1), std::move(still_reduced), attrs.to_apply);
}

// reduce of no elements = fill(init)
Result<Instruction*> SimplifyReduce(Instruction& i, Builder& b) {
  Instruction *x = i.operand(0), *init = i.operand(1);
  if (!IsStaticArray(*x) || !IsStaticArray(i)) return nullptr;
  DType dtype = i.shape().dtype();
  if (x->shape().dtype() != dtype || init->shape().dtype() != dtype) return nullptr;
  if (x->shape().elements() == 0) return FillWith(b, init, i.shape());
  if (Instruction* dropped = TRY(DropSingles(i, b))) return dropped;
  if (Instruction* moved = TRY(ReduceOfTranspose(i, b))) return moved;
  if (Instruction* moved = TRY(ReduceOfReshape(i, b))) return moved;
  std::optional<Op> op = BinaryReducer(*i.attrs<hlo::ReduceAttrs>().to_apply);
  if (!op) return nullptr;
  if (Instruction* once = TRY(ReduceOfSingles(i, *op, b))) return once;
  if (Instruction* merged = TRY(ReduceOfReduce(i, *op, b))) return merged;
  return ReduceOfBroadcast(i, *op, b);
}

// reduce-window of one element each = op(x, init)
Result<Instruction*> SimplifyReduceWindow(Instruction& i, Builder& b) {
  const auto& attrs = i.attrs<hlo::ReduceWindowAttrs>();
  Instruction* x = i.operand(0);
  std::optional<Op> op = BinaryReducer(*attrs.to_apply);
  if (!op || !Shape::Compatible(x->shape(), i.shape()) || !IsStaticArray(i)) return nullptr;
  for (const hlo::WindowDim& d : attrs.window.dims) {
    if (d.size != 1 || d.stride != 1 || d.pad_low != 0 || d.pad_high != 0) return nullptr;
    if (d.base_dilation != 1) return nullptr;
  }
  return ApplyOnce(b, *op, x, i.operand(1));
}

}  // namespace

Result<Instruction*> SimplifyReductions(Instruction& i, Builder& b) {
  if (i.operand_count() != 2) return nullptr;
  if (i.op() == Op::kReduce) return SimplifyReduce(i, b);
  if (i.op() == Op::kReduceWindow) return SimplifyReduceWindow(i, b);
  return nullptr;
}

}  // namespace weft::compiler

// Rules of simplify about reshapes, transposes and broadcasts of each other.
#include <algorithm>

#include "compiler/passes/simplify/simplify_rules.h"
#include "hlo/match.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;

const Ints& BroadcastDims(const Instruction& i) {
  return i.attrs<hlo::BroadcastAttrs>().dimensions;
}

// reshape(broadcast(x)) = broadcast(reshape(x)), when no run of dimensions that belong together in
// the reshape mixes dimensions of x with added ones.
Result<Instruction*> ReshapeOfBroadcast(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (!IsOrderedBroadcast(inner)) return nullptr;
  Instruction* x = inner.operand(0);
  const Dims &from = inner.shape().dims(), &to = i.shape().dims();
  std::vector<DimRun> runs = MatchDims(from, to);
  if (runs.empty() && from.size() + to.size() > 0) return nullptr;
  std::vector<bool> is_added(from.size(), true);
  for (int64_t d : BroadcastDims(inner)) is_added[static_cast<size_t>(d)] = false;
  Ints dims, sizes;
  for (const DimRun& run : runs) {
    bool has_added = false, has_kept = false;
    for (int64_t d = run.from_begin; d < run.from_end; ++d) {
      if (from[d] != 1) (is_added[static_cast<size_t>(d)] ? has_added : has_kept) = true;
    }
    if (has_added && has_kept) return nullptr;
    for (int64_t d = run.to_begin; has_kept && d < run.to_end; ++d) {
      dims.push_back(d);
      sizes.push_back(to[d]);
    }
  }
  if (x->shape().elements() == i.shape().elements()) return b.Reshape(x, to);
  if (!std::equal(sizes.begin(), sizes.end(), x->shape().dims().begin(), x->shape().dims().end())) {
    x = TRY(b.Reshape(x, sizes));
  }
  return b.Broadcast(x, WithoutLayoutOf(i.shape()), std::move(dims));
}

// reshape(iota) = iota, when the dimension that it counts along stays one: for masks, which loops
// may get as state. Elsewhere a constant is sooner read than counted again.
Result<Instruction*> ReshapeOfIota(Instruction& i, Builder& b) {
  Instruction& iota = *i.operand(0);
  if (iota.op() != Op::kIota || !IsInteger(i.shape().dtype()) || i.shape().elements() == 0 ||
      i.IsRoot()) {
    return nullptr;
  }
  bool masks = std::ranges::all_of(i.users(), [](const Instruction* user) {
    return user->op() == Op::kCompare || user->op() == Op::kTuple;
  });
  std::optional<int64_t> along = DimAfterReshape(iota.shape().dims(), i.shape().dims(),
                                                 iota.attrs<hlo::IotaAttrs>().iota_dimension);
  if (!masks || !along) return nullptr;
  Shape shape = WithoutLayoutOf(i.shape());
  return b.Add(Op::kIota, {}, hlo::IotaAttrs{.iota_dimension = *along}, &shape);
}

// transpose = reshape, when dimensions of more than one element stay in order
Result<Instruction*> TransposeAsReshape(Instruction& i, Builder& b) {
  int64_t last = -1;
  for (int64_t d : i.attrs<hlo::DimensionsAttrs>().dimensions) {
    if (i.operand(0)->shape().dim(d) == 1) continue;
    if (d < last) return nullptr;
    last = d;
  }
  return b.Reshape(i.operand(0), i.shape().dims());
}

// transpose(broadcast(x)) = broadcast(x), with x transposed where its dimensions change places
Result<Instruction*> TransposeOfBroadcast(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (!IsOrderedBroadcast(inner)) return nullptr;
  const Ints& permutation = i.attrs<hlo::DimensionsAttrs>().dimensions;
  const Ints& old_dims = BroadcastDims(inner);
  Instruction* x = inner.operand(0);
  Ints order, dims;  // x's dimensions as the result has them, and where
  for (size_t k = 0; k < permutation.size(); ++k) {
    auto at = std::find(old_dims.begin(), old_dims.end(), permutation[k]);
    if (at == old_dims.end()) continue;
    order.push_back(at - old_dims.begin());
    dims.push_back(static_cast<int64_t>(k));
  }
  if (!std::is_sorted(order.begin(), order.end())) {
    if (x->shape().elements() == i.shape().elements()) return nullptr;
    x = TRY(b.Transpose(x, std::move(order)));
  }
  return b.Broadcast(x, WithoutLayoutOf(i.shape()), std::move(dims));
}

// broadcast(broadcast(x)) = broadcast(x)
Result<Instruction*> BroadcastOfBroadcast(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (!IsOrderedBroadcast(inner)) return nullptr;
  Ints dims;
  for (int64_t d : BroadcastDims(inner)) {
    dims.push_back(BroadcastDims(i)[static_cast<size_t>(d)]);
  }
  return b.Broadcast(inner.operand(0), WithoutLayoutOf(i.shape()), std::move(dims));
}

// broadcast(reshape(x)) = broadcast(x), when the reshape adds dimensions of size 1 alone
Result<Instruction*> BroadcastOfReshape(Instruction& i, Builder& b) {
  Instruction& inner = *i.operand(0);
  if (inner.op() != Op::kReshape || !IsStaticArray(*inner.operand(0))) return nullptr;
  const Dims &from = inner.operand(0)->shape().dims(), &to = inner.shape().dims();
  if (to.size() <= from.size()) return nullptr;
  Ints dims;
  size_t at = 0;
  for (size_t k = 0; k < to.size(); ++k) {
    bool is_old =
        at < from.size() && from[at] == to[k] && (to[k] != 1 || to.size() - k <= from.size() - at);
    if (is_old) {
      dims.push_back(BroadcastDims(i)[k]);
      ++at;
    } else if (to[k] != 1) {
      return nullptr;
    }
  }
  if (at != from.size()) return nullptr;
  return b.Broadcast(inner.operand(0), WithoutLayoutOf(i.shape()), std::move(dims));
}

Result<Instruction*> SimplifyBroadcast(Instruction& i, Builder& b) {
  Instruction* x = i.operand(0);
  if (!IsOrderedBroadcast(i)) return nullptr;
  if (Instruction* merged = TRY(BroadcastOfBroadcast(i, b))) return merged;
  if (Instruction* merged = TRY(BroadcastOfReshape(i, b))) return merged;
  // broadcast = reshape, when it adds no elements; a scalar constant stays a fill.
  bool same_count = x->shape().elements() == i.shape().elements() && i.shape().elements() > 0;
  if (same_count && SplatValue(i) == nullptr) return b.Reshape(x, i.shape().dims());
  return nullptr;
}

// reverse(broadcast(x)) = broadcast(x), when added dimensions alone are reversed
Result<Instruction*> SimplifyReverse(Instruction& i, Builder&) {
  Instruction& inner = *i.operand(0);
  if (!IsOrderedBroadcast(inner)) return nullptr;
  for (int64_t d : i.attrs<hlo::DimensionsAttrs>().dimensions) {
    const Ints& kept = BroadcastDims(inner);
    if (std::find(kept.begin(), kept.end(), d) != kept.end() && i.shape().dim(d) != 1) {
      return nullptr;
    }
  }
  return &inner;
}

// An array constant of equal elements = broadcast of a scalar one
Result<Instruction*> SimplifyConstant(Instruction& i, Builder& b) {
  const auto& attrs = i.attrs<hlo::ConstantAttrs>();
  if (attrs.elided || !attrs.literal.IsValid() || !IsSplat(attrs.literal)) return nullptr;
  const std::byte* first = attrs.literal.data();
  Literal scalar{Shape::Scalar(i.shape().dtype())};
  std::copy(first, first + ByteWidth(i.shape().dtype()), scalar.mutable_data());
  return FillWith(b, b.Constant(std::move(scalar)), i.shape());
}

// iota along a dimension of size 1 = 0
Result<Instruction*> SimplifyIota(Instruction& i, Builder& b) {
  if (i.shape().dim(i.attrs<hlo::IotaAttrs>().iota_dimension) != 1) return nullptr;
  return b.Fill(WithoutLayoutOf(i.shape()), 0);
}

// copy(x) = x, unless it changes the layout or the memory space
Instruction* WithoutCopy(Instruction& i) {
  Instruction* x = i.operand(0);
  return i.shape().LayoutOrDefault() == x->shape().LayoutOrDefault() ? x : nullptr;
}

}  // namespace

Result<Instruction*> SimplifyMovement(Instruction& i, Builder& b) {
  if (!IsStaticArray(i)) return nullptr;
  for (const Instruction* operand : i.operands()) {
    if (!IsStaticArray(*operand) || operand->shape().dtype() != i.shape().dtype()) return nullptr;
  }
  switch (i.op()) {
    case Op::kReshape: {
      if (Instruction* iota = TRY(ReshapeOfIota(i, b))) return iota;
      return ReshapeOfBroadcast(i, b);
    }
    case Op::kTranspose: {
      if (Instruction* reshaped = TRY(TransposeAsReshape(i, b))) return reshaped;
      return TransposeOfBroadcast(i, b);
    }
    case Op::kBroadcast: return SimplifyBroadcast(i, b);
    case Op::kReverse: return SimplifyReverse(i, b);
    case Op::kConstant: return SimplifyConstant(i, b);
    case Op::kIota: return SimplifyIota(i, b);
    case Op::kCopy: return WithoutCopy(i);
    default: return nullptr;
  }
}

}  // namespace weft::compiler

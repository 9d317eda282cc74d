// bound-dynamic-shapes: ops that fold over dimensions, whose filler must not count.
#include <algorithm>
#include <limits>

#include "compiler/passes/dynamic/bound_shapes.h"
#include "compiler/passes/expand/inline.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

Instruction* Number(Builder& b, int64_t value) {
  return b.ScalarConstant(DType::kS32, static_cast<double>(value));
}

// What leaves the other operand of a function of two as it is; the initial value where it is not
// known, which then must do so.
Instruction* NeutralOf(Builder& b, const Computation& function, Instruction* init) {
  const Instruction* root = function.root();
  DType t = init->shape().dtype();
  bool direct = root->operand_count() == 2 && root->operand(0)->IsParameter() &&
                root->operand(1)->IsParameter() && root->operand(0) != root->operand(1);
  if (!direct || root->shape().dtype() != t) return init;
  switch (root->op()) {
    case Op::kAdd:
    case Op::kOr:
    case Op::kXor: return b.ScalarConstant(t, 0);
    case Op::kMultiply: return b.ScalarConstant(t, 1);
    default: return init;
  }
}

// Reductions of filler: each array with its own neutral value.
Result<BoundValue> BoundReduce(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  const hlo::Ints& dims = i->attrs<hlo::ReduceAttrs>().dimensions;
  Computation* function = i->attrs<hlo::ReduceAttrs>().to_apply;
  const int64_t arrays = i->operand_count() / 2;
  const int64_t rank = i->operand(0)->shape().rank();
  Sizes first = known.OfArray(*i->operand(0)), kept, folded(first.size(), nullptr);
  for (int64_t d = 0; d < rank; ++d) {
    bool is_folded = std::ranges::find(dims, d) != dims.end();
    if (is_folded) {
      folded[static_cast<size_t>(d)] = first[static_cast<size_t>(d)];
    } else {
      kept.push_back(first[static_cast<size_t>(d)]);
    }
  }
  for (int64_t k = 0; k < arrays && IsSized(folded); ++k) {
    Instruction* init = i->operand(arrays + k);
    Instruction* neutral = arrays == 1 ? NeutralOf(b, *function, init) : init;
    neutral = TRY(b.Convert(neutral, i->operand(k)->shape().dtype()));
    i->ReplaceOperand(k, TRY(FillBeyond(b, i->operand(k), folded, neutral)));
  }
  return BoundValue{i, std::vector<Sizes>(static_cast<size_t>(arrays), kept)};
}

Result<Instruction*> WindowedCount(Builder& b, Instruction* size, const hlo::WindowDim& w,
                                   int64_t bound) {
  Instruction* base = size;
  if (w.base_dilation > 1) {
    base = TRY(b.Add(Op::kSubtract, {base, Number(b, 1)}));
    base = TRY(b.Add(Op::kMultiply, {base, Number(b, w.base_dilation)}));
    base = TRY(b.Add(Op::kAdd, {base, Number(b, 1)}));
    base = TRY(b.Add(Op::kMaximum, {base, Number(b, 0)}));
  }
  const int64_t window = (w.size - 1) * w.window_dilation + 1;
  // (base - window) / stride + 1, at least 0.
  base = TRY(b.Add(Op::kAdd, {base, Number(b, w.pad_low + w.pad_high - window + w.stride)}));
  base = TRY(b.Add(Op::kMaximum, {base, Number(b, 0)}));
  base = TRY(b.Add(Op::kDivide, {base, Number(b, w.stride)}));
  return b.Add(Op::kMinimum, {base, Number(b, bound)});
}

// Filler is padding.
Result<BoundValue> BoundReduceWindow(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  const auto& attrs = i->attrs<hlo::ReduceWindowAttrs>();
  const int64_t arrays = i->operand_count() / 2;
  Sizes own = known.OfArray(*i->operand(0)), sizes(own.size(), nullptr);
  const Shape shape = LeavesOf(i->shape())[0];
  for (size_t d = 0; d < own.size(); ++d) {
    if (own[d] == nullptr) continue;
    sizes[d] =
        TRY(WindowedCount(b, own[d], attrs.window.dims[d], shape.dim(static_cast<int64_t>(d))));
  }
  for (int64_t k = 0; k < arrays; ++k) {
    Instruction* init = TRY(b.Convert(i->operand(arrays + k), i->operand(k)->shape().dtype()));
    i->ReplaceOperand(k, TRY(FillBeyond(b, i->operand(k), own, init)));
  }
  return BoundValue{i, std::vector<Sizes>(static_cast<size_t>(arrays), sizes)};
}

void KeepSizes(const Sizes& own, std::span<const int64_t> batch, std::span<const int64_t> folded,
               bool with_batch, Sizes& sizes) {
  if (with_batch) {
    for (int64_t d : batch) sizes.push_back(own[static_cast<size_t>(d)]);
  }
  for (int64_t d = 0; d < std::ssize(own); ++d) {
    if (std::ranges::find(batch, d) == batch.end() && std::ranges::find(folded, d) == folded.end())
      sizes.push_back(own[static_cast<size_t>(d)]);
  }
}

// Filler is zero.
Result<BoundValue> BoundContraction(Instruction* i, const KnownSizes& known) {
  Builder b(*i->parent(), i, i);
  Sizes own[2], sizes;
  for (int64_t k = 0; k < 2; ++k) {
    own[k] = known.OfArray(*i->operand(k));
    Instruction* zero = b.ScalarConstant(i->operand(k)->shape().dtype(), 0);
    i->ReplaceOperand(k, TRY(FillBeyond(b, i->operand(k), own[k], zero)));
  }
  if (i->op() != Op::kDot) {
    return BoundValue{i, {Sizes(static_cast<size_t>(i->shape().rank()), nullptr)}};
  }
  const auto& attrs = i->attrs<hlo::DotAttrs>();
  KeepSizes(own[0], attrs.lhs_batch_dims, attrs.lhs_contracting_dims, true, sizes);
  KeepSizes(own[1], attrs.rhs_batch_dims, attrs.rhs_contracting_dims, false, sizes);
  return BoundValue{i, {sizes}};
}

// The comparator with a pair of marks before its operands: what is marked goes behind, in the order
// in which it is.
Result<Computation*> MarkedOrder(Computation* order) {
  hlo::Module& module = *order->module();
  Computation* marked = module.AddComputation(module.UniqueName(order->name()), order);
  Builder b(*marked);
  Instruction* mark[2];
  for (int64_t k = 0; k < 2; ++k) {
    mark[k] = TRY(b.Parameter(k, Shape::Scalar(DType::kPred)));
  }
  std::vector<Instruction*> operands;
  for (const Instruction* p : order->parameters()) {
    operands.push_back(TRY(b.Parameter(p->parameter_number() + 2, p->shape())));
  }
  Instruction* call = TRY(b.Call(order, operands));
  Instruction* before = InlineCallee(call, *order);
  Builder behind(*marked);
  Instruction* there[2];
  for (int k = 0; k < 2; ++k) there[k] = TRY(behind.Add(Op::kNot, {mark[k]}));
  Instruction* sooner = TRY(behind.Add(Op::kAnd, {there[0], mark[1]}));
  Instruction* both = TRY(behind.Add(Op::kAnd, {there[0], there[1]}));
  both = TRY(behind.Add(Op::kAnd, {both, before}));
  marked->set_root(TRY(behind.Add(Op::kOr, {sooner, both})));
  return marked;
}

// Filler stays at the end.
Result<BoundValue> BoundSort(Instruction* i, const KnownSizes& known) {
  const int64_t dim = i->attrs<hlo::SortAttrs>().dimensions[0];
  Sizes own = known.OfArray(*i->operand(0));
  std::vector<Sizes> leaves;
  for (const Instruction* operand : i->operands()) leaves.push_back(known.OfArray(*operand));
  if (own[static_cast<size_t>(dim)] == nullptr) return BoundValue{i, leaves};
  Builder b(*i->parent(), i, i);
  const Dims dims = i->operand(0)->shape().dims();
  Shape places(DType::kS32, dims);
  Instruction* place = TRY(b.Add(Op::kIota, {}, hlo::IotaAttrs{.iota_dimension = dim}, &places));
  Instruction* limit = TRY(b.Broadcast(own[static_cast<size_t>(dim)], places, {}));
  std::vector<Instruction*> operands = {TRY(b.Compare(place, limit, hlo::Direction::kGe))};
  operands.insert(operands.end(), i->operands().begin(), i->operands().end());
  hlo::SortAttrs attrs = i->attrs<hlo::SortAttrs>();
  attrs.to_apply = TRY(MarkedOrder(attrs.to_apply));
  attrs.is_stable = true;
  Instruction* sorted = TRY(b.Add(Op::kSort, operands, attrs));
  std::vector<Instruction*> results;
  for (int64_t k = 1; k < std::ssize(operands); ++k) {
    results.push_back(TRY(b.GetTupleElement(sorted, k)));
  }
  Instruction* value = results[0];
  if (i->shape().IsTuple()) value = TRY(b.Tuple(results));
  hlo::ReplaceInstruction(i, value);
  return BoundValue{value, leaves};
}

// The first of all values in order, or the last.
Result<Instruction*> Extreme(Builder& b, DType t, bool last) {
  Literal value(Shape::Scalar(t));
  if (IsFloat(t) && BitWidth(t) >= 8) {
    // NaN of either sign.
    std::fill_n(value.mutable_data(), ByteWidth(t), std::byte{0xff});
    if (last) value.mutable_data()[ByteWidth(t) - 1] = std::byte{0x7f};
  } else if (IsInteger(t) || t == DType::kPred) {
    bool is_signed = IsSigned(t);
    int bits = BitWidth(t) - (is_signed ? 1 : 0);
    uint64_t most = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    value.SetInt(0, static_cast<int64_t>(last ? most : is_signed ? ~most : 0));
  } else {
    return Unimplemented("no native lowering of dynamic shapes of ", Name(t));
  }
  return b.Constant(std::move(value));
}

// Filler comes behind all elements.
Result<BoundValue> BoundTopK(Instruction* i, const KnownSizes& known) {
  Sizes own = known.OfArray(*i->operand(0)), kept = own, last(own.size(), nullptr);
  std::swap(kept.back(), last.back());
  if (IsSized(last)) {
    Builder b(*i->parent(), i, i);
    bool largest = i->attrs<hlo::TopKAttrs>().largest;
    Instruction* filler = TRY(Extreme(b, i->operand(0)->shape().dtype(), !largest));
    i->ReplaceOperand(0, TRY(FillBeyond(b, i->operand(0), last, filler)));
  }
  return BoundValue{i, {kept, kept}};
}

// Filler is not selected, and nothing is scattered for windows beyond the sizes.
Result<BoundValue> BoundSelectAndScatter(Instruction* i, const KnownSizes& known) {
  const auto& attrs = i->attrs<hlo::SelectAndScatterAttrs>();
  const Instruction& order = *attrs.select->root();
  if (order.op() != Op::kCompare || !order.operand(0)->IsParameter()) {
    return Unimplemented("select-and-scatter: no native lowering of dynamic shapes");
  }
  hlo::Direction direction = order.attrs<hlo::CompareAttrs>().direction;
  bool first = order.operand(0)->parameter_number() == 0;
  bool greater = direction == hlo::Direction::kGe || direction == hlo::Direction::kGt;
  Builder b(*i->parent(), i, i);
  Sizes own = known.OfArray(*i->operand(0)), source = known.OfArray(*i->operand(1));
  DType t = i->operand(0)->shape().dtype();
  bool high = greater != first;
  Instruction* filler = IsFloat(t)
                            ? b.ScalarConstant(t, high ? std::numeric_limits<double>::infinity()
                                                       : -std::numeric_limits<double>::infinity())
                            : TRY(Extreme(b, t, high));
  i->ReplaceOperand(0, TRY(FillBeyond(b, i->operand(0), own, filler)));
  Instruction* neutral = NeutralOf(b, *attrs.scatter, i->operand(2));
  neutral = TRY(b.Convert(neutral, i->operand(1)->shape().dtype()));
  i->ReplaceOperand(1, TRY(FillBeyond(b, i->operand(1), source, neutral)));
  return BoundValue{i, {own}};
}

}  // namespace

bool IsFold(Op op) {
  return op == Op::kReduce || op == Op::kReduceWindow || op == Op::kDot || op == Op::kConvolution ||
         op == Op::kSort || op == Op::kTopK || op == Op::kSelectAndScatter;
}

Result<BoundValue> BoundFold(Instruction* i, const KnownSizes& known) {
  switch (i->op()) {
    case Op::kReduce: return BoundReduce(i, known);
    case Op::kReduceWindow: return BoundReduceWindow(i, known);
    case Op::kSort: return BoundSort(i, known);
    case Op::kTopK: return BoundTopK(i, known);
    case Op::kSelectAndScatter: return BoundSelectAndScatter(i, known);
    case Op::kDot:
    case Op::kConvolution: return BoundContraction(i, known);
    default: return Unimplemented(hlo::Mnemonic(i->op()), ": no native lowering of dynamic shapes");
  }
}

}  // namespace weft::compiler

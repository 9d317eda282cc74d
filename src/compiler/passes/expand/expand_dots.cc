#include <algorithm>

#include "base/float_formats.h"
#include "compiler/passes/expand/dots.h"
#include "hlo/clone.h"
#include "hlo/evaluate/contract.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::DotAttrs;
using hlo::Instruction;
using hlo::Ints;
using hlo::Op;
using hlo::RaggedDotAttrs;
using hlo::RaggedMode;

// The smallest float type with plain arithmetic that holds every value of the type.
DType FloatHolding(DType t) {
  if (t == DType::kF16 || t == DType::kF32 || t == DType::kF64) return t;
  if (IsFloat(t) || BitWidth(t) <= 8) return DType::kBF16;
  return BitWidth(t) <= 16 ? DType::kF32 : DType::kF64;
}

DType FloatHolding(DType a, DType b) {
  a = FloatHolding(a), b = FloatHolding(b);
  if (a == b) return a;
  if (BitWidth(a) == 16 && BitWidth(b) == 16) return DType::kF32;
  return BitWidth(a) > BitWidth(b) ? a : b;
}

bool IsPlainType(DType t) {
  if (IsComplex(t)) return true;
  return t != DType::kPred && (IsFloat(t) ? BitWidth(t) >= 16 : BitWidth(t) >= 8);
}

// Dimensions of lhs that group sizes and mask begin with.
Ints PrefixOf(const Instruction& dot, RaggedMode mode) {
  if (dot.operand(2)->shape().rank() == 1) return {};
  return hlo::RaggedPrefixDims(dot.attrs<RaggedDotAttrs>(), dot.operand(0)->shape().rank(), mode);
}

// Sums over the last dimension of the sizes up to and with each place, as s64.
Result<Instruction*> RunningSizes(Builder& b, Instruction* sizes, ScalarFunctions& functions) {
  hlo::Computation* add = TRY(functions.Get(Op::kAdd, DType::kS64));
  hlo::ReduceWindowAttrs attrs{.window = {}, .to_apply = add};
  attrs.window.dims.resize(static_cast<size_t>(sizes->shape().rank()));
  int64_t groups = sizes->shape().dims().back();
  attrs.window.dims.back().size = groups;
  attrs.window.dims.back().pad_low = groups - 1;
  return b.Add(Op::kReduceWindow, {sizes, b.ScalarConstant(DType::kS64, 0)}, std::move(attrs));
}

// pred[prefix..., ragged, group]: whether the place along the ragged dimension is of the group.
Result<Instruction*> GroupMask(Builder& b, const Instruction& dot, ScalarFunctions& functions) {
  int64_t ragged = dot.operand(0)->shape().dim(dot.attrs<RaggedDotAttrs>().lhs_ragged_dims[0]);
  Instruction* sizes = TRY(b.Convert(dot.operand(2), DType::kS64));
  Instruction* zeroes = TRY(b.Fill(sizes->shape(), 0));
  sizes = TRY(b.Add(Op::kMaximum, {sizes, zeroes}));
  Instruction* ends = TRY(RunningSizes(b, sizes, functions));
  Instruction* starts = TRY(b.Add(Op::kSubtract, {ends, sizes}));
  Shape shape(DType::kS64, sizes->shape().dims());
  Ints dims;
  for (int64_t d = 0; d < shape.rank(); ++d) dims.push_back(d);
  int64_t groups = shape.dims().back();
  shape.set_dim(shape.rank() - 1, ragged);
  shape.AppendDim(groups);
  ++dims.back();
  Instruction* place = TRY(b.Add(Op::kIota, std::span<Instruction* const>(),
                                 hlo::IotaAttrs{.iota_dimension = shape.rank() - 2}, &shape));
  starts = TRY(b.Broadcast(starts, shape, dims));
  ends = TRY(b.Broadcast(ends, shape, dims));
  Instruction* after = TRY(b.Compare(place, starts, hlo::Direction::kGe));
  Instruction* before = TRY(b.Compare(place, ends, hlo::Direction::kLt));
  return b.Add(Op::kAnd, {after, before});
}

Result<Instruction*> Masked(Builder& b, Instruction* value, Instruction* mask, Ints dimensions) {
  Shape shape(DType::kPred, value->shape().dims());
  mask = TRY(b.Broadcast(mask, shape, std::move(dimensions)));
  Instruction* zeroes = TRY(b.Fill(value->shape(), 0));
  return b.Add(Op::kSelect, {mask, value, zeroes});
}

DotAttrs PlainDotAttrs(const RaggedDotAttrs& a) {
  DotAttrs attrs;
  attrs.lhs_batch_dims = a.lhs_batch_dims;
  attrs.lhs_contracting_dims = a.lhs_contracting_dims;
  attrs.rhs_batch_dims = a.rhs_batch_dims;
  attrs.rhs_contracting_dims = a.rhs_contracting_dims;
  attrs.operand_precision = a.operand_precision;
  return attrs;
}

int64_t IndexIn(const Ints& dims, int64_t d) {
  return std::ranges::find(dims, d) - dims.begin();
}

Ints FreeOf(int64_t rank, const Ints& batch, const Ints& contracting) {
  Ints free;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::ranges::count(batch, d) + std::ranges::count(contracting, d) == 0) free.push_back(d);
  }
  return free;
}

// Every row by the matrices of all groups; then those of other groups become 0 and all are added.
Result<Instruction*> RaggedFreeDot(Builder& b, const Instruction& dot, ScalarFunctions& functions) {
  const RaggedDotAttrs& a = dot.attrs<RaggedDotAttrs>();
  Instruction* operands[] = {dot.operand(0), dot.operand(1)};
  DType dtype = dot.shape().dtype();
  Ints left_free = FreeOf(operands[0]->shape().rank(), a.lhs_batch_dims, a.lhs_contracting_dims);
  Ints right_free = FreeOf(operands[1]->shape().rank(), a.rhs_batch_dims, a.rhs_contracting_dims);
  Ints left = a.lhs_batch_dims;  // by result dimension
  left.insert(left.end(), left_free.begin(), left_free.end());
  Shape shape = Shape::Scalar(dtype);
  for (int64_t d : left) shape.AppendDim(operands[0]->shape().dim(d));
  for (int64_t d : right_free) shape.AppendDim(operands[1]->shape().dim(d));
  int64_t group_dim = static_cast<int64_t>(left.size()) + IndexIn(right_free, a.rhs_group_dims[0]);
  Instruction* all = TRY(b.Add(Op::kDot, operands, PlainDotAttrs(a), &shape));
  Ints places;
  for (int64_t d : PrefixOf(dot, RaggedMode::kFree)) places.push_back(IndexIn(left, d));
  places.push_back(IndexIn(left, a.lhs_ragged_dims[0]));
  places.push_back(group_dim);
  Instruction* mask = TRY(GroupMask(b, dot, functions));
  Instruction* own = TRY(Masked(b, all, mask, std::move(places)));
  return b.Reduce(own, b.ScalarConstant(dtype, 0), {group_dim},
                  TRY(functions.Get(Op::kAdd, dtype)));
}

// The operand once per group, in front, with what is not of the group 0.
Result<Instruction*> PerGroup(Builder& b, Instruction* operand, Instruction* mask, int64_t groups,
                              const Ints& masked_dims) {
  Shape shape(operand->shape().dtype(), {groups});
  Ints dims, places;
  for (int64_t d = 0; d < operand->shape().rank(); ++d) {
    shape.AppendDim(operand->shape().dim(d));
    dims.push_back(d + 1);
  }
  for (int64_t d : masked_dims) places.push_back(d + 1);
  places.push_back(0);
  return Masked(b, TRY(b.Broadcast(operand, shape, dims)), mask, std::move(places));
}

Result<Instruction*> RaggedContractingDot(Builder& b, const Instruction& dot,
                                          ScalarFunctions& functions) {
  const RaggedDotAttrs& a = dot.attrs<RaggedDotAttrs>();
  Instruction* mask = TRY(GroupMask(b, dot, functions));
  int64_t groups = mask->shape().dims().back();
  Ints left = PrefixOf(dot, RaggedMode::kContracting), right;
  left.push_back(a.lhs_ragged_dims[0]);
  for (int64_t d : left) {
    int64_t at = IndexIn(a.lhs_batch_dims, d);
    bool batch = at < static_cast<int64_t>(a.lhs_batch_dims.size());
    if (!batch) at = IndexIn(a.lhs_contracting_dims, d);
    right.push_back((batch ? a.rhs_batch_dims : a.rhs_contracting_dims)[static_cast<size_t>(at)]);
  }
  Instruction* lhs = TRY(PerGroup(b, dot.operand(0), mask, groups, left));
  Instruction* rhs = TRY(PerGroup(b, dot.operand(1), mask, groups, right));
  DotAttrs attrs = PlainDotAttrs(a);
  for (Ints* dims : {&attrs.lhs_batch_dims, &attrs.lhs_contracting_dims, &attrs.rhs_batch_dims,
                     &attrs.rhs_contracting_dims}) {
    for (int64_t& d : *dims) ++d;
  }
  attrs.lhs_batch_dims.insert(attrs.lhs_batch_dims.begin(), 0);
  attrs.rhs_batch_dims.insert(attrs.rhs_batch_dims.begin(), 0);
  Instruction* operands[] = {lhs, rhs};
  Shape shape(dot.shape().dtype(), dot.shape().dims());
  return b.Add(Op::kDot, operands, std::move(attrs), &shape);
}

// Whether the product of any two numbers of these types has no more bits than bf16, whose range is
// that of f32: then the product of matrices takes bf16, which matrix units have.
bool IsProductInBf16(DType a, DType b) {
  FloatFormat x = FormatOf(a), y = FormatOf(b);
  if (x.bits == 0 || y.bits == 0) return false;
  auto significant = [](const FloatFormat& f) {
    return f.specials == FloatSpecials::kExponentOnly ? 0 : f.mantissa_bits + 1;
  };
  return x.exponent_bits <= 8 && y.exponent_bits <= 8 &&
         significant(x) + significant(y) <= FormatOf(DType::kBF16).mantissa_bits + 1;
}

// value * scale in f32 or f64, where one element of the scale covers a block of the value; as bf16
// where that is exact.
Result<Instruction*> Scaled(Builder& b, Instruction* value, Instruction* scale) {
  const Shape &of = value->shape(), &by = scale->shape();
  if (by.rank() != of.rank() || by.IsScalar() || of.elements() == 0) return value;
  bool wide = BitWidth(of.dtype()) > 32 || BitWidth(by.dtype()) > 32;
  DType dtype = wide ? DType::kF64 : DType::kF32;
  Shape blocks = Shape::Scalar(dtype);
  Ints dims;
  for (int64_t d = 0; d < of.rank(); ++d) {
    dims.push_back(blocks.rank());
    blocks.AppendDim(by.dim(d));
    if (of.dim(d) != by.dim(d)) blocks.AppendDim(of.dim(d) / by.dim(d));
  }
  Instruction* factors = TRY(b.Convert(scale, dtype));
  if (!std::ranges::equal(blocks.dims(), of.dims())) {
    factors = TRY(b.Broadcast(factors, blocks, dims));
    factors = TRY(ReshapeTo(b, factors, of.dims()));
  }
  Instruction* product = TRY(b.Add(Op::kMultiply, {TRY(b.Convert(value, dtype)), factors}));
  return IsProductInBf16(of.dtype(), by.dtype()) ? TRY(b.Convert(product, DType::kBF16)) : product;
}

}  // namespace

DotTypes DotTypesFor(DType lhs, DType rhs, DType result) {
  DotTypes types{lhs, result};
  if (IsComplex(lhs) || IsComplex(rhs) || IsComplex(result)) {
    bool wide = BitWidth(lhs) > 64 || BitWidth(rhs) > 64 || lhs == DType::kF64 ||
                rhs == DType::kF64 || result == DType::kC128;
    types.operands = wide ? DType::kC128 : DType::kC64;
    if (!IsComplex(result)) types.result = types.operands;
    return types;
  }
  if (IsFloat(lhs) || IsFloat(rhs) || IsFloat(result)) {
    bool plain = lhs == rhs && IsFloat(lhs) && IsPlainType(lhs);
    types.operands = plain ? lhs : FloatHolding(lhs, rhs);
    if (result == DType::kF64) types.operands = DType::kF64;
    if (!IsFloat(result)) types.result = DType::kF64;
    if (IsFloat(result) && !IsPlainType(result)) types.result = DType::kF32;
    return types;
  }
  if (!IsPlainType(result)) types.result = DType::kS32;
  if (lhs != rhs || !IsPlainType(lhs)) {
    // The same narrow type keeps narrow; everything else counts modulo the result's range.
    bool narrow = lhs == rhs && lhs != DType::kPred;
    types.operands = narrow ? (IsSigned(lhs) ? DType::kS8 : DType::kU8) : types.result;
  }
  return types;
}

Result<bool> ExpandRaggedDot(Instruction* dot, ScalarFunctions& functions) {
  const RaggedDotAttrs& a = dot->attrs<RaggedDotAttrs>();
  Builder b(*dot->parent(), dot, dot);
  Instruction* value = nullptr;
  switch (hlo::RaggedModeOf(a)) {
    case RaggedMode::kFree: value = TRY(RaggedFreeDot(b, *dot, functions)); break;
    case RaggedMode::kContracting: value = TRY(RaggedContractingDot(b, *dot, functions)); break;
    case RaggedMode::kBatch: {
      Shape shape(dot->shape().dtype(), dot->shape().dims());
      value = TRY(b.Add(Op::kDot, dot->operands().first(2), PlainDotAttrs(a), &shape));
    }
  }
  hlo::ReplaceInstruction(dot, value);
  return true;
}

Result<bool> ExpandScaledDot(Instruction* dot) {
  Builder b(*dot->parent(), dot, dot);
  Instruction* operands[] = {TRY(Scaled(b, dot->operand(0), dot->operand(2))),
                             TRY(Scaled(b, dot->operand(1), dot->operand(3)))};
  if (dot->attrs<DotAttrs>().algorithm == hlo::DotAlgorithm::kBF16BF16F32) {
    for (Instruction*& operand : operands) operand = TRY(b.Convert(operand, DType::kBF16));
  }
  Shape shape(dot->shape().dtype(), dot->shape().dims());
  hlo::ReplaceInstruction(dot, TRY(b.Add(Op::kDot, operands, dot->attrs<DotAttrs>(), &shape)));
  return true;
}

}  // namespace weft::compiler

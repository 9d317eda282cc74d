#include "compiler/analysis/queries.h"

#include <algorithm>
#include <cstring>

#include "base/float_formats.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using hlo::Op;

bool IsReadOnce(const Instruction& i) {
  return i.users().size() == 1 && !i.IsRoot();
}

bool IsStaticArray(const Instruction& i) {
  return i.shape().IsArray() && i.shape().IsStatic();
}

bool IsOrderedBroadcast(const Instruction& i) {
  if (i.op() != Op::kBroadcast || !IsStaticArray(i) || !IsStaticArray(*i.operand(0))) return false;
  if (i.shape().dtype() != i.operand(0)->shape().dtype()) return false;
  const hlo::Ints& dims = i.attrs<hlo::BroadcastAttrs>().dimensions;
  return std::is_sorted(dims.begin(), dims.end(), std::less_equal<>());
}

const Literal* SplatValue(const Instruction& i) {
  const Instruction* scalar = &i;
  if (i.op() == Op::kBroadcast) {
    scalar = i.operand(0);
    if (scalar->shape().dtype() != i.shape().dtype()) return nullptr;
  }
  if (!scalar->IsConstant() || !scalar->shape().IsScalar()) return nullptr;
  const auto& attrs = scalar->attrs<hlo::ConstantAttrs>();
  return attrs.elided ? nullptr : &attrs.literal;
}

bool IsSplat(const Literal& l) {
  if (l.size() < 2 || l.HasDynamicSizes()) return false;
  size_t width = static_cast<size_t>(ByteWidth(l.dtype()));
  return std::memcmp(l.data(), l.data() + width, static_cast<size_t>(l.size() - 1) * width) == 0;
}

Instruction* FillScalar(Instruction& i) {
  if (!i.shape().IsArray()) return nullptr;
  if (i.shape().IsScalar()) return &i;
  if (i.op() != Op::kBroadcast || !i.operand(0)->shape().IsScalar()) return nullptr;
  return i.operand(0)->shape().dtype() == i.shape().dtype() ? i.operand(0) : nullptr;
}

namespace {

// Counts down the operations that it may still take.
bool IsOfIndicesWithin(const Instruction& i, int64_t& operations) {
  if (!IsStaticArray(i) || --operations < 0) return false;
  if (i.op() == Op::kIota || SplatValue(i) != nullptr) return true;
  if (!hlo::IsElementwise(i.op()) || i.operand_count() == 0) return false;
  return i.op() != Op::kStochasticConvert && i.control_predecessors().empty() &&
         std::all_of(i.operands().begin(), i.operands().end(), [&](const Instruction* operand) {
           return operand->shape().dims() == i.shape().dims() &&
                  IsOfIndicesWithin(*operand, operations);
         });
}

}  // namespace

bool IsOfIndices(const Instruction& i) {
  int64_t operations = program::WorkBounds::kTree;
  return IsOfIndicesWithin(i, operations);
}

std::optional<int64_t> IntegerValue(const Instruction& i) {
  if (!i.IsConstant() || !i.shape().IsScalar() || !IsInteger(i.shape().dtype())) {
    return std::nullopt;
  }
  if (i.attrs<hlo::ConstantAttrs>().elided) return std::nullopt;
  return i.literal().GetInt(0);
}

std::optional<Op> BinaryReducer(const hlo::Computation& c) {
  const Instruction* root = c.root();
  if (c.parameters().size() != 2 || root->operand_count() != 2 || !IsElementwise(root->op())) {
    return std::nullopt;
  }
  if (!HasTrait(root->op(), hlo::kCommutative)) return std::nullopt;
  for (const Instruction* p : c.parameters()) {
    if (p->shape().dtype() != root->shape().dtype() || !p->shape().IsScalar()) return std::nullopt;
    if (root->operand(0) != p && root->operand(1) != p) return std::nullopt;
  }
  return root->op();
}

bool IsIdempotent(Op op) {
  return op == Op::kMaximum || op == Op::kMinimum || op == Op::kAnd || op == Op::kOr;
}

bool IsWholePrecision(const Instruction& i) {
  if (i.op() != Op::kReducePrecision) return false;
  const auto& attrs = i.attrs<hlo::ReducePrecisionAttrs>();
  FloatFormat own = FormatOf(i.shape().dtype());
  if (own.mantissa_bits == 0) return false;  // its NaNs do not stay
  return attrs.exponent_bits >= own.exponent_bits && attrs.mantissa_bits >= own.mantissa_bits;
}

Shape WithoutLayoutOf(const Shape& shape) {
  Shape plain = shape;
  plain.ClearLayout();
  return plain;
}

std::vector<DimRun> MatchDims(std::span<const int64_t> from, std::span<const int64_t> to) {
  auto is_zero = [](int64_t n) { return n == 0; };
  if (std::any_of(from.begin(), from.end(), is_zero)) return {};
  std::vector<DimRun> runs;
  size_t i = 0, k = 0;
  while (i < from.size() || k < to.size()) {
    size_t i0 = i, k0 = k;
    int64_t left = i < from.size() ? from[i++] : 1, right = k < to.size() ? to[k++] : 1;
    while (left != right) {
      if (left < right) {
        left *= from[i++];
      } else {
        right *= to[k++];
      }
    }
    runs.push_back({static_cast<int64_t>(i0), static_cast<int64_t>(i), static_cast<int64_t>(k0),
                    static_cast<int64_t>(k)});
  }
  return runs;
}

std::optional<int64_t> DimAfterReshape(std::span<const int64_t> from, std::span<const int64_t> to,
                                       int64_t dim) {
  for (const DimRun& run : MatchDims(from, to)) {
    if (dim < run.from_begin || dim >= run.from_end) continue;
    for (int64_t d = run.from_begin; d < run.from_end; ++d) {
      if (d != dim && from[static_cast<size_t>(d)] != 1) return std::nullopt;
    }
    for (int64_t d = run.to_begin; d < run.to_end; ++d) {
      if (to[static_cast<size_t>(d)] == from[static_cast<size_t>(dim)]) return d;
    }
  }
  return std::nullopt;
}

}  // namespace weft::compiler

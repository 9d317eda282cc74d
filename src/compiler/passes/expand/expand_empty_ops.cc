#include <algorithm>

#include "compiler/passes.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/rewrite.h"
#include "hlo/clone.h"
#include "hlo/ops/called.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

bool IsEmptyArray(const Shape& shape) {
  return shape.IsArray() && shape.IsStatic() && shape.elements() == 0;
}

// All that the value consists of are arrays without elements.
bool IsEmptyValue(const Shape& shape) {
  if (!shape.IsTuple()) return IsEmptyArray(shape);
  return shape.tuple_size() > 0 && std::ranges::all_of(shape.elements_of_tuple(), IsEmptyValue);
}

bool IsEmptyOperand(const Instruction& i, int64_t k) {
  return IsEmptyArray(i.operand(k)->shape());
}

Result<Instruction*> EmptyValueOf(Builder& b, const Shape& shape) {
  if (!shape.IsTuple()) return b.Constant(Literal(Shape(shape.dtype(), shape.dims())));
  std::vector<Instruction*> elements;
  for (const Shape& element : shape.elements_of_tuple()) {
    elements.push_back(TRY(EmptyValueOf(b, element)));
  }
  return b.Tuple(elements);
}

Result<Instruction*> FilledResult(Builder& b, Instruction* scalar, const Shape& shape) {
  return FillWith(b, TRY(b.Convert(scalar, shape.dtype())), shape);
}

// Several results from as many scalars, from operand `first` on.
Result<Instruction*> FilledResults(Builder& b, const Instruction& i, int64_t first) {
  if (!i.shape().IsTuple()) return FilledResult(b, i.operand(first), i.shape());
  std::vector<Instruction*> results;
  for (int64_t k = 0; k < i.shape().tuple_size(); ++k) {
    results.push_back(TRY(FilledResult(b, i.operand(first + k), i.shape().tuple_element(k))));
  }
  return b.Tuple(results);
}

// The arrays that have elements, joined.
Result<Instruction*> JoinedRest(Builder& b, const Instruction& concatenate) {
  std::vector<Instruction*> rest;
  for (Instruction* operand : concatenate.operands()) {
    if (!IsEmptyArray(operand->shape())) rest.push_back(operand);
  }
  if (rest.size() == 1) return rest[0];
  return b.Add(Op::kConcatenate, rest, concatenate.attrs());
}

// No step: no outputs, and the carries as they were.
Result<Instruction*> ScannedNothing(Builder& b, const Instruction& scan) {
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  int64_t outputs = scan.shape().tuple_size() - attrs.num_carries;
  std::vector<Instruction*> results;
  for (int64_t k = 0; k < outputs; ++k) {
    results.push_back(TRY(EmptyValueOf(b, scan.shape().tuple_element(k))));
  }
  for (int64_t k = scan.operand_count() - attrs.num_carries; k < scan.operand_count(); ++k) {
    results.push_back(scan.operand(k));
  }
  return b.Tuple(results);
}

bool IsScanOfNothing(const Instruction& scan) {
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  int64_t outputs = scan.shape().tuple_size() - attrs.num_carries;
  if (!scan.shape().IsTuple() || outputs < 1) return false;
  return IsEmptyArray(scan.shape().tuple_element(0)) &&
         scan.shape().tuple_element(0).dim(attrs.dimensions[0]) == 0;
}

Result<Instruction*> AllOperands(Builder& b, const Instruction& i, int64_t count) {
  if (!i.shape().IsTuple()) return i.operand(0);
  return b.Tuple(i.operands().first(static_cast<size_t>(count)));
}

// Results with elements from operands without: an equal value, or null when there is no rule.
Result<Instruction*> ValueFromNothing(Builder& b, const Instruction& i) {
  switch (i.op()) {
    case Op::kReduce:
    case Op::kReduceWindow:
      if (!IsEmptyOperand(i, 0)) return nullptr;
      return FilledResults(b, i, i.operand_count() / 2);
    case Op::kDot:
    case Op::kConvolution:
      if (!IsEmptyOperand(i, 0) && !IsEmptyOperand(i, 1)) return nullptr;
      return ZeroesOf(b, hlo::StripLayout(i.shape()));
    case Op::kConcatenate: {
      auto empty = [](const Instruction* o) { return IsEmptyArray(o->shape()); };
      return std::ranges::any_of(i.operands(), empty) ? JoinedRest(b, i) : nullptr;
    }
    case Op::kPad: return IsEmptyOperand(i, 0) ? FilledResult(b, i.operand(1), i.shape()) : nullptr;
    case Op::kSelectAndScatter:
      return IsEmptyOperand(i, 1) ? FilledResult(b, i.operand(2), i.shape()) : nullptr;
    case Op::kScatter:
      if (!IsEmptyOperand(i, i.operand_count() - 1)) return nullptr;
      return AllOperands(b, i, i.operand_count() / 2);
    case Op::kDynamicUpdateSlice: return IsEmptyOperand(i, 1) ? i.operand(0) : nullptr;
    case Op::kRngBitGenerator: {
      if (!i.shape().IsTuple() || !IsEmptyArray(i.shape().tuple_element(1))) return nullptr;
      Instruction* both[] = {i.operand(0), TRY(EmptyValueOf(b, i.shape().tuple_element(1)))};
      return b.Tuple(both);
    }
    case Op::kScan: return IsScanOfNothing(i) ? ScannedNothing(b, i) : nullptr;
    default: return nullptr;
  }
}

Result<bool> ExpandEmpty(Instruction* i, const Effects& effects) {
  if (i->IsParameter() || i->IsConstant() || i->op() == Op::kTuple || effects.Has(*i)) return false;
  Builder b(*i->parent(), i, i);
  if (IsEmptyValue(i->shape())) {
    hlo::ReplaceInstruction(i, TRY(EmptyValueOf(b, i->shape())));
    return true;
  }
  if (!IsStaticallyShaped(*i)) return false;
  Instruction* value = TRY(ValueFromNothing(b, *i));
  if (value == nullptr || !Shape::Compatible(value->shape(), i->shape())) return false;
  if (std::ranges::find(i->operands(), value) != i->operands().end()) {
    ReplaceWithValue(i, value);
  } else {
    hlo::ReplaceInstruction(i, value);
  }
  return true;
}

}  // namespace

Result<bool> ExpandEmptyOps(hlo::Module& module, const PassContext&) {
  Effects effects(module);
  return RewriteEach(module, [&](Instruction* i) { return ExpandEmpty(i, effects); });
}

}  // namespace weft::compiler

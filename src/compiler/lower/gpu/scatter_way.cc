#include "compiler/lower/gpu/scatter_way.h"

#include <algorithm>

namespace weft::compiler {

using hlo::Instruction;
using HloOp = hlo::Op;

std::optional<program::Op> ScatterAtomicOf(const Instruction& scatter) {
  DType type = scatter.operand(0)->shape().dtype();
  bool takes = IsInteger(type) && (BitWidth(type) == 32 || BitWidth(type) == 64);
  if (!takes || scatter.operand_count() != 3) return std::nullopt;
  const hlo::Computation& f = *scatter.attrs<hlo::ScatterAttrs>().to_apply;
  const Instruction* root = f.root();
  if (root->operand_count() != 2 || root->operand(0) == root->operand(1) ||
      !root->operand(0)->IsParameter() || !root->operand(1)->IsParameter()) {
    return std::nullopt;
  }
  switch (root->op()) {
    case HloOp::kAdd: return program::Op::kAdd;
    case HloOp::kMinimum: return program::Op::kMin;
    case HloOp::kMaximum: return program::Op::kMax;
    case HloOp::kAnd: return program::Op::kAnd;
    case HloOp::kOr: return program::Op::kOr;
    case HloOp::kXor: return program::Op::kXor;
    default: return std::nullopt;
  }
}

namespace {

// What is there does not matter: only updates reach the results.
bool Replaces(const Instruction& scatter) {
  const hlo::Computation& f = *scatter.attrs<hlo::ScatterAttrs>().to_apply;
  int64_t n = (scatter.operand_count() - 1) / 2;
  auto is_update = [&](const Instruction* i) {
    return i->IsParameter() && i->parameter_number() >= n;
  };
  const Instruction* root = f.root();
  if (root->op() != HloOp::kTuple) return is_update(root);
  return std::ranges::all_of(root->operands(), is_update);
}

}  // namespace

Dims IndexedDims(const Instruction& scatter) {
  const auto& attrs = scatter.attrs<hlo::ScatterAttrs>();
  Dims dims;
  for (int64_t d = 0; d < scatter.operand(0)->shape().rank(); ++d) {
    if (ScatterDims::Holds(attrs.scatter_dims_to_operand_dims, d) ||
        ScatterDims::Holds(attrs.input_batching_dims, d)) {
      dims.push_back(d);
    }
  }
  return dims;
}

ScatterWay ScatterWayOf(const Instruction& scatter, const ScatterDims& dims) {
  if (dims.updates == 1 || scatter.attrs<hlo::ScatterAttrs>().unique_indices) {
    return ScatterWay::kApart;
  }
  if (ScatterAtomicOf(scatter)) return ScatterWay::kAtomic;
  int64_t places = 1;
  for (int64_t d : IndexedDims(scatter)) places *= scatter.operand(0)->shape().dim(d);
  if (!dims.MeetWhole(scatter) || !FitsS32(places) || !FitsS32(dims.updates)) {
    return ScatterWay::kNone;
  }
  return Replaces(scatter) ? ScatterWay::kLast : ScatterWay::kSegments;
}

}  // namespace weft::compiler

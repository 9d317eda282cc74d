#include "compiler/lower/element/rounded_products.h"

#include <algorithm>

#include "hlo/computation.h"

namespace weft::compiler {
namespace {

using hlo::Instruction;
using HloOp = hlo::Op;

bool TakesExtremes(const hlo::Computation& reducer) {
  HloOp op = reducer.root()->op();
  return op == HloOp::kMaximum || op == HloOp::kMinimum;
}

// What has the same numbers, one operation further back; null: nothing.
const Instruction* SameNumbers(const ElementContext& e, const Instruction& i) {
  switch (i.op()) {
    case HloOp::kBroadcast:
    case HloOp::kReshape:
    case HloOp::kTranspose:
    case HloOp::kBitcast:
    case HloOp::kCopy:
    case HloOp::kSlice:
    case HloOp::kConvert:
    case HloOp::kNegate: return i.operand(0);
    // As in logsumexp: the maximum where it is finite, else 0.
    case HloOp::kSelect: return i.operand(1);
    case HloOp::kFusion: {
      const Instruction* root = i.attrs<hlo::FusionAttrs>().calls->root();
      return root->op() == HloOp::kTuple ? nullptr : root;
    }
    case HloOp::kGetTupleElement: {
      if (i.operand(0)->op() != HloOp::kFusion) return nullptr;
      const Instruction* root = i.operand(0)->attrs<hlo::FusionAttrs>().calls->root();
      return root->op() == HloOp::kTuple ? root->operand(i.tuple_index()) : nullptr;
    }
    case HloOp::kParameter: {
      if (auto it = e.arguments.find(&i); it != e.arguments.end()) return it->second;
      bool read = e.lowered != nullptr && e.lowered->op() == HloOp::kFusion &&
                  e.lowered->attrs<hlo::FusionAttrs>().calls == i.parent();
      return read ? e.lowered->operand(i.parameter_number()) : nullptr;
    }
    default: return nullptr;
  }
}

// Whether a maximum, a minimum or a rounding made it: of whole rows, or of this product itself.
bool IsFromRounded(const ElementContext& e, const Instruction& addend, const Instruction& product) {
  for (const Instruction* at = &addend; at != nullptr; at = SameNumbers(e, *at)) {
    switch (at->op()) {
      case HloOp::kReduce: return TakesExtremes(*at->attrs<hlo::ReduceAttrs>().to_apply);
      case HloOp::kReduceWindow:
        return TakesExtremes(*at->attrs<hlo::ReduceWindowAttrs>().to_apply);
      case HloOp::kMaximum:
      case HloOp::kMinimum:
      case HloOp::kClamp:
      case HloOp::kFloor:
      case HloOp::kCeil:
      case HloOp::kRoundNearestAfz:
      case HloOp::kRoundNearestEven:
        return std::ranges::find(at->operands(), &product) != at->operands().end();
      default: break;
    }
  }
  return false;
}

}  // namespace

bool IsRoundedApart(const ElementContext& e, const Instruction& product) {
  return std::ranges::any_of(product.users(), [&](const Instruction* sum) {
    if (sum->op() != HloOp::kAdd && sum->op() != HloOp::kSubtract) return false;
    const Instruction& other = *sum->operand(sum->operand(0) == &product ? 1 : 0);
    return IsFromRounded(e, other, product);
  });
}

}  // namespace weft::compiler

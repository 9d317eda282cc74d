// Products with a mask become selects, as XLA's algebraic simplifier makes them. Programs rely on
// it: what a mask leaves out may be infinite or NaN (the gradient of max, losses at the edge of
// their domain), and times zero that would be NaN.
#include "compiler/passes.h"
#include "compiler/passes/rewrite.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "hlo/ops/called.h"

namespace weft::compiler {
namespace {

using hlo::Builder;
using hlo::Instruction;
using hlo::Op;

// The mask that the value is a number of: convert(pred); null: it is none.
Instruction* MaskOf(const Instruction& value) {
  if (value.op() != Op::kConvert) return nullptr;
  Instruction* mask = value.operand(0);
  return mask->shape().dtype() == DType::kPred ? mask : nullptr;
}

Result<bool> SelectByMask(Instruction* i) {
  if (i->op() != Op::kMultiply || !IsStaticallyShaped(*i)) return false;
  for (int64_t k : {1, 0}) {
    Instruction* mask = MaskOf(*i->operand(k));
    if (mask == nullptr) continue;
    Builder b(*i->parent(), i, i);
    Instruction* zeroes = TRY(ZeroesOf(b, hlo::StripLayout(i->shape())));
    hlo::ReplaceInstruction(i, TRY(b.Add(Op::kSelect, {mask, i->operand(1 - k), zeroes})));
    return true;
  }
  return false;
}

}  // namespace

Result<bool> SelectByMasks(hlo::Module& module, const PassContext& context) {
  if (!context.options.optimize.select_by_masks) return false;
  return RewriteEach(module, SelectByMask);
}

}  // namespace weft::compiler

// Which scan bodies work element by element.
#include "compiler/analysis/scan_body.h"

namespace weft::compiler {

using hlo::Instruction;

bool IsElementwiseScanBody(const hlo::Computation& body, const Dims& dims) {
  for (const Instruction* i : body) {
    if (i->IsConstant() && i->literal().size() == 1) continue;
    if (i->op() == hlo::Op::kTuple && i->IsRoot()) continue;
    if (i->op() == hlo::Op::kBroadcast && i->operand(0)->shape().IsScalar()) continue;
    if (!i->IsParameter() && !hlo::IsElementwise(i->op())) return false;
    if (i->shape().dims() != dims && !i->shape().IsScalar()) return false;
  }
  return true;
}

bool IsElementwiseScan(const Instruction& scan) {
  const auto& attrs = scan.attrs<hlo::ScanAttrs>();
  if (scan.operand_count() == attrs.num_carries) return false;
  Dims dims = scan.operand(0)->shape().dims();
  dims.erase_at(static_cast<size_t>(attrs.dimensions[0]));
  return IsElementwiseScanBody(*attrs.to_apply, dims);
}

}  // namespace weft::compiler

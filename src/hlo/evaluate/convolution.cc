#include "hlo/evaluate/contract.h"

namespace weft::hlo {

Result<Literal> EvaluateConvolution(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}

}  // namespace weft::hlo

#include "hlo/evaluate/index_ops.h"

namespace weft::hlo {

Result<Literal> EvaluateGather(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}

}  // namespace weft::hlo

#include "hlo/evaluate/random.h"

namespace weft::hlo {

Result<Literal> EvaluateRng(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}
Result<Literal> EvaluateRngBitGenerator(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}
Result<Literal> EvaluateRngGetAndUpdateState(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}

}  // namespace weft::hlo

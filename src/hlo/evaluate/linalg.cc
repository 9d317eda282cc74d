#include "hlo/evaluate/linalg.h"

namespace weft::hlo {

Result<Literal> EvaluateCholesky(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}
Result<Literal> EvaluateTriangularSolve(EvalContext&, const Instruction&, std::span<Literal>) {
  return Unimplemented("not yet evaluated");
}

}  // namespace weft::hlo

// Small dense factorisations as loop kernels.
#include "compiler/lower/lowering.h"

namespace weft::compiler {

using hlo::Instruction;

Status Lowering::LowerCholesky(const Instruction&, Steps&) {
  return Unimplemented("cholesky: no native lowering");
}
Status Lowering::LowerTriangularSolve(const Instruction&, Steps&) {
  return Unimplemented("triangular-solve: no native lowering");
}
Status Lowering::LowerLu(const Instruction&, Steps&) {
  return Unimplemented("weft.lu: no native lowering");
}

}  // namespace weft::compiler

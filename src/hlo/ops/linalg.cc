#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kCholesky>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kTriangularSolve>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kBatchNormTraining>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kBatchNormInference>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kBatchNormGrad>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

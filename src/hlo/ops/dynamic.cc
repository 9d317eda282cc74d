#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kGetDimensionSize>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSetDimensionSize>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kDynamicReshape>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kParameter>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kConstant>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kTuple>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kGetTupleElement>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kDot>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kScaledDot>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRaggedDot>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

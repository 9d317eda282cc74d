#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kAdd>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAnd>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAtan2>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCompare>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kComplex>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kDivide>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kMaximum>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kMinimum>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kMulhi>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kMultiply>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kOr>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kPower>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRemainder>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kShiftLeft>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kShiftRightArithmetic>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kShiftRightLogical>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSubtract>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kXor>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSelect>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kClamp>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

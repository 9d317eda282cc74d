#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kBroadcast>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kIota>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kReshape>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kTranspose>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kReverse>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kBitcast>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCopy>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

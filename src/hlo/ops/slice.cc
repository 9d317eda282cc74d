#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kSlice>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kDynamicSlice>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kDynamicUpdateSlice>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kPad>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kConcatenate>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

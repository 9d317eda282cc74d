#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kCall>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kWhile>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kConditional>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kFusion>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kOptBarrier>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kDomain>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAddDependency>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAfterAll>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

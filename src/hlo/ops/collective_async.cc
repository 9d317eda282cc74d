#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kAllGatherStart>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAllGatherDone>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAllReduceStart>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAllReduceDone>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCollectivePermuteStart>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCollectivePermuteDone>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

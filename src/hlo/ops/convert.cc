#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kConvert>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kBitcastConvert>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kReducePrecision>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kStochasticConvert>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kAbs>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAcos>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAcosh>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAsin>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAsinh>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAtanh>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCbrt>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCeil>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCountLeadingZeros>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCosine>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCosh>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kErf>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kExponential>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kExpm1>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kFloor>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kImag>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kIsFinite>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kLog>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kLog1p>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kLogistic>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kNegate>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kNot>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kPopulationCount>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kReal>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRoundNearestAfz>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRoundNearestEven>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRsqrt>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSign>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSine>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSinh>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSqrt>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kTan>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kTanh>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

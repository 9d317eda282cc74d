#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kSend>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSendDone>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRecv>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRecvDone>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kInfeed>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kOutfeed>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

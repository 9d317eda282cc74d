#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kRng>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRngBitGenerator>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRngGetAndUpdateState>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

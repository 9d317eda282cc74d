#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kSort>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kTopK>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

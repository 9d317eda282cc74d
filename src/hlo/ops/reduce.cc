#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kReduce>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kMap>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

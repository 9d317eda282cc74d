#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kReduceWindow>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kSelectAndScatter>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kCustomCall>() {
  return {.doc = ""};
}

}  // namespace weft::hlo

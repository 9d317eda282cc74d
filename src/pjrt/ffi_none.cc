// Custom calls in a build without the C ABI: none.
#include "hlo/module.h"
#include "pjrt/ffi.h"

namespace weft::pjrt {

Result<Literal> RunCustomCall(const hlo::Instruction& call, std::span<Literal>) {
  return Unimplemented("custom-call: no handler for ",
                       call.attrs<hlo::CustomCallAttrs>().custom_call_target);
}

bool CallsOut(const hlo::Module&) {
  return false;
}

}  // namespace weft::pjrt

// Custom calls: typed FFI handlers that Python registers (jaxlib's LAPACK kernels, users' own
// through jax.ffi), and host callbacks into Python.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/instruction.h"

namespace weft::pjrt {

// Evaluates a custom call: a registered typed FFI handler (XLA_FFI_CallFrame, built by us), a host
// callback, or a legacy C function by api version. Unimplemented for a target that nobody
// registered. Fit for hlo::EvalOptions::custom_call.
Result<Literal> RunCustomCall(const hlo::Instruction& call, std::span<Literal> operands);

// Whether the module has a custom call that runs Python or foreign code (never run on the caller's
// thread as a "tiny" program).
bool CallsOut(const hlo::Module& module);

// One argument or result of a host callback, as Python sees it.
struct CallbackArray {
  void* data;
  const int64_t* dims;
  int64_t rank;
  int32_t type;  // PJRT_Buffer_Type
  int32_t reserved;
};
// Python's trampoline (a ctypes function): runs callback `id`, writes the results, returns 0; or
// writes an error message of at most `error_size` bytes and returns its error code.
using CallbackTrampoline = int32_t (*)(uint64_t id, int32_t argument_count,
                                       const CallbackArray* arguments, int32_t result_count,
                                       const CallbackArray* results, char* error,
                                       int64_t error_size);

}  // namespace weft::pjrt

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
#include "client/interrupt.h"
#include "hlo/instruction.h"
#include "pjrt/abi/abi_extensions.h"

namespace weft::pjrt {

using client::AskInterrupt;

// The client's custom calls go to handlers and callbacks registered here. Called when the plugin is
// loaded.
void DoForeignCalls();

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
// Null: callbacks are answered with an error (the interpreter is going away).
void SetCallbackTrampoline(CallbackTrampoline trampoline);

// Our own extension of PJRT_Api, for the Python package.
inline constexpr int32_t kWeftExtensionType = 0x57454654;  // "WEFT"
struct WeftExtension {
  PJRT_Extension_Base base;
  void (*set_callback_trampoline)(CallbackTrampoline trampoline);
  // Makes a custom call known: api_version 1 to 4 as HLO numbers them (4: typed FFI, where the
  // stages before `execute` may be null). Returns an error as the slots of PJRT_Api do.
  PJRT_Error* (*register_target)(const char* name, int64_t name_size, int32_t api_version,
                                 void* instantiate, void* prepare, void* initialize, void* execute);
  // Whether buffers answer that the host may look at their memory (they do from the start). With
  // false they are fetched as those of a device with memory of its own: JAX's transfer guards see
  // it.
  void (*set_host_views)(bool allowed);
  // How many threads work on programs from now on.
  void (*set_threads)(int32_t threads);
  // What a program that is not compiled costs: HLO as a proto or text, StableHLO as bytecode or
  // text. `costs` gets floating-point operations, transcendentals, bytes accessed and the
  // operations of matrix products.
  PJRT_Error* (*analyse_cost)(const char* program, int64_t program_size, double* costs);
  // Ctrl-C while the main thread of Python waits (interrupt.h).
  void (*set_interrupts)(int64_t main_thread, AskInterrupt ask);
  // Metrics of the process (base/metrics.h): format 0 for Prometheus, 1 for JSON. Writes at most
  // `size` bytes and returns how many there are.
  int64_t (*metrics)(int32_t format, char* out, int64_t size);
  // A timeline from here to there: begin gives a number, end takes it and writes the file.
  int64_t (*begin_trace)(const char* path, int64_t path_size);
  PJRT_Error* (*end_trace)(int64_t number);
  // How many programs this process was asked to compile (interrupt.h).
  int64_t (*compilations_asked)();
};
void SetHostViews(bool allowed);
bool HostViews();

// Tells the Python function `id` something at compile time: bytes, which it gets as an array.
Status TellPython(uint64_t id, std::string_view bytes);
// The same for a function that answers. It is called twice: with the bytes, for the size of its
// answer, and without arguments on the same thread, for the answer.
Result<std::string> AskPython(uint64_t id, std::string_view bytes);

// The custom call client::kCallbackTarget.
Result<Literal> RunHostCallback(const hlo::Instruction& call, std::span<Literal> operands);

}  // namespace weft::pjrt
